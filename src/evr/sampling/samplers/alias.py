"""Few draws from many outcomes: a table in which each draw costs the same (Walker 1977)."""

from __future__ import annotations

import numpy as np

from evr.bounds.cells import CellTable
from evr.bounds.tilt import Tilt
from evr.laws import DiscretePair, DominatingPair, Floats
from evr.laws.line.pair import log_sum_exp
from evr.sampling.samplers.common import Indices, StepSampler, Sums, matrices


class AliasSampler(StepSampler):
    """Finitely many outcomes, each step drawn by itself: a column of the table is uniform, and
    holds an outcome and another one, its alias.
    """

    name, version, outcomes_per_step = "alias", 1, 0.0

    def __init__(self, pair: DominatingPair, tilt: Tilt, table: CellTable | None = None) -> None:
        assert isinstance(pair, DiscretePair)
        log_p = np.array(pair.log_p)
        held = log_p > -np.inf
        self._losses = pair.losses[held]
        self._heights = tilt.height(self._losses)
        weights = log_p[held] + self._heights
        chances = np.exp(weights - log_sum_exp(weights))
        self._kept, self._alias = alias_table(chances / chances.sum())

    @classmethod
    def serves(cls, pair: DominatingPair, tilt: Tilt) -> bool:
        """Whether there are finitely many outcomes."""
        return isinstance(pair, DiscretePair)

    def draw(self, generator: np.random.Generator, size: int, count: int) -> Sums:
        sums = Sums(np.zeros(size), np.zeros(size))
        columns = self._kept.size
        for start, stop, steps in matrices(size, count):
            place = generator.random((stop - start, steps))
            place *= columns
            index = np.minimum(place.astype(np.int64), columns - 1)
            place -= index
            index = np.where(place < self._kept[index], index, self._alias[index])
            sums.losses[start:stop] += self._losses[index].sum(axis=1)
            sums.heights[start:stop] += self._heights[index].sum(axis=1)
        return sums


def alias_table(chances: Floats) -> tuple[Floats, Indices]:
    """For each column, the chance to keep its own outcome, and the outcome to take otherwise.

    Examples
    --------
    >>> kept, alias = alias_table(np.array([0.125, 0.875]))
    >>> kept.tolist(), alias.tolist()
    ([0.25, 1.0], [1, 1])
    """
    size = chances.size
    scaled = (chances * size).tolist()
    alias = list(range(size))
    small = [i for i, x in enumerate(scaled) if x < 1.0]
    large = [i for i, x in enumerate(scaled) if x >= 1.0]
    while small and large:
        poor, rich = small.pop(), large[-1]
        alias[poor] = rich
        scaled[rich] -= 1.0 - scaled[poor]
        if scaled[rich] < 1.0:
            small.append(large.pop())
    for rest in (*small, *large):  # 1 but for rounding
        scaled[rest] = 1.0
    return np.array(scaled), np.array(alias, dtype=np.int64)
