"""Pictures: privacy curves, sweeps, audits, budgets, and how a sampled verification went.

A picture is a matplotlib figure, drawn when it is asked for and never shown. ``save`` writes it to a file. ``inline``
makes it part of a page: text stays text, and the colours of ``PAINTS`` become the page's CSS variables, light or dark.
Lines differ in their dashes too, for the colour-blind.
"""

from __future__ import annotations

import contextlib
import html
import io
import itertools
import math
import re
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from evr._basics import atomic
from evr._basics.numbers import above, latex, scientific, scientific_above, ten_to, typed

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from evr._certificate.sections import ClaimSection, SampledDirection
    from evr._estimate.results import Curve
    from evr._proving.audit import Audit
    from evr._release.account import Account

_TITLE_WIDTH = 48  # characters of a line
Series = tuple[Any, Any]
"""Abscissae and ordinates."""

PAINTS = {
    "ink": "#1c1e21",
    "muted": "#5f6670",
    "grid": "#ececea",
    "remove": "#0b66a8",
    "add": "#b3560b",
    "good": "#14764a",
    "bad": "#b3261e",
}
"""The colours of a page, as it has them on light ground."""


class Look(NamedTuple):
    """How one line is drawn."""

    colour: str
    dashes: Any = "-"
    width: float = 1.8
    marker: str | None = None


LOOKS = (  # the colours of Okabe and Ito
    Look("#0072b2"),
    Look("#d55e00", (0, (5, 2))),
    Look("#009e73", (0, (1, 1.2))),
    Look("#cc79a7", (0, (5, 1.5, 1, 1.5))),
    Look("#e69f00", (0, (3, 1, 1, 1, 1, 1))),
    Look("#56b4e9", (0, (8, 2))),
    Look("#000000", (0, (2, 2))),
)
_STYLE = {
    "font.size": 11.5,
    "text.color": PAINTS["ink"],
    "axes.edgecolor": PAINTS["muted"],
    "axes.labelcolor": PAINTS["muted"],
    "axes.facecolor": "none",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.linewidth": 0.8,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": PAINTS["grid"],
    "grid.linewidth": 0.8,
    "xtick.color": PAINTS["muted"],
    "ytick.color": PAINTS["muted"],
    "lines.linewidth": 1.8,
    "legend.frameon": False,
    "legend.handlelength": 1.8,
    "svg.hashsalt": "evr",  # the same picture is the same file
}


@contextlib.contextmanager
def _style() -> Iterator[None]:
    """The style of evr, lines in the order of ``LOOKS``."""
    import matplotlib
    from matplotlib.rcsetup import cycler

    cycle = cycler(color=[one.colour for one in LOOKS], linestyle=[one.dashes for one in LOOKS])
    with matplotlib.rc_context({**_STYLE, "axes.prop_cycle": cycle}):
        yield


class Picture(NamedTuple):
    """A figure, and what it shows in words."""

    title: str
    description: str
    figure: Figure


@_style()
def privacy_curves(
    curves: Mapping[str, Series], *, title: str | None = None, looks: Mapping[str, Look] | None = None
) -> Figure:
    """delta against epsilon, delta logarithmic: one line for each named ``(epsilons, deltas)``; zeros are not drawn."""
    figure, axes = _axes(title)
    for (name, (epsilons, deltas)), usual in zip(curves.items(), itertools.cycle(LOOKS)):
        look = (looks or {}).get(name, usual)
        drawn = {"color": look.colour, "linestyle": look.dashes, "linewidth": look.width}
        if look.marker:
            drawn |= {"marker": look.marker, "markersize": 5.5, "markerfacecolor": "white", "markeredgewidth": 1.6}
        axes.plot(epsilons, np.where(np.asarray(deltas) > 0, deltas, np.nan), **drawn, label=name)
    if len(curves) > 1:
        axes.legend()
    axes.set(xlabel="ε", ylabel="δ(ε)", yscale="log", xmargin=0.01)
    return figure


@_style()
def curve(found: Curve, *, title: str | None = None) -> Figure:
    """A curve or a sweep as it draws itself."""
    figure, axes = _axes(title)
    found.plot(axes)
    return figure


@_style()
def audit(found: Audit) -> Figure:
    """The scores' true over false positive rates beneath the claimed curve, and the bounds on epsilon below it."""
    figure, (rates, bounds) = _axes(height=5.4, nrows=2, height_ratios=(3, 1))
    every = np.geomspace(1e-4, 1.0, 200)
    rates.plot(found.attack.false, found.attack.true, label="scores of the canaries")
    if (claimed := found.claimed_curve) is not None:
        rates.plot(every, [claimed.at(rate) for rate in every], label="claimed, at most")
    rates.plot(every, every, color=PAINTS["muted"], linestyle=":", linewidth=1.2, label="guessing")
    rates.legend(loc="upper left")
    shown = max(1e-4, 0.5 / found.canaries)
    rates.set(xscale="log", yscale="log", xlim=(shown, 1.0), ylim=(shown, 1.3))
    rates.set(xlabel="false positive rate", ylabel="true positive rate")
    family = {"noise": "any noise multiplier", "gaussian": "Gaussian mechanisms"}[found.family]
    bars = {"any mechanism": found.epsilon_of_any, family: found.epsilon}
    drawn = bounds.barh(list(bars), list(bars.values()), height=0.5, color=[PAINTS["muted"], LOOKS[0].colour])
    bounds.bar_label(drawn, fmt="{:.3g}", padding=3)
    ends = [*bars.values(), found.claimed or 0.0, 1e-3]
    if found.claimed is not None:
        look = LOOKS[1]  # that of the claimed curve
        bounds.axvline(found.claimed, color=look.colour, linestyle=look.dashes)
        bounds.set_title(f"claimed: ε = {above(found.claimed, 3)}", loc="left", fontsize=11.5, color=look.colour)
    at_least = f"{_epsilon_at(found.delta)}: at least, confidence {typed(found.confidence)}"
    bounds.set(xlim=(0.0, 1.2 * max(ends)), xlabel=at_least)
    return figure


@_style()
def budget(account: Account, used: Sequence[float]) -> Picture:
    """What each spending took from a budget, a colour for each spender: ``used`` is the part after each, from 0 on."""
    row, spenders = account.row, [one.spender for one in account.spent]
    figure, axes = _axes(f"Budget {row.name}")
    unit, label = (row.epsilon, _epsilon_at(row.delta)) if row.kind == "planned" else (100.0, "percent of the budget")
    for look, name in zip(itertools.cycle(LOOKS), dict.fromkeys(spenders)):
        mine = [i for i, spender in enumerate(spenders) if spender == name]
        rises = [unit * (used[i + 1] - used[i]) for i in mine]
        numbers = [account.spent[i].number for i in mine]
        axes.bar(numbers, rises, bottom=[unit * used[i] for i in mine], color=look.colour, label=name)
    axes.axhline(unit, color=PAINTS["bad"], linestyle="--", linewidth=1.4, label="budget")
    last = max([4, *(one.number for one in account.spent)])
    axes.set(xlim=(0.4, last + 0.6), ylim=(0, 1.12 * unit), xlabel="spendings, by number", ylabel=label)
    axes.xaxis.get_major_locator().set_params(integer=True)
    axes.legend(loc="lower right")
    words = f"{len(spenders)} spendings, one on top of the other, reach {used[-1]:.1%} of the budget."
    return Picture(f"Budget {row.name}", words, figure)


@_style()
def certified_curve(curves: Mapping[str, Series], claim: ClaimSection, *, accepted: bool) -> Picture:
    """The privacy curve of each direction, and the claim as a point."""
    from matplotlib.ticker import LogLocator, NullLocator

    dashed = Look(PAINTS["add"], (0, (4, 2)))
    figure = privacy_curves(
        curves, looks={name: dashed if name == "add" else Look(PAINTS["remove"]) for name in curves}
    )
    (axes,) = figure.axes
    guide: dict[str, Any] = {"color": PAINTS["muted"], "linewidth": 0.8, "linestyle": (0, (2, 3))}
    axes.axvline(claim.epsilon, **guide)
    deltas = [float(d) for _, values in curves.values() for d in values if d > 0]
    if claim.delta > 0:
        axes.axhline(claim.delta, **guide)
        paint = PAINTS["good" if accepted else "bad"]
        axes.plot([claim.epsilon], [claim.delta], "o", markersize=8, color=paint, label="claim")
        axes.legend(loc="upper right")
    if deltas:
        least = min([d for d in deltas if d >= (claim.delta or max(deltas)) * 1e-5] or deltas)
        axes.set_ylim(max(least, 1e-300) / 2, min(3.0, 4 * max([*deltas, claim.delta])))
        axes.yaxis.set_major_locator(LogLocator(10, numticks=7))
        axes.yaxis.set_minor_locator(NullLocator())
        axes.yaxis.set_major_formatter(lambda value, _: ten_to(math.log10(value)) if value > 0 else "")
    axes.set_xlim(0, max(max(epsilons) for epsilons, _ in curves.values()))
    falls = f"Delta falls from {scientific(max(deltas))} as epsilon grows. " if deltas else ""
    return Picture(
        "Privacy curve",
        f"{falls}The claim is the point epsilon {above(claim.epsilon, 6)}, delta {scientific_above(claim.delta)}.",
        figure,
    )


@_style()
def running_estimate(report: SampledDirection, claim: ClaimSection, direction: str) -> Picture:
    """The mean of the samples so far with its 95% band, in units of the claimed delta."""
    from matplotlib.ticker import EngFormatter

    figure, axes = _axes()
    rows = [row[:3] for row in report.trace or [] if row[0] < report.samples]
    rows.append([report.samples, report.estimate or 0.0, report.standard_error or 0.0])
    samples, means, errors = (np.array(column, float) for column in zip(*rows, strict=True))
    means, errors = means / claim.delta, errors / claim.delta
    paint = PAINTS[direction]
    axes.errorbar(samples[-1:], means[-1:], 1.96 * errors[-1:], color=paint, capsize=4)
    low, high = means - 1.96 * errors, means + 1.96 * errors
    axes.fill_between(samples, low, high, color=paint, alpha=0.2, lw=0)
    axes.plot(samples, means, "-", color=paint, label="mean of the samples, 95% band")
    axes.axhline(report.threshold / claim.delta, color=PAINTS["ink"], lw=1.2, label="threshold")
    half = max(3 * (1 - (claim.tau or 0.0)), 5 * float(errors[-1]), 1.2 * abs(float(means[-1]) - 1))
    axes.set(ylim=(1 - half, 1 + half), ylabel="δ over the claimed δ", xlim=(0, 1.03 * samples[-1]), xlabel="samples")
    ticks = [1 - half / 2, 1.0, 1 + half / 2]
    axes.set_yticks(ticks, [f"{tick:.3g}" for tick in ticks])
    axes.locator_params(axis="x", nbins=5)
    axes.xaxis.set_major_formatter(EngFormatter(sep=""))
    axes.legend()
    described = (
        f"After {report.samples:,} samples their mean is {means[-1]:.4g} of the claimed delta, "
        f"with a standard error of {errors[-1]:.2g}."
    )
    return Picture(f"Mean of the samples, {direction} direction", described, figure)


@_style()
def render(figure: Figure, kind: str) -> bytes:
    """The bytes of a picture as ``"png"``, ``"svg"`` or ``"pdf"``; the same figure gives the same bytes."""
    undated: dict[str, Any] = {"svg": {"Date": None}, "pdf": {"CreationDate": None}}
    buffer = io.BytesIO()
    figure.savefig(buffer, format=kind, dpi=160, metadata=undated.get(kind))
    return buffer.getvalue()


def save(figure: Figure, path: str | Path) -> None:
    """Write a picture, of the kind that the file's name ends in, whole or not at all."""
    atomic.write_bytes(path, render(figure, Path(path).suffix.lower().lstrip(".")))


def inline(picture: Picture, key: str) -> str:
    """A picture as an element of an HTML page. Its identifiers begin with ``key``, and are unique if that is."""
    import matplotlib

    buffer = io.StringIO()
    with _style(), matplotlib.rc_context({"svg.fonttype": "none"}):
        picture.figure.savefig(buffer, format="svg", metadata={"Date": None}, transparent=True)
    text = buffer.getvalue().replace("xlink:href=", "href=")
    text = text[text.index("<svg") :]
    style = r'<defs>\s*<style type="text/css">.*?</style>\s*</defs>'
    text = re.sub(rf"<metadata>.*?</metadata>|{style}|<!--.*?-->", "", text, flags=re.S)
    text = re.sub(r'\b(id="|href="#|url\(#)', rf"\g<1>{key}-", text)
    for name, colour in PAINTS.items():
        text = text.replace(colour, f"var(--{name})")
    box = re.search(r'viewBox="([^"]+)"', text)
    assert box is not None
    opening = (
        f'<svg viewBox="{box[1]}" role="img" aria-labelledby="{key}-title {key}-description">'
        f'<title id="{key}-title">{html.escape(picture.title)}</title>'
        f'<desc id="{key}-description">{html.escape(picture.description)}</desc>'
    )
    return re.sub(r"<svg\b[^>]*>", lambda _: opening, text, count=1)


def _axes(title: str | None = None, *, height: float = 3.6, **grid: Any) -> tuple[Figure, Any]:
    """A figure of its own, known to no window system, and its axes."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(5.2, height), layout="constrained")
    axes = figure.subplots(**grid)
    if title:
        lines = [part for line in title.split("\n") for part in textwrap.wrap(line, _TITLE_WIDTH)]
        axes.set_title("\n".join(lines), loc="left", fontsize=12)
    return figure, axes


def _epsilon_at(delta: float) -> str:
    return f"ε at δ = ${latex(f'{delta:.3g}')}$"
