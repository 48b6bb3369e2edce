"""Offline accounting: relative errors of delta against epsilon and of epsilon against steps, and
the runtime table at ``k = 1000``.

Regular: noise 0.5, probability 1e-3, ``k = 1000``, or delta 1e-5. Extreme: noise 0.5, probability
1e-5, ``k = 100``, or delta 1e-14. Methods: prv-accountant (``eps_error = 1e-3, delta_error =
1e-10``), GDP, Edgeworth, Monte Carlo with the paper's tilt and with ours (5 runs), and AFA where it
can run. The truth is ``estimate_delta`` / ``estimate_epsilon`` (``fft``), checked in
``truth.json``.

AFA is autodp's and needs SciPy older than 1.14: set ``EVR_AFA_PYTHON`` to a Python that has both,
and ``afa.py`` runs there.
"""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
import warnings
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from matplotlib.figure import Figure

import common
import evr
import normal_limits
from single_tilt import OutOfReachWarning, tilted_delta, tilted_epsilon

NOISE = 0.5


class Case(NamedTuple):
    name: str
    probability: float
    steps: int
    delta: float
    epsilons: dict[str, list[float]]
    counts: dict[str, list[int]]
    samples: dict[str, int]
    afa: dict[str, list[float]]

    def event(self, steps: int | None = None) -> Any:
        return evr.dpsgd(noise_multiplier=NOISE, sampling_probability=self.probability, steps=steps or self.steps)


CASES = (
    Case(
        "regular",
        1e-3,
        1000,
        1e-5,
        {"tiny": [], "quick": [1.0, 3.0], "full": [0.5 * n for n in range(1, 13)]},
        {"tiny": [], "quick": [1000], "full": [100, 250, 500, 750, 1000]},
        {"tiny": 0, "quick": 10_000, "full": 50_000},
        {"tiny": [], "quick": [], "full": [1.0, 2.0, 4.0]},
    ),
    Case(
        "extreme",
        1e-5,
        100,
        1e-14,
        {"tiny": [1.0], "quick": [1.0, 3.0], "full": [0.5 * n for n in range(1, 13)]},
        {"tiny": [100], "quick": [100], "full": [100, 250, 500, 750, 1000]},
        {"tiny": 20_000, "quick": 20_000, "full": 100_000},
        {"tiny": [], "quick": [], "full": [1.0, 3.0]},
    ),
)
RUNS = {"tiny": 2, "quick": 2, "full": 5}
TABLE_EPSILON, TABLE_SAMPLES = 1.5, {"tiny": 2_000, "quick": 10_000, "full": 200_000}
LIMITS = {"GDP": normal_limits.gdp, "Edgeworth": normal_limits.edgeworth}


def our_delta(event: Any, epsilon: float, *, samples: int, seed: int) -> float:
    options: Any = {"method": "monte_carlo", "direction": "remove"}
    return evr.estimate_delta(event, epsilon, samples=samples, seed=seed, **options).value


def our_epsilon(event: Any, delta: float, *, samples: int, seed: int) -> float:
    options: Any = {"method": "monte_carlo", "direction": "remove"}
    return evr.estimate_epsilon(event, delta, samples=samples, seed=seed, **options).value


DELTAS = {"MC": our_delta, "MC, paper's tilt": tilted_delta}
EPSILONS = {"MC": our_epsilon, "MC, paper's tilt": tilted_epsilon}


def afa(probability: float, steps: int, epsilon: float) -> dict[str, Any]:
    """autodp's delta and processor seconds, or why there is none."""
    python = os.environ.get("EVR_AFA_PYTHON", sys.executable)
    arguments = json.dumps([NOISE, probability, steps, epsilon])
    done = subprocess.run([python, common.HERE / "afa.py", arguments], capture_output=True, text=True, check=False)
    if done.returncode:
        return {"epsilon": epsilon, "delta": None, "reason": (done.stderr.strip().splitlines() or ["it failed"])[-1]}
    value, seconds = json.loads(done.stdout.strip().splitlines()[-1])
    return {"epsilon": epsilon, "delta": value, "processor_seconds": seconds, "reason": ""}


@lru_cache(maxsize=1)
def made(probability: float, steps: int) -> common.Prv:
    """prv-accountant, made once where both plots ask the same; the table makes its own."""
    return common.Prv(NOISE, probability, steps)


def relative(values: Any, truth: Any) -> Any:
    return np.abs(np.asarray(values, float) / np.asarray(truth, float) - 1)


def deltas(case: Case, size: str) -> dict[str, Any]:
    """The relative error of delta against epsilon."""
    at = case.epsilons[size]
    prv = made(case.probability, case.steps)
    truth = evr.privacy_curve(case.event(), at).deltas
    found: dict[str, Any] = {"FFT estimate": [prv.delta(e).estimate for e in at]}
    for name, limit in LIMITS.items():
        curve = limit(case.event())
        found[name] = [curve(e) for e in at]
    errors = {name: relative(values, truth) for name, values in found.items()}
    spread = {}
    for name, estimate in DELTAS.items():
        runs = np.array(
            [
                [estimate(case.event(), e, samples=case.samples[size], seed=seed) for e in at]
                for seed in range(RUNS[size])
            ]
        )
        found[name], errors[name], spread[name] = (
            runs.mean(axis=0),
            relative(runs, truth).mean(axis=0),
            relative(runs, truth),
        )
    fourier = [afa(case.probability, case.steps, e) for e in case.afa[size]]
    for row in fourier:
        row["relative_error"] = (
            abs(row["delta"] / evr.estimate_delta(case.event(), row["epsilon"]).value - 1)
            if row["delta"] is not None
            else None
        )
    return {
        "epsilons": at,
        "exact": truth,
        "deltas": found,
        "relative_errors": errors,
        "errors_of_runs": spread,
        "AFA": fourier,
    }


def epsilons(case: Case, size: str) -> dict[str, Any]:
    """The relative error of epsilon against the number of steps."""
    counts = case.counts[size]
    prv = made(case.probability, counts[-1])
    truth = [evr.estimate_epsilon(case.event(k), case.delta).value for k in counts]
    found: dict[str, Any] = {"FFT estimate": [prv.epsilon(case.delta, k).estimate for k in counts]}
    for name, limit in LIMITS.items():
        found[name] = [normal_limits.epsilon_of(limit(case.event(k)), case.delta) for k in counts]
    errors = {name: relative(values, truth) for name, values in found.items()}
    spread = {}
    for name, estimate in EPSILONS.items():
        runs = np.array(
            [
                [estimate(case.event(k), case.delta, samples=case.samples[size], seed=seed) for k in counts]
                for seed in range(RUNS[size])
            ]
        )
        found[name], errors[name], spread[name] = (
            runs.mean(axis=0),
            relative(runs, truth).mean(axis=0),
            relative(runs, truth),
        )
    return {
        "steps": counts,
        "delta": case.delta,
        "exact": truth,
        "epsilons": found,
        "relative_errors": errors,
        "errors_of_runs": spread,
    }


def runtimes(size: str) -> list[dict[str, Any]]:
    """The table: noise 0.5, probability 1e-3, ``k = 1000``, delta at epsilon 1.5; processor
    seconds, nothing cached.
    """
    steps = 1000 if size != "tiny" else 100
    case = CASES[0]
    event, near = (
        case.event(steps),
        evr.dpsgd(noise_multiplier=0.51, sampling_probability=case.probability, steps=steps),
    )
    samples = TABLE_SAMPLES[size]

    def ask(**options: Any) -> Any:
        return lambda: evr.estimate_delta(event, TABLE_EPSILON, direction="remove", **options).value

    work = {
        "ours (fft)": ask(),
        "GDP": lambda: normal_limits.gdp(event)(TABLE_EPSILON),
        "GDP-E": lambda: normal_limits.edgeworth(event)(TABLE_EPSILON),
        f"MC-IS, paper's tilt, {samples} samples": lambda: tilted_delta(event, TABLE_EPSILON, samples=samples, seed=1),
        f"MC, our tilt, {samples} samples": ask(method="monte_carlo", samples=samples, seed=1),
        "FFT": lambda: common.Prv(NOISE, case.probability, steps).delta(TABLE_EPSILON).estimate,
    }
    evr.estimate_delta(near, TABLE_EPSILON)  # imports are not part of the time
    rows = [
        {"method": name, "delta": value, "processor_seconds": seconds}
        for name, (value, seconds) in ((n, common.timed(w)) for n, w in work.items())
    ]
    truth = rows[0]["delta"]
    if size == "full":
        fourier = afa(case.probability, steps, TABLE_EPSILON)
        rows.append({"method": "AFA", **fourier})
    for tau in (0.9,) if size != "full" else (0.9, 0.99):
        found = common.attempt(event, epsilon=TABLE_EPSILON, delta=truth / tau, tau=tau)
        rows.append({"method": f"ours, verified at tau = {tau:g}", "delta": truth / tau, **found})
    for row in rows:
        row["relative_error"] = abs(row["delta"] / truth - 1) if row["delta"] is not None else math.nan
    return rows


def quietly(case: Case, size: str) -> dict[str, Any]:
    """Both plots of a case. Where the paper's tilt does not reach is for the picture to show, not
    for warnings.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", OutOfReachWarning)
        return {"delta": deltas(case, size), "epsilon": epsilons(case, size)}


def compute(size: str) -> dict[str, Any]:
    return {
        "settings": {
            "noise_multiplier": NOISE,
            "eps_error": common.EPS_ERROR,
            "delta_error": common.DELTA_ERROR,
            "runs": RUNS[size],
        },
        "runtimes": runtimes(size),
        **{
            case.name: {
                "probability": case.probability,
                "steps": case.steps,
                "samples": case.samples[size],
                **quietly(case, size),
            }
            for case in CASES
            if case.epsilons[size]
        },
    }


def draw(result: dict[str, Any]) -> Figure:
    cases = [case for case in CASES if case.name in result]
    figure, axes = common.panels(2, len(cases), width=5.2, height=3.4)
    for row, case in enumerate(cases):
        found = result[case.name]
        for axis, part, x in (
            (axes[2 * row], found["delta"], "epsilons"),
            (axes[2 * row + 1], found["epsilon"], "steps"),
        ):
            for name, values in part["relative_errors"].items():
                errors = common.numbers(values)
                if name in part["errors_of_runs"]:
                    common.band(axis, name, part[x], part["errors_of_runs"][name])
                common.line(axis, name, part[x], np.maximum(errors, 1e-12), marker=common.STYLES[name].marker or ".")
        there = [r for r in found["delta"]["AFA"] if r["delta"] is not None]
        if there:
            common.line(
                axes[2 * row], "AFA", [r["epsilon"] for r in there], [r["relative_error"] for r in there], marker="D"
            )
        axes[2 * row].set(
            yscale="log",
            xlabel="ε",
            ylabel="relative error of δ",
            title=f"{case.name}: q = {case.probability:g}, k = {case.steps}",
        )
        axes[2 * row + 1].set(
            yscale="log",
            xlabel="steps k",
            ylabel="relative error of ε",
            title=f"{case.name}: q = {case.probability:g}, δ = {case.delta:g}",
        )
        axes[2 * row].legend(ncols=2, fontsize=7.5)
        axes[2 * row].set_ylim(top=axes[2 * row].get_ylim()[1] * 100)
    common.caption(
        figure,
        f"Offline accounting, σ = 0.5; MC: {result['settings']['runs']} runs; FFT: eps_error = "
        "1e-3, delta_error = 1e-10",
    )
    return figure


if __name__ == "__main__":
    common.run("offline", compute, draw)
