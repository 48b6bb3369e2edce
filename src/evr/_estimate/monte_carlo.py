"""Estimates by weighted samples: the Monte Carlo accountant of the paper (Section 5), offline, and the privacy curve of
laws in many dimensions. The tilt is fixed before the search over epsilon. No verification uses the same streams.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

from evr._basics import validate
from evr._basics.randomness import Stream, entropy_of
from evr._estimate.capped import capped_proposal
from evr._estimate.clipping import block_size
from evr._estimate.fft import by_failures
from evr._estimate.inversion import solve_epsilon
from evr._estimate.mixtures import mixture_proposal
from evr._estimate.rdp import rdp_curve_delta
from evr._estimate.results import Estimate
from evr._estimate.tilting import is_certain, likely_epsilon
from evr._kernel.events import Composition
from evr._kernel.pairs import Direction, Floats, Step, greatest_loss, infinite_mass, on_a_line
from evr._kernel.pairs.patterns.law import PatternLaw
from evr._kernel.sampled.proposals import Block, Proposal
from evr._kernel.sampled.simple import SimpleProposal

DEFAULT_SAMPLES = 100_000
MOST_SAMPLES = 20_000_000
_LEAST_ERROR = 1e-5
_FIRST = DEFAULT_SAMPLES // 8  # samples that show how many an error takes
_NORMAL_95 = 1.959963984540054
RELATIVE = 3e-3  # the standard error of a sampled curve, relative to delta, at which drawing stops
_SERVES = 2.0  # times that, at an epsilon that samples were not drawn for
_MOST = 2_000_000  # samples of such a curve
_FAR = 8.0  # standard errors below half of the other direction: no need to know better


def proposal_for(name: str, steps: tuple[Step, ...], epsilon: float) -> Proposal:
    """The proposal of that name; the default raises delta by some 1e-4 of itself (docs/guarantees.md, Section 3.9)."""
    if not on_a_line(steps):
        validate.one_of(("capped",), proposal=name)
        return mixture_proposal(steps, epsilon)
    validate.one_of(("capped", "simple"), proposal=name)
    return SimpleProposal(steps) if name == "simple" else capped_proposal(steps, epsilon)


@dataclass(kw_only=True)
class Effort:
    """The options of ``method="monte_carlo"``: when to stop, what to draw from, the seed, the number of threads."""

    samples: int | None = None
    relative_error: float | None = None
    proposal: str = "capped"
    seed: int | None = None
    workers: int | None = None
    most: int = field(default=MOST_SAMPLES, init=False)
    kept: dict[Direction, list[WeightedSamples]] | None = field(default=None, init=False)  # to serve other epsilons

    def __post_init__(self) -> None:
        samples, relative = self.samples, self.relative_error
        if samples is not None and relative is not None:
            raise ValueError(f"samples={samples!r} and relative_error={relative!r}: give one of them")
        if samples is not None and not 2 <= validate.positive_integer(samples=samples) <= MOST_SAMPLES:
            raise ValueError(f"samples={samples!r} is not from 2 to {MOST_SAMPLES:,}")
        if relative is not None and validate.positive(relative_error=relative) < _LEAST_ERROR:
            raise ValueError(
                f"relative_error={relative!r} is below {_LEAST_ERROR:g}: {MOST_SAMPLES:,} samples, the most that are "
                "drawn, hardly reach it; allow more error, or take a method without samples ('fft', 'strict')"
            )
        self.entropy = entropy_of(self.seed)

    def measured(self, source: Proposal, direction: Direction, measure: Measured, worth: float = 0.0) -> Estimate:
        stream = Stream(self.entropy, "estimate", 1, direction.value)
        least = self.samples or (DEFAULT_SAMPLES if self.relative_error is None else _FIRST)
        samples = drawn_until(source, stream, measure, least, self.relative_error, worth, self.workers, self.most)
        if self.kept is not None:
            self.kept.setdefault(direction, []).append(samples)
        return _estimated(*measure(samples), direction, samples.size)

    def served(self, direction: Direction, epsilon: float) -> Estimate | None:
        """Delta by samples that were drawn for an epsilon nearby."""
        for samples in (self.kept or {}).get(direction, []):
            value, error = samples.delta(epsilon)
            if 0 < error <= _SERVES * RELATIVE * value:
                return _estimated(value, error, direction, samples.size)
        return None


def monte_carlo_delta(
    composition: Composition, epsilon: float, direction: str | None = None, **options: Any
) -> Estimate:
    """Delta at epsilon by weighted samples; by their number, or until the standard error is small enough."""
    return _greatest_delta(composition, direction, Effort(**options), epsilon)


def sampled_deltas(composition: Composition, direction: str | None) -> Callable[[float], Estimate]:
    """From an epsilon to delta, for laws in many dimensions, by a fixed seed. Samples serve epsilons near their own."""
    effort = Effort(relative_error=RELATIVE, seed=0)
    effort.most, effort.kept = _MOST, {}
    return partial(_greatest_delta, composition, direction, effort)


def _greatest_delta(composition: Composition, direction: str | None, effort: Effort, epsilon: float) -> Estimate:
    best: Estimate | None = None
    for one in composition.directions(direction):
        steps = composition.simplified(one)
        if (
            not steps
            or math.isinf(epsilon)
            or greatest_loss(steps) <= epsilon
            or infinite_mass(steps) >= 1
            # below the least float: no sample would tell it from 0
            or (on_a_line(steps) and rdp_curve_delta(steps, epsilon) == 0.0)
        ):
            found = _known(infinite_mass(steps), one)
        elif on_a_line(steps) and is_certain(steps, epsilon):
            found = _known(1.0, one)
        elif (served := effort.served(one, epsilon)) is not None:
            found = served
        else:
            source = proposal_for(effort.proposal, steps, epsilon)
            if best is not None and math.exp(source.log_greatest(epsilon)) <= best.value:
                continue  # a proved bound on this direction is below the other's estimate
            found = effort.measured(source, one, lambda w: w.delta(epsilon), 0.0 if best is None else best.value)
        if best is None or found.value > best.value:
            best = found
    assert best is not None
    return best


def monte_carlo_epsilon(
    composition: Composition, delta: float, direction: str | None = None, **options: Any
) -> Estimate:
    """Epsilon at delta by a search on one set of weighted samples, tilted for an epsilon from a pilot run."""
    effort = Effort(**options)
    best = _known(0.0, Direction.REMOVE)
    for one in composition.directions(direction):
        steps = composition.simplified(one)
        if delta == 1 or not steps or (greatest_loss(steps) <= 0 and infinite_mass(steps) <= delta):
            continue
        if (known := by_failures(steps, delta)) is not None:
            found = _known(known, one)
        elif best.value > 0 and _bound(steps, best.value) <= delta:
            continue  # a proved bound on this direction is below the other's estimate
        else:
            centre = pilot_epsilon(steps, delta, one, effort.entropy, effort.proposal)
            source = proposal_for(effort.proposal, steps, centre)
            found = effort.measured(source, one, lambda w: w.epsilon(delta))
        if found.value > best.value:
            best = found
    return best


def pilot_epsilon(steps: tuple[Step, ...], delta: float, direction: Direction, entropy: int, proposal: str) -> float:
    """About the epsilon of a delta, to centre a tilt at: from a guess on, by small runs."""
    epsilon = _first_guess(steps, delta)
    for turn in range(10):
        source = proposal_for(proposal, steps, epsilon)
        stream = Stream(entropy, f"pilot {turn}", 1, direction.value)
        found = drawn_until(source, stream, None, 4096, workers=1).epsilon(delta)[0]
        if abs(found - epsilon) <= 0.1 * epsilon:
            return found
        epsilon = found if found > 0 else 0.6 * epsilon  # no delta at all: the tilt is too high
    return max(epsilon, 1e-6)


@dataclass(frozen=True)
class WeightedSamples:
    """Losses and weights; only those that may exceed some epsilon matter, the rest count in ``size``."""

    losses: Floats
    weights: Floats
    size: int
    infinite: float = 0.0  # the chance of an infinite loss, where such losses are not among the samples

    @classmethod
    def of(cls, losses: Floats, log_weights: Floats, infinite: float = 0.0) -> WeightedSamples:
        kept = losses > 0
        return cls(losses[kept], np.exp(np.minimum(log_weights[kept], 700.0)), losses.size, infinite)

    def delta(self, epsilon: float) -> tuple[float, float]:
        """The estimate and its standard error."""
        above = self.losses > epsilon
        values = self.weights[above] * -np.expm1(epsilon - self.losses[above])
        mean = float(values.sum()) / self.size
        return mean + self.infinite, math.sqrt(max(float((values**2).sum()) / self.size - mean**2, 0.0) / self.size)

    def epsilon(self, delta: float, guess: float | None = None) -> tuple[float, float]:
        """The root of ``delta(epsilon) = delta`` and its standard error; ``guess`` is where to look first."""
        if self.delta(0.0)[0] <= delta:
            return 0.0, 0.0
        greatest = float(np.max(self.losses[np.isfinite(self.losses)], initial=0.0))
        start, spread = (0.5 * greatest, 0.5) if guess is None else (guess, 0.01)
        root = solve_epsilon(lambda at: self.delta(at)[0], delta, guess=start, greatest=greatest, spread=spread)
        root = min(root, greatest)
        above = self.losses > root
        slope = float((self.weights[above] * np.exp(root - self.losses[above])).sum()) / self.size
        return root, self.delta(root)[1] / slope if slope > 0 else math.inf


Measured = Callable[[WeightedSamples], tuple[float, float]]
"""From samples to a value and its standard error."""


def drawn_until(
    source: Proposal,
    stream: Stream,
    measure: Measured | None,
    samples: int,
    relative: float | None = None,
    worth: float = 0.0,
    workers: int | None = None,
    most: int = MOST_SAMPLES,
) -> WeightedSamples:
    """At least so many samples; more while the relative error is greater and the value not far below ``worth``."""
    size = min(block_size(source), samples)
    losses, log_weights = list[Floats](), list[Floats]()
    for block in blocks(source, stream, size, workers):
        losses.append(block.losses)
        log_weights.append(block.log_weights)
        if size * len(losses) < samples:
            continue
        found = WeightedSamples.of(np.concatenate(losses), np.concatenate(log_weights), source.infinite)
        if measure is None or relative is None or found.size >= most:
            break
        value, error = measure(found)
        if 0 < error <= relative * value or value + _FAR * error < worth / 2:
            break
        wanted = 1.1 * found.size * (error / max(relative * value, 1e-300)) ** 2
        samples = int(min(max(wanted, 2 * found.size), most))
    return found


def blocks(proposal: Proposal, stream: Stream, size: int, workers: int | None = None) -> Iterator[Block]:
    """Blocks of samples without end. Each has its own part of the stream: threads do not change the samples."""
    threads = validate.worker_count(workers)
    with ThreadPoolExecutor(threads, thread_name_prefix="evr") as pool:
        for first in itertools.count(step=threads):
            yield from pool.map(lambda n: proposal.draw(stream.block(n), size), range(first, first + threads))


def _bound(steps: tuple[Step, ...], epsilon: float) -> float:
    """A proved bound on delta."""
    if on_a_line(steps):
        return rdp_curve_delta(steps, epsilon)
    return math.exp(mixture_proposal(steps, epsilon).log_greatest(epsilon))


def _known(value: float, direction: Direction) -> Estimate:
    """A value that needs no sample."""
    return Estimate(value, "monte_carlo", direction.value, None, 0.0, (value, value))


def _estimated(value: float, error: float, direction: Direction, samples: int) -> Estimate:
    interval = (max(0.0, value - _NORMAL_95 * error), value + _NORMAL_95 * error)
    return Estimate(value, "monte_carlo", direction.value, None, error, interval, samples)


def _first_guess(steps: tuple[Step, ...], delta: float) -> float:
    """About an epsilon, as if sums on a line were normal and the worst pattern of mixtures were known."""
    lines = tuple(step for step in steps if step.is_on_a_line)
    patterns = [(step.floats, step.count) for step in steps if isinstance(step.floats, PatternLaw)]
    energy = math.fsum(count * law.greatest_energy for law, count in patterns)
    known = energy / 2 + math.sqrt(2 * energy * -math.log(min(delta, 0.5)))
    likely = likely_epsilon(lines, delta) if lines else 0.0
    return max(1e-6, known + min(likely, 0.999 * greatest_loss(lines)))
