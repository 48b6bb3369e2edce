"""Sampling throughput, and the verification time that a target false-positive rate asks for.

(a) Seconds for ``m`` samples of ``k = 1000`` steps of ``(1-q) N(0, s^2) + q N(1, s^2)``: as the
paper draws them (NumPy; torch on a GPU if ``gpu_sampling.json``, made by ``gpu_sampling.py``, is
there), and by the samplers here, which also compute losses and weights. (b) Following the paper:
``k = 1000, q = 1e-3, epsilon = 1.5``, noise chosen so that delta is 0.77 of the target rate,
``delta_est = 0.8 delta``, and ``delta_est / tau`` is the target. Time of the fixed verifier from
its number of samples and the measured speed; the sequential one is run.
"""

from __future__ import annotations

import json
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from scipy.optimize import brentq

import common
import evr
from evr._estimate.capped import capped_proposal
from evr._kernel.events import Composition
from evr._kernel.verdict.settings import Claim
from evr_vs_bound import fixed_samples, speed
from single_tilt import SingleBounds, SingleProposal, best_slope
from theorems import Theorems

STEPS, PROBABILITY, EPSILON, NOISE = 1000, 1e-3, 1.5, 0.6
SAMPLES = {"tiny": (1000,), "quick": (1000, 4000), "full": (1000, 4000, 16_000, 64_000)}
TARGETS = {"tiny": (1e-6,), "quick": (1e-5, 1e-10), "full": (1e-4, 1e-5, 1e-6, 1e-7, 1e-8, 1e-9, 1e-10)}
SHARE, ROOM = 0.8, 0.77
GPU = common.HERE / "results" / "gpu_sampling.json"


def event(noise: float) -> Any:
    return evr.dpsgd(noise_multiplier=noise, sampling_probability=PROBABILITY, steps=STEPS)


def plain(samples: int, seed: int = 3) -> None:
    """The paper's line of code with NumPy, in parts that fit into the memory, and the coin of the
    mixture.
    """
    rng = np.random.default_rng(seed)
    for _ in range(samples // 1000):
        t = rng.standard_normal((1000, STEPS)) * NOISE
        t += rng.random((1000, STEPS)) < PROBABILITY
        t.sum(axis=1)


def sampling(size: str) -> dict[str, Any]:
    """Panel (a)."""
    steps = Composition.of(event(NOISE)).simplified("remove")
    bounds = SingleBounds(1 / NOISE, PROBABILITY, STEPS)
    proposals = {
        "paper's tilt": SingleProposal(steps, best_slope(bounds, EPSILON) / NOISE),
        "our tilt": capped_proposal(steps, EPSILON),
    }

    def many(proposal: Any, samples: int) -> None:
        generator = np.random.Generator(np.random.Philox(4))
        for _ in range(samples // 1000):
            proposal.draw(generator, 1000)

    seconds = {"NumPy, no loss": [common.timed(lambda m=m: plain(m))[1] for m in SAMPLES[size]]}
    for name, proposal in proposals.items():
        seconds[name] = [common.timed(lambda p=proposal, m=m: many(p, m))[1] for m in SAMPLES[size]]
    return {
        "samples": SAMPLES[size],
        "processor_seconds": seconds,
        "samples_per_processor_second": {n: SAMPLES[size][-1] / s[-1] for n, s in seconds.items()},
    }


def noise_for(delta: float) -> float:
    """The noise at which delta is so much."""
    return float(brentq(lambda s: np.log(evr.estimate_delta(event(s), EPSILON).value / delta), 0.4, 1.2, xtol=1e-6))


def at(target: float) -> dict[str, Any]:
    """Panel (b) at one false-positive rate."""
    noise = noise_for(ROOM * target)
    delta = evr.estimate_delta(event(noise), EPSILON).value
    claim = Claim(EPSILON, target, SHARE * delta / target)
    steps = Composition.of(event(noise)).simplified("remove")
    bounds = SingleBounds(1 / noise, PROBABILITY, STEPS)
    tilted = SingleProposal(steps, best_slope(bounds, EPSILON) / noise)
    logs = {
        "paper's bound": Theorems(bounds).least(EPSILON, sharpened=False),
        "paper's bound, sharpened": Theorems(bounds).least(EPSILON, sharpened=True),
        "paper's tilt, our bound": tilted.log_moment(EPSILON, 2.0),
    }
    return {
        "target": target,
        "noise_multiplier": noise,
        "delta": delta,
        "tau": claim.tau,
        "fixed_samples": {name: fixed_samples(claim, log) for name, log in logs.items()},
        "samples_per_processor_second": speed(tilted, 0.3),
        "sequential": common.attempt(event(noise), epsilon=EPSILON, delta=claim.delta, tau=claim.tau),
    }


def compute(size: str) -> dict[str, Any]:
    return {
        "settings": {
            "steps": STEPS,
            "sampling_probability": PROBABILITY,
            "epsilon": EPSILON,
            "noise_multiplier_of_sampling": NOISE,
        },
        "sampling": sampling(size),
        "gpu": json.loads(GPU.read_text()) if GPU.exists() else None,
        "targets": [at(target) for target in TARGETS[size]],
    }


def draw(result: dict[str, Any]) -> Figure:
    figure, (left, right) = common.panels(2)
    found = result["sampling"]
    for name, style in (
        ("NumPy, no loss", "moments accountant"),
        ("paper's tilt", "MC, paper's tilt"),
        ("our tilt", "ours"),
    ):
        common.line(
            left, f"{name}, one core", found["samples"], found["processor_seconds"][name], style=style, marker="o"
        )
    if result["gpu"]:
        common.line(
            left,
            f"torch, no loss, {result['gpu']['device']}",
            result["gpu"]["samples"],
            result["gpu"]["seconds"],
            style="FFT estimate",
            marker="^",
        )
    left.set(
        xscale="log",
        yscale="log",
        xlabel="samples m",
        ylabel="seconds",
        title="(a) sampling k = 1000 steps, σ = 0.6",
        ylim=(3e-5, 1e3),
    )
    left.legend(loc="upper left", fontsize=7.5)
    targets = [r["target"] for r in result["targets"]]
    for name, style in (
        ("paper's bound", "GDP"),
        ("paper's bound, sharpened", "FFT estimate"),
        ("paper's tilt, our bound", "MC, paper's tilt"),
    ):
        seconds = [r["fixed_samples"][name] / r["samples_per_processor_second"] for r in result["targets"]]
        common.line(right, f"fixed m: {name}", targets, seconds, style=style)
    common.line(
        right,
        "sequential, our tilt: measured",
        targets,
        [r["sequential"]["processor_seconds"] for r in result["targets"]],
        style="ours",
        marker="o",
    )
    right.axhline(10800, color=common.BLACK, linewidth=0.8)
    right.text(max(targets), 10800, "3 hours (the paper, GPU, at 1e-10)", va="bottom", fontsize=8)
    right.set(
        xscale="log",
        yscale="log",
        xlabel="target false-positive rate",
        ylabel="processor seconds",
        title="(b) verification",
    )
    right.invert_xaxis()
    right.set_ylim(top=right.get_ylim()[1] * 1e5)
    right.legend(loc="upper left")
    common.caption(
        figure, "Poisson-sampled Gaussian, q = 0.001, k = 1000; (b): ε = 1.5, σ varies, δ = 0.77 target, estimate 0.8 δ"
    )
    return figure


if __name__ == "__main__":
    common.run("throughput", compute, draw)
