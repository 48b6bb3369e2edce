"""How good are the three proposals? The table of six settings: second moment, its bound, zeros, and
the cost of one percent.

Run ``python benchmarks/proposals.py [seconds per cell]``. "Measured" is of the drawn samples;
"proved" is the rigorous bound. Both are in units of ``delta^2``, delta from the Fourier accountant.
Seconds for a relative error of 1% are those of one thread: time per sample times ``1e4`` times the
relative variance. For a proposal that does not reach, the measured moment means nothing; the mean
shows it. The second table is the paper's: its bounds at their best ``theta``, and the samples that
Algorithm 2 needs at ``tau = 0.99``.
"""

from __future__ import annotations

import math
import sys
import time
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from evr.bounds.single import SingleBounds
from evr.estimation.fft import FftCurve
from evr.events import dpsgd
from evr.laws import Step
from evr.mechanisms import Composition
from evr.sampling.proposals import Proposal
from evr.sampling.single import OutOfReachWarning
from evr.search import single_proposal
from evr.search.tuning import capped_proposal, simple_proposal

sys.path.append(str(Path(__file__).parents[1] / "paper"))
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
PROPOSALS: dict[str, Callable[[Sequence[Step], float], Proposal]] = {
    "simple": simple_proposal,
    "single": single_proposal,
    "single, theta by bound": lambda steps, epsilon: single_proposal(steps, epsilon, theta="bound"),
    "capped": capped_proposal,
}


class Measured(NamedTuple):
    """What samples of a proposal show, in units of delta."""

    mean: float
    second_moment: float
    proved: float
    zeros: float
    seconds_for_one_percent: float
    warned: bool


def measure(
    steps: Sequence[Step], epsilon: float, delta: float, kind: str, seconds: float
) -> Measured:
    """Draw for so many seconds."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        proposal = PROPOSALS[kind](steps, epsilon)
    warned = any(issubclass(w.category, OutOfReachWarning) for w in caught)
    generator = np.random.Generator(np.random.Philox(1))
    count, total, squares, zeros = 0, 0.0, 0.0, 0
    start = time.perf_counter()
    while (spent := time.perf_counter() - start) < seconds:
        values = proposal.draw(generator, proposal.block_size()).values(epsilon) / delta
        count += values.size
        total += float(values.sum())
        squares += float(np.sum(values**2))
        zeros += int(np.count_nonzero(values == 0))
    mean, second = total / count, squares / count
    cost = 1e4 * max(second - mean**2, 0.0) * spent / count
    log_proved = proposal.log_moment(epsilon, 2.0) - 2 * math.log(delta)
    return Measured(mean, second, math.exp(min(log_proved, 700.0)), zeros / count, cost, warned)


def samples_needed(nu: float, delta: float, tau: float = 0.99) -> float:
    """Algorithm 2's ``2 nu/Delta^2 log(tau/delta_est)`` for an exact estimate; ``nu`` in units of
    ``delta^2``.
    """
    gap = 0.4 * (1 / tau - 2 / (1 + tau))
    return 2 * nu / gap**2 * math.log(tau / delta)


def papers_bounds(setting: tuple[float, int, float, float], delta: float) -> dict[str, float]:
    """The paper's theorems, corrected and sharpened, and the bound by the greatest step, each at
    its best ``theta``.
    """
    epsilon, steps, q, noise = setting
    bounds = SingleBounds(1 / noise, q, steps)
    logs = {
        "printed": Theorems(bounds).least(epsilon, sharpened=False),
        "sharpened": Theorems(bounds).least(epsilon, sharpened=True),
        "greatest": bounds.log_moment(epsilon, 2.0, bounds.best_slope(epsilon)),
    }
    return {name: math.exp(min(value - 2 * math.log(delta), 700.0)) for name, value in logs.items()}


def main(seconds: float) -> None:
    """Print both tables."""
    deltas = []
    print(
        f"{'proposal':26}{'mean/delta':>12}{'measured':>12}{'proved':>12}"
        f"{'zeros':>8}{'s for 1%':>10}"
    )
    for epsilon, steps, q, noise in SETTINGS:
        event = dpsgd(noise_multiplier=noise, sampling_probability=q, steps=steps)
        composed = Composition.of(event).simplified("remove")
        delta = FftCurve(composed).delta(epsilon).value
        deltas.append(delta)
        print(f"epsilon={epsilon:g} steps={steps} q={q:g} noise={noise:g}: delta={delta:.4e}")
        for kind in PROPOSALS:
            m = measure(composed, epsilon, delta, kind, seconds)
            hidden = m.warned or m.second_moment == 0 or abs(m.mean - 1) > 0.5
            cost = "-" if hidden else f"{m.seconds_for_one_percent:.2g}"
            note = (
                "  out of reach: warned"
                if m.warned
                else "  no meaning: too few hits"
                if hidden
                else ""
            )
            print(
                "  "
                f"{kind:24}{m.mean:>12.3g}{m.second_moment:>12.3g}{m.proved:>12.3g}{m.zeros:>8.3f}{cost:>10}{note}",
                flush=True,
            )
    print("\nThe paper's bound over delta^2 and samples at tau = 0.99, each at its best theta")
    print(
        f"{'setting':34}{'printed':>10}{'sharpened':>11}{'greatest':>10}"
        f"{'samples, in the same order':>36}"
    )
    for setting, delta in zip(SETTINGS, deltas, strict=True):
        nus = papers_bounds(setting, delta)
        needed = "".join(f"{samples_needed(nu, delta):>12.2g}" for nu in nus.values())
        name = ", ".join(f"{x:g}" for x in setting)
        print(
            f"{name:34}{nus['printed']:>10.2g}{nus['sharpened']:>11.2g}{nus['greatest']:>10.2g}{needed}",
            flush=True,
        )


if __name__ == "__main__":
    main(float(sys.argv[1]) if len(sys.argv) > 1 else 10.0)
