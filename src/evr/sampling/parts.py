"""How one law in many dimensions is drawn in one component of a mixture, and what is proved of it.

A part is named by numbers, so that a plan holds it as data: ``{"order": 8.0}``, ``{"scale": 5.1}``.
Its law has a density with respect to ``Q`` that can be computed. If that is at least ``e^{order
loss} dP/dQ / M``, the part is as good as a tilt of that order: weights are at most ``M e^{-order
loss}``. docs/guarantees_highdim.md, Sections 4 to 6.
"""

from __future__ import annotations

import abc
import math
from collections.abc import Callable, Mapping
from functools import cached_property

import numpy as np

from evr.bounds.bins import InverseMoment
from evr.bounds.order_tables import PartitionTable
from evr.laws import Direction
from evr.laws.law import Floats
from evr.laws.mixture.bins import IndependentBins
from evr.laws.mixture.law import MixtureLaw, log_mean_exp
from evr.sampling.inverse_order import InverseOrderSampler

Numbers = Mapping[str, float]


class Part(abc.ABC):
    """Draws coordinates of one law; knows their density with respect to ``Q``."""

    order: float | None = None
    """The tilt that it is as good as, in the direction of its law, 0 for plain sampling; None if
    there is no such bound.
    """
    log_normaliser: float = 0.0
    """``log M`` of that tilt."""
    is_exact: bool = True
    """Whether the density is that of the draws, and not from below."""
    magnitude: float = 1.0
    """How many times the means of the law it draws from are, at the most: rounding is relative to
    that.
    """

    @abc.abstractmethod
    def draw(self, generator: np.random.Generator, size: int) -> Floats:
        """Coordinates, a row for each sample; a row of NaN where the part draws nothing (4.2)."""

    @abc.abstractmethod
    def log_density(self, coordinates: Floats) -> Floats:
        """``log`` of the density with respect to ``Q``, or less."""


class ScaledBins(Part):
    """Scaled means ``P_u`` of independent bins."""

    def __init__(self, law: IndependentBins, numbers: Numbers) -> None:
        self.law, self.scale = law, numbers["scale"]
        self.magnitude = abs(self.scale)
        if self.scale >= 1 and law.direction is Direction.REMOVE:
            self.order = self.scale - 1
            self.log_normaliser = self.order * self.scale * law.energy / 2

    def draw(self, generator: np.random.Generator, size: int) -> Floats:
        coordinates = self.law.draw_null(generator, size)
        coordinates[:, 0] += self.scale * self.law.energy  # bins are alike
        return coordinates

    def log_density(self, coordinates: Floats) -> Floats:
        return log_mean_exp(self.scale * coordinates) - self.scale**2 * self.law.energy / 2


class OrderBins(Part):
    """``Q L^k / M_k`` of independent bins, in the remove direction."""

    def __init__(self, law: IndependentBins, numbers: Numbers) -> None:
        _remove_only(law, "order")
        self.law, self.power = law, _whole(numbers["order"])
        self.magnitude = float(self.power)
        self.table = PartitionTable(law.bins, law.energy, self.power)
        self.order, self.log_normaliser = self.power - 1.0, self.table.log_moment

    def draw(self, generator: np.random.Generator, size: int) -> Floats:
        coordinates = self.law.draw_null(generator, size)
        occupied = self.table.draw(generator, size)
        coordinates[:, : occupied.shape[1]] += self.law.energy * occupied
        return coordinates

    def log_density(self, coordinates: Floats) -> Floats:
        return self.power * self.law.log_ratio(coordinates) - self.table.log_moment


class InverseBins(Part):
    """``Q L^-theta / M`` of independent bins, in the add direction."""

    is_exact = False

    def __init__(self, law: IndependentBins, numbers: Numbers) -> None:
        _add_only(law, "inverse_order")
        self.law, self.order = law, _positive(numbers["inverse_order"])
        self.log_normaliser = InverseMoment(law.bins, law.energy).log_bound(self.order)
        self.theta = self.order

    @cached_property
    def _sampler(self) -> InverseOrderSampler:
        return InverseOrderSampler(self.law.bins, self.law.energy, self.theta)

    def draw(self, generator: np.random.Generator, size: int) -> Floats:
        return self._sampler.draw(generator, size)

    def log_density(self, coordinates: Floats) -> Floats:
        return -self.theta * self.law.log_ratio(coordinates) - self.log_normaliser


class Shifted(Part):
    """``N(shift mbar, I)`` of any law: below 0, a tilt of the add direction (6.1)."""

    def __init__(self, law: MixtureLaw, numbers: Numbers) -> None:
        self.law, self.shift = law, numbers["shift"]
        self.magnitude = abs(self.shift)
        self._half_square = self.shift**2 * law.mean_square / 2
        if self.shift <= 0 and law.direction is Direction.ADD:
            self.order = -self.shift
            self.log_normaliser = self.order * law.mean_energy / 2 + self._half_square

    def draw(self, generator: np.random.Generator, size: int) -> Floats:
        return self.law.draw_null(generator, size) + self.shift * self.law.mean_coordinates

    def log_density(self, coordinates: Floats) -> Floats:
        return self.shift * (coordinates @ self.law.weights) - self._half_square


Maker = Callable[[MixtureLaw, Numbers], Part]

PARTS: dict[tuple[type[MixtureLaw], frozenset[str]], Callable[..., Part]] = {
    (IndependentBins, frozenset({"scale"})): ScaledBins,
    (IndependentBins, frozenset({"order"})): OrderBins,
    (IndependentBins, frozenset({"inverse_order"})): InverseBins,
    (IndependentBins, frozenset({"shift"})): Shifted,
}
"""What a law and the names of a part's numbers stand for: one line for each."""


def part_of(law: MixtureLaw, numbers: Numbers) -> Part:
    """The part that these numbers name."""
    maker = PARTS.get((type(law), frozenset(numbers)))
    if maker is None:
        raise ValueError(f"no part of {law.describe()} is named by {sorted(numbers)}")
    return maker(law, numbers)


def _remove_only(law: MixtureLaw, name: str) -> None:
    if law.direction is not Direction.REMOVE:
        raise ValueError(
            f"{name} is for the remove direction, and {law.describe()} is of the other"
        )


def _add_only(law: MixtureLaw, name: str) -> None:
    if law.direction is not Direction.ADD:
        raise ValueError(f"{name} is for the add direction, and {law.describe()} is of the other")


def _whole(value: float) -> int:
    if not (math.isfinite(value) and value == int(value)):
        raise ValueError(f"order={value!r} is not a whole number")
    return int(value)


def _positive(value: float) -> float:
    if not 0 < value < math.inf:
        raise ValueError(f"{value!r} is not positive and finite")
    return value
