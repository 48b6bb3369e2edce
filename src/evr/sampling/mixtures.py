"""The proposal for compositions with laws in many dimensions: all of them are drawn at order ``k``, or with scaled
means, or shifted; bins, in the rest of the samples, at another order in a window.

Steps on a line take part with one tilt. docs/guarantees_highdim.md, Sections 4 to 7.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from evr.bounds.moments import Rounding, Tilt, log_peak
from evr.laws import Direction, DominatingPair, Floats, Step
from evr.laws.law import UNIT
from evr.laws.patterns.law import PatternLaw, ReplacedPatterns, density_error, magnitude
from evr.sampling.line import TiltedProposal, spread_steps
from evr.sampling.parts import Part, part_of
from evr.sampling.philox import CHOICES, Place, RowNumbers, unit
from evr.sampling.plan import MixturePlan
from evr.sampling.proposals import Block, Proposal, log_with_infinite

MOST_COPIES = 1 << 12
"""Of one law, drawn by place: rows of a block, of up to 2^20 samples, have numbers of 32 bits."""


def loss_order(law: PatternLaw, order: float) -> float:
    """How fast weights fall with the loss where they fall by ``order`` with ``log L``."""
    return order / 2 if isinstance(law, ReplacedPatterns) else order


def log_height(laws: Sequence[tuple[PatternLaw, int]], slope: float, epsilon: float) -> float:
    """``log`` of the greatest ``(1 - e^{epsilon - loss})_+ L^{-order}``; ``slope`` is the order over the loss."""
    kappas = (n * law.log_kappa for law, n in laws if isinstance(law, ReplacedPatterns))
    return (log_peak(slope) if slope > 0 else 0.0) - slope * (epsilon + 2.0 * math.fsum(kappas))


class MixtureProposal(Proposal):
    """Draws one direction of a composition, simplified, of which some laws are in many dimensions, as the plan says."""

    xp: Any = np
    """Whose arrays are drawn by place; and how many numbers of one law at a time."""
    at_once = 1 << 20

    def __init__(self, plan: MixturePlan, steps: Sequence[Step]) -> None:
        self.plan, self.steps = plan, tuple(steps)
        self.laws = [(s.law, s.count) for s in self.steps if isinstance(s.law, PatternLaw)]
        if plan.by_place and max(count for _, count in self.laws) > MOST_COPIES:
            raise ValueError(f"more than {MOST_COPIES} copies of a law have no places")
        on_line = [step for step in self.steps if isinstance(step.law, DominatingPair)]
        spread = spread_steps(on_line, plan.kinds)
        tilts = [kind.tilt or Tilt() for kind in plan.kinds]
        self.line = TiltedProposal(spread, tilts) if spread else None
        self.infinite = self.line.infinite if self.line else 0.0
        self.weights, self.parts = [plan.share], [[part_of(law, plan.part) for law, _ in self.laws]]
        if plan.beside is not None:
            self.weights.append(1.0 - plan.share)
            self.parts.append([part_of(law, plan.beside) for law, _ in self.laws])
        self.order = max(parts[0].order for parts in self.parts)

    # --- drawing ----------------------------------------------------------------------------------

    def draw(self, generator: np.random.Generator, size: int) -> Block:
        if self.plan.by_place:
            losses, log_weights = self._placed(generator, size)
        else:
            first = generator.random(size) < self.weights[0] if len(self.parts) > 1 else np.ones(size, dtype=bool)
            losses, log_weights = self._weighted(self._coordinates(first, lambda index, rows: generator))
        if self.line is not None:
            block = self.line.draw(generator, size)
            losses = losses + self.xp.asarray(block.losses)
            log_weights = log_weights + self.xp.asarray(block.log_weights)
        return Block(losses, log_weights, self.infinite)

    def _placed(self, generator: np.random.Generator, size: int) -> tuple[Floats, Floats]:
        """Losses and logarithms of weights, by place: as many samples at once as memory is for. A sample's component
        has a place, and so have the numbers of each copy of a law in it, its *row* (Section 7).
        """
        chooser, *places = [Place.of(generator) for _ in range(1 + len(self.laws))]
        each = max(1, self.at_once // sum(law.dimension * count for law, count in self.laws))
        found = []
        for start in range(0, size, each):
            samples = self.xp.arange(start, min(start + each, size))

            def numbers(index: int, rows: Any, samples: Any = samples) -> RowNumbers:
                count = self.laws[index][1]
                return RowNumbers(places[index], (samples[rows][:, None] * count + self.xp.arange(count)).reshape(-1))

            first = unit(chooser.calls(samples, CHOICES)[0][:, 0]) < self.weights[0]
            found.append(self._weighted(self._coordinates(first, numbers)))
        losses, log_weights = (self.xp.concatenate(one) for one in zip(*found, strict=True))
        return losses, log_weights

    def _coordinates(self, first: Any, numbers: Callable[[int, Any], Any]) -> list[Floats]:
        """Coordinates of each law: rows of a sample's copies follow each other. ``first`` says which samples the first
        component draws, ``numbers`` what random numbers the rows of a law have.
        """
        if len(self.parts) == 1:
            own = enumerate(zip(self.parts[0], self.laws, strict=True))
            every = self.xp.arange(first.size)
            return [part.draw(numbers(index, every), first.size * count) for index, (part, (_, count)) in own]
        out = [self.xp.empty((first.size, count, law.dimension)) for law, count in self.laws]
        for chosen, parts in zip((first, ~first), self.parts, strict=False):
            rows = np.flatnonzero(chosen)
            for index, (own, part) in enumerate(zip(out, parts, strict=True)):
                _, count, dimension = own.shape
                drawn = part.draw(numbers(index, rows), rows.size * count)
                own[rows] = drawn.reshape(rows.size, count, dimension)
        return [own.reshape(-1, own.shape[2]) for own in out]

    def _weighted(self, coordinates: Sequence[Floats]) -> tuple[Floats, Floats]:
        """Losses and logarithms of weights of the laws in many dimensions."""
        size = coordinates[0].shape[0] // self.laws[0][1]
        losses, total = self.xp.zeros((2, size))
        log_densities = self.xp.zeros((len(self.parts), size))
        refused = self.xp.zeros(size, dtype=bool)
        for index, ((law, count), own) in enumerate(zip(self.laws, coordinates, strict=True)):
            log_ratio = law.log_ratio(own)
            parts = [parts[index] for parts in self.parts]
            for one, part in zip(log_densities, parts, strict=True):
                one += part.log_density(own, log_ratio).reshape(size, count).sum(axis=1)
            if any(part.refuses for part in parts):  # whatever else is no number stops the run
                refused |= np.isnan(own[:, 0]).reshape(size, count).any(axis=1)
            losses += law.loss(own, log_ratio).reshape(size, count).sum(axis=1)
            if law.direction is Direction.REMOVE:
                total += log_ratio.reshape(size, count).sum(axis=1)
        log_weights = total - self._mixed(log_densities)
        losses[refused], log_weights[refused] = 0.0, -np.inf  # whatever is lost on a line
        return losses, log_weights

    def _mixed(self, log_densities: Floats) -> Floats:
        """``log d`` of each sample, with respect to ``Q`` of the laws in many dimensions."""
        if len(self.weights) == 1:
            return log_densities[0]
        first, second = (x + math.log(w) for x, w in zip(log_densities, self.weights, strict=True))
        top = np.maximum(first, second)
        return top + np.log(np.exp(first - top) + np.exp(second - top))

    # --- bounds -----------------------------------------------------------------------------------

    def log_greatest(self, epsilon: float) -> float:
        """By the share of the component that bounds samples (5.1, 5.2, 6.1; docs/guarantees_relations.md, R8.3)."""
        own = zip(self.weights, self.parts, strict=True)
        bound = min(self._bound(parts, epsilon) - math.log(weight) for weight, parts in own)
        return log_with_infinite(bound, self.infinite)

    def _bound(self, parts: Sequence[Part], epsilon: float) -> float:
        order = parts[0].order  # of all of them
        log_moment = math.fsum(n * part.log_normaliser for part, (_, n) in zip(parts, self.laws, strict=True))
        slope = loss_order(self.laws[0][0], order)
        if self.line is not None:
            log_moment += self.line.log_normaliser + self._line_gap(slope)
        return log_moment + log_height(self.laws, slope, epsilon)

    def _line_gap(self, order: float) -> float:
        """``sup (order y - h)`` over the steps on a line; infinite if draws may reach beyond a cap."""
        assert self.line is not None
        if any(b.log_beyond(1.0) > -math.inf for b in self.line.bounds):
            return math.inf
        return math.fsum(
            s.count * b.greatest_gap(order) for s, b in zip(self.line.steps, self.line.bounds, strict=True)
        )

    def log_moment(self, epsilon: float, p: float) -> float:
        return p * self.log_greatest(epsilon)

    # --- rounding and cost ------------------------------------------------------------------------

    def rounding(self, epsilon: float) -> Rounding:
        scale = max(part.magnitude for parts in self.parts for part in parts)
        errors = [
            count * (density_error(law, scale) + self._sum_error(index, scale))
            for index, (law, count) in enumerate(self.laws)
        ]
        base = self.line.rounding(epsilon) if self.line else Rounding.of((), epsilon)
        weight = base.weight + 16.0 * UNIT * self.order * abs(epsilon) + 4.0 * math.fsum(errors)
        return Rounding(base.loss + math.fsum(errors), weight, self.order)

    def _sum_error(self, index: int, scale: float) -> float:
        """What parts of one law add to the error of the logarithm of a density. Drawn by place, sums may be in any
        order.
        """
        law, count = self.laws[index]
        found = max(parts[index].sum_error(law, scale) for parts in self.parts)
        if self.plan.by_place:
            found += UNIT * (4.0 * law.dimension + count * magnitude(law, scale))
        return found

    @property
    def work(self) -> int:
        own = sum(count * law.dimension for law, count in self.laws)
        return own * (2 + len(self.parts)) + (self.line.work if self.line else 0)
