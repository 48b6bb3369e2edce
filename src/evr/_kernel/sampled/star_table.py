"""Replicas of bins around one of them, whatever the inner products (docs/guarantees_highdim.md, 5.1d): for
wide bands, of which a ring has too many states.
"""

import numpy as np
from numpy.typing import NDArray

from evr._kernel.pairs.law import Floats, module_of
from evr._kernel.pairs.line.pair import log_sum_exp
from evr._kernel.pairs.patterns.bins import CorrelatedBins


class StarTable:
    """``order`` replicas: one is the *centre*, and all others are attracted by it alone, ``order / 2`` times
    as much. These weights are at least those of 5.1, so draws are accepted with the ratio of both.
    """

    def __init__(self, law: CorrelatedBins, order: int) -> None:
        self.law, self.order = law, order
        attracted = np.exp(order / 2 * law.gram)  # of another replica, by its centre and its bin
        logs = (order - 1) * np.log(attracted.mean(axis=1))
        self.log_moment = log_sum_exp(logs) - float(np.log(law.bins))
        centres = np.cumsum(np.exp(logs - logs.max()))
        self.centres = (centres / centres[-1])[:-1]  # chances, added up
        others = np.cumsum(attracted, axis=1)
        self.others = (others / others[:, -1:])[:, :-1]

    def draw(self, generator: np.random.Generator, size: int) -> tuple[Floats, Floats, NDArray[np.bool_]]:
        """The number of replicas in each bin; ``G`` times that; and whether the draw is accepted (4.2)."""
        centre = np.searchsorted(self.centres, generator.random(size), side="right")
        xp, chances = module_of(centre), self.others[centre]
        rows, occupied = xp.arange(size), xp.zeros((size, self.law.bins))
        occupied[rows, centre] = 1.0
        for _ in range(self.order - 1):
            occupied[rows, (generator.random(size)[:, None] >= chances).sum(axis=1)] += 1.0
        pulled = self.law.pulled(occupied)
        by_others = pulled - self.law.energies  # how all others attract a replica in each bin
        pairs = (occupied * by_others).sum(axis=1) / 2
        # the mean over who is the centre: the share of the weight is its reciprocal
        stars = (occupied * np.exp(self.order / 2 * by_others - pairs[:, None])).sum(axis=1) / self.order
        return occupied, pulled, generator.random(size) * stars < 1.0
