"""Mixtures of components as a proposal: for compositions with laws in many dimensions.

A component draws each law its own way; weights are fixed beforehand. Steps on a line take part with
one tilt for all components. Everything is rebuilt from a plan's numbers: ``3/weight`` is the weight
of component 3, ``3/0/scale`` the scale of its part of step 0. docs/guarantees_highdim.md, Sections
4 to 7.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Self

import numpy as np
from numpy.typing import NDArray

from evr.bounds.bins import ScaledMeans
from evr.bounds.moments import log_peak
from evr.bounds.rounding import Rounding
from evr.bounds.tilt import Tilt
from evr.laws import DominatingPair, Floats, Step
from evr.laws.law import UNIT
from evr.laws.mixture.bins import IndependentBins
from evr.laws.mixture.law import MixtureLaw
from evr.sampling import placed_parts
from evr.sampling.line import TiltedProposal, spread_steps
from evr.sampling.part import Part
from evr.sampling.parts import ScaledBins, part_of
from evr.sampling.plan import Kind, Plan
from evr.sampling.proposals import Block, Proposal

NAME = "mixture"
_WEIGHTS = 1e-9
_AT_ONCE, _NUMBERS = 4096, 2**20  # samples of a block, and their coordinates: tables want many


@dataclass(frozen=True)
class Component:
    """The share of a component, and the numbers of its part of each law in many dimensions, in the
    order of the steps.
    """

    weight: float
    parts: tuple[tuple[tuple[str, float], ...], ...]

    @classmethod
    def of(cls, weight: float, *parts: dict[str, float]) -> Component:
        """From dictionaries."""
        return cls(weight, tuple(tuple(sorted(part.items())) for part in parts))


def to_numbers(components: Sequence[Component]) -> tuple[tuple[str, float], ...]:
    """Components as the numbers of a plan."""
    numbers = []
    for index, component in enumerate(components):
        numbers.append((f"{index}/weight", component.weight))
        for place, part in enumerate(component.parts):
            numbers += [(f"{index}/{place}/{name}", value) for name, value in part]
    return tuple(numbers)


def from_numbers(numbers: Sequence[tuple[str, float]]) -> tuple[Component, ...]:
    """Undo ``to_numbers``; what is none of it raises ``ValueError``."""
    weights: dict[int, float] = {}
    parts: dict[int, dict[int, dict[str, float]]] = {}
    for name, value in numbers:
        keys = name.split("/")
        if len(keys) == 2 and keys[0].isdigit() and keys[1] == "weight":
            weights[int(keys[0])] = value
        elif len(keys) == 3 and keys[0].isdigit() and keys[1].isdigit():
            parts.setdefault(int(keys[0]), {}).setdefault(int(keys[1]), {})[keys[2]] = value
        else:
            raise ValueError(f"plan.numbers: {name!r} is no number of a component")
    if sorted(weights) != list(range(len(weights))) or sorted(parts) != sorted(weights):
        raise ValueError(
            "plan.numbers: components do not count from 0, or miss a weight or their parts"
        )
    found = []
    for index in range(len(weights)):
        own = parts[index]
        if sorted(own) != list(range(len(own))):
            raise ValueError(f"plan.numbers: parts of component {index} do not count from 0")
        found.append(Component.of(weights[index], *(own[place] for place in range(len(own)))))
    return tuple(found)


class MixtureProposal(Proposal):
    """A mixture of components.

    Parameters
    ----------
    steps
        One direction of a composition, simplified; some laws are in many dimensions.
    components
        What is drawn.
    kinds
        How each step on a line is spread to outcomes and tilted; those of the others say whether
        they are drawn by place, as a GPU draws them.
    """

    name = NAME

    def __init__(
        self,
        steps: Sequence[Step],
        components: Sequence[Component],
        kinds: Sequence[Kind] = (),
    ) -> None:
        self.steps, self.components = tuple(steps), tuple(components)
        self.laws = [(s.law, s.count) for s in self.steps if isinstance(s.law, MixtureLaw)]
        self._kinds = tuple(kinds) or tuple(Kind(Tilt()) for _ in self.steps)
        self.by_place = self._is_by_place()
        self.line = self._line()
        self.infinite = self.line.infinite if self.line else 0.0
        total = math.fsum(c.weight for c in self.components)
        if (
            not self.components
            or min(c.weight for c in self.components) <= 0
            or abs(total - 1) > _WEIGHTS
        ):
            raise ValueError("weights of components are positive and sum to 1")
        self.weights = np.array([c.weight for c in self.components]) / total
        self._parts: dict[tuple[int, tuple[tuple[str, float], ...]], Part] = {}
        self.parts = [
            [self._part(i, numbers) for i, numbers in enumerate(self._own(c))]
            for c in self.components
        ]

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

    def _own(self, component: Component) -> tuple[tuple[tuple[str, float], ...], ...]:
        if len(component.parts) != len(self.laws):
            raise ValueError(
                f"a component has {len(component.parts)} parts for {len(self.laws)} laws"
            )
        return component.parts

    def _part(self, index: int, numbers: tuple[tuple[str, float], ...]) -> Part:
        """Equal parts of several components are built once."""
        if (index, numbers) not in self._parts:
            self._parts[index, numbers] = part_of(self.laws[index][0], dict(numbers))
        return self._parts[index, numbers]

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
    def from_plan(cls, plan: Plan, steps: Sequence[Step]) -> Self:
        """What the plan says."""
        if len(plan.kinds) != len(steps):
            raise ValueError(
                f"the plan is for {len(plan.kinds)} kinds of steps, and there are {len(steps)}"
            )
        return cls(steps, from_numbers(plan.numbers), plan.kinds)

    def plan(self) -> Plan:
        """What it draws, as data."""
        return Plan(NAME, self._kinds, numbers=to_numbers(self.components))

    # --- drawing ----------------------------------------------------------------------------------

    def draw(self, generator: np.random.Generator, size: int) -> Block:
        if not self.by_place:
            return self._with_line(generator, *self._weighted(self._coordinates(generator, size)))
        places = placed_parts.Places.of(generator, len(self.laws))
        found = [
            self._weighted(
                placed_parts.coordinates(places, samples, self.weights, self.parts, self.laws)
            )
            for samples in placed_parts.spans(size, self.laws)
        ]
        losses, log_weights = (np.concatenate(one) for one in zip(*found, strict=True))
        return self._with_line(generator, losses, log_weights)

    def _weighted(self, coordinates: Sequence[Floats]) -> tuple[Floats, Floats]:
        """Losses and logarithms of weights of the laws in many dimensions."""
        log_ratios = self._log_ratios(coordinates)
        log_density = self._mixed(self.log_densities(coordinates, log_ratios))
        return self._lost(log_ratios, log_density, self._refused(coordinates))

    def judged(
        self, generator: np.random.Generator, size: int, epsilon: float
    ) -> tuple[Floats, Floats, Floats]:
        """Samples, ``log d_c`` of each component and ``log d``: for whoever looks for better
        weights.
        """
        coordinates = self._coordinates(generator, size)
        log_ratios = self._log_ratios(coordinates)
        logs = self.log_densities(coordinates, log_ratios)
        log_density = self._mixed(logs)
        lost = self._lost(log_ratios, log_density, self._refused(coordinates))
        block = self._with_line(generator, *lost)
        return block.values(epsilon), logs, log_density

    def _refused(self, coordinates: Sequence[Floats]) -> NDArray[np.bool_]:
        """Which samples a part refused to draw. Whatever else is not a number stops the run."""
        found = np.zeros(coordinates[0].shape[0] // self.laws[0][1], dtype=bool)
        for index, ((_, count), own) in enumerate(zip(self.laws, coordinates, strict=True)):
            if any(parts[index].refuses for parts in self.parts):
                found |= np.isnan(own[:, 0]).reshape(-1, count).any(axis=1)
        return found

    def _lost(
        self, log_ratios: Sequence[Floats], log_density: Floats, refused: NDArray[np.bool_]
    ) -> tuple[Floats, Floats]:
        size = log_density.size
        losses, total = np.zeros(size), np.zeros(size)
        for (law, count), own in zip(self.laws, log_ratios, strict=True):
            log_ratio = own.reshape(size, count).sum(axis=1)
            remove = law.direction.value == "remove"
            losses += log_ratio if remove else -log_ratio
            total += log_ratio if remove else 0.0
        log_weights = total - log_density
        losses[refused], log_weights[refused] = 0.0, -np.inf  # whatever is lost on a line
        return losses, log_weights

    def _with_line(
        self, generator: np.random.Generator, losses: Floats, log_weights: Floats
    ) -> Block:
        if self.line is not None:
            block = self.line.draw(generator, losses.size)
            losses, log_weights = losses + block.losses, log_weights + block.log_weights
        return Block(losses, log_weights, self.infinite)

    def _coordinates(self, generator: np.random.Generator, size: int) -> list[Floats]:
        """Coordinates of each law: rows of a sample's copies follow each other."""
        numbers = generator.multinomial(size, self.weights)
        order = generator.permutation(size)  # samples are independent of their place
        out = [np.empty((size, count, law.dimension)) for law, count in self.laws]
        start = 0
        for number, parts in zip(numbers.tolist(), self.parts, strict=True):
            rows = order[start : start + number]
            start += number
            for place, part in enumerate(parts if number else ()):
                count, dimension = out[place].shape[1:]
                out[place][rows] = part.draw(generator, number * count).reshape(
                    number, count, dimension
                )
        return [own.reshape(-1, own.shape[2]) for own in out]

    def _mixed(self, log_densities: Floats) -> Floats:
        """``log d`` of each sample, with respect to ``Q`` of the laws in many dimensions."""
        logs = log_densities + np.log(self.weights)[:, None]
        top = logs.max(axis=0)
        return top + np.log(np.exp(logs - top).sum(axis=0))

    def _log_ratios(self, coordinates: Sequence[Floats]) -> list[Floats]:
        """``log L`` of each row."""
        return [law.log_ratio(own) for (law, _), own in zip(self.laws, coordinates, strict=True)]

    def log_densities(self, coordinates: Sequence[Floats], log_ratios: Sequence[Floats]) -> Floats:
        """``log d_c`` of each component and sample."""
        known: dict[int, Floats] = {}
        for parts in self.parts:
            for (_, count), own, ratios, part in zip(
                self.laws, coordinates, log_ratios, parts, strict=True
            ):
                if id(part) not in known:
                    each = part.log_density(own, ratios)
                    known[id(part)] = each.reshape(-1, count).sum(axis=1)
        return np.array(
            [np.sum([known[id(part)] for part in parts], axis=0) for parts in self.parts]
        )

    # --- bounds -----------------------------------------------------------------------------------

    def log_greatest(self, epsilon: float) -> float:
        finite = min((value for value, _ in self._bounds(epsilon)), default=math.inf)
        return self._with_infinite(finite)

    def _bounds(self, epsilon: float) -> list[tuple[float, float]]:
        """``log`` of bounds on samples, one for each component that is as good as a tilt; and the
        component's weight.
        """
        found = []
        for weight, parts in zip(self.weights, self.parts, strict=True):
            orders = {part.order for part in parts}
            order = orders.pop()
            if orders or order is None:
                continue
            log_moment = math.fsum(
                n * p.log_normaliser for p, (_, n) in zip(parts, self.laws, strict=True)
            )
            if self.line is not None:
                log_moment += self.line.log_normaliser + self._line_gap(order)
            peak = log_peak(order) if order > 0 else 0.0
            found.append((log_moment + peak - order * epsilon - math.log(weight), float(weight)))
        return found

    def _line_gap(self, order: float) -> float:
        """``sup (order y - h)`` over the steps on a line; infinite if draws
        may reach beyond a cap.
        """
        assert self.line is not None
        if any(b.log_beyond(1.0) > -math.inf for b in self.line.bounds):
            return math.inf
        return math.fsum(
            s.count * b.greatest_gap(order)
            for s, b in zip(self.line.steps, self.line.bounds, strict=True)
        )

    @cached_property
    def scaled_means(self) -> ScaledMeans | None:
        """The components as scaled means of one training of independent bins, if they are that:
        then clipping is cheap.
        """
        if len(self.steps) != 1 or len(self.laws) != 1 or self.laws[0][1] != 1:
            return None
        law, parts = self.laws[0][0], [parts[0] for parts in self.parts]
        if not isinstance(law, IndependentBins) or law.direction.value != "remove":
            return None
        scales = [part.scale for part in parts if isinstance(part, ScaledBins)]
        if len(scales) < len(parts) or max(scales) <= 1:
            return None
        return ScaledMeans(law.bins, law.energy, tuple(self.weights.tolist()), tuple(scales))

    def excess(self, epsilon: float, clip: float, log_unit: float = 0.0) -> float:
        if self.scaled_means is None:
            return super().excess(epsilon, clip, log_unit)
        if self.log_greatest(epsilon) - log_unit <= math.log(clip):
            return 0.0
        log_excess = self.scaled_means.log_excess(epsilon, math.log(clip) + log_unit) - log_unit
        return math.exp(min(log_excess + 16.0 * self.rounding(epsilon).weight, 700.0))

    def log_moment(self, epsilon: float, p: float) -> float:
        if self.scaled_means is not None:
            return self.scaled_means.log_moment(epsilon, p)
        bounds = self._bounds(epsilon)
        if not bounds:
            return math.inf
        exact = all(part.is_exact for parts in self.parts for part in parts)
        greatest = min(value for value, _ in bounds)
        mean = min(value + math.log(weight) for value, weight in bounds) if exact else greatest
        return p * self._with_infinite(((p - 1) * greatest + mean) / p)

    def _with_infinite(self, log_value: float) -> float:
        return (
            float(np.logaddexp(log_value, math.log(self.infinite))) if self.infinite else log_value
        )

    # --- rounding and cost ------------------------------------------------------------------------

    @property
    def order(self) -> float:
        return max((part.order or 0.0 for parts in self.parts for part in parts), default=0.0)

    def rounding(self, epsilon: float) -> Rounding:
        sizes = [part.magnitude for parts in self.parts for part in parts]
        scale = float(np.max(sizes)) if sizes else 1.0  # not a number if one of them is none
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
        law, _ = self.laws[index]
        found = float(np.max([parts[index].sum_error(law, scale) for parts in self.parts]))
        return found + (4.0 * UNIT * law.dimension if self.by_place else 0.0)

    @property
    def work(self) -> int:
        own = sum(count * law.dimension for law, count in self.laws)
        return own * (2 + len(self.parts)) + (self.line.work if self.line else 0)

    def block_size(self) -> int:
        own = sum(count * law.dimension for law, count in self.laws)
        return max(super().block_size(), min(_AT_ONCE, 2 ** round(math.log2(_NUMBERS / own))))
