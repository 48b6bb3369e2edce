"""The proposal for laws in many dimensions: one component draws them, or two in fixed shares
(docs/guarantees_highdim.md, Sections 4 to 7). Steps on a line take part with one tilt.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from evr._kernel.pairs import Direction, Step
from evr._kernel.pairs.law import UNIT, Floats
from evr._kernel.pairs.patterns.law import PatternLaw, ReplacedPatterns, density_error, magnitude
from evr._kernel.sampled.components import Component, component_of
from evr._kernel.sampled.line import TiltedProposal, spread_steps
from evr._kernel.sampled.moments import Rounding, Tilt, log_peak
from evr._kernel.sampled.philox import CHOICES, Counter, RowNumbers, unit, words_at
from evr._kernel.sampled.plan import MixturePlan
from evr._kernel.sampled.proposals import BUILDERS, Block, Proposal, log_with_infinite

MOST_COPIES = 1 << 12
"""The most copies of a law that is drawn by counters: rows of a block of 2^20 samples have 32-bit numbers."""


@dataclass(eq=False)
class DrawnLaw:
    """A law, how many copies of it there are, and what draws them in each component of the proposal."""

    law: PatternLaw
    count: int
    components: list[Component]

    @property
    def numbers(self) -> int:
        """How many coordinates a sample has."""
        return self.count * self.law.dimension

    def of_samples(self, rows: Floats) -> Floats:
        """The numbers of all copies, a row of them for each sample."""
        return rows.reshape(-1, self.count)


class MixtureProposal(Proposal):
    """Draws one direction of a composition, of which some laws are in many dimensions, as the plan says."""

    xp: Any = np  # whose arrays are drawn by counters
    at_once = 1 << 20  # numbers of one law, by counters

    def __init__(self, plan: MixturePlan, steps: Sequence[Step]) -> None:
        self.plan, self.steps = plan, tuple(steps)
        patterns = [(step.floats, step.count) for step in self.steps if isinstance(step.floats, PatternLaw)]
        if not patterns:
            raise ValueError("the plan is for laws in many dimensions, and there are none")
        if len({(law.direction, isinstance(law, ReplacedPatterns)) for law, _ in patterns}) > 1:
            raise ValueError("laws of replace-one are not drawn with others: describe all under one relation")
        if plan.by_place and max(count for _, count in patterns) > MOST_COPIES:
            raise ValueError(f"more than {MOST_COPIES} copies of a law have no counters")
        on_line = [step for step in self.steps if step.is_on_a_line]
        outcomes = spread_steps(on_line, plan.kinds)
        tilts = [one.tilt or Tilt() for one in plan.kinds]
        self.line = TiltedProposal(outcomes, tilts) if outcomes else None
        self.infinite = self.line.infinite if self.line else 0.0
        plans = [plan.part, plan.beside] if plan.beside else [plan.part]
        self.shares = [plan.share, 1.0 - plan.share] if plan.beside else [plan.share]
        self.laws = [DrawnLaw(law, n, [component_of(law, by) for by in plans]) for law, n in patterns]
        self.order = self.laws[0].components[0].order  # of all that bound samples

    def draw(self, generator: np.random.Generator, size: int) -> Block:
        if self.plan.by_place:
            losses, log_weights = self._by_counters(generator, size)
        else:
            first = generator.random(size) < self.shares[0] if self.plan.beside else np.ones(size, dtype=bool)
            losses, log_weights = self._weighted(self._coordinates(first, lambda law, samples: generator))
        if self.line is not None:
            block = self.line.draw(generator, size)
            losses = losses + self.xp.asarray(block.losses)
            log_weights = log_weights + self.xp.asarray(block.log_weights)
        return Block(losses, log_weights, self.infinite)

    def _by_counters(self, generator: np.random.Generator, size: int) -> tuple[Floats, Floats]:
        """Losses and logarithms of weights, of as many samples at once as memory is for. The choice of a
        sample's component has random numbers of its own, and so has each copy of a law, its *row* (7.1).
        """
        chooser, *counters = [Counter.of(generator) for _ in range(1 + len(self.laws))]
        at_once = max(1, self.at_once // sum(drawn.numbers for drawn in self.laws))
        pieces = []
        for start in range(0, size, at_once):
            samples = self.xp.arange(start, min(start + at_once, size))

            def numbers(index: int, chosen: Any, samples: Any = samples) -> RowNumbers:
                count = self.laws[index].count
                rows = samples[chosen][:, None] * count + self.xp.arange(count)
                return RowNumbers(counters[index], rows.reshape(-1))

            first = unit(words_at(samples, chooser, CHOICES)[0][:, 0]) < self.shares[0]
            pieces.append(self._weighted(self._coordinates(first, numbers)))
        losses, log_weights = (self.xp.concatenate(arrays) for arrays in zip(*pieces, strict=True))
        return losses, log_weights

    def _coordinates(self, first: Any, numbers: Callable[[int, Any], Any]) -> list[Floats]:
        """Coordinates of each law; rows of a sample's copies of a law follow each other. ``first`` says which
        samples the first component draws, ``numbers`` which random numbers a law has in some of the samples.
        """
        size, every = first.size, self.xp.arange(first.size)
        if len(self.shares) == 1:
            return [x.components[0].draw(numbers(i, every), size * x.count) for i, x in enumerate(self.laws)]
        found = [self.xp.empty((size, drawn.count, drawn.law.dimension)) for drawn in self.laws]
        for component, chosen in enumerate((first, ~first)):
            samples = np.flatnonzero(chosen)
            for i, drawn in enumerate(self.laws):
                rows = drawn.components[component].draw(numbers(i, samples), samples.size * drawn.count)
                found[i][samples] = rows.reshape(samples.size, drawn.count, drawn.law.dimension)
        return [coordinates.reshape(-1, coordinates.shape[2]) for coordinates in found]

    def _weighted(self, coordinates: Sequence[Floats]) -> tuple[Floats, Floats]:
        """Losses and logarithms of weights of the laws in many dimensions, from the coordinates of each."""
        size = len(coordinates[0]) // self.laws[0].count
        losses, log_ratios = self.xp.zeros((2, size))
        log_densities = self.xp.zeros((len(self.shares), size))
        refused = self.xp.zeros(size, dtype=bool)
        for drawn, x in zip(self.laws, coordinates, strict=True):
            log_ratio = drawn.law.log_ratio(x)
            for log_density, component in zip(log_densities, drawn.components, strict=True):
                log_density += drawn.of_samples(component.log_density(x, log_ratio)).sum(axis=1)
            if any(component.refuses for component in drawn.components):  # else NaN stops the run
                refused |= drawn.of_samples(np.isnan(x[:, 0])).any(axis=1)
            losses += drawn.of_samples(drawn.law.loss(x, log_ratio)).sum(axis=1)
            if drawn.law.direction is Direction.REMOVE:
                log_ratios += drawn.of_samples(log_ratio).sum(axis=1)
        log_weights = log_ratios - self._log_density(log_densities)
        losses[refused], log_weights[refused] = 0.0, -np.inf  # whatever is lost on a line
        return losses, log_weights

    def _log_density(self, log_densities: Floats) -> Floats:
        """``log`` of the density of each sample with respect to ``Q``, from those of the components."""
        if len(self.shares) == 1:
            return log_densities[0]
        first, second = (x + math.log(share) for x, share in zip(log_densities, self.shares, strict=True))
        top = np.maximum(first, second)
        return top + np.log(np.exp(first - top) + np.exp(second - top))

    def log_greatest(self, epsilon: float) -> float:
        """By the component that bounds samples, and its share (5.1, 5.2, 6.1; guarantees_relations, R8.3)."""
        log_moment = math.fsum(drawn.count * drawn.components[0].log_normaliser for drawn in self.laws)
        log_moment -= math.log(self.shares[0])
        slope = loss_order(self.laws[0].law, self.order)
        if self.line is not None:
            log_moment += self.line.log_normaliser + _line_gap(self.line, slope)
        height = log_height([(drawn.law, drawn.count) for drawn in self.laws], slope, epsilon)
        return log_with_infinite(log_moment + height, self.infinite)

    def log_moment(self, epsilon: float, p: float) -> float:
        return p * self.log_greatest(epsilon)

    def rounding(self, epsilon: float) -> Rounding:
        """How far losses and weights may be off. Drawn by counters, sums may be in any order."""
        scale = max(component.magnitude for drawn in self.laws for component in drawn.components)
        errors = []
        for drawn in self.laws:
            law, count = drawn.law, drawn.count
            error = density_error(law, scale) + max(one.sum_error(law, scale) for one in drawn.components)
            if self.plan.by_place:
                error += UNIT * (4.0 * law.dimension + count * magnitude(law, scale))
            errors.append(count * error)
        base = self.line.rounding(epsilon) if self.line else Rounding.of((), epsilon)
        weight = base.weight + 16.0 * UNIT * self.order * abs(epsilon) + 4.0 * math.fsum(errors)
        return Rounding(base.loss + math.fsum(errors), weight, self.order)

    @property
    def work(self) -> int:
        numbers = sum(drawn.numbers for drawn in self.laws)
        return numbers * (2 + len(self.shares)) + (self.line.work if self.line else 0)


BUILDERS[MixturePlan] = MixtureProposal


def loss_order(law: PatternLaw, order: float) -> float:
    """How fast weights fall with the loss where they fall by ``order`` with ``log L``."""
    return order / 2 if isinstance(law, ReplacedPatterns) else order


def log_height(laws: Sequence[tuple[PatternLaw, int]], slope: float, epsilon: float) -> float:
    """``log`` of the greatest ``(1 - e^{epsilon - loss})_+ L^{-order}``; ``slope``: order per loss."""
    kappas = (n * law.log_kappa for law, n in laws if isinstance(law, ReplacedPatterns))
    return (log_peak(slope) if slope > 0 else 0.0) - slope * (epsilon + 2.0 * math.fsum(kappas))


def _line_gap(line: TiltedProposal, order: float) -> float:
    """``sup (order y - h)`` over the steps on a line; infinite if draws may reach beyond a cap."""
    if any(b.log_beyond(1.0) > -math.inf for b in line.bounds):
        return math.inf
    return math.fsum(s.count * b.greatest_gap(order) for s, b in zip(line.steps, line.bounds, strict=True))
