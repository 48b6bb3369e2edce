"""Parts of bins of independent noise, and which part a law and some numbers stand for."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import cached_property

import numpy as np

from evr.bounds.bins import InverseMoment
from evr.bounds.order_tables import PartitionTable
from evr.laws import Direction
from evr.laws.law import Floats
from evr.laws.mixture.bins import CorrelatedBins, IndependentBins
from evr.laws.mixture.law import MixtureLaw, log_mean_exp
from evr.laws.mixture.min_sep import MinSep
from evr.sampling.inverse_order import InverseOrderSampler
from evr.sampling.matrix_parts import BumpedBins, OrderMatrixBins, OrderMinSep, ScaledChain
from evr.sampling.part import Part, add_only, positive, remove_only, whole

Numbers = Mapping[str, float]


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

    def log_density(self, coordinates: Floats, log_ratio: Floats) -> Floats:
        return log_mean_exp(self.scale * coordinates) - self.scale**2 * self.law.energy / 2


class OrderBins(Part):
    """``Q L^k / M_k`` of independent bins, in the remove direction."""

    def __init__(self, law: IndependentBins, numbers: Numbers) -> None:
        remove_only(law, "order")
        self.law, self.power = law, whole(numbers["order"])
        self.magnitude = float(self.power)
        self.table = PartitionTable(law.bins, law.energy, self.power)
        self.order, self.log_normaliser = self.power - 1.0, self.table.log_moment

    def draw(self, generator: np.random.Generator, size: int) -> Floats:
        coordinates = self.law.draw_null(generator, size)
        occupied = self.table.draw(generator, size)
        coordinates[:, : occupied.shape[1]] += self.law.energy * occupied
        return coordinates

    def log_density(self, coordinates: Floats, log_ratio: Floats) -> Floats:
        return self.power * log_ratio - self.table.log_moment


class InverseBins(Part):
    """``Q L^-theta / M`` of independent bins, in the add direction."""

    is_exact = False

    def __init__(self, law: IndependentBins, numbers: Numbers) -> None:
        add_only(law, "inverse_order")
        self.law, self.order = law, positive(numbers["inverse_order"])
        self.log_normaliser = InverseMoment(law.bins, law.energy).log_bound(self.order)
        self.theta = self.order
        self.magnitude = max(1.0, self.theta)

    @cached_property
    def sampler(self) -> InverseOrderSampler:
        """What draws it."""
        return InverseOrderSampler(self.law.bins, self.law.energy, self.theta)

    def draw(self, generator: np.random.Generator, size: int) -> Floats:
        return self.sampler.draw(generator, size)

    def log_density(self, coordinates: Floats, log_ratio: Floats) -> Floats:
        return -self.theta * log_ratio - self.log_normaliser


class Shifted(Part):
    """``N(shift mbar, I)`` of any law: below 0, a tilt of the add direction (6.1)."""

    def __init__(self, law: MixtureLaw, numbers: Numbers) -> None:
        self.law, self.shift = law, numbers["shift"]
        self.magnitude = abs(self.shift)
        # noise of n coordinates is up to 39 + sqrt(n) long, not 39 (Section 7)
        more = (39.0 + math.sqrt(law.dimension)) / 156.0
        self.products = math.ceil(law.dimension * max(1.0, more))
        self.half_square = self.shift**2 * law.mean_square / 2
        if self.shift <= 0 and law.direction is Direction.ADD:
            self.order = -self.shift
            self.log_normaliser = self.order * law.mean_energy / 2 + self.half_square

    def draw(self, generator: np.random.Generator, size: int) -> Floats:
        coordinates = self.law.draw_null(generator, size)
        coordinates += self.shift * self.law.mean_coordinates
        return coordinates

    def log_density(self, coordinates: Floats, log_ratio: Floats) -> Floats:
        return self.shift * (coordinates @ self.law.weights) - self.half_square


Maker = Callable[[MixtureLaw, Numbers], Part]

PARTS: dict[tuple[type[MixtureLaw], frozenset[str]], Callable[..., Part]] = {
    (IndependentBins, frozenset({"scale"})): ScaledBins,
    (IndependentBins, frozenset({"order"})): OrderBins,
    (IndependentBins, frozenset({"inverse_order"})): InverseBins,
    (IndependentBins, frozenset({"shift"})): Shifted,
    (CorrelatedBins, frozenset({"scale"})): BumpedBins,
    (CorrelatedBins, frozenset({"scale", "width", "shift"})): BumpedBins,
    (CorrelatedBins, frozenset({"order"})): OrderMatrixBins,
    (CorrelatedBins, frozenset({"shift"})): Shifted,
    (MinSep, frozenset({"scale", "probability"})): ScaledChain,
    (MinSep, frozenset({"order"})): OrderMinSep,
    (MinSep, frozenset({"shift"})): Shifted,
}
"""What a law and the names of a part's numbers stand for: one line for each."""


def part_of(law: MixtureLaw, numbers: Numbers) -> Part:
    """The part that these numbers name."""
    maker = PARTS.get((type(law), frozenset(numbers)))
    if maker is None:
        raise ValueError(f"no part of {law.describe()} is named by {sorted(numbers)}")
    return maker(law, numbers)
