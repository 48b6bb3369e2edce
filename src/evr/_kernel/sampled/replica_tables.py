"""Replicas of patterns: bounds on ``M_k = E_Q[L^k]``, and draws (docs/guarantees_highdim.md, Section 5.1).

``L^k`` is a sum over ``k`` replicas of the pattern, which the inner products of their means attract; ``k`` is
the *order*. Tables sum positive weights from the last bin or step to the first; draws go the other way.
"""

import math
from collections import Counter
from collections.abc import Iterator
from functools import cached_property, singledispatch
from itertools import combinations

import numpy as np
from numpy.typing import NDArray
from scipy.special import comb, gammaln

from evr._basics.randomness import for_purpose, of_rows
from evr._kernel.pairs.law import Floats
from evr._kernel.pairs.line.pair import log_sum_exp
from evr._kernel.pairs.patterns.bins import Bins, IndependentBins

MOST_REPLICAS = 40
_MOST_NATS = 600.0
MOST_STATES = 60_000
MOST_VALUES = 8_000_000
STEEPEST = 650.0
"""The greatest exponent of a weight: beyond it floats would overflow, and bounds be of no use."""

Counts = NDArray[np.int64]


class OccupancyTable:
    """Replicas in few bins of any Gram matrix, each occupancy listed; or in independent bins, where one
    stands for all that differ in the order of the bins (5.1b).
    """

    def __init__(self, law: Bins, order: int) -> None:
        log_ways: Floats | float = -order * math.log(law.bins)
        if isinstance(law, IndependentBins):
            self.occupancies, log_ways = partitions(order, law.bins)
        else:
            self.occupancies = with_sum(order, law.bins)
        numbers = self.occupancies.astype(float)
        squares = np.einsum("ij,ij->i", law.pulled(numbers), numbers)
        attraction = (
            squares - (numbers * law.energies).sum(axis=1)
        ) / 2  # inner products of all pairs of replicas
        self.log_weights = (
            gammaln(order + 1) - gammaln(self.occupancies + 1).sum(axis=1) + attraction + log_ways
        )

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


def _fits(length: int, order: int) -> bool:
    """Whether all terms of a table, ``1 / (k! T^k)`` and more, are far above the least float."""
    return length > 0 and float(gammaln(order + 1)) + order * math.log(length) <= _MOST_NATS


class RingTable:
    """``order`` replicas in a ring of bins of which only near ones attract each other (5.1a).

    They are in a chain of bins in a row, at a random place; inner products are taken as the greatest at each
    distance. The chain has ``window`` bins, up to half of them, or as many as leave no two near each other at
    its ends.
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
        self.start = int(places(np.array([[0] * (self.near - 1) + [order, 0]]))[0])
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
            following[able, j] = places(np.column_stack((now, self.left - j, past))[able])
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
        place, state = np.zeros(size, np.int64), np.full(size, self.start)
        while busy.size:
            numbers = of_rows(generator, busy)
            empty = self._empty(place, state, numbers.random(busy.size))
            place = place + empty
            state = self.unmoved[np.minimum(empty, self.near - 1), state]
            weights = self.weights[state] * self.values[(place + 1)[:, None], self.next[state]]
            weights[:, 0] = 0.0
            chosen = _chosen(numbers.random(busy.size), weights)
            chain[busy, place] = chosen
            state = self.next[state, chosen]
            left = self.left[state] > 0
            busy, place, state = busy[left], place[left] + 1, state[left]
        return chain

    def _empty(self, place: Counts, state: Counts, drawn: Floats) -> Counts:
        """How many bins from a place on are empty. An empty bin has weight 1, so the chance of ``m`` or more
        is the value after them over the value now.
        """
        least = drawn * self.values[place, state]
        low, high = place * 0, self.length - place
        for _ in range(self.length.bit_length()):
            middle = (low + high) // 2
            after = self.unmoved[np.minimum(middle, self.near - 1), state]
            held = self.values[place + middle, after] > least
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


class ChainTable:
    """Replicas of b-min-sep patterns; a state counts those that took part so many steps ago (5.1c).

    ``overlaps[d, i]`` is ``<C e_i, C e_{i-d}> / s^2`` for ``d < separation``, 0 where ``i < d``.
    """

    def __init__(self, overlaps: Floats, separation: int, probability: float, warm: bool, order: int) -> None:
        self.overlaps, self.order, self.probability = overlaps, order, probability
        self.near, self.steps = overlaps.shape
        states = with_sum(order, separation)  # 1, .., separation - 1 steps ago; and eligible
        self.recent, self._eligible = states[:, : self.near - 1].astype(float), states[:, -1]
        self.next = np.zeros((states.shape[0], order + 1), dtype=np.int32)
        self.chances = np.zeros((states.shape[0], order + 1))
        for j in range(order + 1):
            able = self._eligible >= j
            after = np.column_stack((np.full(len(states), j), states[:, :-1]))
            after[:, -1] += self._eligible - j
            self.next[able, j] = places(after[able])
            rest = self._eligible[able] - j
            ways = np.round(comb(self._eligible[able], j))
            self.chances[able, j] = ways * (probability**j * (1.0 - probability) ** rest)
        self.unmoved = self.next[:, 0].copy()
        self._first = _starts(states, separation, probability, warm)
        self.values = np.empty((self.steps + 1, states.shape[0]))
        self.values[-1] = 1.0
        weights, known = self.chances, b""
        for step in range(self.steps - 1, -1, -1):
            if overlaps[:, step].tobytes() != known:
                known = overlaps[:, step].tobytes()
                weights = self.weights(np.arange(states.shape[0]), step)
            later = self.values[step + 1][self.next]
            np.einsum("sj,sj->s", weights, later, out=self.values[step])

    @staticmethod
    def is_affordable(steps: int, separation: int, order: int) -> bool:
        states = math.comb(separation + order - 1, order)
        return states <= MOST_STATES and states * (steps + 1) <= MOST_VALUES

    def weights(self, states: NDArray[np.integer], step: int) -> Floats:
        """The weight of each number of replicas that take part, in each state."""
        pull = self.recent[states] @ self.overlaps[1:, step]
        j, chances = np.arange(self.order + 1), self.chances[states]
        exponents = pull[:, None] * j + j * (j - 1) / 2 * self.overlaps[0, step]
        exponents[chances == 0.0] = -np.inf  # more than are eligible: e^exponent may be no float
        return chances * np.exp(exponents)

    @cached_property
    def log_moment(self) -> float:
        """``log M_k``."""
        return math.log(float(self._first @ self.values[0]))

    @cached_property
    def starts(self) -> Floats:
        """Weights of the states before the first step, added up."""
        return np.cumsum(self._first * self.values[0])

    def draw(self, generator: np.random.Generator, size: int) -> Floats:
        """The number of replicas that take part in each step."""
        start = generator.random(size) * self.starts[-1]
        state = np.searchsorted(self.starts[:-1], start, side="right").astype(np.int32)
        return draw_chain(state, self, generator)

    @cached_property
    def staying(self) -> Floats:
        """The chance that no replica takes part, which is the likeliest, by step and by the state
        before it.
        """
        later = self.values[1:][:, self.unmoved] * self.chances[:, 0]
        # where both are 0, a state is never reached
        return np.divide(later, self.values[:-1], out=np.ones_like(later), where=self.values[:-1] > 0)


@singledispatch
def draw_chain(state: NDArray[np.int32], table: ChainTable, generator: np.random.Generator) -> Floats:
    """The number of replicas that take part in each step, from the states before the first."""
    pulses = np.zeros((table.steps, state.size))
    for step in range(table.steps):
        drawn = generator.random(state.size)
        moved = np.flatnonzero(drawn >= table.staying[step].take(state))
        after = table.unmoved.take(state)
        if moved.size:
            at = state[moved]
            weights = table.weights(at, step) * table.values[step + 1][table.next[at]]
            pulses[step, moved] = chosen = _chosen(drawn[moved], weights)
            after[moved] = table.next[at, chosen]
        state = after
    return pulses.T


def _chosen(drawn: Floats, weights: Floats) -> Counts:
    """An index above 0 for each row, proportional to its weights, by a uniform number beyond the share of
    index 0.
    """
    cumulated = np.cumsum(weights, axis=1)
    beyond = drawn[:, None] >= cumulated[:, 1:-1] / cumulated[:, -1:]  # x / x is 1: never chosen
    return 1 + beyond.sum(axis=1)


def _starts(states: Counts, separation: int, probability: float, warm: bool) -> Floats:
    """The chance of each state before the first step."""
    order = int(states[0].sum())
    if not warm:
        return (states[:, -1] == order).astype(float)
    whole = 1.0 + (separation - 1) * probability
    logs = np.full(separation, math.log(probability / whole))
    logs[-1] = -math.log(whole)
    return np.asarray(np.exp(gammaln(order + 1) - gammaln(states + 1).sum(axis=1) + states @ logs))


# --- where replicas may be: all tuples of numbers with one sum, and the place of one among them ----


def partitions(total: int, bins: int) -> tuple[Counts, Floats]:
    """All falling tuples of as many numbers as bins that sum to ``total``, without needless zeros; and the
    logarithm of the share of all ways to assign bins that each stands for.

    >>> partitions(3, 2)[0].tolist()
    [[3, 0], [2, 1]]
    """

    def falling(rest: int, greatest: int) -> Iterator[tuple[int, ...]]:
        if not rest:
            yield ()
        for first in range(min(rest, greatest), 0, -1):
            for others in falling(rest - first, first):
                yield (first, *others)

    width = min(total, bins)
    parts = [one for one in falling(total, total) if len(one) <= width]
    # b! / (b - r)! / b^total, without a difference of great numbers
    ways = np.concatenate(([0.0], np.cumsum(np.log1p(-np.arange(width) / bins))))
    logs = [
        ways[len(one)]
        + (len(one) - total) * math.log(bins)
        - math.fsum(math.lgamma(n + 1) for n in Counter(one).values())
        for one in parts
    ]
    return np.array([one + (0,) * (width - len(one)) for one in parts]), np.array(logs)


def with_sum(total: int, parts: int) -> Counts:
    """All tuples of so many numbers that sum to ``total``.

    >>> with_sum(2, 2).tolist()
    [[0, 2], [1, 1], [2, 0]]
    """
    bars = np.array(list(combinations(range(total + parts - 1), parts - 1)), dtype=np.int64)
    return np.diff(bars, axis=1, prepend=-1, append=total + parts - 1) - 1


def places(states: Counts) -> NDArray[np.int32]:
    """The place of each tuple in ``with_sum``, which lists them in the order of the bars between their
    numbers: by how many follow it.

    >>> places(with_sum(3, 4)).tolist() == list(range(20))
    True
    """
    size, number = int(states[0].sum()) + states.shape[1] - 1, states.shape[1] - 1
    known = [[math.comb(n, k) for k in range(number, 0, -1)] for n in range(size)]
    ways = np.minimum(np.array(known, dtype=object), 1 << 62).astype(np.int64)
    bars = np.cumsum(states[:, :-1] + 1, axis=1) - 1
    following = ways[size - 1 - bars, np.arange(number)].sum(axis=1)
    return (math.comb(size, number) - 1 - following).astype(np.int32)
