"""Epsilon against the number of steps: EVR, the FFT accountant's upper bound, and the truth.

Poisson-sampled Gaussian, probability 0.01, noise 2, delta 1e-5. EVR estimates epsilon at ``tau
delta`` and verifies ``delta``. The FFT accountant has ``eps_error = 0.1, delta_error = 1e-10`` as
in the paper, and for comparison ``eps_error = 1e-3``.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.figure import Figure

import common
import evr

NOISE, PROBABILITY, DELTA = 2.0, 0.01, 1e-5
EPS_ERROR = 0.1
MOST = {"tiny": 200, "quick": 1000, "full": 3000}
REPORTS = {"tiny": 2, "quick": 5, "full": 15}
TAUS = {"tiny": (0.9,), "quick": (0.9, 0.99), "full": (0.9, 0.99)}
VERIFIED = {
    "tiny": {0.9: (200,)},
    "quick": {0.9: (200, 1000)},
    "full": {0.9: (200, 800, 1600, 3000), 0.99: (200, 1600)},
}


def event(steps: int) -> Any:
    return evr.dpsgd(noise_multiplier=NOISE, sampling_probability=PROBABILITY, steps=steps)


def verified(steps: int, tau: float) -> dict[str, Any]:
    """EVR at one number of steps."""
    epsilon = evr.estimate_epsilon(event(steps), tau * DELTA).value
    return {"steps": steps, **common.attempt(event(steps), epsilon=epsilon, delta=DELTA, tau=tau)}


def compute(size: str) -> dict[str, Any]:
    most, every = MOST[size], MOST[size] // REPORTS[size]
    curves = {f"tau = {tau:g}": evr.online_epsilon(event(most), tau * DELTA, every=every) for tau in (1.0, *TAUS[size])}
    steps = curves["tau = 1"].steps
    coarse = common.Prv(NOISE, PROBABILITY, most, eps_error=EPS_ERROR)
    fine = common.Prv(NOISE, PROBABILITY, most)
    upper = [coarse.epsilon(DELTA, int(k)).upper for k in steps]
    truth = curves["tau = 1"].epsilons
    return {
        "settings": {
            "noise_multiplier": NOISE,
            "sampling_probability": PROBABILITY,
            "delta": DELTA,
            "eps_error": EPS_ERROR,
            "delta_error": common.DELTA_ERROR,
        },
        "steps": steps,
        "epsilons": {
            "exact": truth,
            **{f"EVR, tau = {tau:g}": curves[f"tau = {tau:g}"].epsilons for tau in TAUS[size]},
            "FFT upper bound, eps_error = 0.1": upper,
            "FFT upper bound, eps_error = 0.001": [fine.epsilon(DELTA, int(k)).upper for k in steps],
        },
        "excess_of_fft_bound": np.array(upper) / truth - 1,
        "excess_of_evr": {f"tau = {tau:g}": curves[f"tau = {tau:g}"].epsilons / truth - 1 for tau in TAUS[size]},
        "verified": [verified(k, tau) for tau, counts in VERIFIED[size].items() for k in counts],
    }


def draw(result: dict[str, Any]) -> Figure:
    figure, (left, right) = common.panels(2)
    curves = result["epsilons"]
    common.line(left, "exact", result["steps"], curves["exact"])
    common.line(
        left,
        "FFT upper bound, eps_error = 0.1",
        result["steps"],
        curves["FFT upper bound, eps_error = 0.1"],
        style="FFT upper bound",
    )
    common.line(
        left,
        "FFT upper bound, eps_error = 0.001",
        result["steps"],
        curves["FFT upper bound, eps_error = 0.001"],
        style="FFT estimate",
    )
    for tau, colour in ((0.9, common.ORANGE), (0.99, common.BLUE)):
        if f"EVR, tau = {tau:g}" in curves:
            common.line(
                left,
                f"EVR, τ = {tau:g}",
                result["steps"],
                curves[f"EVR, tau = {tau:g}"],
                style="ours",
                color=colour,
                linewidth=1.4,
            )
        rows = [r for r in result["verified"] if r["tau"] == tau]
        if rows:
            common.line(
                right,
                f"τ = {tau:g}",
                [r["steps"] for r in rows],
                [r["processor_seconds"] for r in rows],
                style="ours",
                color=colour,
                marker="o",
            )
    left.set(xlabel="steps k", ylabel="ε", title="ε at δ = 1e-5", ylim=(0, None))
    left.legend()
    right.set(xlabel="steps k", ylabel="processor seconds", yscale="log", title="verification, sequential, measured")
    right.axhline(900, color=common.BLACK, linewidth=0.8)
    right.text(right.get_xlim()[0], 900, "15 minutes (the paper, on a GPU)", va="bottom", fontsize=8)
    right.set_ylim(top=3000)
    right.legend(loc="center right")
    common.caption(figure, "Poisson-sampled Gaussian, q = 0.01, σ = 2")
    return figure


if __name__ == "__main__":
    common.run("steps_to_epsilon", compute, draw)
