"""Any pair on a line: untilted, or cell by cell."""

from __future__ import annotations

import numpy as np

from evr.bounds.cells import CellTable
from evr.bounds.tilt import Tilt
from evr.laws import DominatingPair, Floats, Measure
from evr.laws.line.pair import log_sum_exp
from evr.sampling.samplers.common import StepSampler, Sums, matrices


class PlainSampler(StepSampler):
    """Any pair, untilted."""

    name, version, outcomes_per_step = "plain", 1, 4.0

    def __init__(self, pair: DominatingPair, tilt: Tilt, table: CellTable | None = None) -> None:
        self.pair = pair

    @classmethod
    def serves(cls, pair: DominatingPair, tilt: Tilt) -> bool:
        """Whether there is no tilt."""
        return tilt.order == 0

    def draw(self, generator: np.random.Generator, size: int, count: int) -> Sums:
        losses = np.zeros(size)
        for start, stop, steps in matrices(size, count):
            t = self.pair.draw(Measure.P, generator, (stop - start) * steps)
            losses[start:stop] += self.pair.privacy_loss(t).reshape(stop - start, steps).sum(axis=1)
        return Sums(losses, np.zeros(size))


_MOST_REFUSALS = 64  # for each draw that is kept; in cells as the search makes them, below 1


class CellSampler(StepSampler):
    """Any pair with a table of cells: draw a cell by its tilted mass at the upper end, then ``t``
    from ``P`` within it, kept with probability ``e^{h(t) - h(upper end)}``, which is close to 1 in
    a narrow cell.
    """

    name, version, outcomes_per_step = "cells", 1, 4.0

    def __init__(self, pair: DominatingPair, tilt: Tilt, table: CellTable | None) -> None:
        if table is None:
            raise ValueError("a table of cells is needed for this pair")
        self.pair, self.tilt = pair, tilt
        self._roof = tilt.height(table.greatest)
        weights = table.log_p + self._roof
        if not abs(weights.max()) < 1e12:
            raise ValueError(
                f"the losses of {pair.describe()} are too large for weights in floats: nothing can "
                "be drawn here"
            )
        kept = weights > weights.max() - 745.0
        self._roof, self._low, self._high = self._roof[kept], table.low[kept], table.high[kept]
        self._cumulated = np.cumsum(np.exp(weights[kept] - log_sum_exp(weights[kept])))[:-1]

    @classmethod
    def serves(cls, pair: DominatingPair, tilt: Tilt) -> bool:
        """Any pair on a line."""
        return True

    def draw(self, generator: np.random.Generator, size: int, count: int) -> Sums:
        losses, heights = np.zeros(size), np.zeros(size)
        for start, stop, steps in matrices(size, count):
            loss, height = self._accepted(generator, (stop - start) * steps)
            losses[start:stop] += loss.reshape(stop - start, steps).sum(axis=1)
            heights[start:stop] += height.reshape(stop - start, steps).sum(axis=1)
        return Sums(losses, heights)

    def _accepted(self, generator: np.random.Generator, size: int) -> tuple[Floats, Floats]:
        loss, height = np.empty(size), np.empty(size)
        pending = np.arange(size)
        left = _MOST_REFUSALS * size + 100_000
        while pending.size:
            left -= pending.size
            if left < 0:
                raise ValueError(
                    f"more than {_MOST_REFUSALS} of {_MOST_REFUSALS + 1} draws of a loss of "
                    f"{self.pair.describe()} are refused: the plan's cells are too wide for its "
                    "tilt, so that nobody would wait for its samples"
                )
            cell = np.searchsorted(self._cumulated, generator.random(pending.size), side="right")
            drawn = self.pair.privacy_loss(
                self.pair.sample(Measure.P, generator, self._low[cell], self._high[cell])
            )
            h = self.tilt.height(drawn)
            loss[pending], height[pending] = drawn, h
            pending = pending[generator.standard_exponential(pending.size) < self._roof[cell] - h]
        return loss, height
