"""Finitely many outcomes, by place: a step is a look-up in an alias table."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evr.bounds.cells import CellTable
from evr.bounds.tilt import Tilt
from evr.laws import DiscretePair, DominatingPair, Floats
from evr.laws.line.pair import log_sum_exp
from evr.sampling.philox import Place, philox
from evr.sampling.samplers.alias import alias_slots
from evr.sampling.samplers.common import Sums
from evr.sampling.samplers.placed import PlacedSampler, Samples

MOST_OUTCOMES = 1 << 14
"""So that the tables fit into the shared memory of a multiprocessor."""

_FEWEST_BITS = 8  # of a table
_EACH = 1 << 13  # steps after which a sum of whole numbers is turned into a float


class OutcomesPhilox(PlacedSampler):
    """Finitely many outcomes with finite losses. The leading bits of a word of 32 choose a slot,
    the others decide between its two outcomes, and in a tie 32 more; losses are whole multiples of
    a unit, so that sums are exact.
    """

    name, version, outcomes_per_step, kernel = "outcomes_philox", 1, 0.0, "outcomes"

    def __init__(self, pair: DominatingPair, tilt: Tilt, table: CellTable | None = None) -> None:
        assert isinstance(pair, DiscretePair)
        log_p = np.array(pair.log_p)
        held = log_p > -np.inf
        losses = pair.losses[held]
        heights = tilt.height(losses)
        weights = log_p[held] + heights
        chances = np.exp(weights - log_sum_exp(weights))
        rests = heights - tilt.order * losses
        order = np.argsort(rests != 0, kind="stable")  # those on the line first
        self.bits = max(_FEWEST_BITS, (losses.size - 1).bit_length())
        self.slope, self.first = tilt.order, int(np.count_nonzero(rests == 0))
        slots = alias_slots(chances[order] / chances.sum(), self.bits)
        self.slots, self.ties = (slots >> np.uint64(32)).astype(np.uint32), slots.astype(np.uint32)
        self.unit, self.values = _fixed(losses[order], 1 << self.bits)
        self.rest_unit, self.rests = _fixed(rests[order], 1 << self.bits)
        if self.first == losses.size:
            self.first = 1 << self.bits  # none beyond the line

    @classmethod
    def serves(cls, pair: DominatingPair, tilt: Tilt) -> bool:
        """Whether there are finitely many outcomes, not too many, of finite losses."""
        if not isinstance(pair, DiscretePair):
            return False
        held = np.array(pair.log_p) > -np.inf
        return int(np.count_nonzero(held)) <= MOST_OUTCOMES and bool(
            np.all(np.isfinite(pair.losses[held]))
        )

    @property
    def shared_bytes(self) -> int:
        """Of its tables."""
        return 12 << self.bits

    def arguments(self) -> tuple[Any, ...]:
        numbers = (self.unit, self.slope, self.rest_unit)
        whole = (np.int32(self.bits), np.int32(self.first))
        return (*whole, *map(np.float64, numbers), self.slots, self.ties, self.values, self.rests)

    def drawn(self, place: Place, samples: Samples, count: int) -> Sums:
        losses, rests = np.zeros((2, samples.size))
        for first in range(0, count, _EACH):
            end = min(first + _EACH, count)
            calls = np.arange(first // 4, (end + 3) // 4)
            words = np.stack(
                philox((calls[None, :], samples[:, None], 0, place.block), place.key), axis=2
            )
            drawn = words.reshape(samples.size, -1)[:, : end - first].astype(np.uint32)
            chosen = self._chosen(drawn, place, samples, first)
            losses += self.unit * self.values[chosen].sum(axis=1)
            rests += self.rest_unit * self.rests[chosen].sum(axis=1)
        return Sums(losses, self.slope * losses + rests)

    def _chosen(
        self, words: NDArray[np.uint32], place: Place, samples: Samples, first: int
    ) -> NDArray[np.uint32]:
        lead = np.uint32(32 - self.bits)
        mask = (np.uint32(1) << lead) - np.uint32(1)
        own = words >> lead
        found = self.slots[own]
        other = (words & mask) >= (found & mask)
        row, column = np.nonzero((words & mask) == (found & mask))
        more = philox((0, samples[row], 3 + 2 * (column + first), place.block), place.key)[0]
        other[row, column] = more >= self.ties[own[row, column]]
        chosen: NDArray[np.uint32] = np.where(other, found >> lead, own)
        return chosen


def _fixed(values: Floats, size: int) -> tuple[float, NDArray[np.int64]]:
    """The values as whole multiples of a unit, ``size`` of them; sums of ``_EACH`` are below
    2^62.
    """
    greatest = float(np.max(np.abs(values), initial=0.0))
    unit = 2.0 ** (math.ceil(math.log2(greatest * _EACH)) - 62) if greatest else 1.0
    whole = np.zeros(size, np.int64)
    whole[: values.size] = np.rint(values / unit).astype(np.int64)
    return unit, whole
