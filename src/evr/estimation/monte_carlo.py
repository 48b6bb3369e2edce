"""The Monte Carlo accountant of the paper (Section 5), offline.

Samples carry weights, and the tilt is fixed before the search over epsilon. Streams of purpose
``"estimate"`` are never those of a verification.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from evr import validate
from evr.bounds.moments import log_peak
from evr.estimation.api import directions_of
from evr.estimation.blocks import blocks
from evr.estimation.discretise import log_mgf
from evr.estimation.results import Estimate
from evr.estimation.tilting import is_certain
from evr.laws import (
    Direction,
    DominatingPair,
    Floats,
    Step,
    finite_part,
    greatest_loss,
    infinite_mass,
    on_a_line,
)
from evr.laws.mixture.law import MixtureLaw
from evr.mechanisms import Composition
from evr.planning import capped_proposal, single_proposal
from evr.planning.mixtures import estimating_proposal
from evr.randomness import Stream, entropy_of
from evr.sampling import Block, Proposal, SimpleProposal

DEFAULT_SAMPLES = 100_000
MOST_SAMPLES = 100_000_000
_LEAST_SAMPLES = 2
_LEAST_ERROR = 1e-5
_FEW = 16_384  # samples that show whether a direction is far below the other
_NORMAL_95 = 1.959963984540054
_ORDERS = tuple(2.0**n for n in range(11))


def proposal_for(name: str, direction: str, steps: tuple[Step, ...], epsilon: float) -> Proposal:
    """The proposal of that name. The paper's single-coordinate tilt covers the remove direction,
    add takes the default; which draws steps as outcomes, and raises delta by some 1e-4 of itself
    (docs/guarantees.md, Section 3.9).
    """
    if not on_a_line(steps):
        validate.one_of(("capped",), proposal=name)
        return estimating_proposal(steps, epsilon)
    validate.one_of(("capped", "single", "simple"), proposal=name)
    if name == "simple":
        return SimpleProposal(steps)
    if name == "single" and direction == "remove":
        return single_proposal(steps, epsilon, theta="heuristic")
    return capped_proposal(steps, epsilon)


# --- offline --------------------------------------------------------------------------------------


def monte_carlo_delta(
    composition: Composition,
    epsilon: float,
    direction: str | None = None,
    *,
    samples: int | None = None,
    relative_error: float | None = None,
    proposal: str = "capped",
    seed: int | None = None,
    workers: int | None = None,
) -> Estimate:
    """Delta at epsilon by weighted samples; by their number, or until the standard error is small
    enough.
    """
    start = time.perf_counter()
    samples, relative_error = effort(samples, relative_error)
    entropy = entropy_of(seed)
    best: Estimate | None = None
    for one in directions_of(composition, direction):
        steps = composition.simplified(one)
        if (
            not steps
            or math.isinf(epsilon)
            or greatest_loss(steps) <= epsilon
            or infinite_mass(steps) >= 1
            # below the least float: no sample would tell it from 0
            or (on_a_line(steps) and moments_bound(steps, epsilon) == 0.0)
        ):
            found = Estimate(infinite_mass(steps), "monte_carlo", one.value, standard_error=0.0)
        elif on_a_line(steps) and is_certain(steps, epsilon):
            found = Estimate(1.0, "monte_carlo", one.value, standard_error=0.0)
        else:
            source = proposal_for(proposal, one.value, steps, epsilon)
            if best is not None and source.greatest(epsilon) <= best.value:
                continue  # a proved bound on this direction is below the other's estimate
            stream = Stream(entropy, "estimate", 1, one.value)
            worth = 0.0 if best is None else best.value
            found = _mean(
                source, stream, epsilon, samples, relative_error, workers, one.value, worth
            )
        if best is None or found.value > best.value:
            best = found
    assert best is not None
    return _timed(best, start)


def monte_carlo_epsilon(
    composition: Composition,
    delta: float,
    direction: str | None = None,
    *,
    samples: int | None = None,
    relative_error: float | None = None,
    proposal: str = "capped",
    seed: int | None = None,
    workers: int | None = None,
) -> Estimate:
    """Epsilon at delta by a search on one set of weighted samples, tilted for an epsilon from a
    pilot run.
    """
    start = time.perf_counter()
    samples, relative_error = effort(samples, relative_error)
    entropy = entropy_of(seed)
    best = Estimate(0.0, "monte_carlo", "remove", standard_error=0.0)
    for one in directions_of(composition, direction):
        steps = composition.simplified(one)
        if delta == 1 or not steps or (greatest_loss(steps) <= 0 and infinite_mass(steps) <= delta):
            continue
        if infinite_mass(steps) > delta:
            return _timed(Estimate(math.inf, "monte_carlo", one.value, standard_error=0.0), start)
        if delta == infinite_mass(steps):
            found = Estimate(
                max(0.0, greatest_loss(steps)), "monte_carlo", one.value, standard_error=0.0
            )
        elif best.value > 0 and proved_bound(steps, best.value) <= delta:
            continue
        else:
            centre = pilot_epsilon(steps, delta, one, entropy, proposal)
            source = proposal_for(proposal, one.value, steps, centre)
            weighted = WeightedSamples.draw(
                source, Stream(entropy, "estimate", 1, one.value), samples, workers
            )
            while relative_error is not None and weighted.size < MOST_SAMPLES:
                value, error = weighted.epsilon(delta)
                if error <= relative_error * max(value, 1e-12):
                    break
                weighted = WeightedSamples.draw(
                    source, Stream(entropy, "estimate", 1, one.value), 2 * weighted.size, workers
                )
            value, error = weighted.epsilon(delta)
            found = estimated(value, error, one.value, weighted.size)
        if found.value > best.value:
            best = found
    return _timed(best, start)


def pilot_epsilon(
    steps: tuple[Step, ...], delta: float, direction: Direction, entropy: int, proposal: str
) -> float:
    """About the epsilon of a delta, to centre a tilt at: from the moments bound down, by small
    runs.

    The moments bound can be far above. There the paper's single-coordinate tilt does not reach and
    misleads the search without a sign, so the runs take the default proposal in its place; and a
    run that finds no delta at all says that its tilt is too high, not that epsilon is 0.
    """
    proposal = "capped" if proposal == "single" else proposal
    epsilon = first_guess(steps, delta)
    for turn in range(10):
        source = proposal_for(proposal, direction.value, steps, epsilon)
        pilot = WeightedSamples.draw(
            source, Stream(entropy, f"pilot {turn}", 1, direction.value), 4096, 1
        )
        found = pilot.epsilon(delta)[0]
        if abs(found - epsilon) <= 0.1 * epsilon:
            return found
        epsilon = found if found > 0 else 0.6 * epsilon
    return max(epsilon, 1e-6)


@dataclass(frozen=True)
class WeightedSamples:
    """Losses and weights; only those that may exceed some epsilon matter, the rest count in
    ``size``.
    """

    losses: Floats
    weights: Floats
    size: int
    infinite: float = 0.0
    """The chance of an infinite loss, where such losses are not among the samples."""

    @classmethod
    def draw(
        cls, source: Proposal, stream: Stream, samples: int, workers: int | None
    ) -> WeightedSamples:
        """A whole number of blocks, at least ``samples`` samples."""
        drawn: list[Block] = []
        size = min(source.block_size(), samples)
        for block in blocks(source, stream, size, workers=workers):
            drawn.append(block)
            if len(drawn) * size >= samples:
                break
        losses, log_weights = (np.concatenate([block[i] for block in drawn]) for i in (0, 1))
        return cls.of(losses, log_weights, source.infinite)

    @classmethod
    def of(cls, losses: Floats, log_weights: Floats, infinite: float = 0.0) -> WeightedSamples:
        kept = losses > 0
        return cls(
            losses[kept], np.exp(np.minimum(log_weights[kept], 700.0)), losses.size, infinite
        )

    def delta(self, epsilon: float) -> tuple[float, float]:
        """The estimate and its standard error."""
        above = self.losses > epsilon
        values = self.weights[above] * -np.expm1(epsilon - self.losses[above])
        mean = float(values.sum()) / self.size
        return mean + self.infinite, math.sqrt(
            max(float((values**2).sum()) / self.size - mean**2, 0.0) / self.size
        )

    def epsilon(self, delta: float, guess: float | None = None) -> tuple[float, float]:
        """The root of ``delta(epsilon) = delta`` and its standard error, by Newton's method inside
        a bracket.
        """
        if guess is None and self.delta(0.0)[0] <= delta:
            return 0.0, 0.0
        delta -= self.infinite
        low, high = 0.0, float(np.max(self.losses[np.isfinite(self.losses)], initial=0.0))
        epsilon = guess if guess is not None and low < guess < high else 0.5 * high
        for _ in range(200):
            above = self.losses > epsilon
            weights = self.weights[above]
            mass = float(weights.sum())
            dual = float((weights * np.exp(epsilon - self.losses[above])).sum())
            gap = (mass - dual) / self.size - delta
            low, high = (epsilon, high) if gap > 0 else (low, epsilon)
            slope = dual / self.size
            # Newton on the set {losses > epsilon}: e^(target - epsilon) = (mass - size delta)/dual.
            target = (
                epsilon + math.log((mass - self.size * delta) / dual)
                if dual > 0 and mass > self.size * delta
                else -1.0
            )
            step = target if low < target < high else 0.5 * (low + high)
            if abs(step - epsilon) <= 1e-12 * (1 + epsilon):
                break
            epsilon = step
        error = self.delta(epsilon)[1]
        return epsilon, error / slope if slope > 0 else math.inf


def _mean(
    source: Proposal,
    stream: Stream,
    epsilon: float,
    samples: int,
    relative: float | None,
    workers: int | None,
    direction: str,
    worth: float = 0.0,
) -> Estimate:
    """The mean of samples; where it is seen to be far below ``worth``, as it is."""
    size = min(source.block_size(), samples)
    count, total, squares = 0, 0.0, 0.0
    for block in blocks(source, stream, size, workers=workers):
        values = block.values(epsilon)
        count, total, squares = (
            count + values.size,
            total + float(values.sum()),
            squares + float((values**2).sum()),
        )
        mean = total / count
        error = math.sqrt(max(squares / count - mean**2, 0.0) / count)
        enough = (
            count >= samples if relative is None else 0 < error <= relative * mean and count >= 4096
        )
        far = relative is not None and count >= _FEW and mean + 8.0 * error < worth / 2
        if enough or far or count >= MOST_SAMPLES:
            break
    return estimated(mean, error, direction, count)


def estimated(value: float, error: float, direction: str, samples: int) -> Estimate:
    """A mean with its standard error."""
    interval = (max(0.0, value - _NORMAL_95 * error), value + _NORMAL_95 * error)
    return Estimate(value, "monte_carlo", direction, None, error, interval, samples)


def _timed(found: Estimate, start: float) -> Estimate:
    interval = found.confidence_interval or (found.value, found.value)
    seconds = time.perf_counter() - start
    return Estimate(
        found.value,
        found.method,
        found.direction,
        None,
        found.standard_error,
        interval,
        found.samples,
        seconds,
    )


def effort(samples: Any, relative_error: Any) -> tuple[int, float | None]:
    """How many samples to draw first, and the relative error to reach, if one is asked for."""
    if samples is not None and relative_error is not None:
        raise ValueError(
            f"samples={samples!r} and relative_error={relative_error!r}: give one of them"
        )
    count = DEFAULT_SAMPLES if samples is None else validate.positive_integer(samples=samples)
    if count > MOST_SAMPLES:
        raise ValueError(
            f"samples={samples!r} is above {MOST_SAMPLES}: the standard error falls with its "
            "square root only"
        )
    if count < _LEAST_SAMPLES:
        raise ValueError(
            f"samples={samples!r} is below {_LEAST_SAMPLES}: so few say nothing of their own error"
        )
    if relative_error is None:
        return count, None
    wanted = validate.positive(relative_error=relative_error)
    if wanted < _LEAST_ERROR:
        raise ValueError(
            f"relative_error={relative_error!r} is below {_LEAST_ERROR:g}: {MOST_SAMPLES} samples, "
            "the most that are drawn, hardly reach it; allow more error, or take a method without "
            "samples (method='fft', 'strict')"
        )
    return count, wanted


# --- moments, for where to look -------------------------------------------------------------------


def proved_bound(steps: tuple[Step, ...], epsilon: float) -> float:
    """A bound on delta without a sample."""
    if on_a_line(steps):
        return moments_bound(steps, epsilon)
    return estimating_proposal(steps, epsilon).greatest(epsilon)


def first_guess(steps: tuple[Step, ...], delta: float) -> float:
    """An epsilon that is not too small: of steps on a line by moments, of mixtures as if the worst
    pattern were known.
    """
    lines = tuple(step for step in steps if isinstance(step.law, DominatingPair))
    energy = math.fsum(
        step.count * step.law.greatest_energy for step in steps if isinstance(step.law, MixtureLaw)
    )
    known = energy / 2 + math.sqrt(2 * energy * -math.log(min(delta, 0.5)))
    return known + (moments_epsilon(lines, delta) if lines else 0.0)


@lru_cache(maxsize=512)
def _log_mgf(pair: DominatingPair, order: float) -> float:
    return log_mgf(finite_part(pair), order)


def _log_moments(steps: tuple[Step, ...]) -> Iterator[tuple[float, float]]:
    """Orders, and logarithms of ``E[e^{order loss}; loss finite]`` times the constant of the
    conversion to delta.
    """
    for order in _ORDERS:
        whole = math.fsum(step.count * _log_mgf(step.pair, order) for step in steps)
        yield order, whole + log_peak(order)


def moments_bound(steps: tuple[Step, ...], epsilon: float) -> float:
    """A moments bound on delta."""
    log_finite = _least(value - order * epsilon for order, value in _log_moments(steps))
    return min(1.0, infinite_mass(steps) + math.exp(min(0.0, log_finite)))


def moments_epsilon(steps: tuple[Step, ...], delta: float) -> float:
    """A moments bound on epsilon, or the greatest loss where that is less."""
    log_finite = math.log(max(delta - infinite_mass(steps), 1e-300))
    bound = _least((value - log_finite) / order for order, value in _log_moments(steps))
    finite = [x for x in (bound, 0.999 * greatest_loss(steps)) if math.isfinite(x)]
    return max(1e-6, min(finite, default=1.0))


def _least(values: Iterable[float]) -> float:
    """The least of values that fall before they rise; those after a rise are not asked for.

    The logarithms of moments are convex in the order, so both bounds above are such values, and a
    moment of a high order takes longest.
    """
    least = math.inf
    for value in values:
        if not value <= least:
            break
        least = value
    return least
