"""Grid laws: what covers the law of some steps, and the product of two (docs/guarantees_strict.md, Section S4)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction

from evr.bounds.strict.masses import NOTHING, Masses, coarsened, windowed
from evr.bounds.strict.plan import Window


@dataclass(frozen=True)
class GridLaw:
    """Fine masses, coarse masses and an infinite one that cover the law of some steps."""

    halvings: int  # the fine grid has the spacing ``spacing / 2^halvings``
    fine: Masses
    coarse: Masses
    infinite: int  # in units of ``2^-bits``, at most 1: what ``either`` rests on
    spacing: Fraction  # of the coarse grid: the same in all laws of one bound, as the bits are
    bits: int

    def __post_init__(self) -> None:
        if not 0 <= self.infinite <= 1 << self.bits:
            raise ValueError(f"infinite={self.infinite!r} is not in [0, 2^{self.bits}]")

    def on_coarse_grid(self) -> Masses:
        """The fine masses, coarsened."""
        return coarsened(self.fine, self.spacing / 2**self.halvings, self.halvings, self.bits)

    def all_coarse(self) -> Masses:
        """All finite masses on the coarse grid."""
        return self.coarse + self.on_coarse_grid()

    def at(self, halvings: int) -> GridLaw:
        """The law with its fine masses on a grid of fewer halvings; on the coarse grid if there are none."""
        if halvings >= self.halvings:
            return self
        if halvings == 0:
            return replace(self, halvings=0, fine=NOTHING, coarse=self.all_coarse())
        finer = self.spacing / 2**self.halvings
        return replace(self, halvings=halvings, fine=coarsened(self.fine, finer, self.halvings - halvings, self.bits))

    def times(self, other: GridLaw) -> GridLaw:
        """The law of both (S4.5)."""
        shared = min(self.halvings, other.halvings)
        x = self.at(shared)
        y = x if other is self else other.at(shared)
        fine = (x.fine * y.fine).rounded_up(x.bits)
        if y is x:
            both = x.on_coarse_grid()
            coarse = (both + both + x.coarse) * x.coarse
        else:
            coarse = x.coarse * (y.on_coarse_grid() + y.coarse) + x.on_coarse_grid() * y.coarse
        infinite = either(x.infinite, y.infinite, x.bits)
        return replace(x, fine=fine, coarse=coarse.rounded_up(x.bits), infinite=infinite)

    def within(self, window: Window) -> GridLaw:
        """The law cut to a window: fine masses outside of it become coarse, coarse ones are raised or split (S4.4)."""
        law = self.at(window.halvings)
        fine, coarse = law.fine, law.coarse
        if law.halvings and len(fine.poly):
            inside = fine.part(window.low, window.high)
            ends = fine.part(fine.first, window.low - 1) + fine.part(window.high + 1, fine.last)
            fine, coarse = inside, coarse + replace(law, fine=ends).on_coarse_grid()
        coarse, escaped = windowed(coarse, window.floor, window.top, law.spacing, law.bits)
        infinite = min(law.infinite + escaped, 1 << law.bits)
        return replace(law, fine=fine, coarse=coarse, infinite=infinite)


def either(a: int, b: int, bits: int) -> int:
    """``1 - (1 - a)(1 - b)`` in units of ``2^-bits``, rounded up, at most 1, where neither is above 1 (S4.5)."""
    return min(a + b - (a * b >> bits), 1 << bits)
