"""The proposal for compositions with laws in many dimensions: all of them are drawn at order ``k``,
or with scaled means, or shifted; bins, in the rest of the samples, at another order in a window.

Steps on a line take part with one tilt. Everything is rebuilt from a plan's numbers, which are the
same for all laws. docs/guarantees_highdim.md, Sections 4 to 7.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Self

import numpy as np

from evr.bounds.moments import log_peak
from evr.bounds.rounding import Rounding
from evr.bounds.tilt import Tilt
from evr.laws import Direction, DominatingPair, Floats, Step
from evr.laws.law import UNIT
from evr.laws.mixture.law import MixtureLaw
from evr.sampling import placed_parts
from evr.sampling.line import TiltedProposal, spread_steps
from evr.sampling.parts import Numbers, Part, part_of
from evr.sampling.plan import DrawPlan, Kind
from evr.sampling.proposals import Block, Proposal

NAME = "mixture"
_AT_ONCE, _NUMBERS = 4096, 2**20  # samples of a block, and their coordinates: tables want many


class MixtureProposal(Proposal):
    """Draws laws in many dimensions, and steps on a line beside them.

    Parameters
    ----------
    steps
        One direction of a composition, simplified; some laws are in many dimensions.
    numbers
        What they are drawn from (``part_of``); with a ``share``, in that share of the samples, and
        the rest at the order ``local`` of a ``window``, with a ``shift``.
    kinds
        How each step on a line is spread to outcomes and tilted; those of the others say whether
        they are drawn by place, as a GPU draws them.
    """

    name = NAME
    xp: Any = np
    """Whose arrays are drawn by place; and how many numbers of one law at a time."""
    at_once = 1 << 20

    def __init__(
        self,
        steps: Sequence[Step],
        numbers: Mapping[str, float],
        kinds: Sequence[Kind] = (),
    ) -> None:
        self.steps, self.numbers = tuple(steps), dict(numbers)
        self.laws = [(s.law, s.count) for s in self.steps if isinstance(s.law, MixtureLaw)]
        self._kinds = tuple(kinds) or tuple(Kind(Tilt()) for _ in self.steps)
        self.by_place = self._is_by_place()
        self.line = self._line()
        self.infinite = self.line.infinite if self.line else 0.0
        chosen = _components(self.numbers)
        self.weights = tuple(weight for weight, _ in chosen)
        self.parts = [[part_of(law, own) for law, _ in self.laws] for _, own in chosen]

    def _is_by_place(self) -> bool:
        """Whether laws in many dimensions are drawn by place: all of them, or none."""
        own = zip(self.steps, self._kinds, strict=True)
        names = {kind.sampler for step, kind in own if isinstance(step.law, MixtureLaw)}
        if names == {""}:
            return False
        if names != {placed_parts.NAME}:
            raise ValueError(
                f"samplers {sorted(names)} of laws in many dimensions: all of them have "
                f"{placed_parts.NAME!r}, or none has a name"
            )
        if max(count for _, count in self.laws) > placed_parts.MOST_COPIES:
            raise ValueError(f"more than {placed_parts.MOST_COPIES} copies of a law have no places")
        return True

    def _line(self) -> TiltedProposal | None:
        chosen = [
            (s, k)
            for s, k in zip(self.steps, self._kinds, strict=True)
            if isinstance(s.law, DominatingPair)
        ]
        if not chosen:
            return None
        kinds = [kind for _, kind in chosen]
        spread = spread_steps([step for step, _ in chosen], kinds)
        return TiltedProposal(spread, [kind.tilt for kind in kinds])

    @classmethod
    def from_plan(cls, plan: DrawPlan, steps: Sequence[Step]) -> Self:
        """What the plan says."""
        if len(plan.kinds) != len(steps):
            raise ValueError(
                f"the plan is for {len(plan.kinds)} kinds of steps, and there are {len(steps)}"
            )
        return cls(steps, dict(plan.numbers), plan.kinds)

    def plan(self) -> DrawPlan:
        """What it draws, as data."""
        return DrawPlan(NAME, self._kinds, numbers=tuple(sorted(self.numbers.items())))

    # --- drawing ----------------------------------------------------------------------------------

    def draw(self, generator: np.random.Generator, size: int) -> Block:
        if self.by_place:
            losses, log_weights = self._placed(generator, size)
        else:
            losses, log_weights = self._weighted(self._coordinates(generator, size))
        if self.line is not None:
            block = self.line.draw(generator, size)
            losses = losses + self.xp.asarray(block.losses)
            log_weights = log_weights + self.xp.asarray(block.log_weights)
        return Block(losses, log_weights, self.infinite)

    def _coordinates(self, generator: np.random.Generator, size: int) -> list[Floats]:
        """Coordinates of each law: rows of a sample's copies follow each other."""
        if len(self.parts) == 1:
            own = zip(self.parts[0], self.laws, strict=True)
            return [part.draw(generator, size * count) for part, (_, count) in own]
        first = generator.random(size) < self.weights[0]
        out = [np.empty((size, count, law.dimension)) for law, count in self.laws]
        for rows, parts in zip((first, ~first), self.parts, strict=True):
            number = int(rows.sum())
            for place, part in zip(out, parts, strict=True):
                _, count, dimension = place.shape
                drawn = part.draw(generator, number * count)
                place[rows] = drawn.reshape(number, count, dimension)
        return [own.reshape(-1, own.shape[2]) for own in out]

    def _placed(self, generator: np.random.Generator, size: int) -> tuple[Floats, Floats]:
        """Losses and logarithms of weights, by place: as many samples at once as memory is for."""
        places = placed_parts.Places.of(generator, len(self.laws))
        each = max(1, self.at_once // sum(law.dimension * count for law, count in self.laws))
        found = []
        for start in range(0, size, each):
            samples = self.xp.arange(start, min(start + each, size))
            own = (places, samples, self.weights[0], self.parts, self.laws)
            found.append(self._weighted(placed_parts.coordinates(*own)))
        losses, log_weights = (self.xp.concatenate(one) for one in zip(*found, strict=True))
        return losses, log_weights

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
            log_ratio = log_ratio.reshape(size, count).sum(axis=1)
            remove = law.direction is Direction.REMOVE
            losses += log_ratio if remove else -log_ratio
            total += log_ratio if remove else 0.0
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
        """By the share of the component that bounds samples (5.1, 5.2, 6.1)."""
        own = zip(self.weights, self.parts, strict=True)
        return self._log_with_infinite(
            min(self._bound(parts, epsilon) - math.log(weight) for weight, parts in own)
        )

    def _bound(self, parts: Sequence[Part], epsilon: float) -> float:
        order = parts[0].order  # of all of them
        log_moment = math.fsum(
            n * part.log_normaliser for part, (_, n) in zip(parts, self.laws, strict=True)
        )
        if self.line is not None:
            log_moment += self.line.log_normaliser + self._line_gap(order)
        peak = log_peak(order) if order > 0 else 0.0
        return log_moment + peak - order * epsilon

    def _line_gap(self, order: float) -> float:
        """``sup (order y - h)`` over the steps on a line; infinite if draws may reach beyond a
        cap.
        """
        assert self.line is not None
        if any(b.log_beyond(1.0) > -math.inf for b in self.line.bounds):
            return math.inf
        return math.fsum(
            s.count * b.greatest_gap(order)
            for s, b in zip(self.line.steps, self.line.bounds, strict=True)
        )

    def log_moment(self, epsilon: float, p: float) -> float:
        return p * self.log_greatest(epsilon)

    # --- rounding and cost ------------------------------------------------------------------------

    @property
    def order(self) -> float:
        return max(parts[0].order for parts in self.parts)

    def rounding(self, epsilon: float) -> Rounding:
        scale = max(part.magnitude for parts in self.parts for part in parts)
        errors = [
            count * (law.density_error(scale) + self._sum_error(index, scale))
            for index, (law, count) in enumerate(self.laws)
        ]
        base = self.line.rounding(epsilon) if self.line else Rounding.of((), epsilon)
        heights = 16.0 * UNIT * self.order * abs(epsilon)
        return Rounding(
            base.loss + math.fsum(errors), base.weight + heights + 4.0 * math.fsum(errors)
        )

    def _sum_error(self, index: int, scale: float) -> float:
        """What parts of one law add to the error of the logarithm of a density. Drawn by place,
        sums may be in any order.
        """
        law, count = self.laws[index]
        found = max(parts[index].sum_error(law, scale) for parts in self.parts)
        if self.by_place:
            found += UNIT * (4.0 * law.dimension + count * law.magnitude(scale))
        return found

    @property
    def work(self) -> int:
        own = sum(count * law.dimension for law, count in self.laws)
        return own * (2 + len(self.parts)) + (self.line.work if self.line else 0)

    def block_size(self) -> int:
        own = sum(count * law.dimension for law, count in self.laws)
        return max(super().block_size(), min(_AT_ONCE, 2 ** round(math.log2(_NUMBERS / own))))


def _components(numbers: Numbers) -> list[tuple[float, Numbers]]:
    """What is drawn, each with its share."""
    if "share" not in numbers:
        return [(1.0, numbers)]
    share, local = numbers["share"], ("local", "window", "shift")
    if not 0 < share < 1:
        raise ValueError(f"share={share!r} of a plan is not between 0 and 1")
    own = {name: x for name, x in numbers.items() if name not in ("share", *local)}
    return [(share, own), (1.0 - share, {name: x for name, x in numbers.items() if name in local})]
