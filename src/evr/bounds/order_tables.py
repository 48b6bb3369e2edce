"""Moments of whole order of the likelihood ratio in many dimensions: ``M_k = E_Q[L^k]``, and draws
from ``Q L^k / M_k``.

``L^k`` is a sum over ``k`` replicas of the pattern, attracted by the inner products of their means.
A table sums their weights, which are positive, and draws replicas from them.
docs/guarantees_highdim.md, Section 5.1.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln

from evr.laws.law import Floats
from evr.laws.line.pair import log_sum_exp

MOST_REPLICAS = 40


def partitions(total: int, greatest: int | None = None) -> Iterator[tuple[int, ...]]:
    """Partitions of a number into falling parts.

    >>> list(partitions(4))
    [(4,), (3, 1), (2, 2), (2, 1, 1), (1, 1, 1, 1)]
    """
    if total == 0:
        yield ()
        return
    for first in range(min(total, greatest or total), 0, -1):
        for rest in partitions(total - first, first):
            yield (first, *rest)


class PartitionTable:
    """Replicas of independent bins that are alike: how many share a bin is all that matters (5.1a).

    Parameters
    ----------
    bins, energy
        ``b`` and ``g``.
    order
        ``k``.
    """

    def __init__(self, bins: int, energy: float, order: int) -> None:
        if not 2 <= order <= MOST_REPLICAS:
            raise ValueError(f"order={order!r} is not from 2 to {MOST_REPLICAS}")
        self.bins, self.energy, self.order = bins, energy, order
        parts = [p for p in partitions(order) if len(p) <= bins]
        self.log_weights = np.array([self._log_weight(p) for p in parts])
        self.parts = np.array([p + (0,) * (order - len(p)) for p in parts], dtype=np.int64)

    def _log_weight(self, parts: tuple[int, ...]) -> float:
        """``log`` of the weight of all occupancies with these parts."""
        log_ways = gammaln(self.bins + 1) - gammaln(self.bins - len(parts) + 1)
        log_ways -= sum(gammaln(n + 1) for n in Counter(parts).values())
        attraction = sum(self.energy * n * (n - 1) / 2 - gammaln(n + 1) for n in parts)
        return float(
            log_ways + attraction + gammaln(self.order + 1) - self.order * math.log(self.bins)
        )

    @cached_property
    def log_moment(self) -> float:
        """``log M_k``."""
        return log_sum_exp(self.log_weights)

    @cached_property
    def cumulated(self) -> Floats:
        """What a uniform number is compared with to choose one."""
        return np.cumsum(np.exp(self.log_weights - self.log_moment))[:-1]

    def draw(self, generator: np.random.Generator, size: int) -> NDArray[np.int64]:
        """How many replicas are in the bins that have some, falling, padded with zeros; at most
        ``bins`` columns.
        """
        chosen = np.searchsorted(self.cumulated, generator.random(size), side="right")
        return self.parts[chosen][:, : self.bins]
