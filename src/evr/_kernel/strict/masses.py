"""Integers from balls, and masses on a uniform grid: products, coarsening, windows; and what covers the law of some
steps, on a fine and on a coarse grid (docs/guarantees_strict.md, Section S4).

Integers are in units of ``2^-bits``, and the same on every machine. Each function keeps the invariant of S4; what it
rounds, it rounds towards a greater delta.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property, lru_cache, partial
from itertools import accumulate, islice, repeat
from operator import mul
from typing import NamedTuple

from flint import arb, fmpz

from evr._kernel.pairs.exact.law import at_precision, ball
from evr._kernel.strict.plan import Grid, Window, power

GUARD = 48  # bits of a ball beyond those of the integers that come from it
RAISES = 5
_MOST_EXPONENT = 10**7
_LARGEST = arb((1, 1 << 25))  # 2^(2^25): beyond any power of e that is admitted
_FEW = 1 << 16  # places, one by one


def ceiling(number: arb) -> int | None:
    """The number rounded up, if the ball decides it and memory has room: FLINT ends the process if it has none."""
    if not abs(number) < _LARGEST:
        return None
    found = number.ceil().unique_fmpz()
    return None if found is None else int(found)


def end_above(number: arb, bits: int = 0) -> int:
    """``2^bits`` times the upper end of a ball, rounded up: what ``ceiling`` gives where it decides."""
    found = ceiling((number * (fmpz(1) << bits)).upper())
    if found is None:
        raise ValueError("a number has no finite enclosure: it is too large for exact arithmetic; use samples instead")
    return found


def units_above(number: Callable[[], arb], bits: int) -> int:
    """``2^bits`` times the number, rounded up, at a precision that decides it; after some raises, its upper end."""
    for raises in range(RAISES):
        with at_precision((bits + GUARD) << raises):
            scaled = number() * (fmpz(1) << bits)
            found = ceiling(scaled)
            if found is not None:
                return found
    with at_precision((bits + GUARD) << raises):
        return end_above(scaled)


def power_above(exponent: Fraction, bits: int) -> int:
    """``2^bits e^exponent``, rounded up.

    >>> power_above(Fraction(1), 10), power_below(Fraction(1), 10)
    (2784, 2783)
    """
    return units_above(lambda: _exponential(exponent), bits)


def power_below(exponent: Fraction, bits: int) -> int:
    """``2^bits e^exponent``, rounded down."""
    return -units_above(lambda: -_exponential(exponent), bits)


def _exponential(exponent: Fraction) -> arb:
    if exponent > _MOST_EXPONENT:
        raise ValueError(
            f"e to the power of {ball(exponent).str(6, radius=False)} is too large for exact arithmetic, which takes "
            f"exponents of at most {_MOST_EXPONENT:.0e}: use samples instead"
        )
    return ball(exponent).exp()


@dataclass(frozen=True)
class Masses:
    """Non-negative integers at the places ``first, first + 1, ...`` of a grid, side by side in one long integer: each
    has ``width`` bytes of it. Whatever is done to all of them is done to that integer.

    The width has room for ``most``, and so for any sum of some of the masses: no mass runs into the next.
    """

    first: int
    packed: fmpz  # the sum of ``mass_i 256^(i width)``
    width: int
    most: int  # at least the sum of the masses; less than ``256^width - 1``

    @classmethod
    def of(cls, first: int, masses: Sequence[int]) -> Masses:
        """The masses at these places, in a width that has room for their products."""
        most = int(sum(masses))
        width = most.bit_length() // 4 + 1
        return cls(first, _side_by_side(masses, width), width, most)

    def __len__(self) -> int:
        """The number of places, up to the last that has mass."""
        return -(-self.packed.bit_length() // (8 * self.width))

    def __iter__(self) -> Iterator[int]:
        return (int.from_bytes(mass, "little") for mass in self._bytes(0, 1))

    @property
    def last(self) -> int:
        """The last place; below the first where there is no mass."""
        return self.first + len(self) - 1

    def _bytes(self, start: int, step: int) -> Iterator[bytes]:
        """Every ``step``-th mass, from the one at ``start`` on."""
        number, width = len(self), self.width
        text = int(self.packed).to_bytes(number * width, "little")
        return (text[i : i + width] for i in range(start * width, number * width, step * width))

    def with_room(self, most: int) -> Masses:
        """The same masses, in a width that has room for so much."""
        width = -(-(most + 1).bit_length() // 8)
        if width <= self.width:
            return self
        room = bytes(width - self.width)
        return Masses(self.first, _joined(mass + room for mass in self._bytes(0, 1)), width, self.most)

    def part(self, low: int, high: int) -> Masses:
        """The masses at the places ``low .. high``."""
        low, packed, slot = max(low, self.first), self.packed, 8 * self.width
        if high < low:
            return NOTHING
        if high < self.last:
            packed = packed & ((fmpz(1) << slot * (high - self.first + 1)) - 1)
        packed = packed >> slot * min(low - self.first, len(self))
        # the sum, as 256^width is 1 modulo this, and the sum is less
        return Masses(low, packed, self.width, int(packed % ((1 << slot) - 1)))

    def total(self) -> int:
        return self.part(self.first, self.last).most

    def __add__(self, other: Masses) -> Masses:
        if not (len(self) and len(other)):
            return self if len(self) else other
        low, most = min(self.first, other.first), self.most + other.most
        x, y = _alike(self, other, most)
        slot = 8 * x.width
        return Masses(low, (x.packed << slot * (x.first - low)) + (y.packed << slot * (y.first - low)), x.width, most)

    def __mul__(self, other: Masses) -> Masses:
        """The exact product, in units of ``2^-2 bits``."""
        most = self.most * other.most
        x, y = _alike(self, other, most)
        return Masses(self.first + other.first, x.packed * y.packed, x.width, most)

    def rounded_down(self, bits: int) -> Masses:
        """From units of ``2^-2 bits`` to units of ``2^-bits``, each mass rounded down."""
        wide = self.with_room(1 << bits)
        kept = _ones(len(wide), wide.width) * ((1 << 8 * wide.width - bits) - 1)
        return Masses(self.first, wide.packed >> bits & kept, wide.width, self.most >> bits)

    def rounded_up(self, bits: int) -> Masses:
        """From units of ``2^-2 bits`` to units of ``2^-bits``, each mass rounded up; zeros stay zeros."""
        wide = self.with_room(self.most + (1 << bits))
        raised = wide.packed + _ones(len(wide), wide.width) * ((1 << bits) - 1)
        up = Masses(self.first, raised, wide.width, self.most).rounded_down(bits)
        return replace(up, most=up.most + len(wide))

    def merged(self, below: int, weights: tuple[int, ...] | int) -> Masses:
        """For each block of places, the sum of the masses, each times its weight; or so many places, without weights.
        The first block begins ``below`` places below the first mass. The result begins at place 0.
        """
        size = weights if isinstance(weights, int) else len(weights)
        most = self.most if isinstance(weights, int) else self.most * int(max(weights))
        wide = self.with_room(most)
        slot, sums = 8 * wide.width, wide.packed << 8 * wide.width * below
        blocks = -(-(len(wide) + below) // size)
        if isinstance(weights, int):
            for doubling in range(size.bit_length() - 1):
                sums = sums + (sums << (slot << doubling))
        else:
            sums = sums * _backwards(weights, wide.width)
        found = Masses(0, sums, wide.width, most)._bytes(size - 1, size)
        return Masses(0, _joined(islice(found, blocks)), wide.width, most)


NOTHING = Masses(0, fmpz(0), 1, 0)


def _joined(masses: Iterable[bytes]) -> fmpz:
    return fmpz(int.from_bytes(b"".join(masses), "little"))


def _side_by_side(masses: Sequence[int], width: int) -> fmpz:
    return _joined(int(mass).to_bytes(width, "little") for mass in masses)


@lru_cache(maxsize=64)
def _backwards(weights: tuple[int, ...], width: int) -> fmpz:
    return _side_by_side(weights[::-1], width)


def _alike(x: Masses, y: Masses, most: int) -> tuple[Masses, Masses]:
    """Both in the same width, which has room for so much."""
    most = max(most, (1 << 8 * max(x.width, y.width)) - 2)
    return x.with_room(most), y.with_room(most)


@lru_cache(maxsize=4)
def _many_ones(doublings: int, width: int) -> fmpz:
    return fmpz(int.from_bytes((b"\1" + bytes(width - 1)) * (1 << doublings), "little"))


def _ones(number: int, width: int) -> fmpz:
    """A mass of 1 at so many places."""
    doublings = number.bit_length()
    return _many_ones(doublings, width) >> 8 * width * ((1 << doublings) - number)


@lru_cache(maxsize=256)
def shares_up(spacing: Fraction, halvings: int, bits: int) -> tuple[int, ...]:
    """``2^bits (1 - e^{-r spacing}) / (1 - e^{-2^halvings spacing})``, rounded up, for ``r < 2^halvings`` (S4.3)."""
    size, whole = 1 << halvings, 1 << bits

    def share(r: int) -> arb:
        return (1 - ball(-r * spacing).exp()) / (1 - ball(-size * spacing).exp())

    return (0, *(min(units_above(partial(share, r), bits), whole) for r in range(1, size)))


def coarsened(masses: Masses, spacing: Fraction, halvings: int, bits: int) -> Masses:
    """The masses on a grid of ``2^halvings`` times the spacing (S4.3)."""
    if halvings == 0 or not len(masses):
        return masses
    low, below = divmod(masses.first, 1 << halvings)
    total = masses.merged(below, 1 << halvings)
    up = masses.merged(below, shares_up(spacing, halvings, bits)).rounded_up(bits)
    total, up = _alike(total, up, masses.most)
    moved = total.packed - up.packed + (up.packed << 8 * up.width)  # no share is above 1: no difference is negative
    return Masses(low, moved, up.width, masses.most)


def windowed(masses: Masses, floor: int, top: int, spacing: Fraction, bits: int) -> tuple[Masses, int]:
    """The masses within ``floor .. top``, and what goes to infinity (S4.4): raised below, split above."""
    inside = masses.part(floor, top)
    if masses.first < floor:
        inside = inside + Masses.of(floor, [masses.part(masses.first, floor - 1).most])
    above = masses.part(top + 1, masses.last)
    if not len(above):
        return inside, 0
    weights = _falling(power_below(-spacing, bits), bits, above.first - top, above.last - top)
    kept = sum(map(mul, above, weights)) >> bits
    return inside + Masses.of(top, [kept]), above.most - kept


def _falling(step: int, bits: int, first: int, last: int) -> Iterable[int]:
    """``V_n`` of Section S4.4 from ``first`` to ``last``: one by one, or the first by squares where it is far."""
    if last <= _FEW:
        return islice(_first_falling(step, bits, last.bit_length()), first, None)
    near, times = first <= _FEW + 1, partial(_lowered, bits)
    start, skipped = (1 << bits, first) if near else (power(step, first - 1, times), 1)
    return islice(accumulate(repeat(step, last), times, initial=start), skipped, None)


@lru_cache(maxsize=8)
def _first_falling(step: int, bits: int, doublings: int) -> list[int]:
    return list(accumulate(repeat(step, (1 << doublings) - 1), partial(_lowered, bits), initial=1 << bits))


def _lowered(bits: int, weight: int, step: int) -> int:
    return weight * step >> bits


class Rules(NamedTuple):
    """How masses are rounded, moved and multiplied: in upper bounds (S4), and as either list of a lower one (L4)."""

    rounded: Callable[[Masses, int], Masses]
    coarsened: Callable[[Masses, Fraction, int, int], Masses]
    windowed: Callable[[Masses, int, int, Fraction, int], tuple[Masses, int]]
    infinite: Callable[[GridLaw, GridLaw], int]


ABOVE = Rules(Masses.rounded_up, coarsened, windowed, lambda x, y: either(x.infinite, y.infinite, x.bits))
"""The rules of upper bounds."""


@dataclass(frozen=True)
class GridLaw:
    """Fine masses, coarse masses and an infinite one that cover the law of some steps, by the rules of upper bounds."""

    halvings: int  # the fine grid has the spacing ``spacing / 2^halvings``
    fine: Masses
    coarse: Masses
    infinite: int  # in units of ``2^-bits``, at most 1: what ``either`` rests on
    spacing: Fraction  # of the coarse grid: the same in all laws of one bound, as the bits are
    bits: int
    rules: Rules = ABOVE

    def __post_init__(self) -> None:
        if not 0 <= self.infinite <= 1 << self.bits:
            raise ValueError(f"infinite={self.infinite!r} is not in [0, 2^{self.bits}]")

    @classmethod
    def on_grid(
        cls, masses: Sequence[int], infinite: int, grid: Grid, spacing: Fraction, bits: int, rules: Rules = ABOVE
    ) -> GridLaw:
        """One step: masses at the places of ``losses_of``, and the infinite one."""
        if not grid.halvings:
            return cls(0, NOTHING, Masses.of(grid.floor, masses), infinite, spacing, bits, rules)
        below = grid.low - grid.floor
        number = ((grid.high - grid.low) << grid.halvings) + 1
        fine = Masses.of(grid.low << grid.halvings, masses[below : below + number])
        low = Masses.of(grid.floor, masses[:below])
        high = Masses.of(grid.high + 1, masses[below + number :])
        return cls(grid.halvings, fine, low + high, infinite, spacing, bits, rules)

    @cached_property
    def on_coarse_grid(self) -> Masses:
        return self.rules.coarsened(self.fine, self.spacing / 2**self.halvings, self.halvings, self.bits)

    def all_coarse(self) -> Masses:
        return self.coarse + self.on_coarse_grid

    def at(self, halvings: int) -> GridLaw:
        """The law with its fine masses on a grid of fewer halvings; on the coarse grid if there are none."""
        if halvings >= self.halvings:
            return self
        if halvings not in self._coarser:
            finer, fewer = self.spacing / 2**self.halvings, self.halvings - halvings
            fine = self.rules.coarsened(self.fine, finer, fewer, self.bits) if halvings else NOTHING
            coarse = self.coarse if halvings else self.all_coarse()
            self._coarser[halvings] = replace(self, halvings=halvings, fine=fine, coarse=coarse)
        return self._coarser[halvings]

    @cached_property
    def _coarser(self) -> dict[int, GridLaw]:
        return {}

    def times(self, other: GridLaw) -> GridLaw:
        """The law of both (S4.5)."""
        shared = min(self.halvings, other.halvings)
        x = self.at(shared)
        y = x if other is self else other.at(shared)
        fine = x.rules.rounded(x.fine * y.fine, x.bits)
        if y is x:
            both = x.on_coarse_grid
            coarse = (both + both + x.coarse) * x.coarse
        else:
            coarse = x.coarse * (y.on_coarse_grid + y.coarse) + x.on_coarse_grid * y.coarse
        return replace(x, fine=fine, coarse=x.rules.rounded(coarse, x.bits), infinite=x.rules.infinite(x, y))

    def within(self, window: Window) -> GridLaw:
        """The law cut to a window: fine masses outside of it become coarse, coarse ones are raised or split (S4.4)."""
        law = self.at(window.halvings)
        fine, coarse = law.fine, law.coarse
        if law.halvings and len(fine):
            inside = fine.part(window.low, window.high)
            ends = fine.part(fine.first, window.low - 1) + fine.part(window.high + 1, fine.last)
            fine, coarse = inside, coarse + replace(law, fine=ends).on_coarse_grid
        coarse, escaped = law.rules.windowed(coarse, window.floor, window.top, law.spacing, law.bits)
        infinite = min(law.infinite + escaped, 1 << law.bits)
        return replace(law, fine=fine, coarse=coarse, infinite=infinite)


def either(a: int, b: int, bits: int) -> int:
    """``1 - (1 - a)(1 - b)`` in units of ``2^-bits``, rounded up, at most 1, where neither is above 1 (S4.5)."""
    return min(a + b - (a * b >> bits), 1 << bits)
