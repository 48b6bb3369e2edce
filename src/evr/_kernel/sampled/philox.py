"""Philox 4x32-10: random numbers by counters, the same on a processor and on a GPU.

Salmon, Moraes, Dror and Shaw, "Parallel random numbers: as easy as 1, 2, 3" (2011). A counter is ``(call,
sample, purpose, block)``: which call for which purpose, in which sample of which block. A call gives two
words of 64 bits, from which uniform and normal numbers are made.
"""

from __future__ import annotations

import math
from functools import singledispatch
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from evr._kernel.pairs import Floats

Words = NDArray[np.uint64]

_LOW = np.uint64(0xFFFFFFFF)
_MULTIPLIERS = (np.uint64(0xD2511F53), np.uint64(0xCD9E8D57))
_WEYL = (0x9E3779B9, 0xBB67AE85)
_ROUNDS = 10
_LONGEST = 2.0**62  # the greatest geometric number


def philox(counter: tuple[Any, Any, Any, Any], key: tuple[int, int]) -> tuple[Words, ...]:
    """Four words of 32 bits, for each entry of the counter.

    Examples
    --------
    >>> [f"{int(x):08x}" for x in philox((0, 0, 0, 0), (0, 0))]
    ['6627e8d5', 'e169c58d', 'bc57ac4c', '9b00dbd8']
    """
    a, b, c, d = (np.asarray(x, np.uint64) for x in counter)
    first, second = key
    thirty_two = np.uint64(32)
    for _ in range(_ROUNDS):
        one, other = a * _MULTIPLIERS[0], c * _MULTIPLIERS[1]
        a, b, c, d = (
            (other >> thirty_two) ^ b ^ np.uint64(first),
            other & _LOW,
            (one >> thirty_two) ^ d ^ np.uint64(second),
            one & _LOW,
        )
        first, second = (first + _WEYL[0]) & 0xFFFFFFFF, (second + _WEYL[1]) & 0xFFFFFFFF
    return a, b, c, d


class Counter(NamedTuple):
    """Where the numbers of one kind of step in one block are: a key, and the counter's last word."""

    key: tuple[int, int]
    block: int

    @classmethod
    def of(cls, generator: np.random.Generator) -> Counter:
        """From 96 bits of the block's stream."""
        first, second, block = (int(x) for x in generator.integers(0, 1 << 32, size=3, dtype=np.uint32))
        return cls((first, second), block)

    def words(self, call: Any, sample: Any, purpose: Any) -> tuple[Words, Words]:
        """The two words of 64 bits of each call."""
        a, b, c, d = philox((call, sample, purpose, self.block), self.key)
        return a | (b << np.uint64(32)), c | (d << np.uint64(32))


@singledispatch
def words_at(
    samples: NDArray[np.int64], counter: Counter, purpose: int, first: int = 0, calls: int = 1
) -> tuple[Words, Words]:
    """The words of several calls from the first on: a row for each sample."""
    return counter.words(first + np.arange(calls), samples[:, None], purpose)


def uniform(words: Words) -> Floats:
    """In (0, 1], multiples of 2^-53."""
    return ((words >> np.uint64(11)).astype(float) + 1.0) * 2.0**-53


def unit(words: Words) -> Floats:
    """In [0, 1), multiples of 2^-53: what compares with chances."""
    return (words >> np.uint64(11)).astype(float) * 2.0**-53


def normals(words: tuple[Words, Words]) -> tuple[Floats, Floats]:
    """Two independent normal numbers (Box and Muller)."""
    radius = np.sqrt(-2.0 * np.log(uniform(words[0])))
    angle = 2.0 * np.pi * unit(words[1])
    return radius * np.cos(angle), radius * np.sin(angle)


COORDINATES, CHOICES = 0, 1
"""Purposes of a row's numbers: its normal coordinates in pairs; from there on, what it chooses."""


@singledispatch
def coordinates_at(rows: NDArray[np.int64], counter: Counter, columns: int) -> Floats:
    """So many normal numbers for each row."""
    pairs = (columns + 1) // 2
    both = normals(words_at(rows, counter, COORDINATES, 0, pairs))
    return np.stack(both, axis=2).reshape(rows.size, 2 * pairs)[:, :columns]


class RowNumbers:
    """Stands for ``numpy.random.Generator`` where numbers have counters: the same few methods, for given rows
    of a block. What a row gets does not depend on the others.

    Examples
    --------
    >>> counter = Counter((1, 2), 3)
    >>> two, one = (RowNumbers(counter, np.array(rows)) for rows in ([4, 9], [9]))
    >>> bool(two.random(2)[1] == one.random(1)[0])
    True
    """

    def __init__(
        self,
        counter: Counter,
        rows: NDArray[np.int64],
        purpose: int = CHOICES,
        calls: list[int] | None = None,
    ) -> None:
        self.counter, self.rows, self.purpose = counter, rows, purpose
        self._calls = [0] if calls is None else calls  # so far
        self._row = 0  # whose coordinates are next

    def of_rows(self, rows: NDArray[np.intp]) -> RowNumbers:
        return RowNumbers(self.counter, self.rows[rows], self.purpose, self._calls)

    def for_purpose(self, purpose: int) -> RowNumbers:
        return RowNumbers(self.counter, self.rows, CHOICES + purpose)

    def take(self, calls: int) -> int:
        """The first of so many calls, which are taken now."""
        self._calls[0] += calls
        return self._calls[0] - calls

    def _words(self, size: int, calls: int = 1) -> Words:
        assert size == self.rows.size
        return words_at(self.rows, self.counter, self.purpose, self.take(calls), calls)[0]

    def random(self, size: int) -> Floats:
        return unit(self._words(size)[:, 0])

    def integers(self, low: int, high: int, size: int) -> NDArray[np.int64]:
        return low + np.minimum((self.random(size) * (high - low)).astype(np.int64), high - low - 1)

    def geometric(self, p: float, size: tuple[int, int]) -> NDArray[np.int64]:
        """The greatest of all integers where a number would be beyond."""
        if p == 1.0:
            return np.ones_like(self.rows, shape=size)
        uniform = (self._words(*size).astype(float) + 0.5) * 2.0**-64  # in (0, 1], fine where it is small
        with np.errstate(divide="ignore"):
            number = np.floor(np.log1p(-uniform) * (1.0 / math.log1p(-p)))
        return np.minimum(number, _LONGEST).astype(np.int64) + 1

    def standard_normal(self, size: tuple[int, int]) -> Floats:
        """Coordinates, of as many of the next rows as are asked for."""
        number, columns = size
        rows = self.rows[self._row : self._row + number]
        self._row += number
        return coordinates_at(rows, self.counter, columns)
