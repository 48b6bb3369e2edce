"""The paper's first figure: delta of 1200 Gaussian mechanisms of noise 70, by estimates and by
upper bounds.

"Exact" is the closed form with 50 digits. The FFT accountant is prv-accountant with ``eps_error =
1e-3, delta_error = 1e-10``.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.figure import Figure

import common
import evr
from check_truth import gaussian_delta
from evr._kernel.events import Composition
from normal_limits import EdgeworthCurve, gdp

NOISE, STEPS = 70.0, 1200
GREATEST, LEAST = 1e-2, 1e-20
POINTS = {"tiny": 5, "quick": 19, "full": 73}
EVENT = evr.dpsgd(noise_multiplier=NOISE, sampling_probability=1.0, steps=STEPS)


def epsilons(size: str) -> Any:
    """Evenly from delta 1e-2 to delta 1e-20."""
    ends = [evr.estimate_epsilon(EVENT, delta).value for delta in (GREATEST, LEAST)]
    return np.linspace(*ends, POINTS[size])


def compute(size: str) -> dict[str, Any]:
    at = epsilons(size)
    prv = common.Prv(NOISE, 1.0, STEPS)
    bounds = [prv.delta(e) for e in at]
    edgeworth = EdgeworthCurve(Composition.of(EVENT).remove)
    deltas = {
        "exact": [gaussian_delta(NOISE, STEPS, e) for e in at],
        "ours": evr.privacy_curve(EVENT, at).deltas,
        "FFT estimate": [b.estimate for b in bounds],
        "FFT upper bound": [b.upper for b in bounds],
        "GDP": [gdp(EVENT)(e) for e in at],
        "Edgeworth": [edgeworth.delta(e) for e in at],
        "Edgeworth upper bound": [edgeworth.upper_delta(e) for e in at],
        "moments accountant": evr.privacy_curve(EVENT, at, method="rdp").deltas,
    }
    exact = np.array(deltas["exact"])
    worst = {
        name: float(np.max(np.abs(np.array(deltas[name]) / exact - 1)))
        for name in ("ours", "FFT estimate", "GDP", "Edgeworth")
    }
    ahead = np.array(deltas["FFT upper bound"]) > np.array(deltas["moments accountant"])
    return {
        "settings": {
            "noise_multiplier": NOISE,
            "steps": STEPS,
            "eps_error": common.EPS_ERROR,
            "delta_error": common.DELTA_ERROR,
        },
        "epsilons": at,
        "deltas": deltas,
        "worst_relative_error_of_estimates": worst,
        "fft_upper_bound_floor": min(deltas["FFT upper bound"]),
        "exact_where_fft_bound_loses_to_moments": float(exact[ahead][0]) if ahead.any() else None,
        "edgeworth_bound_over_exact": [
            float(r) for r in np.array(deltas["Edgeworth upper bound"])[[0, -1]] / exact[[0, -1]]
        ],
    }


def draw(result: dict[str, Any]) -> Figure:
    figure, (left, right) = common.panels(2)
    exact = common.numbers(result["deltas"]["exact"])
    for name, deltas in result["deltas"].items():
        common.line(left, name, result["epsilons"], deltas)
        if name in result["worst_relative_error_of_estimates"]:
            # zero differences are drawn at the resolution of a float
            common.line(right, name, result["epsilons"], np.maximum(np.abs(common.numbers(deltas) / exact - 1), 1e-16))
    left.set(yscale="log", ylim=(3e-21, 3), xlabel="ε", ylabel="δ(ε)", title="estimates and bounds")
    right.set(
        yscale="log",
        ylim=(5e-17, 1e3),
        xlabel="ε",
        ylabel="relative error of δ",
        title="the estimates against the closed form",
    )
    left.legend(loc="lower left")
    right.legend(loc="upper left")
    common.caption(figure, "1200 Gaussian mechanisms, noise multiplier 70; FFT: eps_error = 1e-3, delta_error = 1e-10")
    return figure


if __name__ == "__main__":
    common.run("gaussian_composition", compute, draw)
