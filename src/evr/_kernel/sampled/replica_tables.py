"""Replicas of patterns: bounds on ``M_k = E_Q[L^k]``, and draws (docs/guarantees_highdim.md, Section 5.1).

``L^k`` is a sum over ``k`` replicas of the pattern, which the inner products of their means attract; ``k`` is
the *order*. Tables sum positive weights from the last bin or step to the first; draws go the other way.
"""

import math
from functools import cached_property, lru_cache
from typing import TypeAlias

import numpy as np
from scipy.special import gammaln

from evr._kernel.pairs.law import Floats
from evr._kernel.pairs.line.pair import log_sum_exp
from evr._kernel.pairs.patterns.bins import Bins, CorrelatedBins, IndependentBins
from evr._kernel.pairs.patterns.law import PatternLaw, ReplacedPatterns
from evr._kernel.pairs.patterns.min_sep import MinSep
from evr._kernel.sampled.chain_table import ChainTable
from evr._kernel.sampled.replica_states import MOST_VALUES, Counts, partitions, with_sum
from evr._kernel.sampled.ring_table import RingTable
from evr._kernel.sampled.star_table import StarTable

MOST_REPLICAS = 40
STEEPEST = 650.0
"""The greatest exponent of a weight: beyond it floats would overflow, and bounds be of no use."""


class OccupancyTable:
    """Replicas in few bins of any Gram matrix, each occupancy listed; or in independent bins, where one
    stands for all that differ in the order of the bins (5.1b).
    """

    def __init__(self, law: Bins, order: int) -> None:
        self.order = order
        log_ways: Floats | float = -order * math.log(law.bins)
        if isinstance(law, IndependentBins):
            self.occupancies, log_ways = partitions(order, law.bins)
        else:
            self.occupancies = with_sum(order, law.bins)
        numbers = self.occupancies.astype(float)
        squares = np.einsum("ij,ij->i", law.pulled(numbers), numbers)
        # inner products of all pairs of replicas
        attraction = (squares - (numbers * law.energies).sum(axis=1)) / 2
        log_orders = gammaln(order + 1) - gammaln(self.occupancies + 1).sum(axis=1)
        self.log_weights = log_orders + attraction + log_ways

    @staticmethod
    def is_affordable(law: Bins, order: int) -> bool:
        each = law.bins * math.comb(law.bins + order - 1, order)
        return isinstance(law, IndependentBins) or each <= MOST_VALUES // 8

    @cached_property
    def log_moment(self) -> float:
        """``log M_k``."""
        return log_sum_exp(self.log_weights)

    @cached_property
    def cumulated(self) -> Floats:
        """Chances of the occupancies, added up."""
        return np.cumsum(np.exp(self.log_weights - self.log_moment))[:-1]

    def draw(self, generator: np.random.Generator, size: int) -> Counts:
        """The number of replicas in each bin."""
        chosen = np.searchsorted(self.cumulated, generator.random(size), side="right")
        return self.occupancies[chosen]


Table: TypeAlias = OccupancyTable | RingTable | ChainTable | StarTable


def affords(law: PatternLaw, order: int, window: int | None = None) -> bool:
    """Whether the table of an order is affordable."""
    law = law.base if isinstance(law, ReplacedPatterns) else law
    if not _has_range(law, order) or (window is not None and window < 1):
        return False
    if isinstance(law, MinSep):
        return ChainTable.is_affordable(law.dimension, law.separation, order)
    assert isinstance(law, Bins)
    return _is_listed(law, order, window) or RingTable.is_affordable(law, order, window)


def _has_range(law: PatternLaw, order: int) -> bool:
    """Whether floats hold all weights of the order."""
    return 2 <= order <= MOST_REPLICAS and order * (order - 1) / 2 * law.greatest_energy <= STEEPEST


def _is_listed(law: Bins, order: int, window: int | None) -> bool:
    return window is None and OccupancyTable.is_affordable(law, order)


@lru_cache(maxsize=6)
def table_of(
    law: Bins | MinSep, order: int, window: int | None = None
) -> OccupancyTable | RingTable | ChainTable:
    """The table of an order: which one depends on the law, the order and the window alone."""
    if not affords(law, order, window):
        beside = "" if window is None else f" with window={window!r}"
        raise ValueError(f"order={order!r}{beside} has no affordable table for {law.describe()}")
    if isinstance(law, MinSep):
        return ChainTable(law.overlaps, law.separation, law.probability, law.warm, order)
    return OccupancyTable(law, order) if _is_listed(law, order, window) else RingTable(law, order, window)


def has_star(law: PatternLaw, order: int) -> bool:
    """Whether replicas around one of them are drawn at an order."""
    law = law.base if isinstance(law, ReplacedPatterns) else law
    return isinstance(law, CorrelatedBins) and _has_range(law, order)


@lru_cache(maxsize=6)
def star_of(law: PatternLaw, order: int) -> StarTable:
    """The replicas around one of them."""
    if not has_star(law, order):
        raise ValueError(f"{order!r} replicas of {law.describe()} are not drawn around one of them")
    assert isinstance(law, CorrelatedBins)
    return StarTable(law, order)
