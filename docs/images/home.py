"""The three pictures of the home page, from a real estimate and a real verification.

    python docs/images/home.py        # rewrites estimate.svg, verify.svg and release.svg beside
    this file

They have no ground of their own and middle tones, so that they can be read on a light page and on a
dark one.
"""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure
from matplotlib.patches import FancyBboxPatch

import evr
from evr._basics import atomic

EVENT = evr.dpsgd(noise_multiplier=1.0, sampling_probability=1e-3, steps=1000)
DELTA, TAU = 1e-9, 0.95
BLUE, ORANGE, GREEN, GREY = "#4a86c5", "#d9822b", "#2f9e6e", "#7d8896"
STYLE = {
    "axes.edgecolor": GREY,
    "axes.labelcolor": GREY,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "font.size": 11,
    "svg.hashsalt": "evr",
    "text.color": GREY,
    "xtick.color": GREY,
    "ytick.color": GREY,
}


def canvas() -> tuple[Figure, Any]:
    figure = Figure(figsize=(3.6, 2.2), layout="constrained")
    figure.patch.set_alpha(0.0)
    axes = figure.add_subplot(facecolor="none")
    return figure, axes


def estimate() -> Figure:
    """The privacy curve, and the epsilon that belongs to delta."""
    figure, axes = canvas()
    epsilons = np.linspace(0.2, 0.8, 61)
    axes.semilogy(epsilons, evr.privacy_curve(EVENT, epsilons).deltas, color=BLUE, lw=2)
    epsilon = evr.estimate_epsilon(EVENT, delta=DELTA).value
    axes.plot([epsilon, epsilon, 0.2], [1e-12, DELTA, DELTA], color=GREY, lw=1, ls=(0, (3, 2)))
    axes.plot([epsilon], [DELTA], "o", color=ORANGE, ms=8)
    axes.annotate(
        f"ε = {epsilon:.3f}", (epsilon, DELTA), (8, 6), textcoords="offset points", color=ORANGE, weight="bold"
    )
    axes.set(xlabel="epsilon", ylabel="delta", xlim=(0.2, 0.8), ylim=(1e-12, 2e-7))
    axes.set_yticks([1e-12, 1e-9])
    axes.minorticks_off()
    return figure


def verify() -> Figure:
    """The wealth of the bets that the claim is true."""
    epsilon = evr.estimate_epsilon(EVENT, delta=TAU * DELTA).value
    report = evr.verify(EVENT, epsilon=epsilon, delta=DELTA, tau=TAU, seed=1).directions["remove"]
    rows = np.array([(0.0, 0.0), *((row[0], row[3]) for row in report.trace)])
    figure, axes = canvas()
    axes.plot(rows[:, 0] / 1e3, rows[:, 1], color=BLUE, lw=2)
    axes.axhline(report.log_target, color=GREEN, lw=1.5, ls=(0, (4, 2)))
    axes.text(0, report.log_target * 1.06, "accepted", color=GREEN, weight="bold")
    axes.set(xlabel="thousand samples", ylabel="evidence (log)", ylim=(-1, report.log_target * 1.3))
    return figure


def release() -> Figure:
    """A certificate, and what may leave with it."""
    figure, axes = canvas()
    axes.set(xlim=(0, 10), ylim=(0, 6))
    axes.axis("off")
    box = "round,pad=0,rounding_size=0.25"
    axes.add_patch(FancyBboxPatch((0.6, 0.6), 3.9, 4.8, boxstyle=box, fc="none", ec=BLUE, lw=2))
    for height, end in ((4.6, 3.6), (3.9, 3.9), (3.2, 3.2)):
        axes.plot([1.2, end], [height, height], color=GREY, lw=2, solid_capstyle="round")
    axes.plot([1.6, 2.3, 3.6], [1.9, 1.2, 2.6], color=GREEN, lw=4, solid_capstyle="round", solid_joinstyle="round")
    axes.annotate("", (7.0, 3.0), (4.9, 3.0), arrowprops={"arrowstyle": "-|>", "color": GREY, "lw": 2})
    axes.add_patch(FancyBboxPatch((7.2, 1.9), 2.3, 2.2, boxstyle=box, fc="none", ec=GREEN, lw=2))
    axes.text(8.35, 3.0, "model", ha="center", va="center", color=GREEN, weight="bold")
    return figure


def main() -> None:
    with mpl.rc_context(STYLE):
        for draw in (estimate, verify, release):
            picture = io.BytesIO()
            draw().savefig(picture, format="svg", metadata={"Date": None, "Creator": None})
            atomic.write_bytes(Path(__file__).with_name(f"{draw.__name__}.svg"), picture.getvalue())


if __name__ == "__main__":
    main()
