"""Replicas in a ring of bins, of which only near ones attract each other (highdim, 5.1a)."""

import math
from functools import cached_property, singledispatch

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln

from evr._basics.randomness import for_purpose, of_rows
from evr._kernel.order import power
from evr._kernel.pairs.law import Floats
from evr._kernel.pairs.patterns.bins import Bins
from evr._kernel.pairs.patterns.law import in_blocks
from evr._kernel.sampled.replica_states import (
    MOST_STATES,
    MOST_VALUES,
    Counts,
    chosen_of,
    state_numbers,
    with_sum,
)

_MOST_NATS = 600.0


def _fits(length: int, order: int) -> bool:
    """Whether all terms of a table, ``1 / (k! T^k)`` and more, are far above the least float."""
    return length > 0 and float(gammaln(order + 1)) + order * math.log(length) <= _MOST_NATS


class RingTable:
    """``order`` replicas in a ring of bins of which only near ones attract each other (5.1a).

    They are in a chain of bins in a row, anywhere in the ring; inner products are taken as the greatest at
    each distance. The chain has ``window`` bins, up to half of them, or as many as leave no two near each
    other at its ends.
    """

    def __init__(self, law: Bins, order: int, window: int | None = None) -> None:
        self.law, self.order, self.greatest = law, order, law.greatest[:window]
        self.bins, self.near = law.bins, self.greatest.size
        self.length = window or self.bins - self.near + 1
        if not _fits(self.length, order):
            raise ValueError(f"order={order} of {self.bins} bins: its terms are below all floats")
        # a state: replicas in each of the last near - 1 bins, latest first; those left; those in bins before
        states = with_sum(order, self.near + 1)
        self.left = states[:, self.near - 1]
        self.next, self.weights = self._transitions(states[:, : self.near - 1])
        unmoved = [np.arange(len(states), dtype=np.int32)]  # the state after so many bins without a replica
        for _ in range(self.near - 1):
            unmoved.append(self.next[unmoved[-1], 0])
        self.unmoved = np.array(unmoved)
        self.start = int(state_numbers(np.array([[0] * (self.near - 1) + [order, 0]]))[0])
        self.values = np.empty((self.length + 1, states.shape[0]))  # sums of weights from a bin on, by state
        self.values[-1] = self.left == 0
        for i in range(self.length - 1, -1, -1):
            np.einsum("sj,sj->s", self.weights, self.values[i + 1][self.next], out=self.values[i])

    def _transitions(self, recent: Counts) -> tuple[NDArray[np.int32], Floats]:
        """The next state, and its weight, by state and by the number ``j`` of replicas in the next bin: the
        weight is ``e^{attraction} / (j! T^j)``, and 0 where fewer are left.
        """
        number, pull = len(recent), recent @ self.greatest[1:]
        following, weights = np.zeros((number, self.order + 1), np.int32), np.zeros((number, self.order + 1))
        for j in range(self.order + 1):
            able = self.left >= j
            now = np.column_stack((np.full(number, j), recent))[:, : self.near - 1]
            past = self.order - now.sum(axis=1) - (self.left - j)
            following[able, j] = state_numbers(np.column_stack((now, self.left - j, past))[able])
            exponent = j * (j - 1) / 2 * self.greatest[0] + j * pull[able]
            weights[able, j] = np.exp(exponent - (gammaln(j + 1) + j * math.log(self.length)))
        return following, weights

    @staticmethod
    def is_affordable(law: Bins, order: int, window: int | None = None) -> bool:
        """Whether states are not too many, and a window, or what is left out, is at most half of the ring."""
        near = law.greatest[:window].size
        length = window or law.bins - near + 1
        states = math.comb(order + near, order)
        return (
            _fits(length, order)
            and 2 * (window or near) <= law.bins
            and states <= MOST_STATES
            and states * (length + 1) <= MOST_VALUES
        )

    @cached_property
    def log_moment(self) -> float:
        """``log`` of an upper bound on ``M_k``."""
        return float(gammaln(self.order + 1) + math.log(self.values[0, self.start]))

    def draw(self, generator: np.random.Generator, size: int) -> tuple[Floats, Floats, NDArray[np.bool_]]:
        """The number of replicas in each bin; ``G`` times that; and whether the draw is accepted (4.2)."""
        occupied, attraction, generator = draw_ring(self.values, self, generator, size)
        pulled = self.law.pulled(occupied)
        own = (pulled * occupied).sum(axis=1) - (occupied * self.law.energies).sum(axis=1)
        lost = attraction - own / 2
        accepted = generator.random(size) < np.exp(-np.maximum(lost, 0.0))
        return occupied, pulled, accepted

    def chain(self, generator: np.random.Generator, size: int) -> Floats:
        """Replicas in each bin of the chain: from one that has some to the next that has."""
        chain, busy = np.zeros((size, self.length)), np.arange(size)
        position, state = np.zeros(size, np.int64), np.full(size, self.start)
        while busy.size:
            numbers = of_rows(generator, busy)
            empty = self._empty(position, state, numbers.random(busy.size))
            position = position + empty
            state = self.unmoved[np.minimum(empty, self.near - 1), state]
            weights = self.weights[state] * self.values[(position + 1)[:, None], self.next[state]]
            weights[:, 0] = 0.0
            chosen = chosen_of(numbers.random(busy.size), weights)
            chain[busy, position] = chosen
            state = self.next[state, chosen]
            left = self.left[state] > 0
            busy, position, state = busy[left], position[left] + 1, state[left]
        return chain

    def _empty(self, position: Counts, state: Counts, drawn: Floats) -> Counts:
        """How many bins from a position on are empty. An empty bin has weight 1: the chance of ``m`` or more
        is the value after them over the value now.
        """
        least = drawn * self.values[position, state]
        low, high = position * 0, self.length - position
        for _ in range(self.length.bit_length()):
            middle = (low + high) // 2
            after = self.unmoved[np.minimum(middle, self.near - 1), state]
            held = self.values[position + middle, after] > least
            low, high = np.where(held, middle, low), np.where(held, high, middle)
        return low

    def attraction(self, chain: Floats) -> Floats:
        """The attraction of all pairs of replicas, by the greatest inner products."""
        total = self.greatest[0] * np.einsum("ij,ij->i", chain, chain - 1.0) / 2
        for lag in range(1, min(self.near, self.length)):
            pairs = np.einsum("ij,ij->i", chain[:, lag:], chain[:, :-lag])
            total += self.greatest[lag] * pairs
        return total


@singledispatch
def draw_ring(
    values: Floats, table: RingTable, generator: np.random.Generator, size: int
) -> tuple[Floats, Floats, np.random.Generator]:
    """Replicas of a table with these values: how many are in each bin; their attraction, by the greatest
    inner products; and who draws what comes next.
    """
    chain, generator = table.chain(generator, size), for_purpose(generator, 1)
    first = generator.integers(0, table.bins, size)
    occupied = np.zeros((size, table.bins))
    occupied[np.arange(size)[:, None], (first[:, None] + np.arange(table.length)) % table.bins] = chain
    return occupied, table.attraction(chain), generator


@singledispatch
def log_ring_power(x: Floats, halves: Floats, length: int, exponent: int) -> Floats:
    """``log`` of the mean, over each ring, of a power of the mean of ``length`` terms ``e^{x - halves}``."""
    found = np.empty(len(x))
    for rows in in_blocks(x):
        logs = x[rows] - halves
        top = logs.max(axis=1, keepdims=True)
        logs -= top
        means = ring_sums(np.exp(logs, out=logs), length)
        means /= length  # 1 / length or more somewhere, 1 at the most
        powers = power(means, exponent, np.multiply).mean(axis=1)  # by squares: off by as many units
        found[rows] = np.log(powers) + exponent * top[:, 0]
    return found


def ring_sums(values: Floats, length: int) -> Floats:
    """Sums of ``length`` entries in a row from each position on a ring; no term is ever taken off.

    >>> ring_sums(np.array([[1.0, 2.0, 4.0]]), 2)
    array([[3., 6., 5.]])
    """

    def joined(one: tuple[Floats, int], other: tuple[Floats, int]) -> tuple[Floats, int]:
        return one[0] + np.roll(other[0], -one[1], axis=1), one[1] + other[1]

    return power((values, 1), length, joined)[0]
