"""Schemes in many dimensions: how good samples are, and what a proof costs.

    python benchmarks/highdim.py            # everything, half an hour or so on one core
    python benchmarks/highdim.py --quick    # tau 0.99 for some settings only
    python benchmarks/highdim.py --jax PATH # beside JAX Privacy's sampling, by that interpreter

One row for each setting: delta (deterministic where there is such an estimate, else by samples of
a stream of their own, to 0.2%, and then a standard error is added to the claim), ``E[X^2]/delta^2``
and ``B/delta`` in the direction that is greater, samples and processor seconds of a verification in
both directions, searching included, at tau 0.9 and 0.99. Plain sampling is extrapolated: ``2
log(1/beta) / (delta gap^2)`` samples at tau 0.9 at the measured seconds of one. JAX Privacy's own
sampling likewise, where an interpreter that has it is given: seconds of one privacy loss, measured,
times as many.
"""

from __future__ import annotations

import argparse
import math
import os
import subprocess
import time
from typing import NamedTuple

for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_name, "1")

import numpy as np  # noqa: E402
from dp_accounting import dp_event  # noqa: E402

import evr  # noqa: E402
from evr._basics.randomness import Stream  # noqa: E402
from evr._estimate.clipping import block_size  # noqa: E402
from evr._estimate.mixtures import plain_plan  # noqa: E402
from evr._kernel.events import Composition  # noqa: E402
from evr._kernel.pairs import Direction  # noqa: E402
from evr._kernel.sampled.proposals import built  # noqa: E402

E = evr.events
LOG_BUDGET = 23.0


def root_column(bands: int) -> tuple[float, ...]:
    """The column of the square root of prefix sums, cut and of norm 1."""
    column = [1.0]
    for j in range(1, bands):
        column.append(column[-1] * (2 * j - 1) / (2 * j))
    return tuple((np.array(column) / np.linalg.norm(column)).tolist())


class Case(NamedTuple):
    """A setting; ``tight`` ones are verified at tau 0.99 in a quick run too, ``strict`` ones, which
    have a proof in exact arithmetic in a second, not at all.
    """

    name: str
    event: dp_event.DpEvent
    epsilon: float
    tight: bool = False
    strict: bool = False

    @property
    def is_independent(self) -> bool:
        """Whether noise is not correlated: then estimates are deterministic."""
        return isinstance(self.event, E.RedrawnBinsDpEvent) or self.event.strategy == (1.0,)


def bins(epsilon: float, b: int, epochs: int, noise: float, bands: int = 1, **more: bool) -> Case:
    column = root_column(bands)
    name = f"bins {epsilon:g}, b={b}, E={epochs}, s={noise:g}, w={bands}"
    return Case(name, E.BallsInBinsDpEvent(noise, b * epochs, b, column), epsilon, **more)


def redrawn(epsilon: float, b: int, epochs: int, noise: float, **more: bool) -> Case:
    name = f"redrawn {epsilon:g}, b={b}, E={epochs}, s={noise:g}"
    return Case(name, E.RedrawnBinsDpEvent(noise, b, epochs), epsilon, **more)


def min_sep(epsilon: float, n: int, b: int, p: float, bands: int, noise: float, **more: bool) -> Case:
    name = f"min-sep {epsilon:g}, n={n}, b={b}, p={p:g}, w={bands}, s={noise:g}"
    event = E.BMinSepDpEvent(noise, n, b, p, True, root_column(bands))
    return Case(name, event, epsilon, **more)


CASES = [
    bins(1, 100, 10, 4, tight=True),
    bins(1, 100, 10, 3, tight=True),
    bins(1, 100, 1, 1, tight=True),
    bins(0.5, 1000, 1, 0.8, strict=True),
    bins(1, 1000, 10, 2, strict=True),
    bins(2, 10, 10, 3, tight=True),
    redrawn(1, 20, 10, 3, tight=True),
    redrawn(2, 100, 10, 1),
    redrawn(1, 100, 10, 1.5),
    bins(1, 100, 10, 3, 2),
    bins(1, 100, 10, 3, 4),
    bins(1, 100, 10, 4, 8),
    bins(1, 100, 10, 6, 64),
    bins(4, 100, 10, 2, 8, tight=True),
    bins(2, 500, 10, 2, 8),
    min_sep(4, 200, 8, 0.1, 8, 2.4, tight=True),
    min_sep(1, 200, 8, 0.05, 8, 5),
    min_sep(8, 500, 16, 0.2, 16, 2.2),
]


def judged(case: Case, delta: evr.Estimate, report: evr._kernel.verdict.results.DirectionReport) -> str:
    """``E[X^2]/delta^2`` on samples of their own, and ``B/delta``."""
    direction = Direction(delta.direction)
    steps = Composition.of(case.event).simplified(direction)
    assert report.plan is not None
    proposal = built(report.plan.proposal, steps)
    size = block_size(proposal)
    blocks = range(max(1, 40_000 // size))
    stream = Stream(77, "benchmark")
    values = np.concatenate([proposal.draw(stream.block(i), size).values(case.epsilon) for i in blocks])
    clip = math.inf if report.clip is None else report.clip
    values = np.minimum(values, clip)
    bound = min(math.exp(proposal.log_greatest(case.epsilon)), clip)
    return f"{float((values**2).mean()) / delta.value**2:.1f} | {bound / delta.value:.0f}"


def plain_seconds(case: Case) -> float:
    """Of one sample from the laws themselves."""
    steps = Composition.of(case.event).simplified(Direction.REMOVE)
    proposal = built(plain_plan(steps), steps)
    size = block_size(proposal)
    proposal.draw(Stream(78, "benchmark").block(0), size)
    start = time.process_time()
    proposal.draw(Stream(78, "benchmark").block(1), size)
    return (time.process_time() - start) / size


JAX = """
import sys, time
import numpy as np
from jax_privacy import batch_selection
from jax_privacy.experimental.monte_carlo import sample_generation
kind, noise, column, fields = eval(sys.argv[1])
strategy = getattr(batch_selection, kind)(**fields)
draw = lambda n: sample_generation.get_privacy_loss_sample(
    strategy, noise, np.array(column), seed=1, num_samples=n)
many = 400_000 // fields["iterations"]
draw(many)
start = time.process_time(); draw(many); print((time.process_time() - start) / many)
"""


def jax_seconds(case: Case, python: str | None) -> float:
    """Of one privacy loss by JAX Privacy; not a number where it has no such scheme."""
    event = case.event
    if isinstance(event, E.BallsInBinsDpEvent):
        fields = {"iterations": event.iterations, "cycle_length": event.cycle_length}
        asked = ("BallsInBinsSampling", event.noise_multiplier, event.strategy, fields)
    elif isinstance(event, E.BMinSepDpEvent):
        fields = {"sampling_prob": event.sampling_probability, "iterations": event.iterations, "min_sep": event.min_sep}
        asked = ("BMinSepSampling", event.noise_multiplier, event.strategy, fields)
    else:
        return math.nan
    if python is None:
        return math.nan
    done = subprocess.run([python, "-c", JAX, repr(asked)], capture_output=True, text=True, check=False)
    return float(done.stdout) if done.returncode == 0 else math.nan


def row(case: Case, *, quick: bool, python: str | None) -> str:
    """The line of one setting."""
    start = time.process_time()
    if case.is_independent:
        delta = evr.estimate_delta(case.event, case.epsilon)
    else:  # remove is the greater in all settings; add would take as long for a tiny number
        delta = evr.estimate_delta(
            case.event, case.epsilon, direction="remove", method="monte_carlo", relative_error=2e-3
        )
    estimating = time.process_time() - start
    assert isinstance(delta, evr.Estimate)
    cells, merits = [], "- | -"
    for tau in (0.9, 0.99):
        if tau == 0.99 and (case.strict or (quick and not case.tight)):
            cells.append("")
            continue
        start = time.process_time()
        claim = delta.value + (delta.standard_error or 0.0)
        # without a seed, independent noise is proved in exact arithmetic
        drawn = {} if case.is_independent else {"seed": 1, "workers": 1}
        found = evr.verify(case.event, epsilon=case.epsilon, delta=claim / tau, tau=tau, **drawn)
        seconds = time.process_time() - start
        cells.append(f"{found.verdict.value}, {found.samples:.2g}, {seconds:.1f} s")
        report = found.directions[delta.direction]
        if report.samples and tau == 0.9:
            merits = judged(case, delta, report)
    gap = 1 / 0.9 - 1
    plain = 2 * LOG_BUDGET / (delta.value * gap**2)
    hours = plain * plain_seconds(case) / 3600
    theirs = plain * jax_seconds(case, python) / 3600
    error = "" if delta.standard_error is None else f" ± {delta.standard_error:.1g}"
    return (
        f"| {case.name} | {delta.value:.4g}{error} | {estimating:.1f} | {merits} | {cells[0]} | "
        f"{cells[1]} | {plain:.1g}, {hours:.2g} h | {theirs:.2g} h |"
    )


def strict_row(case: Case, direction: str) -> str:
    tolerance = 5e-3 if isinstance(case.event, E.RedrawnBinsDpEvent) else 1e-3
    truth = evr.estimate_delta(case.event, case.epsilon, direction=direction).value
    start = time.process_time()
    bound = evr.estimate_delta(
        case.event, case.epsilon, direction=direction, method="strict", tolerance=tolerance
    ).value
    seconds = time.process_time() - start
    return f"| {case.name} | {direction} | {truth:.6g} | {bound / truth - 1:.1e} | {seconds:.1f} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--jax", metavar="PATH", default=None)
    parser.add_argument("--only", default="", help="settings whose name holds this")
    given = parser.parse_args()
    cases = [case for case in CASES if given.only in case.name]
    print(
        "| setting | delta | estimating, s | E[X^2]/delta^2 | B/delta | tau 0.9: verdict, samples, "
        "processor time | tau 0.99 | plain sampling at tau 0.9 | JAX Privacy, plain |"
    )
    print("|" + "---|" * 9)
    for case in cases:
        print(row(case, quick=given.quick, python=given.jax), flush=True)
    print("\n| strict proof of | direction | truth | bound / truth - 1 | processor seconds |")
    print("|---|---|---|---|---|")
    for case in cases:
        for direction in ("remove", "add") if case.is_independent else ():
            print(strict_row(case, direction), flush=True)


if __name__ == "__main__":
    main()
