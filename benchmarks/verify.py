"""What a sampled verification costs: samples and seconds of the sequential verifier, and the
samples that Algorithm 2 would need.

Run ``python benchmarks/verify.py [--quick | --seconds]``; quick leaves out tau = 0.99. Estimates
are exact (Fourier accountant), budgets those of the first attempt. The last two columns of the
first table are ``m = 2 nu/Delta^2 log(1/claim)`` of Algorithm 2 with the paper's own bound on the
second moment (one random step tilted, at its best theta, its slips corrected) and with that of
capped tilting. The second table is 1200 Gaussian steps with noise 70, which the paper verifies in
under two minutes on an A100. The third is of long training runs. The fourth is of what is wanted in
5 processor seconds at tau = 0.9 and in 15 at 0.99, search included and the estimate not, on one
thread. ``--seconds`` prints that table alone.
"""

from __future__ import annotations

import math
import sys
import time
from pathlib import Path
from typing import Any

import evr
from evr._estimate.capped import capped_proposal
from evr._kernel.events import Composition
from evr._kernel.sampled.fixed import default_offset
from evr._kernel.verdict.results import Verification
from evr._kernel.verdict.settings import Claim
from evr._spec import load

sys.path.append(str(Path(__file__).parents[1] / "paper"))
from single_tilt import SingleBounds
from theorems import Theorems

# epsilon, steps, sampling probability, noise multiplier
SETTINGS = (
    (1.5, 100, 1e-3, 0.6),
    (1.5, 1000, 1e-3, 0.5),
    (0.5, 1000, 1e-3, 1.0),
    (1.0, 100, 1e-5, 0.5),
    (1.0, 1500, 0.01, 2.0),
    (2.0, 360, 4096 / 50000, 5.971),
)


def fixed_samples(claim: Claim, log_second_moment: float) -> float:
    """``m`` of Algorithm 2 with the paper's budget and its heuristic for ``Delta``."""
    log_ratio = log_second_moment - 2 * math.log(default_offset(claim))
    return 2 * math.exp(min(log_ratio, 600.0)) * -math.log(claim.delta)


def paper_log_second_moment(epsilon: float, steps: int, probability: float, noise: float) -> float:
    bounds = SingleBounds(1 / noise, probability, steps, 1024)
    return Theorems(bounds).least(epsilon, sharpened=False)


def verified(event: Any, epsilon: float, delta: float, tau: float) -> tuple[Verification, float]:
    start = time.perf_counter()
    found = evr.verify(event, epsilon=epsilon, delta=delta / tau, tau=tau, seed=1, method="sequential")
    return found, time.perf_counter() - start


def row(setting: tuple[float, int, float, float], tau: float) -> str:
    epsilon, steps, probability, noise = setting
    event = evr.dpsgd(noise_multiplier=noise, sampling_probability=probability, steps=steps)
    delta = float(evr.estimate_delta(event, epsilon).value)
    found, took = verified(event, epsilon, delta, tau)
    claim = Claim(epsilon, delta / tau, tau)
    paper = fixed_samples(claim, paper_log_second_moment(*setting))
    ours = fixed_samples(
        claim, capped_proposal(Composition.of(event).simplified("remove"), epsilon).log_moment(epsilon, 2.0)
    )
    name = f"{epsilon:g}, {steps}, {probability:.4g}, {noise:g}"
    return (
        f"{name:<26} {delta:>10.4e} {tau:>5} {found.verdict.value:>9} {found.samples:>9.2e} "
        f"{took:>8.1f} {paper:>9.1e} {ours:>9.1e}"
    )


WANTED: list[tuple[float, int, float, float] | str] = [
    (8e-7, 72_000, 0.01279, 2.5),
    (1.1e-10, 100_000, 4.08e-5, 0.614),
    (1e-9, 5_000, 0.00655, 1.0),
    (1e-5, 1_960, 0.0102, 0.39),
    (1e-9, 20_000, 1e-3, 1.0),
    (1e-5, 14_040, 256 / 60_000, 1.1),
    "examples/mixed.toml",
]
"""delta, steps, q, noise; or a specification with its own delta."""


def wanted_row(setting: tuple[float, int, float, float] | str, tau: float) -> str:
    if isinstance(setting, str):
        spec = load(Path(__file__).resolve().parent.parent / setting)
        event, name, delta = spec.event(), setting, 1e-6
    else:
        delta, steps, probability, noise = setting
        event = evr.dpsgd(noise_multiplier=noise, sampling_probability=probability, steps=steps)
        name = f"{steps}, {probability:.4g}, {noise:g}"
    epsilon = float(evr.estimate_epsilon(event, delta).value)
    claim = {"epsilon": epsilon, "delta": float(evr.estimate_delta(event, epsilon).value)}
    start = time.process_time()
    found = evr.verify(
        event, epsilon=epsilon, delta=claim["delta"] / tau, tau=tau, seed=1, workers=1, method="sequential"
    )
    took = time.process_time() - start
    return (
        f"{name:<28} {epsilon:>8.4f} {claim['delta']:>9.2e} {tau:>5} {found.verdict.value:>9} "
        f"{found.samples:>9.2e} {took:>8.1f}"
    )


def wanted() -> None:
    print("\nprocessor seconds, one thread, search included")
    print(
        f"{'steps, q, noise':<28} {'epsilon':>8} {'delta':>9} {'tau':>5} {'verdict':>9} {'samples':>9} {'seconds':>8}"
    )
    for tau in (0.9, 0.99):
        for setting in WANTED:
            print(wanted_row(setting, tau), flush=True)


LONG = [
    (1e-5, 14_040, 256 / 60_000, 1.1),
    (8e-7, 72_000, 16_384 / 1_281_167, 2.5),
    (1e-6, 1_000_000, 1e-4, 1.0),
    (1e-8, 1_000_000_000, 1e-6, 1.0),
]
"""delta, steps, q, noise."""


def long_row(setting: tuple[float, int, float, float], tau: float) -> str:
    delta, steps, probability, noise = setting
    event = evr.dpsgd(noise_multiplier=noise, sampling_probability=probability, steps=steps)
    epsilon = float(evr.estimate_epsilon(event, delta).value)
    found, took = verified(event, epsilon, delta, tau)
    name = f"{epsilon:.3f}, {steps}, {probability:.4g}, {noise:g}"
    return f"{name:<36} {delta:>8.1e} {tau:>5} {found.verdict.value:>9} {found.samples:>9.2e} {took:>8.1f}"


def main() -> None:
    if "--seconds" in sys.argv:
        wanted()
        return
    quick = "--quick" in sys.argv
    print(
        f"{'epsilon, steps, q, noise':<26} {'delta':>10} {'tau':>5} {'verdict':>9} {'samples':>9} "
        f"{'seconds':>8} {'m, paper':>9} {'m, capped':>9}"
    )
    for tau in (0.9,) if quick else (0.9, 0.99):
        for setting in SETTINGS:
            print(row(setting, tau), flush=True)
    print("\n1200 Gaussian steps, noise 70, tau = 0.99")
    print(f"{'delta':>10} {'epsilon':>9} {'verdict':>9} {'samples':>9} {'seconds':>8}")
    event = evr.dpsgd(noise_multiplier=70, sampling_probability=1, steps=1200)
    for exponent in (2, 4, 6, 9, 12, 15):
        epsilon = float(evr.estimate_epsilon(event, delta=10.0**-exponent).value)
        delta = float(evr.estimate_delta(event, epsilon).value)
        found, took = verified(event, epsilon, delta, 0.99)
        print(f"{delta:>10.2e} {epsilon:>9.4f} {found.verdict.value:>9} {found.samples:>9.2e} {took:>8.2f}", flush=True)
    print(f"\n{'epsilon, steps, q, noise':<36} {'delta':>8} {'tau':>5} {'verdict':>9} {'samples':>9} {'seconds':>8}")
    for tau in (0.9,) if quick else (0.9, 0.99):
        for long in LONG:
            print(long_row(long, tau), flush=True)
    if not quick:
        wanted()


if __name__ == "__main__":
    main()
