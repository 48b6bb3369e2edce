"""What covers the law of some steps, on a fine and on a coarse grid (docs/guarantees_strict.md, Section S4).
The invariant of S4, which each function keeps: some law with masses of at most the fine, coarse and infinite
ones is above that of the steps (``order.py``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property, lru_cache, partial
from itertools import accumulate, islice, repeat
from operator import mul
from typing import NamedTuple

from flint import arb

from evr._kernel.order import power
from evr._kernel.pairs.exact.law import at_precision, ball
from evr._kernel.strict.masses import NOTHING, Masses, alike
from evr._kernel.strict.plan import Grid, Window
from evr._kernel.strict.rounding import GUARD, ceiling, decide_each, power_below

_FEW = 1 << 16  # places, one by one


@lru_cache(maxsize=256)
def shares_up(spacing: Fraction, halvings: int, bits: int) -> tuple[int, ...]:
    """``2^bits (1 - e^{-r spacing}) / (1 - e^{-2^halvings spacing})`` for each ``r``, rounded up (S4.3)."""
    size, whole = 1 << halvings, 1 << bits

    def shares() -> Callable[[int], arb]:
        step, rest = ball(-spacing).exp(), 1 - ball(-size * spacing).exp()
        return lambda r: (1 - step**r) / rest

    with at_precision(bits + GUARD):
        share = shares()
        rounded = [ceiling(share(r) * whole) for r in range(size)]
    return tuple(min(max(0, one), whole) for one in decide_each(rounded, shares, bits))


def coarsened(masses: Masses, spacing: Fraction, halvings: int, bits: int) -> Masses:
    """The masses on a grid of ``2^halvings`` times the spacing (S4.3)."""
    if halvings == 0 or not len(masses):
        return masses
    low, below = divmod(masses.first, 1 << halvings)
    shares = shares_up(spacing, halvings, bits)
    total, raised = masses.merged(below, (1,) * len(shares), shares)
    total, up = alike(total, raised.rounded_up(bits), masses.most)
    # no share is above 1: no difference is negative
    moved = total.packed - up.packed + (up.packed << 8 * up.width)
    return Masses(low, moved, up.width, masses.most)


def windowed(masses: Masses, floor: int, top: int, spacing: Fraction, bits: int) -> tuple[Masses, int]:
    """The masses within ``floor .. top``, and what goes to infinity (S4.4): raised below, split above."""
    inside = masses.between(floor, top)
    if masses.first < floor:
        inside = inside + Masses.of(floor, [masses.between(masses.first, floor - 1).most])
    above = masses.between(top + 1, masses.last)
    if not len(above):
        return inside, 0
    weights = falling(power_below(-spacing, bits), bits, above.first - top, above.last - top, lowered)
    kept = sum(map(mul, above, weights)) >> bits
    return inside + Masses.of(top, [kept]), above.most - kept


Times = Callable[[int, int, int], int]
"""The product of two numbers in units of ``2^-bits``, from the bits and the two, rounded."""


def lowered(bits: int, weight: int, step: int) -> int:
    return weight * step >> bits


def raised(bits: int, weight: int, step: int) -> int:
    return -(-weight * step >> bits)


def falling(step: int, bits: int, first: int, last: int, times: Times) -> Iterable[int]:
    """``V_n`` of S4.4 from ``first`` to ``last``: one by one, or the first by squares where it is far."""
    if last <= _FEW:
        return islice(_first_falling(step, bits, last.bit_length(), times), first, None)
    near, product = first <= _FEW + 1, partial(times, bits)
    start, skipped = (1 << bits, first) if near else (power(step, first - 1, product), 1)
    return islice(accumulate(repeat(step, last), product, initial=start), skipped, None)


@lru_cache(maxsize=8)
def _first_falling(step: int, bits: int, doublings: int, times: Times) -> list[int]:
    return list(accumulate(repeat(step, (1 << doublings) - 1), partial(times, bits), initial=1 << bits))


class Rules(NamedTuple):
    """How masses are rounded, moved, multiplied: in upper bounds (S4), in either list of lower ones (L4)."""

    rounded: Callable[[Masses, int], Masses]
    coarsened: Callable[[Masses, Fraction, int, int], Masses]
    windowed: Callable[[Masses, int, int, Fraction, int], tuple[Masses, int]]
    infinite: Callable[[GridLaw, GridLaw], int]


ABOVE = Rules(
    lambda product, bits: product.rounded_up(bits),
    coarsened,
    windowed,
    lambda x, y: either(x.infinite, y.infinite, x.bits),
)
"""The rules of upper bounds."""


@dataclass(frozen=True)
class GridLaw:
    """Fine, coarse and infinite masses that cover the law of some steps, by the rules of upper bounds."""

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
        cls,
        masses: Sequence[int],
        infinite: int,
        grid: Grid,
        spacing: Fraction,
        bits: int,
        rules: Rules = ABOVE,
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
        """Given laws that cover two compositions, ensures one that covers both together (S4.5): the products
        of their masses, each rounded up.
        """
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
        """Cut to a window: fine masses outside become coarse, coarse ones are raised or split (S4.4)."""
        law = self.at(window.halvings)
        fine, coarse = law.fine, law.coarse
        if law.halvings and len(fine):
            ends = [fine.between(fine.first, window.low - 1), fine.between(window.high + 1, fine.last)]
            # in one cell: rounded together
            if window.low - 1 >> law.halvings == window.high + 1 >> law.halvings:
                ends = [ends[0] + ends[1]]
            fine = fine.between(window.low, window.high)
            coarse = sum((replace(law, fine=end).on_coarse_grid for end in ends), coarse)
        coarse, escaped = law.rules.windowed(coarse, window.floor, window.top, law.spacing, law.bits)
        infinite = min(law.infinite + escaped, 1 << law.bits)
        return replace(law, fine=fine, coarse=coarse, infinite=infinite)


def either(a: int, b: int, bits: int) -> int:
    """``1 - (1 - a)(1 - b)`` in units of ``2^-bits``, rounded up, for ``a`` and ``b`` of at most 1 (S4.5)."""
    return min(a + b - (a * b >> bits), 1 << bits)
