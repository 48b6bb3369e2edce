"""Integers from balls, and masses on a uniform grid: products, coarsening, windows; and what covers the law of some
steps, on a fine and on a coarse grid (docs/guarantees_strict.md, Section S4).

Integers are in units of ``2^-bits``, and the same on every machine. Each function keeps the invariant of S4; what it
rounds, it rounds towards a greater delta.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache, partial
from typing import NamedTuple

from flint import arb, fmpz, fmpz_mat, fmpz_poly

from evr.bounds.strict.plan import Grid, Window, power
from evr.laws.exact.law import at_precision, ball

GUARD = 48  # bits of a ball beyond those of the integers that come from it
_RAISES = 5
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
    for raises in range(_RAISES):
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
    """Non-negative integers at the places ``first, first + 1, ...`` of a grid."""

    first: int
    poly: fmpz_poly

    @property
    def last(self) -> int:
        """The last place; below the first where there is no mass."""
        return self.first + len(self.poly) - 1

    def part(self, low: int, high: int) -> Masses:
        """The masses at the places ``low .. high``."""
        low = max(low, self.first)
        if high < low:
            return NOTHING
        cut = self.poly.truncate(max(0, high - self.first + 1))
        return Masses(low, cut.right_shift(low - self.first))

    def total(self) -> int:
        return int(self.poly(1))

    def __add__(self, other: Masses) -> Masses:
        if not (len(self.poly) and len(other.poly)):
            return self if len(self.poly) else other
        low = min(self.first, other.first)
        return Masses(low, self.poly.left_shift(self.first - low) + other.poly.left_shift(other.first - low))

    def __mul__(self, other: Masses) -> Masses:
        """The exact product, in units of ``2^-2 bits``."""
        return Masses(self.first + other.first, self.poly * other.poly)

    def rounded_down(self, bits: int) -> Masses:
        """From units of ``2^-2 bits`` to units of ``2^-bits``, each mass rounded down."""
        return Masses(self.first, self.poly // (fmpz(1) << bits))

    def rounded_up(self, bits: int) -> Masses:
        """From units of ``2^-2 bits`` to units of ``2^-bits``, each mass rounded up; zeros stay zeros."""
        if not len(self.poly):
            return NOTHING
        whole = fmpz(1) << bits
        return Masses(self.first, (self.poly + fmpz_poly([whole - 1] * len(self.poly))) // whole)


NOTHING = Masses(0, fmpz_poly([]))


@lru_cache(maxsize=256)
def shares_up(spacing: Fraction, halvings: int, bits: int) -> tuple[int, ...]:
    """``2^bits (1 - e^{-r spacing}) / (1 - e^{-2^halvings spacing})``, rounded up, for ``r < 2^halvings`` (S4.3)."""
    size, whole = 1 << halvings, 1 << bits

    def share(r: int) -> arb:
        return (1 - ball(-r * spacing).exp()) / (1 - ball(-size * spacing).exp())

    return (0, *(min(units_above(partial(share, r), bits), whole) for r in range(1, size)))


def coarsened(masses: Masses, spacing: Fraction, halvings: int, bits: int) -> Masses:
    """The masses on a grid of ``2^halvings`` times the spacing (S4.3)."""
    if halvings == 0 or not len(masses.poly):
        return masses
    size = 1 << halvings
    low, before = divmod(masses.first, size)
    coefficients = masses.poly.left_shift(before).coeffs()
    blocks = -(-len(coefficients) // size)
    coefficients += [fmpz(0)] * (blocks * size - len(coefficients))
    shares = shares_up(spacing, halvings, bits)
    sums = fmpz_mat(blocks, size, coefficients) * fmpz_mat(size, 2, [x for r in range(size) for x in (shares[r], 1)])
    up = fmpz_poly([sums[j, 0] for j in range(blocks)])
    total = fmpz_poly([sums[j, 1] for j in range(blocks)])
    up = Masses(0, up).rounded_up(bits).poly
    return Masses(low, total - up + up.left_shift(1))


def windowed(masses: Masses, floor: int, top: int, spacing: Fraction, bits: int) -> tuple[Masses, int]:
    """The masses within ``floor .. top``, and what goes to infinity (S4.4): raised below, split above."""
    inside = masses.part(floor, top)
    if masses.first < floor:
        inside = inside + Masses(floor, fmpz_poly([masses.part(masses.first, floor - 1).total()]))
    if masses.last <= top:
        return inside, 0
    above = masses.part(top + 1, masses.last)
    step, kept = fmpz(power_below(-spacing, bits)), fmpz(0)
    weight = _lowered(step, above.first - top - 1, bits)
    for mass in above.poly.coeffs():
        weight = weight * step >> bits
        kept += mass * weight
    kept = kept >> bits
    return inside + Masses(top, fmpz_poly([kept])), int(above.total() - kept)


def _lowered(step: fmpz, times: int, bits: int) -> fmpz:
    """``2^bits`` lowered so many times: not above ``2^bits`` times that power of ``step / 2^bits``. A few times one by
    one, as the masses that follow are lowered; many times, as a plan from elsewhere may ask, by squares.
    """
    if times > _FEW:
        return power(step, times, lambda a, b: a * b >> bits)
    weight = fmpz(1) << bits
    for _ in range(times):
        weight = weight * step >> bits
    return weight


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
            return cls(0, NOTHING, Masses(grid.floor, fmpz_poly(masses)), infinite, spacing, bits, rules)
        below = grid.low - grid.floor
        number = ((grid.high - grid.low) << grid.halvings) + 1
        fine = Masses(grid.low << grid.halvings, fmpz_poly(masses[below : below + number]))
        low = Masses(grid.floor, fmpz_poly(masses[:below]))
        high = Masses(grid.high + 1, fmpz_poly(masses[below + number :]))
        return cls(grid.halvings, fine, low + high, infinite, spacing, bits, rules)

    def on_coarse_grid(self) -> Masses:
        return self.rules.coarsened(self.fine, self.spacing / 2**self.halvings, self.halvings, self.bits)

    def all_coarse(self) -> Masses:
        return self.coarse + self.on_coarse_grid()

    def at(self, halvings: int) -> GridLaw:
        """The law with its fine masses on a grid of fewer halvings; on the coarse grid if there are none."""
        if halvings >= self.halvings:
            return self
        if halvings == 0:
            return replace(self, halvings=0, fine=NOTHING, coarse=self.all_coarse())
        finer = self.spacing / 2**self.halvings
        fine = self.rules.coarsened(self.fine, finer, self.halvings - halvings, self.bits)
        return replace(self, halvings=halvings, fine=fine)

    def times(self, other: GridLaw) -> GridLaw:
        """The law of both (S4.5)."""
        shared = min(self.halvings, other.halvings)
        x = self.at(shared)
        y = x if other is self else other.at(shared)
        fine = x.rules.rounded(x.fine * y.fine, x.bits)
        if y is x:
            both = x.on_coarse_grid()
            coarse = (both + both + x.coarse) * x.coarse
        else:
            coarse = x.coarse * (y.on_coarse_grid() + y.coarse) + x.on_coarse_grid() * y.coarse
        return replace(x, fine=fine, coarse=x.rules.rounded(coarse, x.bits), infinite=x.rules.infinite(x, y))

    def within(self, window: Window) -> GridLaw:
        """The law cut to a window: fine masses outside of it become coarse, coarse ones are raised or split (S4.4)."""
        law = self.at(window.halvings)
        fine, coarse = law.fine, law.coarse
        if law.halvings and len(fine.poly):
            inside = fine.part(window.low, window.high)
            ends = fine.part(fine.first, window.low - 1) + fine.part(window.high + 1, fine.last)
            fine, coarse = inside, coarse + replace(law, fine=ends).on_coarse_grid()
        coarse, escaped = law.rules.windowed(coarse, window.floor, window.top, law.spacing, law.bits)
        infinite = min(law.infinite + escaped, 1 << law.bits)
        return replace(law, fine=fine, coarse=coarse, infinite=infinite)


def either(a: int, b: int, bits: int) -> int:
    """``1 - (1 - a)(1 - b)`` in units of ``2^-bits``, rounded up, at most 1, where neither is above 1 (S4.5)."""
    return min(a + b - (a * b >> bits), 1 << bits)
