"""The Monte Carlo accountant of the paper (Section 5), online: epsilon after every step, from
samples that grow with the run.

Streams of purpose ``"online"`` are never those of a verification.
"""

from __future__ import annotations

import bisect
import itertools
import math
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from evr import validate
from evr.estimation.api import directions_of
from evr.estimation.monte_carlo import (
    WeightedSamples,
    effort,
    moments_bound,
    pilot_epsilon,
)
from evr.estimation.online import OnlineEpsilon, checked_reports
from evr.estimation.timeline import timeline
from evr.laws import Direction, DominatingPair, Floats, Pairs, Step, greatest_loss, line_pair
from evr.mechanisms import Composition
from evr.mechanisms.relations import Relation
from evr.planning import capped_plan
from evr.randomness import Stream, entropy_of
from evr.sampling import SimpleProposal, TiltedProposal, built
from evr.sampling.plan import ProposalPlan, SimplePlan
from evr.validate import worker_count

_MOST_DRAWS = 10**12
_CELLS = 1  # of bounds, which nobody asks for
_PART = 1 << 16  # samples that one thread draws at a time
_WIDEST = 300.0  # of a band of losses: e to twice as much is a float


@dataclass
class RunningSamples:
    """Weighted samples that grow by a step at a time: what the paper calls online accounting.

    What is drawn after ``steps`` steps has a part of the stream to itself, so a run that is saved
    and continued is the run that was not interrupted; so has each part of the samples, so the
    number of threads changes nothing.
    """

    stream: Stream
    losses: Floats
    log_weights: Floats
    steps: int = 0
    guess: float | None = None  # the epsilon before
    log_finite: float = 0.0  # log of the chance that no loss so far is infinite
    log_apart: float = (
        0.0  # the same of those steps in which infinite losses were kept apart from the samples
    )
    source: ProposalPlan | None = None
    samplers: dict[DominatingPair, tuple[Any, float]] = field(default_factory=dict)

    @classmethod
    def start(cls, stream: Stream, samples: int) -> RunningSamples:
        return cls(stream, np.zeros(samples), np.zeros(samples))

    def take(self, plan: ProposalPlan, steps: tuple[Step, ...]) -> None:
        """Take the samplers of a plan, of single steps, for the steps to come."""
        source = built(plan, steps)
        assert isinstance(source, TiltedProposal | SimpleProposal)
        self.source = plan
        self.samplers = {
            step.pair: (sampler, log_m)
            for step, sampler, log_m in zip(
                steps, source.samplers, source.log_normalisers, strict=True
            )
        }

    def advance(
        self, pair: DominatingPair | None, count: int = 1, pool: Executor | None = None
    ) -> None:
        """So many more steps of one kind."""
        if pair is not None:
            sampler, log_m = self.samplers[pair]
            ends = (
                np.linspace(0, self.losses.size, -(-self.losses.size // _PART) + 1)
                .astype(int)
                .tolist()
            )
            parts = len(ends) - 1

            def grow(part: int) -> None:
                samples = slice(ends[part], ends[part + 1])
                generator = self.stream.block(self.steps * parts + part)
                sums = sampler.draw(generator, samples.stop - samples.start, count)
                self.losses[samples] += sums.losses
                self.log_weights[samples] += count * log_m - sums.heights

            list((pool.map if pool is not None and parts > 1 else map)(grow, range(parts)))
            log_finite = count * math.log1p(-pair.infinite_loss_mass)
            self.log_finite += log_finite
            apart = self.source is not None and self.source.name == "capped"
            self.log_apart += log_finite if apart else 0.0
        self.steps += count

    def epsilon(self, delta: float) -> tuple[float, float]:
        """Epsilon and its standard error now; near the one before, one pass over the samples beyond
        it is enough.
        """
        if -math.expm1(self.log_finite) >= delta:
            return math.inf, 0.0
        infinite, guess = -math.expm1(self.log_apart), self.guess or 0.0
        finite = delta - infinite
        found = self._near(finite, guess, 0.01) or self._near(finite, guess, 0.2) if guess else None
        found = found or WeightedSamples.of(self.losses, self.log_weights, infinite).epsilon(delta)
        self.guess = found[0]
        return found

    def _near(self, delta: float, guess: float, width: float = 0.01) -> tuple[float, float] | None:
        """The root so near to the guess, if it is there: samples beyond count whole, those in the
        band one by one. What falls like ``e^-loss`` is in units of ``e^-low``, whatever epsilon is.
        """
        width = min(width, _WIDEST / guess)
        low, high, size = (1.0 - width) * guess, (1.0 + width) * guess, self.losses.size
        kept = np.flatnonzero(self.losses > low)
        losses = self.losses[kept]
        weights = np.exp(np.minimum(self.log_weights[kept], 700.0))
        duals = weights * np.exp(low - losses)
        band = np.flatnonzero(losses <= high)
        band = band[np.argsort(losses[band])[::-1]]
        # Sums over losses > epsilon, for epsilon just below each sample of the band, from the
        # greatest down. What is beyond is summed by itself: of a sum of all, little of it is left.
        beyond = losses > high
        masses, others = (
            float(part[beyond].sum()) + np.concatenate(([0.0], np.cumsum(part[band])))
            for part in (weights, duals)
        )
        ends = np.concatenate(
            (losses[band], [low])
        )  # masses[i], others[i] hold for epsilon in [ends[i], the end before)
        at_ends = (
            masses - np.exp(ends - low) * others
        )  # size * delta(epsilon) at the lower end of each piece: rising in i
        first = int(np.searchsorted(at_ends, size * delta))
        if first == ends.size or masses[first] <= size * delta or others[first] <= 0:
            return None
        epsilon = low + math.log((masses[first] - size * delta) / others[first])
        if not low < epsilon <= high:
            return None
        above = losses > epsilon
        scale = math.exp(epsilon - low)
        values = weights[above] - scale * duals[above]
        spread = math.sqrt(max(float((values * values).sum()) / size - delta**2, 0.0) / size)
        return epsilon, spread * size / (scale * float(others[first]))


def online_plan(proposal: str, steps: tuple[Step, ...], epsilon: float) -> ProposalPlan:
    """What to draw steps from, one at a time."""
    if proposal == "simple" or greatest_loss(steps) <= epsilon:
        return SimplePlan(_CELLS)
    return capped_plan(steps, epsilon)


def monte_carlo_online(
    event: Any,
    delta: float,
    *,
    every: int = 1,
    direction: str | None = None,
    neighboring_relation: Relation | None = None,
    samples: int | None = None,
    proposal: str = "capped",
    seed: int | None = None,
    workers: int | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> OnlineEpsilon:
    """Epsilon and its standard error after every step, from samples that grow with the run.

    A tilt made for the whole run serves its last three quarters; earlier steps have runs of their
    own, a quarter as long each.
    """
    start = time.perf_counter()
    validate.one_of(("capped", "simple"), proposal=proposal)
    size, _ = effort(samples, None)
    entropy = entropy_of(seed)
    composition = Composition.of(event, neighboring_relation)
    runs = timeline(event, composition.relation)
    total = checked_reports(runs, every)
    if total * size > _MOST_DRAWS:
        raise ValueError(
            f"{total} steps of {size} samples are more than {_MOST_DRAWS:.0e} draws: take fewer "
            "samples, or method='fft', to which the number of steps does not matter"
        )
    order = _Order(runs)
    reported = np.array(sorted({*range(every, total + 1, every), total}), dtype=np.int64)
    epsilons, errors = np.zeros(reported.size), np.zeros(reported.size)
    directions = directions_of(composition, direction)
    with ThreadPoolExecutor(worker_count(workers), thread_name_prefix="evr") as pool:
        for number, one in enumerate(directions):
            if number and not _may_exceed(order, one, delta, reported, epsilons):
                continue
            stages = _stages(order, one, delta, reported, size, entropy, proposal, pool)
            for done, (index, value, error) in enumerate(stages, start=1):
                if value > epsilons[index]:
                    epsilons[index], errors[index] = value, error
                if progress is not None:
                    progress(
                        total
                        * (number * reported.size + done)
                        // (len(directions) * reported.size),
                        total,
                    )
    if progress is not None:
        progress(total, total)
    return OnlineEpsilon(
        reported, epsilons, delta, "monte_carlo", time.perf_counter() - start, errors
    )


class _Order:
    """The mechanisms in the order in which they run."""

    def __init__(self, runs: list[tuple[Pairs | None, int]]) -> None:
        self.runs = runs
        self._ends = list(itertools.accumulate(count for _, count in runs))

    def counts(self, direction: Direction, begin: int, stop: int) -> dict[DominatingPair, int]:
        """How often each pair occurs among the steps from ``begin`` to ``stop``."""
        counts: dict[DominatingPair, int] = {}
        first = bisect.bisect_right(self._ends, begin)
        for (pairs, count), end in zip(self.runs[first:], self._ends[first:], strict=True):
            if end - count >= stop:
                break
            if pairs is not None:
                pair = line_pair(pairs.of(direction))
                counts[pair] = counts.get(pair, 0) + min(end, stop) - max(end - count, begin)
        return counts

    def last_finite(self, direction: Direction, delta: float) -> int:
        """After how many steps infinite losses alone have nearly the probability delta: there
        epsilon ends.
        """
        done, log_finite = 0, 0.0
        for pairs, count in self.runs:
            mass = 0.0 if pairs is None else pairs.of(direction).infinite_loss_mass
            each = math.log1p(-min(mass, 1.0 - 1e-16))
            if -math.expm1(log_finite + count * each) >= delta:
                least = max(0, math.floor((math.log1p(-delta) - log_finite) / each) - 1)
                while least < count and -math.expm1(log_finite + (least + 1) * each) < delta:
                    least += 1
                return done + least
            done, log_finite = done + count, log_finite + count * each
        return done


def _may_exceed(
    order: _Order, direction: Direction, delta: float, reported: Any, epsilons: Floats
) -> bool:
    """Whether the moments bound leaves open that this direction's epsilon is greater somewhere."""
    counts: dict[DominatingPair, int] = {}
    done = 0
    for number, epsilon in zip(reported.tolist(), epsilons.tolist(), strict=True):
        for pair, count in order.counts(direction, done, number).items():
            counts[pair] = counts.get(pair, 0) + count
        done = number
        if moments_bound(tuple(Step(p, n) for p, n in counts.items()), epsilon) > delta:
            return True
    return False


def _stages(
    order: _Order,
    direction: Direction,
    delta: float,
    reported: Any,
    size: int,
    entropy: int,
    proposal: str,
    pool: Executor,
) -> Iterator[tuple[int, float, float]]:
    """Results of one direction, from the longest stage to the shortest: place, epsilon, standard
    error.
    """
    places = {int(number): place for place, number in enumerate(reported.tolist())}
    stop, stage, centre = order.last_finite(direction, delta), 0, 0.0
    yield from ((place, math.inf, 0.0) for number, place in places.items() if number > stop)
    while stop > 0:
        begin = stop // 4
        steps = tuple(Step(pair, count) for pair, count in order.counts(direction, 0, stop).items())
        if steps and greatest_loss(steps) > 0:
            run = RunningSamples.start(Stream(entropy, f"online {stage}", 1, direction.value), size)
            centre = centre or pilot_epsilon(steps, delta, direction, entropy, proposal)
            run.take(online_plan(proposal, steps, centre), steps)
            wanted = [number for number in places if begin < number <= stop]
            done = 0
            for number in sorted({begin, *wanted}):  # whatever is not reported is drawn at once
                for pair, count in order.counts(direction, done, number).items():
                    run.advance(pair, count, pool)
                done = number
                epsilon, error = run.epsilon(delta) if number else (0.0, 0.0)
                if number == begin:
                    centre = epsilon  # where the next stage, which ends here, has its tilt centred
                else:
                    yield places[number], epsilon, error
        stop, stage = begin, stage + 1
