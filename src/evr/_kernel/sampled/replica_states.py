"""Where replicas may be: all tuples of numbers with one sum, and the number of one among them."""

import math
from collections import Counter
from collections.abc import Iterator
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from evr._kernel.pairs.law import Floats

MOST_STATES = 60_000
MOST_VALUES = 8_000_000
"""The most states of a table, and the most values: a plan from elsewhere may not ask for all of a machine."""

Counts = NDArray[np.int64]


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
    tuples = [one for one in falling(total, total) if len(one) <= width]
    # b! / (b - r)! / b^total, without a difference of great numbers
    ways = np.concatenate(([0.0], np.cumsum(np.log1p(-np.arange(width) / bins))))
    logs = [
        ways[len(one)]
        + (len(one) - total) * math.log(bins)
        - math.fsum(math.lgamma(n + 1) for n in Counter(one).values())
        for one in tuples
    ]
    return np.array([one + (0,) * (width - len(one)) for one in tuples]), np.array(logs)


def with_sum(total: int, numbers: int) -> Counts:
    """All tuples of so many numbers that sum to ``total``.

    >>> with_sum(2, 2).tolist()
    [[0, 2], [1, 1], [2, 0]]
    """
    bars = np.array(list(combinations(range(total + numbers - 1), numbers - 1)), dtype=np.int64)
    return np.diff(bars, axis=1, prepend=-1, append=total + numbers - 1) - 1


def state_numbers(states: Counts) -> NDArray[np.int32]:
    """The index of each tuple in ``with_sum``, which lists them in the order of the bars between their
    numbers: by how many follow it.

    >>> state_numbers(with_sum(3, 4)).tolist() == list(range(20))
    True
    """
    size, number = int(states[0].sum()) + states.shape[1] - 1, states.shape[1] - 1
    known = [[math.comb(n, k) for k in range(number, 0, -1)] for n in range(size)]
    ways = np.minimum(np.array(known, dtype=object), 1 << 62).astype(np.int64)
    bars = np.cumsum(states[:, :-1] + 1, axis=1) - 1
    following = ways[size - 1 - bars, np.arange(number)].sum(axis=1)
    return (math.comb(size, number) - 1 - following).astype(np.int32)


def chosen_of(drawn: Floats, weights: Floats) -> Counts:
    """An index above 0 for each row, by its weights and a uniform number beyond the share of index 0."""
    cumulated = np.cumsum(weights, axis=1)
    beyond = drawn[:, None] >= cumulated[:, 1:-1] / cumulated[:, -1:]  # x / x is 1: never chosen
    return 1 + beyond.sum(axis=1)
