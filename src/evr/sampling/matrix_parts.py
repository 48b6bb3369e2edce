"""Parts of matrix mechanisms: bins whose noise is correlated, and b-min-sep sampling.

docs/guarantees_highdim.md: families in Section 4, whole orders in 5.1, scaled means in 5.3.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import lru_cache

import numpy as np

from evr.bounds.order_tables import MOST_REPLICAS
from evr.bounds.replica_tables import (
    STEEPEST,
    ChainTable,
    OccupancyTable,
    RingTable,
    reach_of,
)
from evr.laws import Direction
from evr.laws.law import UNIT, Floats
from evr.laws.mixture.bins import CorrelatedBins
from evr.laws.mixture.law import MixtureLaw, in_parts, log_mean_exp
from evr.laws.mixture.min_sep import Chain, MinSep
from evr.laws.mixture.strategy import product, ring_product
from evr.sampling.part import Part, positive, remove_only, whole

Numbers = Mapping[str, float]

_FLAT = 1e-20  # of a bump's height, where it ends


class BumpedBins(Part):
    """``1/b sum_j N(sum_i beta^j_i m_i, I)``: a bump of some ``width`` around bin ``j``, ``scale``
    high, and a ``shift`` of all bins together. Of width 0 without a shift, scaled means.
    """

    def __init__(self, law: CorrelatedBins, numbers: Numbers) -> None:
        self.law, self.scale = law, numbers["scale"]
        self.width, self.shift = numbers.get("width", 0.0), numbers.get("shift", 0.0)
        if not (self.width == 0 or 1e-3 <= self.width < math.inf):
            raise ValueError(f"width={self.width!r} of a bump is neither 0 nor at least 1e-3")
        bump = bump_of(law.bins, self.width)
        self.magnitude = abs(self.scale) * float(bump.sum()) + abs(self.shift)
        self.products = law.bins
        places = np.arange(law.bins)
        shape = bump[np.abs(places[:, None] - places)]
        self.bump = None if self.width == 0 else bump
        means = self.scale * shape + self.shift / law.bins  # beta^j, a row for each j
        self.centres = product(means, law.gram)
        self.half_squares = np.einsum("ij,ij->i", self.centres, means) / 2
        if self.width == 0 and self.shift == 0 and law.direction is Direction.REMOVE:
            self._bounded()

    def _bounded(self) -> None:
        """Scaled means are as good as a tilt (5.3), with ``H = mean_j e^{u G_jj/2}``."""
        if self.scale >= 1:
            self.order = self.scale - 1
            log_h = log_mean_exp(self.scale * self.law.energies[None, :] / 2)[0]
            self.log_normaliser = self.order * float(log_h)

    def draw(self, generator: np.random.Generator, size: int) -> Floats:
        coordinates = self.law.draw_null(generator, size)
        coordinates += self.centres[generator.integers(0, self.law.bins, size)]
        return coordinates

    def log_density(self, coordinates: Floats, log_ratio: Floats) -> Floats:
        found = np.empty(len(coordinates))
        for rows in in_parts(*coordinates.shape):
            own = coordinates[rows]
            raised = own if self.bump is None else ring_product(own, self.bump)
            exponents = self.scale * raised
            exponents -= self.half_squares
            together = self.shift * own.mean(axis=1) if self.shift else 0.0
            found[rows] = log_mean_exp(exponents) + together
        return found


class OrderMatrixBins(Part):
    """``Q L^k / M_k`` where bins are few; else the mean over rotations of ``Q L'^k / Mbar``, ``L'``
    without a few bins, which is at least ``L^k / Mbar`` (5.1e and f).
    """

    def __init__(self, law: CorrelatedBins, numbers: Numbers) -> None:
        remove_only(law, "order")
        self.law, self.power = law, whole(numbers["order"])
        self.magnitude = float(self.power)
        self.rounding = 4.0 * UNIT * law.bins * self.power
        self.table = bins_table(law, self.power)
        self.refuses = isinstance(self.table, RingTable)
        self.order, self.log_normaliser = self.power - 1.0, self.table.log_moment

    def draw(self, generator: np.random.Generator, size: int) -> Floats:
        coordinates = self.law.draw_null(generator, size)
        if isinstance(self.table, OccupancyTable):
            occupied = self.table.draw(generator, size)
            coordinates += product(occupied.astype(float), self.law.gram)
            return coordinates
        drawn = self.table.draw(generator, size)
        coordinates += drawn.pulled
        coordinates[~drawn.accepted] = np.nan
        return coordinates

    def log_density(self, coordinates: Floats, log_ratio: Floats) -> Floats:
        if isinstance(self.table, OccupancyTable):
            return self.power * log_ratio - self.log_normaliser
        found = np.empty(len(coordinates))
        for rows in in_parts(*coordinates.shape):
            logs = coordinates[rows] - self.law.energies / 2
            top = logs.max(axis=1, keepdims=True)
            logs -= top
            means = ring_sums(np.exp(logs, out=logs), self.table.length)
            means /= self.table.length  # 1 / length or more somewhere, 1 at the most
            powers = whole_power(means, self.power).mean(axis=1)
            found[rows] = np.log(powers) + self.power * top[:, 0] - self.log_normaliser
        return found


class ScaledChain(Part):
    """b-min-sep patterns of another ``probability``, their means scaled by ``scale``."""

    def __init__(self, law: MinSep, numbers: Numbers) -> None:
        self.law, self.scale = law, numbers["scale"]
        probability = positive(numbers["probability"])
        if probability > 1:
            raise ValueError(f"probability={probability!r} of a part is above 1")
        self.chain = Chain(law.dimension, law.separation, probability, law.warm)
        self.magnitude = abs(self.scale)
        if law.direction is Direction.REMOVE:
            self._bounded(probability)

    def _bounded(self, probability: float) -> None:
        """As good as a tilt (5.3); plain sampling where nothing is changed."""
        if self.scale == 1 and probability == self.law.probability:
            self.order = 0.0
        elif self.scale > 1 and (probability < 1 or self.law.probability == 1):
            self.order = self.scale - 1
            self.log_normaliser = self.order * log_hoelder(self.law, probability, self.scale)

    def sum_error(self, law: MixtureLaw, scale: float) -> float:
        return self.law.logs_error(self.chain, abs(self.scale), scale)

    def draw(self, generator: np.random.Generator, size: int) -> Floats:
        return self.law.shifted(generator, self.scale * self.chain.draw(generator, size))

    def log_density(self, coordinates: Floats, log_ratio: Floats) -> Floats:
        u = self.scale
        return self.chain.log_sum(coordinates.T, u, u * u * self.law.energies / 2)


class OrderMinSep(Part):
    """``Q L^k / M_k`` of b-min-sep sampling (5.1c)."""

    def __init__(self, law: MinSep, numbers: Numbers) -> None:
        remove_only(law, "order")
        self.law, self.power = law, whole(numbers["order"])
        self.magnitude = float(self.power)
        self.table = chain_table(law, self.power)
        self.order, self.log_normaliser = self.power - 1.0, self.table.log_moment

    def draw(self, generator: np.random.Generator, size: int) -> Floats:
        return self.law.shifted(generator, self.table.draw(generator, size))

    def log_density(self, coordinates: Floats, log_ratio: Floats) -> Floats:
        return self.power * log_ratio - self.log_normaliser


def bump_of(bins: int, width: float) -> Floats:
    """The height of a bump at each distance; on a ring distances count both ways."""
    places = np.arange(bins)
    ring = np.minimum(places, bins - places)
    if width == 0:
        return (ring == 0).astype(float)
    bump = np.exp(-(ring**2) / (2 * width**2))
    return np.where(bump < _FLAT, 0.0, bump)


def ring_sums(values: Floats, length: int) -> Floats:
    """Sums of ``length`` entries in a row, half of all at least, from each place on a ring; no
    term is ever taken off.

    >>> ring_sums(np.array([[1.0, 2.0, 4.0]]), 2)
    array([[3., 6., 5.]])
    """
    bins = values.shape[1]
    ahead = np.cumsum(values, axis=1)
    behind = np.cumsum(values[:, ::-1], axis=1)[:, ::-1]
    sums = np.empty_like(values)
    first = bins - length  # from later places they go to the last one, and on from the first
    np.add(behind[:, first + 1 :], ahead[:, : length - 1], out=sums[:, first + 1 :])
    sums[:, 0], sums[:, first] = ahead[:, length - 1], behind[:, first]
    inside = np.arange(1, first)
    if inside.size:  # between both ends: what all of them share, and the rest on its sides
        shared = values[:, first:length].sum(axis=1, keepdims=True)
        left = np.cumsum(values[:, first - 1 : 0 : -1], axis=1)[:, ::-1]
        right = np.cumsum(values[:, length : length + inside.size], axis=1)
        sums[:, inside] = shared + left + right
    return sums


def whole_power(values: Floats, power: int) -> Floats:
    """``values`` to a whole power, by squares: relative to it, its error is ``power`` units.

    >>> whole_power(np.array([3.0]), 5)
    array([243.])
    """
    found = np.ones_like(values)
    while True:
        if power & 1:
            found *= values
        power >>= 1
        if not power:
            return found
        values = values * values


def log_hoelder(law: MinSep, probability: float, scale: float) -> float:
    """``log H`` of 5.3: a recursion over steps, in logarithms."""
    p, power, b = law.probability, 1.0 / (scale - 1.0), law.separation
    log_in = math.log(p) + power * math.log(p / probability)
    log_out = -math.inf
    if p < 1:
        log_out = math.log1p(-p) + power * (math.log1p(-p) - math.log1p(-probability))
    later = np.zeros(law.dimension + b)
    for i in range(law.dimension - 1, -1, -1):
        taken = log_in + scale * law.energies[i] / 2 + later[i + b]
        later[i] = np.logaddexp(log_out + later[i + 1], taken)
    if not law.warm:
        return float(later[0])
    whole, other = 1.0 + (b - 1) * p, 1.0 + (b - 1) * probability
    start = -math.log(whole) + power * math.log(other / whole)
    log_late = math.log(p / whole) + power * math.log((p / whole) / (probability / other))
    late = log_late + np.logaddexp.reduce(later[1:b]) if b > 1 else -math.inf
    return float(np.logaddexp(start + later[0], late))


def affords(law: MixtureLaw, order: int) -> bool:
    """Whether the table of an order is affordable."""
    if order * (order - 1) / 2 * law.greatest_energy > STEEPEST:
        return False
    if isinstance(law, MinSep):
        return ChainTable.is_affordable(law.dimension, law.separation, order)
    assert isinstance(law, CorrelatedBins)
    near = _reach(law)
    return OccupancyTable.is_affordable(law.bins, order) or RingTable.is_affordable(
        law.bins, near, order
    )


@lru_cache(maxsize=32)
def _reach(law: CorrelatedBins) -> int:
    return reach_of(law.gram)


@lru_cache(maxsize=6)
def bins_table(law: CorrelatedBins, order: int) -> OccupancyTable | RingTable:
    """The table of an order: which one depends on the law and the order alone."""
    _check(law, order)
    if OccupancyTable.is_affordable(law.bins, order):
        return OccupancyTable(law.gram, order)
    return RingTable(law.gram, _reach(law), order)


@lru_cache(maxsize=6)
def chain_table(law: MinSep, order: int) -> ChainTable:
    """The table of an order."""
    _check(law, order)
    return ChainTable(law.overlaps, law.separation, law.probability, law.warm, order)


def _check(law: MixtureLaw, order: int) -> None:
    if not 2 <= order <= MOST_REPLICAS or not affords(law, order):
        raise ValueError(f"order={order!r} has no affordable table for {law.describe()}")
