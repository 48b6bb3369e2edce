"""The privacy curve of laws in many dimensions, by weighted samples that serve many epsilons.

Samples are drawn for one epsilon and weighted for any other near it. The seed is fixed, so that an
estimate is the same each time; its stream is never that of a verification.
"""

from __future__ import annotations

import math

from evr.estimation.monte_carlo import (
    DEFAULT_SAMPLES,
    WeightedSamples,
    estimated,
    monte_carlo_epsilon,
)
from evr.estimation.results import Estimate
from evr.laws import Direction, Step
from evr.mechanisms import Composition
from evr.planning.mixtures import estimating_proposal
from evr.randomness import Stream

RELATIVE = 3e-3
"""The standard error, relative to delta, at which drawing stops."""
_SERVES = 2.0  # times that, at an epsilon that samples were not drawn for
_MOST = 2_000_000
_EPSILON = 2 * DEFAULT_SAMPLES  # samples that an epsilon is found with
SEED = 0


class SampledCurve:
    """Delta of one direction at any epsilon; it depends, within its error, on which were asked for
    before, whose samples serve it.
    """

    def __init__(self, steps: tuple[Step, ...], direction: Direction) -> None:
        self.steps, self.direction = steps, direction
        self._sets: list[WeightedSamples] = []

    def delta(self, epsilon: float, worth: float = 0.0) -> Estimate:
        """Delta at an epsilon; where it is proved to be below ``worth``, that bound's order of
        magnitude is enough.
        """
        for samples in self._sets:
            value, error = samples.delta(epsilon)
            if 0 < error <= _SERVES * RELATIVE * value:
                return estimated(value, error, self.direction.value, samples.size)
        source = estimating_proposal(self.steps, epsilon)
        relative = RELATIVE if source.greatest(epsilon) > worth else 0.1
        stream, size = Stream(SEED, "estimate", 1, self.direction.value), DEFAULT_SAMPLES // 8
        while True:
            samples = WeightedSamples.draw(source, stream, size, None)
            value, error = samples.delta(epsilon)
            if error <= relative * value or size >= _MOST or value + error < worth / 2:
                break
            wanted = samples.size * (error / max(relative * value, 1e-300)) ** 2
            size = int(min(max(1.1 * wanted, 2 * samples.size), _MOST))
        self._sets.append(samples)
        return estimated(value, error, self.direction.value, samples.size)


def sampled_delta(curves: dict[Direction, SampledCurve], epsilon: float) -> Estimate:
    """The greater delta of the directions."""
    best = None
    for one, curve in curves.items():
        if math.isinf(epsilon):
            found = Estimate(0.0, "monte_carlo", one.value, standard_error=0.0)
        else:
            found = curve.delta(epsilon, 0.0 if best is None else best.value)
        if best is None or found.value > best.value:
            best = found
    assert best is not None
    return best


def sampled_epsilon(composition: Composition, delta: float, direction: str | None) -> Estimate:
    """Epsilon at a delta."""
    return monte_carlo_epsilon(composition, delta, direction, samples=_EPSILON, seed=SEED)
