"""How one law in many dimensions is drawn: order ``k``, scaled means, or a shift.

A part's law has a density with respect to ``Q`` that can be computed and is at least ``e^{order loss} dP/dQ / M``: the
part *dominates a tilt* of that order, so weights are at most ``M e^{-order loss}``. docs/guarantees_highdim.md,
Sections 4 to 7.
"""

from __future__ import annotations

import abc
import math
from functools import lru_cache
from typing import Any

import numpy as np

from evr.bounds.replica_tables import MOST_REPLICAS, STEEPEST, ChainTable, OccupancyTable, RingTable
from evr.bounds.strict.plan import power
from evr.laws import Direction
from evr.laws.law import UNIT, Floats
from evr.laws.line.pair import log_sum_exp
from evr.laws.patterns.bins import Bins
from evr.laws.patterns.law import PatternLaw, ReplacedPatterns, in_parts, log_mean_exp, log_mean_power, magnitude
from evr.laws.patterns.min_sep import Chain, MinSep
from evr.sampling.plan import ByOrder, ByScale, ByShift, ByWindow


class Part(abc.ABC):
    """Draws coordinates of one law; knows their density with respect to ``Q``."""

    order: float
    """The tilt that it dominates, in the direction of its law; 0 for plain sampling."""
    log_normaliser: float
    """``log M`` of that tilt; infinite where there is none."""
    magnitude: float
    """How many times the means of the law it draws from are, at the most: rounding is relative to that."""
    refuses: bool = False
    """Whether it may draw nothing (4.2)."""

    def sum_error(self, law: PatternLaw, scale: float) -> float:
        """What sums of its own add to the error of the logarithm of its density, where means are up to ``scale`` times
        those of patterns of its law (Section 7).
        """
        return 0.0

    @abc.abstractmethod
    def draw(self, generator: np.random.Generator, size: int) -> Floats:
        """Coordinates, a row for each sample; a row of NaN where a part that ``refuses`` draws nothing."""

    @abc.abstractmethod
    def log_density(self, coordinates: Floats, log_ratio: Floats) -> Floats:
        """``log`` of the density with respect to ``Q``; ``log_ratio`` is ``log L``."""


class Shifted(Part):
    """``N(shift mbar, I)`` of any law. Where the shift is not positive, that is a tilt of the add direction (6.1)."""

    def __init__(self, law: PatternLaw, shift: float) -> None:
        self.law, self.shift, self.order, self.magnitude = law, shift, -shift, abs(shift)
        mean = law.mean
        self.move, self.weights = shift * mean.coordinates, mean.weights
        self.half_square = shift**2 * mean.square / 2
        self.log_normaliser = self.order * mean.energy / 2 + self.half_square

    def sum_error(self, law: PatternLaw, scale: float) -> float:
        """The error of the sum of products in the density."""
        # noise of n coordinates is up to 39 + sqrt(n) long, not 39
        more = (39.0 + math.sqrt(law.dimension)) / 156.0
        products = math.ceil(law.dimension * max(1.0, more))
        return 2.0 * UNIT * products * magnitude(law, scale)

    def draw(self, generator: np.random.Generator, size: int) -> Floats:
        coordinates = self.law.draw_null(generator, size)
        coordinates += self.move
        return coordinates

    def log_density(self, coordinates: Floats, log_ratio: Floats) -> Floats:
        return self.shift * (coordinates @ self.weights) - self.half_square


class ScaledBins(Part):
    """Scaled means ``P_u`` of bins (5.2), with ``H = mean_j e^{u G_jj/2}``."""

    def __init__(self, law: Bins, scale: float) -> None:
        self.law, self.scale, self.magnitude = law, scale, scale
        self.half_squares = scale**2 * law.energies / 2
        self.order = scale - 1.0
        log_h = log_mean_exp(law.energies[None, :], np.zeros(1), scale / 2)[0]
        self.log_normaliser = self.order * float(log_h)

    def draw(self, generator: np.random.Generator, size: int) -> Floats:
        coordinates = self.law.draw_null(generator, size)
        chosen = generator.integers(0, self.law.bins, size)
        coordinates += self.scale * self.law.means(chosen)
        return coordinates

    def log_density(self, coordinates: Floats, log_ratio: Floats) -> Floats:
        return log_mean_exp(coordinates, self.half_squares, self.scale)


class ScaledChain(Part):
    """b-min-sep patterns of other odds to take part, their means scaled (5.2)."""

    def __init__(self, law: MinSep, scale: float, odds: float) -> None:
        self.law, self.scale, self.magnitude = law, scale, scale
        probability = with_odds(law.probability, odds)
        self.chain = Chain(law.dimension, law.separation, probability, law.warm)
        self.order = scale - 1.0
        self.log_normaliser = self.order * log_hoelder(law, probability, scale) if scale > 1 else 0.0

    def sum_error(self, law: PatternLaw, scale: float) -> float:
        return self.law.logs_error(self.chain, self.scale, scale)

    def draw(self, generator: np.random.Generator, size: int) -> Floats:
        return self.law.shifted(generator, self.scale * self.chain.draw(generator, size))

    def log_density(self, coordinates: Floats, log_ratio: Floats) -> Floats:
        u = self.scale
        return self.chain.log_sum(coordinates.T, u, u * u * self.law.energies / 2)


class ByReplicas(Part):
    """``Q L^k / M_k`` of b-min-sep sampling and of independent or few bins; of other bins the mean over rotations of
    ``Q L'^k / Mbar``, ``L'`` without a few bins or of a ``window`` of them, which is at least ``L^k / Mbar`` (5.1).
    """

    def __init__(self, law: Bins | MinSep, order: int, window: int | None = None) -> None:
        self.law, self.power, self.magnitude = law, order, float(order)
        self.table: Any = table_of(law, order, window)
        self.refuses = isinstance(self.table, RingTable)
        self.order, self.log_normaliser = order - 1.0, self.table.log_moment

    def sum_error(self, law: PatternLaw, scale: float) -> float:
        """The error of sliding sums, and of the sums of a table from bin to bin, or from step to step."""
        return 4.0 * UNIT * law.dimension * self.power

    def draw(self, generator: np.random.Generator, size: int) -> Floats:
        law, table = self.law, self.table
        if isinstance(law, MinSep):
            return law.shifted(generator, table.draw(generator, size))
        coordinates = law.draw_null(generator, size)
        if isinstance(table, RingTable):
            _, pulled, accepted = table.draw(generator, size)
            coordinates += pulled
            coordinates[~accepted] = np.nan
        else:
            moved = law.pulled(table.draw(generator, size).astype(float))
            coordinates[:, : moved.shape[1]] += moved  # of independent bins, any will do
        return coordinates

    def log_density(self, coordinates: Floats, log_ratio: Floats) -> Floats:
        if not isinstance(self.table, RingTable):
            return self.power * log_ratio - self.log_normaliser
        half_squares = self.law.energies / 2
        if not isinstance(coordinates, np.ndarray):
            found = log_mean_power(coordinates, half_squares, 1.0, self.table.length, self.power)
            return found - self.log_normaliser
        found = np.empty_like(log_ratio)
        for rows in in_parts(coordinates):
            logs = coordinates[rows] - half_squares
            top = logs.max(axis=1, keepdims=True)
            logs -= top
            means = ring_sums(np.exp(logs, out=logs), self.table.length)
            means /= self.table.length  # 1 / length or more somewhere, 1 at the most
            powers = power(means, self.power, np.multiply).mean(axis=1)  # by squares: off by as many units
            found[rows] = np.log(powers) + self.power * top[:, 0] - self.log_normaliser
        return found


class LocalBins(Part):
    """Order ``k`` of a window of bins, and all bins shifted by ``shift mbar`` (4.4): it carries the excess over epsilon
    by a few bins next to each other, and by all of them together. It bounds no sample.
    """

    order, log_normaliser, refuses = 0.0, math.inf, True

    def __init__(self, law: Bins, order: int, window: int, shift: float) -> None:
        self.window, self.shifted = ByReplicas(law, order, window), Shifted(law, shift)
        self.magnitude = order + shift

    def sum_error(self, law: PatternLaw, scale: float) -> float:
        return self.window.sum_error(law, scale) + self.shifted.sum_error(law, scale)

    def draw(self, generator: np.random.Generator, size: int) -> Floats:
        coordinates = self.window.draw(generator, size)
        coordinates += self.shifted.move
        return coordinates

    def log_density(self, coordinates: Floats, log_ratio: Floats) -> Floats:
        found = self.window.log_density(coordinates - self.shifted.move, log_ratio)
        return found + self.shifted.log_density(coordinates, log_ratio)


def part_of(law: PatternLaw, by: ByOrder | ByScale | ByShift | ByWindow) -> Part:
    """The part of a law that a plan names; the same for all laws of a composition."""
    law = law.base if isinstance(law, ReplacedPatterns) else law
    if (law.direction is Direction.ADD) is not isinstance(by, ByShift):
        raise ValueError(f"direction {law.direction.value!r} of {law.describe()} has no part {by!r}")
    if isinstance(by, ByShift):
        if not -math.inf < by.shift <= 0:
            raise ValueError(f"shift={by.shift!r} of a part is not finite and at most 0")
        return Shifted(law, by.shift)
    assert isinstance(law, Bins | MinSep)
    match by:
        case ByOrder(order):
            return ByReplicas(law, order)
        case ByScale(scale, odds):
            if not (1 < scale < math.inf or scale == odds == 1):
                raise ValueError(f"scale={scale!r} of a part is not finite and above 1, nor 1 with odds of 1")
            return ScaledChain(law, scale, odds) if isinstance(law, MinSep) else ScaledBins(law, scale)
        case ByWindow(order, window, shift):
            if isinstance(law, MinSep):
                raise ValueError(f"{law.describe()} has no part {by!r}")
            if not 0 <= shift < math.inf:
                raise ValueError(f"shift={shift!r} of a window is not finite and at least 0")
            return LocalBins(law, order, window, shift)


def with_odds(probability: float, odds: float) -> float:
    """The probability whose odds are so many times those of another.

    >>> with_odds(0.2, 4.0), with_odds(0.3, 1.0)
    (0.5, 0.3)
    """
    if odds == 1 or probability == 1:
        return probability
    found = odds * probability / (1.0 - probability + odds * probability)
    if not 0 < found < 1:
        raise ValueError(f"odds={odds!r} of a part make {probability!r} no probability")
    return found


def ring_sums(values: Floats, length: int) -> Floats:
    """Sums of ``length`` entries in a row from each place on a ring; no term is ever taken off.

    >>> ring_sums(np.array([[1.0, 2.0, 4.0]]), 2)
    array([[3., 6., 5.]])
    """

    def joined(one: tuple[Floats, int], other: tuple[Floats, int]) -> tuple[Floats, int]:
        return one[0] + np.roll(other[0], -one[1], axis=1), one[1] + other[1]

    return power((values, 1), length, joined)[0]


def log_hoelder(law: MinSep, probability: float, scale: float) -> float:
    """``log H`` of 5.2: a recursion over steps, in logarithms."""
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
    late = log_late + log_sum_exp(later[1:b]) if b > 1 else -math.inf
    return float(np.logaddexp(start + later[0], late))


def affords(law: PatternLaw, order: int, window: int | None = None) -> bool:
    """Whether the table of an order is affordable."""
    law = law.base if isinstance(law, ReplacedPatterns) else law
    if not 2 <= order <= MOST_REPLICAS or (window is not None and window < 1):
        return False
    if order * (order - 1) / 2 * law.greatest_energy > STEEPEST:
        return False
    if isinstance(law, MinSep):
        return ChainTable.is_affordable(law.dimension, law.separation, order)
    assert isinstance(law, Bins)
    listed = window is None and OccupancyTable.is_affordable(law, order)
    return listed or RingTable.is_affordable(law, order, window)


@lru_cache(maxsize=6)
def table_of(law: Bins | MinSep, order: int, window: int | None = None) -> OccupancyTable | RingTable | ChainTable:
    """The table of an order: which one depends on the law, the order and the window alone."""
    if not affords(law, order, window):
        beside = "" if window is None else f" with window={window!r}"
        raise ValueError(f"order={order!r}{beside} has no affordable table for {law.describe()}")
    if isinstance(law, MinSep):
        return ChainTable(law.overlaps, law.separation, law.probability, law.warm, order)
    listed = window is None and OccupancyTable.is_affordable(law, order)
    return OccupancyTable(law, order) if listed else RingTable(law, order, window)
