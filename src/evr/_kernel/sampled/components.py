"""What draws one law in many dimensions (docs/guarantees_highdim.md, Sections 4 to 6).

Its density with respect to ``Q`` can be computed and is at least ``e^{order loss} dP/dQ / M``: the component
*dominates a tilt* of that order, so weights are at most ``M e^{-order loss}``.
"""

import abc
import math

import numpy as np

from evr._kernel.pairs import Direction
from evr._kernel.pairs.law import UNIT, Floats
from evr._kernel.pairs.line.pair import log_sum_exp
from evr._kernel.pairs.patterns.bins import Bins
from evr._kernel.pairs.patterns.law import PatternLaw, ReplacedPatterns, log_mean_exp, magnitude
from evr._kernel.pairs.patterns.min_sep import Chain, MinSep, log_chain_sum
from evr._kernel.sampled.chain_table import ChainTable
from evr._kernel.sampled.plan import ByOrder, ByScale, ByShift, ByStar, ByWindow
from evr._kernel.sampled.replica_tables import OccupancyTable, Table, star_of, table_of
from evr._kernel.sampled.ring_table import RingTable, log_ring_power
from evr._kernel.sampled.star_table import StarTable

MOST_SCALE = 1e100
"""How many times the means of a law a plan may draw from: squares of more are no floats."""


class Component(abc.ABC):
    """Draws coordinates of one law; knows their density with respect to ``Q``."""

    order: float  # of the tilt that it dominates, in the direction of its law; 0 for plain sampling
    log_normaliser: float  # ``log M`` of that tilt
    magnitude: float  # the greatest multiple of a pattern's mean that it draws from, for rounding
    refuses: bool = False  # whether it may draw nothing (4.2)

    def sum_error(self, law: PatternLaw, scale: float) -> float:
        """What own sums add to the error of the log density; means up to ``scale`` times the law's (7)."""
        return 0.0

    @abc.abstractmethod
    def draw(self, generator: np.random.Generator, size: int) -> Floats:
        """Coordinates, a row for each sample; a row of NaN where one that ``refuses`` draws nothing."""

    @abc.abstractmethod
    def log_density(self, coordinates: Floats, log_ratio: Floats) -> Floats:
        """``log`` of the density with respect to ``Q``; ``log_ratio`` is ``log L``."""


class Shifted(Component):
    """``N(shift mbar, I)`` of any law; where the shift is not positive, a tilt of the add direction (6.1)."""

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


class ScaledBins(Component):
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


class ScaledChain(Component):
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
        return log_chain_sum(coordinates.T, self.chain, u, u * u * self.law.energies / 2)


class Replicas(Component):
    """``Q L^k / M`` of b-min-sep sampling and of bins, ``k`` replicas drawn by a table; of a ring of bins the
    mean over rotations of ``Q L'^k / M``, ``L'`` without a few bins or of a window of them, which is at least
    ``L^k / M`` (5.1).
    """

    def __init__(self, law: Bins | MinSep, table: Table) -> None:
        self.law, self.table, self.power = law, table, table.order
        self.magnitude, self.order = float(table.order), table.order - 1.0
        self.log_normaliser = table.log_moment
        self.refuses = isinstance(table, RingTable | StarTable)

    def sum_error(self, law: PatternLaw, scale: float) -> float:
        """The error of sliding sums, and of the sums of a table from bin to bin, or from step to step."""
        return 4.0 * UNIT * law.dimension * self.power

    def draw(self, generator: np.random.Generator, size: int) -> Floats:
        law, table = self.law, self.table
        if isinstance(table, ChainTable):
            assert isinstance(law, MinSep)
            return law.shifted(generator, table.draw(generator, size))
        assert isinstance(law, Bins)
        coordinates = law.draw_null(generator, size)
        if isinstance(table, OccupancyTable):
            moved = law.pulled(table.draw(generator, size).astype(float))
            coordinates[:, : moved.shape[1]] += moved  # of independent bins, any will do
        else:
            _, pulled, accepted = table.draw(generator, size)
            coordinates += pulled
            coordinates[~accepted] = np.nan
        return coordinates

    def log_density(self, coordinates: Floats, log_ratio: Floats) -> Floats:
        if not isinstance(self.table, RingTable):
            return self.power * log_ratio - self.log_normaliser
        half_squares, length = self.law.energies / 2, self.table.length
        return log_ring_power(coordinates, half_squares, length, self.power) - self.log_normaliser


class LocalBins(Component):
    """Order ``k`` of a window of bins, and all bins shifted by ``shift mbar`` (4.4): it carries the excess
    over epsilon by a few bins next to each other, and by all of them together. It bounds no sample.
    """

    order, log_normaliser, refuses = 0.0, math.inf, True

    def __init__(self, law: Bins, order: int, window: int, shift: float) -> None:
        self.window, self.shifted = Replicas(law, table_of(law, order, window)), Shifted(law, shift)
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


def component_of(law: PatternLaw, by: ByOrder | ByStar | ByScale | ByShift | ByWindow) -> Component:
    """The component that a plan names; tables refuse orders that are too large, also for floats."""
    law = law.base if isinstance(law, ReplacedPatterns) else law
    if (law.direction is Direction.ADD) is not isinstance(by, ByShift):
        raise ValueError(f"direction {law.direction.value!r} of {law.describe()} has no part {by!r}")
    if isinstance(by, ByShift):
        if not -MOST_SCALE <= by.shift <= 0:
            raise ValueError(f"shift={by.shift!r} of a part is not from {-MOST_SCALE:g} to 0")
        return Shifted(law, by.shift)
    assert isinstance(law, Bins | MinSep)
    if isinstance(by, ByOrder):
        return Replicas(law, table_of(law, by.order))
    if isinstance(by, ByStar):
        return Replicas(law, star_of(law, by.replicas))
    if isinstance(by, ByWindow):
        if isinstance(law, MinSep) or not 0 <= by.shift <= MOST_SCALE:
            needs = f"it needs bins and a shift from 0 to {MOST_SCALE:g}"
            raise ValueError(f"{law.describe()} has no part {by!r}: {needs}")
        return LocalBins(law, by.order, by.window, by.shift)
    if not (1 < by.scale <= MOST_SCALE or by.scale == by.odds == 1):
        allowed = f"above 1, up to {MOST_SCALE:g}, nor 1 with odds of 1"
        raise ValueError(f"scale={by.scale!r} of a part is not {allowed}")
    return ScaledChain(law, by.scale, by.odds) if isinstance(law, MinSep) else ScaledBins(law, by.scale)


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
