"""The pictures of a certificate's page: inline SVG whose colours follow the page, light or dark.

Matplotlib draws in the placeholders of ``PAINTS``, which become CSS variables; text stays text.
Each picture carries a title and a description for those who do not see it.
"""

from __future__ import annotations

import functools
import html
import io
import math
import re
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, ParamSpec

import numpy as np

from evr import validate
from evr.verification.summary import HISTOGRAM_EDGES

if TYPE_CHECKING:
    from evr.certification.certificate import ClaimSection, DirectionSection

PAINTS = {
    "ink": "#010203",
    "muted": "#040506",
    "grid": "#070809",
    "remove": "#0a0b0c",
    "add": "#0d0e0f",
    "good": "#101112",
    "bad": "#131415",
}
Parameters = ParamSpec("Parameters")
_SUPERSCRIPT = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


class Picture(NamedTuple):
    """An SVG element, and what it shows in words."""

    title: str
    description: str
    svg: str

    @property
    def about(self) -> str:
        """The title without its direction, for the middle of a sentence."""
        return self.title.partition(",")[0].lower()


def _styled(draw: Callable[Parameters, Picture]) -> Callable[Parameters, Picture]:
    """Draw under the style below, whatever the caller's settings are."""

    @functools.wraps(draw)
    def drawn(*args: Parameters.args, **kwargs: Parameters.kwargs) -> Picture:
        import matplotlib

        with matplotlib.rc_context(_STYLE):
            return draw(*args, **kwargs)

    return drawn


def ten_to(exponent: float) -> str:
    """``10⁻⁹``."""
    return "10" + f"{round(exponent)}".translate(_SUPERSCRIPT)


def at_most(value: float) -> str:
    """Two digits, never less than the value."""
    return not_below(value, 2)


def not_below(value: float, digits: int = 3) -> str:
    """As ``scientific``, never less than the value: for claims and bounds."""
    return scientific(float(validate.above(value, digits)), digits)


def scientific(value: float, digits: int = 3) -> str:
    """A number as people write it: ``2.06 × 10⁻¹⁰``."""
    mantissa, _, exponent = f"{value:.{digits}g}".partition("e")
    if not exponent:
        return mantissa
    power = "10" + str(int(exponent)).translate(_SUPERSCRIPT)
    return power if mantissa == "1" else f"{mantissa}\u00a0×\u00a0{power}"


@_styled
def privacy_curve(
    curves: Mapping[str, tuple[Sequence[float], Sequence[float]]],
    claim: ClaimSection,
    *,
    accepted: bool,
    key: str,
) -> Picture:
    """delta against epsilon, a line for each direction, and the claim as a point."""
    figure, axes = _axes()
    visible = [d for _, deltas in curves.values() for d in deltas if d > 0]
    for name, (epsilons, deltas) in curves.items():
        values = np.asarray(deltas, float)
        shown = np.where(values > 0, values, np.nan)
        axes.plot(
            epsilons,
            shown,
            color=PAINTS.get(name, PAINTS["remove"]),
            dashes=_DASHES.get(name, ()),
            label=name,
        )
    point = claim.delta if claim.delta > 0 else None
    if visible:
        axes.set_yscale("log")
        least = min([v for v in visible if v >= (point or max(visible)) * 1e-5] or visible)
        axes.set_ylim(max(least, 1e-300) / 2, min(3.0, 4 * max([*visible, point or 0.0])))
        _powers_of_ten(axes)
    paint = PAINTS["good" if accepted else "bad"]
    axes.axvline(claim.epsilon, color=PAINTS["muted"], linewidth=0.8, linestyle=(0, (2, 3)))
    if point is not None:
        axes.axhline(point, color=PAINTS["muted"], linewidth=0.8, linestyle=(0, (2, 3)))
        axes.plot([claim.epsilon], [point], "o", markersize=8, color=paint, label="claim")
    axes.set_xlim(0, max(max(epsilons) for epsilons, _ in curves.values()))
    axes.set_xlabel("ε")
    axes.set_ylabel("δ(ε)")
    axes.legend(loc="upper right")
    described = (
        f"Delta falls from {scientific(max(visible))} as epsilon grows. "
        if visible
        else "Delta is zero everywhere. "
    )
    described += (
        f"The claim is the point epsilon {validate.above(claim.epsilon, 6)}, "
        f"delta {not_below(claim.delta)}."
    )
    return _picture(figure, "Privacy curve of each direction", described, key)


@_styled
def margin(
    curves: Mapping[str, tuple[Sequence[float], Sequence[float]]],
    claim: ClaimSection,
    *,
    accepted: bool,
    key: str,
) -> Picture:
    """Around the claim, in units of it: the curve, the estimate, what was tested and the claim,
    ``1/tau`` above the estimate.
    """
    from matplotlib.ticker import MaxNLocator

    figure, axes = _axes()
    slack = 1 - claim.tau
    low, high = max(0.0, 1 - 3.2 * slack), 1 + 2.4 * slack
    for name, (epsilons, deltas) in curves.items():
        ratios = np.asarray(deltas, float) / claim.delta
        if not np.any((ratios >= low) & (ratios <= high)):
            continue  # no part of it is in the picture
        axes.plot(
            epsilons,
            ratios,
            color=PAINTS.get(name, PAINTS["remove"]),
            dashes=_DASHES.get(name, ()),
            label=name,
        )
    estimate = claim.delta_estimate / claim.delta
    axes.axhline(1.0, color=PAINTS["muted"], linewidth=0.8, linestyle=(0, (2, 3)))
    axes.axhline(estimate, color=PAINTS["muted"], linewidth=0.8, linestyle=(0, (2, 3)))
    axes.plot([claim.epsilon], [estimate], "s", markersize=6, color=PAINTS["ink"], label="estimate")
    paint = PAINTS["good" if accepted else "bad"]
    axes.plot([claim.epsilon], [1.0], "o", markersize=8, color=paint, label="claim = estimate / τ")
    axes.annotate(
        "",
        (claim.epsilon, 1.0),
        (claim.epsilon, estimate),
        arrowprops={
            "arrowstyle": "<->",
            "color": PAINTS["ink"],
            "linewidth": 1.0,
            "shrinkA": 4,
            "shrinkB": 5,
        },
    )
    axes.set_ylim(low, high)
    _sparse(axes, 4)
    axes.xaxis.set_major_locator(MaxNLocator(4))
    axes.set_xlabel("ε")
    axes.set_ylabel("δ over the claim")
    axes.legend(loc="best")
    described = (
        f"Enlarged around the claim. The estimate is {claim.tau:g} of the claimed delta: the "
        "margin 1/tau is what makes a statistical test possible."
    )
    return _picture(figure, "The margin between estimate and claim", described, key)


@_styled
def running_estimate(
    report: DirectionSection, claim: ClaimSection, *, direction: str, key: str
) -> Picture:
    """The mean of the samples so far with its 95% band, against estimate and claim, in units of the
    claim.
    """
    figure, axes = _axes()
    samples, means, errors, _ = _trace(report)
    means, errors = means / claim.delta, errors / claim.delta
    axes.fill_between(
        samples,
        means - 1.96 * errors,
        means + 1.96 * errors,
        color=PAINTS[direction],
        alpha=0.2,
        lw=0,
    )
    marker = {"marker": "o", "markersize": 4} if len(samples) < 10 else {}
    axes.plot(samples, means, color=PAINTS[direction], label="mean, 95% band", **marker)
    if len(samples) == 1:
        axes.errorbar(samples, means, 1.96 * errors, color=PAINTS[direction], capsize=4)
    axes.axhline(
        report.threshold / claim.delta, color=PAINTS["ink"], linewidth=1.2, label="threshold"
    )
    axes.axhline(
        claim.tau, color=PAINTS["muted"], linewidth=1.2, linestyle=(0, (4, 3)), label="estimate"
    )
    half = max(3.0 * (1 - claim.tau), 5 * float(errors[-1]), 1.2 * abs(float(means[-1]) - 1))
    axes.set_ylim(1 - half, 1 + half)
    _counts(axes, float(samples[-1]))
    _sparse(axes, 4)
    axes.set_ylabel("δ over the claim")
    axes.legend(loc="best")
    described = (
        f"After {report.samples:,} samples the mean is {means[-1]:.5g} of the claimed delta, with "
        f"a standard error of {errors[-1]:.2g}; the estimate is {claim.tau:g} of it."
    )
    return _picture(figure, f"Running estimate, {direction} direction", described, key)


@_styled
def log_wealth(report: DirectionSection, *, direction: str, key: str) -> Picture:
    """Log wealth of the sequential test, climbing to its target."""
    assert report.log_target is not None
    figure, axes = _axes()
    traced, _, _, wealths = _trace(report)
    samples, wealth = [0.0, *traced.tolist()], [0.0, *wealths.tolist()]
    paint = PAINTS["good" if report.accepted else "bad"]
    axes.axhline(report.log_target, color=PAINTS["ink"], linewidth=1.2, label="target, log 1/β")
    axes.plot(samples, wealth, color=paint, label="log wealth")
    axes.fill_between(samples, wealth, 0, color=paint, alpha=0.15, lw=0)
    axes.set_ylim(min(0.0, min(wealth)) * 1.1, max(report.log_target, *wealth) * 1.15)
    _counts(axes, samples[-1])
    axes.set_ylabel("log wealth")
    axes.legend(loc="lower right")
    described = (
        "The log wealth of the bets against the claim being false "
        f"{'reached' if report.accepted else 'did not reach'} its target of "
        f"{report.log_target:.4g}; it ended at {wealth[-1]:.4g}."
    )
    return _picture(figure, f"Log wealth, {direction} direction", described, key)


@_styled
def histogram(report: DirectionSection, *, direction: str, key: str) -> Picture:
    """Sizes of the samples over the threshold; zeros apart; where they are clipped, and the proved
    bound on them.
    """
    figure, axes = _axes()
    counts = np.asarray(report.histogram, float)
    share = counts / max(counts.sum(), 1.0)
    edges = np.asarray(HISTOGRAM_EDGES, float)[1:-1]
    width = edges[1] - edges[0]
    lefts = np.concatenate(([edges[0] - width], edges))
    axes.bar(lefts, share[1:], width=width * 0.9, align="edge", color=PAINTS[direction], alpha=0.8)
    zero = edges[0] - 4 * width
    axes.bar([zero], [share[0]], width=width * 1.6, color=PAINTS["muted"], alpha=0.8)
    marks = []
    if report.clip is not None:
        marks.append(("clip", report.clip))
    if report.bound / report.threshold < 10 ** float(edges[-1]):
        marks.append(("bound B", report.bound))
    top = float(share.max()) * 1.15
    used = np.nonzero(counts[1:])[0]
    last = float(lefts[used[-1]]) if used.size else 0.0
    right = max(
        last + 3 * width, *(math.log10(v / report.threshold) + 2 * width for _, v in marks), 1.0
    )
    for index, (name, value) in enumerate(marks):
        at = math.log10(value / report.threshold)
        axes.axvline(at, color=PAINTS["ink"], linewidth=1.2)
        axes.annotate(
            name,
            (at, top * (1 - 0.1 * index)),
            (-6, 0),
            textcoords="offset points",
            color=PAINTS["ink"],
            va="top",
            ha="right",
        )
    axes.set_ylim(0, top)
    axes.set_xlim(zero - 2 * width, right)
    ticks = [tick for tick in range(-6, math.ceil(right), 2) if tick < right]
    axes.set_xticks([zero, *ticks], ["0", *(ten_to(tick) for tick in ticks)])
    axes.set_xlabel("sample over threshold")
    axes.set_ylabel("share")
    _sparse(axes, 4)
    described = (
        f"{share[0]:.0%} of the samples are zero, at the left; the bar beside them gathers all "
        f"below {ten_to(-6)}. "
    )
    if report.clip is not None:
        described += (
            f"Samples are clipped at {report.clip / report.threshold:.3g} times the threshold. "
        )
    if math.isfinite(report.bound):
        described += (
            f"No sample exceeds {not_below(report.bound / report.threshold)} times the threshold."
        )
    return _picture(figure, f"Sizes of the samples, {direction} direction", described, key)


def _trace(report: DirectionSection) -> tuple[Any, Any, Any, Any]:
    """Samples, means, standard errors and log wealth along the way, to the very end."""
    wealth = math.nan if report.log_wealth is None else report.log_wealth
    rows = [*(row for row in report.trace if row[0] < report.samples)]
    rows.append([report.samples, report.estimate, report.standard_error, wealth])
    samples, means, errors, wealths = (
        np.array(column, float) for column in zip(*rows, strict=True)
    )
    return samples, means, errors, wealths


_DASHES: dict[str, tuple[float, ...]] = {"add": (4, 2)}
_STYLE = {
    "font.size": 12,
    "font.family": "sans-serif",
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
    "legend.frameon": False,
    "legend.fontsize": 11.5,
    "legend.handlelength": 1.6,
    "lines.linewidth": 2.0,
    "figure.facecolor": "none",
    "savefig.facecolor": "none",
    "svg.fonttype": "none",
    "svg.hashsalt": "evr",
}


def _axes() -> tuple[Any, Any]:
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.figure import Figure

    figure = Figure(figsize=(5.2, 3.6), layout="constrained")
    FigureCanvasSVG(figure)
    return figure, figure.add_subplot()


def _powers_of_ten(axes: Any) -> None:
    from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

    axes.yaxis.set_major_locator(LogLocator(10, numticks=7))
    axes.yaxis.set_minor_locator(NullLocator())
    axes.yaxis.set_major_formatter(
        FuncFormatter(lambda value, _: ten_to(math.log10(value)) if value > 0 else "")
    )


def _sparse(axes: Any, most: int) -> None:
    from matplotlib.ticker import MaxNLocator

    axes.yaxis.set_major_locator(MaxNLocator(most))


def _counts(axes: Any, last: float) -> None:
    """Numbers of samples along the bottom, in thousands or millions."""
    from matplotlib.ticker import FuncFormatter, MaxNLocator

    unit, name = (
        (1e6, "million samples")
        if last >= 2e6
        else (1e3, "thousand samples")
        if last >= 2e3
        else (1, "samples")
    )
    axes.xaxis.set_major_locator(MaxNLocator(5))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value / unit:g}"))
    axes.set_xlim(0, 1.03 * last)
    axes.set_xlabel(name)


def _picture(figure: Any, title: str, description: str, key: str) -> Picture:
    buffer = io.StringIO()
    figure.savefig(buffer, format="svg", metadata={"Date": None})
    return Picture(title, description, _inlined(buffer.getvalue(), title, description, key))


def _inlined(text: str, title: str, description: str, key: str) -> str:
    """Matplotlib's file as an element of an HTML page: themable, named, its identifiers the page's
    only ones.
    """
    text = text[text.index("<svg") :]
    text = re.sub(r"<metadata>.*?</metadata>", "", text, flags=re.S)
    text = re.sub(r'<defs>\s*<style type="text/css">.*?</style>\s*</defs>', "", text, flags=re.S)
    text = re.sub(r"<!--.*?-->", "", text, flags=re.S)
    text = text.replace("xlink:href=", "href=")
    text = re.sub(r'\b(id="|href="#|url\(#)', rf"\g<1>{key}-", text)
    for name, colour in PAINTS.items():
        text = text.replace(colour, f"var(--{name})")
    box = re.search(r'viewBox="([^"]+)"', text)
    assert box is not None
    opening = (
        f'<svg viewBox="{box[1]}" role="img" aria-labelledby="{key}-title {key}-description">'
        f'<title id="{key}-title">{html.escape(title)}</title>'
        f'<desc id="{key}-description">{html.escape(description)}</desc>'
    )
    return re.sub(r"<svg\b[^>]*>", lambda _: opening, text, count=1)
