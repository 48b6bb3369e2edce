"""Online accounting: epsilon after every step, its relative error, and the cumulative time.

Three settings of Poisson-sampled Gaussian steps. "MC" is the Monte Carlo accountant whose samples
grow with the run (mean error and range of 5 runs); "MC, paper's tilt" draws anew at each step
shown, with the paper's single-coordinate tilt. "FFT" is prv-accountant, made once for the longest
run, with the paper's ``eps_error = 1e-3`` and with its documentation's 0.1; "ours" is
``online_epsilon``. The truth is ``estimate_epsilon`` (``fft``) from scratch at each step shown,
checked in ``truth.json``. Times are of accounting after *every* step: measured for ours and MC, the
sum of interpolated times of single steps for the others.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from matplotlib.figure import Figure

import common
import evr
import normal_limits
from evr._accounting import OnlineEpsilon
from online_accountant import MonteCarloAccountant
from single_tilt import OutOfReachWarning, tilted_epsilon


class Setting(NamedTuple):
    noise: float
    delta: float
    probability: float

    def event(self, steps: int) -> Any:
        return evr.dpsgd(noise_multiplier=self.noise, sampling_probability=self.probability, steps=steps)

    @property
    def name(self) -> str:
        return f"noise {self.noise:g}, delta {self.delta:g}, probability {self.probability:g}"


SETTINGS = (Setting(1.0, 1e-9, 1e-3), Setting(0.5, 1e-5, 1e-3), Setting(0.5, 1e-13, 1e-3))
STEPS = {"tiny": 40, "quick": 100, "full": 1000}
SHOWN = {"tiny": 2, "quick": 2, "full": 10}
RUNS = {"tiny": 2, "quick": 2, "full": 5}
SAMPLES = {"tiny": 20_000, "quick": 10_000, "full": 20_000}


def shown(size: str) -> list[int]:
    """Steps at which errors are shown."""
    return [STEPS[size] * (i + 1) // SHOWN[size] for i in range(SHOWN[size])]


def each(steps: list[int], epsilon: Callable[[int], float]) -> tuple[list[float], list[float]]:
    """Epsilon and processor seconds at each step."""
    found = [common.timed(lambda k=k: epsilon(k)) for k in steps]
    return [value for value, _ in found], [seconds for _, seconds in found]


def cumulative(steps: list[int], seconds: list[float], start: float = 0.0) -> Any:
    """Seconds for every step up to each of ``steps``, single steps interpolated."""
    every = np.arange(1, steps[-1] + 1)
    return start + np.cumsum(np.interp(every, steps, seconds))[np.array(steps) - 1]


def one(s: Setting, size: str) -> dict[str, Any]:
    steps, last = shown(size), STEPS[size]
    epsilons: dict[str, Any] = {}
    seconds: dict[str, Any] = {}
    epsilons["exact"], fresh = each(steps, lambda k: evr.estimate_epsilon(s.event(k), s.delta).value)
    ticks: list[float] = []
    online, total = common.timed(lambda: _ours(s, last, ticks))
    epsilons["ours"] = online.epsilons[np.array(steps) - 1]
    seconds["ours"] = [ticks[k - 1] for k in steps]
    runs = [_monte_carlo(s, last, size, seed) for seed in range(RUNS[size])]
    monte_carlo = np.array(runs)[:, np.array(steps) - 1]
    tilted = [_tilted(s, steps, size, seed) for seed in range(RUNS[size])]
    epsilons["MC"] = monte_carlo.mean(axis=0)
    epsilons["MC, paper's tilt"] = np.mean([values for values, _ in tilted], axis=0)
    seconds["MC, paper's tilt"] = cumulative(steps, list(np.mean([spent for _, spent in tilted], axis=0)))
    lengths = sorted({last // 4, last // 2, last}) if size == "full" else [last]
    mc_seconds = [common.timed(lambda k=k: _monte_carlo(s, k, size, seed=9))[1] for k in lengths]
    for name, eps_error in (("FFT estimate", common.EPS_ERROR), ("FFT estimate, eps_error = 0.1", 0.1)):
        prv, start = common.timed(lambda error=eps_error: common.Prv(s.noise, s.probability, last, eps_error=error))
        epsilons[name], spent = each(steps, lambda k, p=prv: p.epsilon(s.delta, k).estimate)
        seconds[name] = cumulative(steps, spent, start)
    for name, limit in (("GDP", normal_limits.gdp), ("Edgeworth", normal_limits.edgeworth)):
        epsilons[name], spent = each(steps, lambda k, curve=limit: normal_limits.epsilon_of(curve(s.event(k)), s.delta))
        seconds[name] = cumulative(steps, spent)
    truth = np.array(epsilons["exact"])
    errors = {name: np.abs(np.asarray(values) / truth - 1) for name, values in epsilons.items() if name != "exact"}
    errors["MC"] = np.abs(monte_carlo / truth - 1).mean(axis=0)
    errors["MC, paper's tilt"] = np.mean([np.abs(np.array(values) / truth - 1) for values, _ in tilted], axis=0)
    return {
        "steps": steps,
        "epsilons": epsilons,
        "relative_errors": errors,
        "errors_of_runs": {
            "MC": np.abs(monte_carlo / truth - 1),
            "MC, paper's tilt": np.abs(np.array([values for values, _ in tilted]) / truth - 1),
        },
        "worst_relative_error": {name: float(values.max()) for name, values in errors.items()},
        "cumulative_processor_seconds": seconds,
        "cumulative_processor_seconds_of_MC": {"steps": lengths, "seconds": mc_seconds},
        "total_processor_seconds": {
            **{name: float(values[-1]) for name, values in seconds.items()},
            "ours": total,
            "MC": mc_seconds[-1],
        },
        "fft_from_scratch_once": fresh[-1],
    }


def _ours(s: Setting, last: int, ticks: list[float]) -> OnlineEpsilon:
    start = time.process_time()
    return evr.online_epsilon(
        s.event(last), s.delta, progress=lambda done, total: ticks.append(time.process_time() - start)
    )


def _monte_carlo(s: Setting, steps: int, size: str, seed: int) -> list[float]:
    """Epsilon after each step, from samples that grow with the run."""
    accountant = MonteCarloAccountant(samples=SAMPLES[size], seed=seed, delta=s.delta, horizon=steps)
    return [accountant.step(s.event(1)) for _ in range(steps)]


def _tilted(s: Setting, steps: list[int], size: str, seed: int) -> tuple[list[float], list[float]]:
    """The paper's tilt, from scratch at each step; its warnings are the picture's subject."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", OutOfReachWarning)
        return each(steps, lambda k: tilted_epsilon(s.event(k), s.delta, samples=SAMPLES[size], seed=seed))


def compute(size: str) -> dict[str, Any]:
    return {
        "settings": {
            "steps": STEPS[size],
            "samples": SAMPLES[size],
            "runs": RUNS[size],
            "eps_error": common.EPS_ERROR,
            "delta_error": common.DELTA_ERROR,
        },
        "online": {s.name: one(s, size) for s in (SETTINGS[:1] if size == "tiny" else SETTINGS)},
    }


def draw(result: dict[str, Any]) -> Figure:
    found = result["online"]
    figure, axes = common.panels(len(found), 2, width=4.4, height=3.2)
    for column, (s, one_found) in enumerate(zip(SETTINGS, found.values(), strict=False)):
        above, below = axes[column], axes[column + len(found)]
        for name, errors in one_found["relative_errors"].items():
            if name in one_found["errors_of_runs"]:
                common.band(above, name, one_found["steps"], one_found["errors_of_runs"][name])
            common.line(above, name, one_found["steps"], np.maximum(common.numbers(errors), 1e-12))
        for name, seconds in one_found["cumulative_processor_seconds"].items():
            common.line(below, name, one_found["steps"], seconds)
        mc = one_found["cumulative_processor_seconds_of_MC"]
        common.line(below, "MC", mc["steps"], mc["seconds"])
        above.set(
            yscale="log",
            ylim=(5e-13, 100),
            xlabel="steps",
            ylabel="relative error of ε",
            title=f"σ = {s.noise:g}, δ = {s.delta:g}, q = {s.probability:g}",
        )
        below.set(yscale="log", xlabel="steps", ylabel="processor seconds, cumulative")
    axes[len(found)].legend(ncols=2, fontsize=7.5)
    axes[len(found)].set_ylim(top=axes[len(found)].get_ylim()[1] * 100)
    common.caption(
        figure,
        f"Online accounting; MC with {result['settings']['samples']} samples, "
        f"{result['settings']['runs']} runs; FFT: eps_error = 1e-3, delta_error = 1e-10",
    )
    return figure


if __name__ == "__main__":
    common.run("online", compute, draw)
