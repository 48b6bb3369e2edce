"""Exact draws of sums of steps: tilted ones on outcomes, and untilted ones of any pair.

A sampler draws, for each of ``size`` samples, ``count`` independent steps and returns the sum of their losses and the
sum of their heights ``h``.
"""

from __future__ import annotations

from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from evr.bounds.moments import TiltedOutcomes
from evr.laws import DominatingPair, Floats, Measure

CACHE = 1 << 15  # numbers drawn at a time: 256 KiB
MOST_STEPS = 1 << 13  # steps of a sample drawn at a time
_FEW_STEPS = 1 << 12  # that a table draws one by one
_LARGEST = 1 << 22  # steps times outcomes of such a table
_MOST_OUTCOMES = 1 << 17  # of it


class Sums(NamedTuple):
    """For each sample, the sum of the losses and the sum of the heights of its steps."""

    losses: Floats
    heights: Floats


class OutcomeSampler:
    """Steps from ``P' = e^h P / M`` on finitely many outcomes of finite loss (docs/guarantees.md, Section 3.3).

    Few steps are drawn one by one from an alias table (Walker 1977), where each draw costs the same; of many, a
    multinomial draw says how many have each outcome.
    """

    def __init__(self, step: TiltedOutcomes) -> None:
        chances = np.exp(step.log_p + step.heights - step.log_normaliser)
        # the rare first: what a multinomial draw divides by stays large
        order = np.argsort(chances, kind="stable")
        self._chances = chances[order] / chances.sum()
        self._losses, self._heights = step.losses[order], step.heights[order]
        self._bits = max(1, (order.size - 1).bit_length())

    def _are_few(self, count: int) -> bool:
        size = self._chances.size
        return size <= _MOST_OUTCOMES and count <= min(size, _FEW_STEPS, _LARGEST // size)

    def cost(self, count: int) -> int:
        """What ``count`` steps cost, in steps that are drawn one by one."""
        return count if self._are_few(count) else 4 * self._chances.size

    def draw(self, generator: np.random.Generator, size: int, count: int) -> Sums:
        """Sums over ``count`` steps for ``size`` independent samples."""
        sums = Sums(np.zeros(size), np.zeros(size))
        few = self._are_few(count)
        draw = self._one_by_one if few else self._multinomial
        rows = max(1, CACHE // (count if few else self._chances.size))
        for start in range(0, size, rows):
            stop = min(start + rows, size)
            sums.losses[start:stop], sums.heights[start:stop] = draw(generator, stop - start, count)
        return sums

    def _multinomial(self, generator: np.random.Generator, rows: int, count: int) -> Sums:
        counts = generator.multinomial(count, self._chances, size=rows)
        return Sums(counts @ self._losses, counts @ self._heights)

    def _one_by_one(self, generator: np.random.Generator, rows: int, count: int) -> Sums:
        """The leading bits of a word of 64 choose a slot of the table, the others between its two outcomes."""
        lead = np.uint64(64 - self._bits)
        mask = (np.uint64(1) << lead) - np.uint64(1)
        words = generator.integers(0, 1 << 64, (count, rows), np.uint64)
        own = words >> lead
        slots = self._slots.take(own.view(np.int64))
        words &= mask
        index = np.where(words < (slots & mask), own, slots >> lead).view(np.int64)
        return Sums(self._losses.take(index).sum(axis=0), self._heights.take(index).sum(axis=0))

    @cached_property
    def _slots(self) -> NDArray[np.uint64]:
        return alias_slots(self._chances, self._bits)


def alias_slots(chances: Floats, bits: int) -> NDArray[np.uint64]:
    """The alias table of Walker and Vose in whole numbers: chances, over their sum, are rounded to multiples of 2^-64,
    and nothing else is rounded (docs/guarantees.md, Section 6.10).

    A slot holds the index of its other outcome in its leading ``bits``, and in the rest the share of its own.
    """
    size, room = 1 << bits, 1 << (64 - bits)
    exact = [int(x * 2.0**120) for x in chances.tolist()]  # but for what is below 2^-68
    total = sum(exact)
    shares = [(x << 64) // total for x in exact] + [0] * (size - chances.size)
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


class PlainSampler:
    """Steps of any pair from ``P`` itself."""

    def __init__(self, pair: DominatingPair) -> None:
        self._pair = pair

    def draw(self, generator: np.random.Generator, size: int, count: int) -> Sums:
        """Sums over ``count`` steps for ``size`` independent samples; all heights are 0."""
        losses = np.zeros(size)
        rows = max(1, CACHE // min(count, MOST_STEPS))
        for start in range(0, size, rows):
            stop = min(start + rows, size)
            for first in range(0, count, MOST_STEPS):
                steps = min(MOST_STEPS, count - first)
                t = self._pair.draw(Measure.P, generator, (stop - start) * steps)
                own = self._pair.privacy_loss(t).reshape(stop - start, steps)
                losses[start:stop] += own.sum(axis=1)
        return Sums(losses, np.zeros(size))
