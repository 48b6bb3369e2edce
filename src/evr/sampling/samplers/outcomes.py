"""Finitely many outcomes: multinomial draws stand for the steps."""

from __future__ import annotations

import numpy as np

from evr.bounds.cells import CellTable
from evr.bounds.tilt import Tilt
from evr.laws import DiscretePair, DominatingPair
from evr.laws.line.pair import log_sum_exp
from evr.sampling.samplers.common import CACHE, StepSampler, Sums


class OutcomeSampler(StepSampler):
    """Finitely many outcomes: how many of a sample's steps have each one is a multinomial draw."""

    name, version, outcomes_per_step = "outcomes", 1, 0.0

    def __init__(self, pair: DominatingPair, tilt: Tilt, table: CellTable | None = None) -> None:
        assert isinstance(pair, DiscretePair)
        log_p = np.array(pair.log_p)
        held = log_p > -np.inf
        losses = pair.losses[held]
        heights = tilt.height(losses)
        weights = log_p[held] + heights
        chances = np.exp(weights - log_sum_exp(weights))
        # the rare first: what a multinomial draw divides by stays large
        order = np.argsort(chances, kind="stable")
        self._chances, self._losses, self._heights = (
            chances[order] / chances.sum(),
            losses[order],
            heights[order],
        )

    @classmethod
    def serves(cls, pair: DominatingPair, tilt: Tilt) -> bool:
        """Whether there are finitely many outcomes."""
        return isinstance(pair, DiscretePair)

    def cost(self, count: int) -> int:
        """Of a multinomial draw, where that is cheaper."""
        return min(count, 4 * self._chances.size)

    def draw(self, generator: np.random.Generator, size: int, count: int) -> Sums:
        if self._chances.size > 4 * count:  # few steps, many outcomes: draw each step
            index = np.searchsorted(
                np.cumsum(self._chances[:-1]), generator.random((size, count)), side="right"
            )
            return Sums(self._losses[index].sum(axis=1), self._heights[index].sum(axis=1))
        losses, heights = np.empty(size), np.empty(size)
        rows = max(1, CACHE // self._chances.size)
        finite = np.where(np.isfinite(self._losses), self._losses, 0.0)
        endless = np.flatnonzero(~np.isfinite(self._losses))
        for start in range(0, size, rows):
            counts = generator.multinomial(count, self._chances, size=min(rows, size - start))
            total = counts @ finite
            total[np.any(counts[:, endless] > 0, axis=1)] = np.inf
            losses[start : start + rows], heights[start : start + rows] = (
                total,
                counts @ self._heights,
            )
        return Sums(losses, heights)
