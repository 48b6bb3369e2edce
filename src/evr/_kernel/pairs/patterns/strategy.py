"""Strategy matrices: ``C`` is lower triangular, ``n`` by ``n``, and a matrix mechanism releases ``C x +
noise``, or ``x + C^{-1} noise``, which is the same to whoever knows ``C``.
"""

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, Self

import numpy as np

from evr._basics import validate
from evr._kernel.pairs.law import UNIT, Floats

Entries = tuple[float, ...] | tuple[tuple[float, ...], ...]

MOST_ENTRIES = 5 * 10**7
_LARGEST = 1e100  # entries, whose squares are floats
_SHORT, _SHORT_SUM = 2.0**10, 2.0**33  # so products are multiples of 2^-20, and sums 53 bits
_NARROW = 32  # the narrowest blocks of a product, as fast as their entries are few


def frozen(strategy: Any) -> Any:
    """A strategy as tuples of numbers, where it is one: the fields of events are compared and hashed."""
    if isinstance(strategy, np.ndarray):
        strategy = strategy.tolist()
    if isinstance(strategy, list | tuple):
        return tuple(tuple(x) if isinstance(x, list | tuple | np.ndarray) else x for x in strategy)
    return strategy


@dataclass(frozen=True)
class Strategy:
    """A matrix ``C`` by its columns from the diagonal down; of one column only, a banded Toeplitz matrix.

    >>> Strategy.of((1.0, 0.5), 3).applied(np.array([[1.0, 2.0, 4.0]]))
    array([[1. , 2.5, 5. ]])
    """

    columns: tuple[tuple[float, ...], ...]
    size: int

    @classmethod
    def of(cls, strategy: Any, size: int, *, signs: bool = False) -> Self:
        """Check a strategy for ``size`` steps. ``signs`` allows negative entries, unlike Theorem 1."""
        given = frozen(strategy)
        nested = {isinstance(x, tuple) for x in given} if isinstance(given, tuple) else set()
        if len(nested) != 1:
            toeplitz = "a list of numbers, the first column of a Toeplitz matrix"
            columns = "a list of columns, each from the diagonal down"
            raise TypeError(f"strategy={validate.shown(strategy)} is not {toeplitz}, nor {columns}")
        if nested == {False}:
            return cls((_column(given, "strategy", size, signs),), size)
        if len(given) != size:
            raise ValueError(f"strategy has {len(given)} columns for {size} iterations: give one for each")
        return cls(tuple(_column(c, f"strategy[{i}]", size - i, signs) for i, c in enumerate(given)), size)

    @property
    def is_toeplitz(self) -> bool:
        return len(self.columns) == 1

    @cached_property
    def bands(self) -> int:
        """The number of diagonals that hold all entries."""
        return max(map(len, self.columns))

    @cached_property
    def band(self) -> Floats:
        """``band[l, i] = C[i + l, i]``."""
        if self.bands * self.size > MOST_ENTRIES:
            what = f"a strategy of {self.bands} bands and {self.size} iterations"
            raise ValueError(f"{what} has more than {MOST_ENTRIES:.0e} entries: give fewer bands")
        band = np.zeros((self.bands, self.size))
        for i in range(self.size):
            column = self.columns[0 if self.is_toeplitz else i][: self.size - i]
            band[: len(column), i] = column
        return band

    def overlaps(self, lag: int) -> Floats:
        """``<C e_i, C e_{i + lag}>`` for ``i = 0 .. n - 1 - lag``."""
        if lag >= min(self.bands, self.size):
            return np.zeros(max(self.size - lag, 0))
        return np.einsum("li,li->i", self.band[lag:, : self.size - lag], self.band[: self.bands - lag, lag:])

    @cached_property
    def squares(self) -> Floats:
        """``|C e_i|^2``."""
        return self.overlaps(0)

    @cached_property
    def _is_short(self) -> bool:
        """Whether entries have so few digits that sums of their products are exact."""
        scaled = _SHORT * np.concatenate([np.array(column) for column in self.columns])
        return bool(np.all(scaled == np.rint(scaled)))

    def not_below(self, square: float, sums: int) -> float:
        """A sum of products of entries, raised by what so many sums may lose (guarantees_highdim, 3)."""
        return square if self._is_short and square <= _SHORT_SUM else square * (1.0 + (sums + 8) * UNIT)

    def square_of(self, pulses: Floats) -> float:
        """``|C x|^2`` of one ``x``, or a little more; entries of both are not negative."""
        squares = self.applied(pulses[None, :])[0] ** 2
        return self.not_below(math.fsum(squares.tolist()), 2 * self.bands)

    @cached_property
    def _blocks(self) -> list[Floats]:
        """The matrix cut into blocks of columns, each from the diagonal down to its last entry."""
        width, found = max(_NARROW, self.bands), list[Floats]()
        for start in range(0, self.size, width):
            columns = min(width, self.size - start)
            rows = min(columns + self.bands - 1, self.size - start)
            if found and self.is_toeplitz:  # all are alike, but for where they end
                found.append(found[0][:rows, :columns])
                continue
            block = np.zeros((rows, columns))
            for lag, row in enumerate(self.band):
                number = np.arange(min(columns, rows - lag))
                block[number + lag, number] = row[start : start + number.size]
            found.append(block)
        return found

    def applied(self, pulses: Floats) -> Floats:
        """``C x`` for each row ``x``."""
        out, start = np.zeros_like(pulses), 0
        for block in self._blocks:
            rows, columns = block.shape
            out[:, start : start + rows] += pulses[:, start : start + columns] @ block.T
            start += columns
        return out

    def correlated(self, noise: Floats) -> Floats:
        """``C' z`` for each row ``z``."""
        out, start = np.empty_like(noise), 0
        for block in self._blocks:
            rows, columns = block.shape
            out[:, start : start + columns] = noise[:, start : start + rows] @ block
            start += columns
        return out

    def describe(self) -> str:
        if self.bands == 1 and self.is_toeplitz and self.columns[0][0] == 1:
            return "C = I"
        name = "Toeplitz" if self.is_toeplitz else "C"
        return f"{name} of {self.bands} band{'s' if self.bands > 1 else ''}"


def _column(entries: tuple[Any, ...], name: str, most: int, signs: bool) -> tuple[float, ...]:
    """One column, cut to the matrix, without the zeros at its end."""
    numbers = [validate.finite(**{f"{name}[{i}]": x}) for i, x in enumerate(entries)][:most]
    if not numbers or numbers[0] <= 0:
        found = numbers[0] if numbers else "nothing"
        raise ValueError(f"{name}[0]={found!r}: the diagonal of a strategy is positive")
    if numbers[0] < 1 / _LARGEST or max(map(abs, numbers)) > _LARGEST:
        rule = f"the diagonal of a strategy is at least {1 / _LARGEST:g}, and no entry is above {_LARGEST:g}"
        remedy = "scale strategy and noise by one number"
        raise ValueError(f"{name}: {rule}, or squares would be no floats: {remedy}")
    if not signs and min(numbers) < 0:
        worst = numbers.index(min(numbers))
        why = "is negative, and contributions at random steps might cancel"
        remedy = "give entries >= 0, or MatrixMechanismDpEvent, which counts no amplification"
        raise ValueError(f"{name}[{worst}]={numbers[worst]!r} {why}: {remedy}")
    while numbers[-1] == 0:
        numbers.pop()
    return tuple(numbers)


def largest_sum(values: Floats, separation: int, most: int | None = None) -> Floats:
    """The greatest sum of entries, at most so many and that far apart, for each row of ``values >= 0``."""
    rows, size = values.shape
    separation = min(separation, size)  # one entry at the most, either way
    every = math.ceil(size / separation)
    best = np.zeros((rows, size + separation))
    if most is None or most >= every:
        for i in range(size - 1, -1, -1):
            np.maximum(best[:, i + 1], values[:, i] + best[:, i + separation], out=best[:, i])
        return best[:, 0]
    for _ in range(most):
        taken = values + best[:, separation:]
        best[:, :size] = np.maximum.accumulate(taken[:, ::-1], axis=1)[:, ::-1]
    return best[:, 0]


def noise_over(noise: float, square: float) -> float:
    """``noise / sqrt(square)``, rounded down: less noise has no less delta.

    >>> noise_over(3.0, 4.0), noise_over(1.1, 4.45)
    (1.5, 0.5214500094539749)
    """
    found = noise / math.sqrt(square)
    while Fraction(found) ** 2 * Fraction(square) > Fraction(noise) ** 2:
        found = math.nextafter(found, 0.0)
    return found


def square_sensitivity(strategy: Strategy, separation: int, most: int | None = None) -> float:
    """An upper bound on ``|C x|^2`` over contributions ``x`` of any sign at steps that far apart, rounding
    included (guarantees_highdim, 3). It is exact for non-negative Toeplitz entries that do not rise, and
    where there are no more bands than the separation.
    """
    column = strategy.columns[0]
    if strategy.is_toeplitz and min(column) >= 0 and list(column) == sorted(column, reverse=True):
        pulses = np.zeros(strategy.size)
        pulses[::separation][:most] = 1.0
        return strategy.square_of(pulses)
    reach = range(separation, min(strategy.bands, strategy.size))
    if strategy.size * max(len(reach), 1) > MOST_ENTRIES:
        what = f"a strategy of {strategy.bands} bands and {strategy.size} iterations"
        raise ValueError(f"{what} has more than {MOST_ENTRIES:.0e} overlaps: give fewer bands or iterations")
    near = np.zeros((strategy.size, 2, max(len(reach), 1)))
    for number, lag in enumerate(reach):
        near[: strategy.size - lag, 0, number] = near[lag:, 1, number] = np.abs(strategy.overlaps(lag))
    others = None if most is None else most - 1
    sides = largest_sum(near.reshape(2 * strategy.size, -1), separation, others).reshape(-1, 2)
    found = largest_sum((strategy.squares + sides.sum(axis=1))[None, :], separation, most)[0]
    # an inner product is off by its bands' units of both squares, and each column has so many
    sums = strategy.size + 2 * strategy.bands * (1 + 2 * len(reach))
    return strategy.not_below(float(found), sums)
