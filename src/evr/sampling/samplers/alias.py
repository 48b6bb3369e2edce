"""Few draws from many outcomes: a table in which each draw costs the same (Walker 1977)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from evr.bounds.cells import CellTable
from evr.bounds.tilt import Tilt
from evr.laws import DiscretePair, DominatingPair, Floats
from evr.laws.line.pair import log_sum_exp
from evr.sampling.samplers.common import StepSampler, Sums, matrices


class AliasSampler(StepSampler):
    """Finitely many outcomes, each step drawn by itself: the leading bits of a word of 64 choose a
    column of the table, the others between its outcome and another one, its alias.
    """

    name, version, outcomes_per_step = "alias", 2, 0.0

    def __init__(self, pair: DominatingPair, tilt: Tilt, table: CellTable | None = None) -> None:
        assert isinstance(pair, DiscretePair)
        log_p = np.array(pair.log_p)
        held = log_p > -np.inf
        self.losses = pair.losses[held]
        self._heights = tilt.height(self.losses)
        weights = log_p[held] + self._heights
        chances = np.exp(weights - log_sum_exp(weights))
        bits = max(1, (self.losses.size - 1).bit_length())
        self._slots = alias_slots(chances / chances.sum(), bits)
        self._lead = np.uint64(64 - bits)

    @classmethod
    def serves(cls, pair: DominatingPair, tilt: Tilt) -> bool:
        """Whether there are finitely many outcomes."""
        return isinstance(pair, DiscretePair)

    def draw(self, generator: np.random.Generator, size: int, count: int) -> Sums:
        return Sums(*self.sums(generator, size, count, (self.losses, self._heights)))

    def sums(
        self, generator: np.random.Generator, size: int, count: int, tables: Sequence[Floats]
    ) -> list[Floats]:
        """For each sample, the sum over its steps of a number that a table holds for each
        outcome.
        """
        found = [np.zeros(size) for _ in tables]
        mask = (np.uint64(1) << self._lead) - np.uint64(1)
        for start, stop, steps in matrices(size, count):
            words = generator.integers(0, 1 << 64, (steps, stop - start), np.uint64)
            own = words >> self._lead
            slots = self._slots.take(own.view(np.int64))
            words &= mask
            index = np.where(words < (slots & mask), own, slots >> self._lead).view(np.int64)
            for sums, table in zip(found, tables, strict=True):
                sums[start:stop] += table.take(index).sum(axis=0)
        return found


def alias_slots(chances: Floats, bits: int) -> NDArray[np.uint64]:
    """The alias table of Walker and Vose in whole numbers: chances are multiples of 2^-64, and
    nothing else is rounded.

    A slot holds the index of its other outcome in its leading ``bits``, and in the rest the share
    of its own.
    """
    size, room = 1 << bits, 1 << (64 - bits)
    shares = [int(x * 2.0**64) for x in chances.tolist()] + [0] * (size - chances.size)
    shares[int(np.argmax(chances))] += (1 << 64) - sum(shares)
    small = [i for i in range(size) if shares[i] < room]
    large = [i for i in range(size) if shares[i] >= room]
    slots = [0] * size
    while large:
        rich = large.pop()
        while shares[rich] > room and small:
            poor = small.pop()
            slots[poor] = rich << (64 - bits) | shares[poor]
            shares[rich] -= room - shares[poor]
            if shares[rich] < room:
                small.append(rich)
                break
        else:
            slots[rich] = rich << (64 - bits)  # full: both outcomes are its own
    return np.array(slots, np.uint64)
