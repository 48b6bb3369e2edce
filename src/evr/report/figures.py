"""Pictures: privacy curves, and epsilon along a training run. Matplotlib is imported when one is
drawn, never shown.

Colours are those of Okabe and Ito, which the colour-blind tell apart; lines differ in their dashes
too.
"""

from __future__ import annotations

import io
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from evr import atomic

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Series = tuple[Any, Any]
"""Abscissae and ordinates."""

_STYLE = {
    "font.size": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "#dddddd",
    "grid.linewidth": 0.6,
    "lines.linewidth": 1.8,
    "svg.hashsalt": "evr",  # the same picture is the same file
}


_DEPTH = 1e-16  # of the greatest delta: below that nobody looks


class Look(NamedTuple):
    """How one line is drawn."""

    colour: str
    dashes: Any = "-"
    width: float = 1.8
    marker: str | None = None


LOOKS = (
    Look("#0072b2"),
    Look("#d55e00", (0, (5, 2))),
    Look("#009e73", (0, (1, 1.2))),
    Look("#cc79a7", (0, (5, 1.5, 1, 1.5))),
    Look("#e69f00", (0, (3, 1, 1, 1, 1, 1))),
    Look("#56b4e9", (0, (8, 2))),
    Look("#000000", (0, (2, 2))),
)


def smooth(first: float, last: float, count: int = 121) -> Any:
    """Abscissae of a curve without kinks: denser at the left, where privacy curves are steep.

    >>> smooth(0.0, 4.0, 3).round(2).tolist()
    [0.0, 1.41, 4.0]
    """
    return first + (last - first) * np.linspace(0.0, 1.0, count) ** 1.5


def privacy_curves(
    curves: Mapping[str, Series],
    *,
    title: str | None = None,
    least_delta: float | None = None,
    looks: Mapping[str, Look] | None = None,
) -> Figure:
    """delta against epsilon, delta logarithmic: one line for each named ``(epsilons, deltas)``.

    ``least_delta`` is the least that is shown, by default 16 decades below the greatest; zeros are
    not drawn.
    """
    figure, axes = _axes(title)
    values = [np.asarray(deltas, float) for _, deltas in curves.values()]
    positive = np.concatenate([v[v > 0] for v in values]) if values else np.empty(0)
    for name, look, (epsilons, deltas) in _dressed(curves, looks):
        deltas = np.asarray(deltas, float)
        axes.plot(epsilons, np.where(deltas > 0, deltas, np.nan), **look, label=name)
    if positive.size:
        axes.set_yscale("log")
        greatest = float(positive.max())
        least = (
            max(float(positive.min()), _DEPTH * greatest) if least_delta is None else least_delta
        )
        if least < 1:
            axes.set_ylim(max(least, 1e-300) / 1.5, min(3.0, 3.0 * greatest))
    axes.set_xlabel("ε")
    axes.set_ylabel("δ(ε)")
    axes.margins(x=0.01)
    if least_delta is None and positive.size:
        pairs = [(np.asarray(e, float), np.asarray(d, float)) for e, d in curves.values()]
        seen = np.concatenate([e[d >= _DEPTH * positive.max()] for e, d in pairs])
        axes.set_xlim(right=1.02 * float(seen.max()) if seen.max() > seen.min() else None)
    if len(curves) > 1:
        axes.legend(frameon=False)
    return figure


def online_epsilon(runs: Mapping[str, Series], delta: float, *, title: str | None = None) -> Figure:
    """epsilon against the number of steps, one line for each named ``(steps, epsilons)``."""
    figure, axes = _axes(title)
    for name, look, (steps, epsilons) in _dressed(runs, None):
        epsilons = np.asarray(epsilons, float)
        marker = {"marker": "o", "markersize": 3.5} if len(epsilons) <= 30 else {}
        axes.plot(
            steps,
            np.where(np.isfinite(epsilons), epsilons, np.nan),
            **{**look, **marker},
            label=name,
        )
    axes.set_xlabel("steps")
    axes.set_ylabel(f"ε at δ = {_power_of_ten(delta)}")
    axes.set_xlim(left=0)
    axes.set_ylim(bottom=0)
    if len(runs) > 1:
        axes.legend(frameon=False)
    return figure


def _power_of_ten(value: float) -> str:
    """``1e-09`` as people write it."""
    digits, _, exponent = f"{value:.3g}".partition("e")
    if not exponent:
        return digits
    power = f"10^{{{int(exponent)}}}"
    return f"${power}$" if digits == "1" else rf"${digits} \times {power}$"


def render(figure: Figure, kind: str) -> bytes:
    """The bytes of a picture, ``kind`` being ``"png"``, ``"svg"`` or ``"pdf"``; the same figure
    gives the same bytes.
    """
    import matplotlib

    undated: dict[str, Any] = {"svg": {"Date": None}, "pdf": {"CreationDate": None}}
    buffer = io.BytesIO()
    with matplotlib.rc_context(_STYLE):
        figure.savefig(buffer, format=kind, dpi=160, metadata=undated.get(kind))
    return buffer.getvalue()


def save(figure: Figure, path: str | Path) -> None:
    """Write a picture, of the kind that the file's name ends in, whole or not at all."""
    atomic.write_bytes(path, render(figure, Path(path).suffix.lower().lstrip(".")))


def _axes(title: str | None) -> tuple[Figure, Any]:
    """A figure of its own, known to no window system."""
    import matplotlib
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    with matplotlib.rc_context(_STYLE):
        figure = Figure(figsize=(6.4, 4.2), layout="constrained")
        FigureCanvasAgg(figure)
        axes = figure.add_subplot()
    if title:
        axes.set_title(title, loc="left", fontsize=11)
    return figure, axes


def _dressed(
    series: Mapping[str, Series], looks: Mapping[str, Look] | None
) -> list[tuple[str, dict[str, Any], Series]]:
    dressed = []
    for index, (name, points) in enumerate(series.items()):
        look = (looks or {}).get(name, LOOKS[index % len(LOOKS)])
        drawn = {"color": look.colour, "linestyle": look.dashes, "linewidth": look.width}
        if look.marker:
            drawn |= {
                "marker": look.marker,
                "markersize": 5.5,
                "markerfacecolor": "white",
                "markeredgewidth": 1.6,
            }
        dressed.append((name, drawn, points))
    return dressed
