"""One step on its grid: from balls to integers (docs/guarantees_strict.md, Sections S3 and S4.1)."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from functools import lru_cache, partial
from itertools import pairwise
from operator import le
from typing import Any

from flint import arb, fmpq, fmpz

from evr._kernel.pairs.exact import ExactBins, ExactCurve, ExactLaw, ExactOutcomes
from evr._kernel.pairs.exact.law import at_precision, ball
from evr._kernel.strict.grid_law import GridLaw
from evr._kernel.strict.plan import Grid
from evr._kernel.strict.ratios import outcomes_of, ratios_of
from evr._kernel.strict.rounding import GUARD, ceiling, decide_each, end_above, units_above
from evr._kernel.strict.series import Ceilings, Stencil, Stencils, StencilTerm, masses_by_series


def one_step(law: ExactLaw, grid: Grid, spacing: Fraction, bits: int) -> GridLaw:
    """A grid law that covers one step."""
    losses = Losses(grid, spacing)
    if isinstance(law, ExactBins):
        law = outcomes_of(law, *ratios_of(law, grid, spacing), bits)
    if isinstance(law, ExactOutcomes):
        masses, infinite = _spread_outcomes(law, losses, bits)
    elif isinstance(law, ExactCurve):
        masses, infinite = _spread_curve(law, losses, bits)
    else:
        raise TypeError(f"{law!r} is neither an ExactCurve nor an ExactOutcomes: it cannot be enclosed")
    if min(masses) < 0:
        raise ValueError(
            f"{type(law).__name__} has a negative mass: give a curve that is convex and falls from 1 on"
        )
    return GridLaw.on_grid(masses, min(infinite, 1 << bits), grid, spacing, bits)


class Losses(Sequence[fmpq]):
    """The losses of a grid's places, rising: coarse ones, the fine ones, and coarse ones above them."""

    def __init__(self, grid: Grid, spacing: Fraction) -> None:
        self._size = 1 << grid.halvings
        low, high = (grid.low, grid.high) if grid.halvings else (grid.floor, grid.floor)
        self._floor, self._below = grid.floor, low - grid.floor  # coarse places below the fine ones
        self._above = self._below + (high - low) * self._size  # the place of the last fine one
        self._number = self._above + grid.top - high + 1
        start, unit = grid.offset + grid.floor * spacing, spacing / self._size
        self._start, self.unit = (fmpq(x.numerator, x.denominator) for x in (start, unit))

    def __len__(self) -> int:
        return self._number

    def __getitem__(self, place: Any) -> Any:
        place = range(self._number)[place]
        fine = min(max(place - self._below, 0), self._above - self._below)
        return self._start + self.unit * ((place - fine) * self._size + fine)

    def runs(self, first: int, last: int) -> Iterator[range]:
        """From ``first`` to ``last``, runs of places whose gaps to both neighbours are the same."""
        ends = [
            max(0, first - 1),
            *(end for end in (self._below, self._above) if first <= end <= last),
            last + 1,
        ]
        for low, high in pairwise(ends):
            yield range(low + 1, high)


def support(law: ExactCurve, losses: Losses) -> tuple[int, int]:
    """A place below which certainly no loss is, and the first beyond which certainly none is."""
    least, greatest = law.least(), law.greatest()
    most = ball(greatest) if isinstance(greatest, Fraction) else greatest
    places = range(len(losses))
    first = max(0, bisect_left(places, True, key=lambda j: not arb(losses[j]) <= least) - 1)
    return first, bisect_left(places, True, key=lambda j: bool(arb(losses[j]) >= most))


def stretches(
    law: ExactCurve, losses: Losses, bits: int, stencils: Stencils
) -> Iterator[tuple[range, list[Ceilings] | None]]:
    """All places that may have mass, in order: blocks with their masses by series; and between them, without
    masses, places that are left to be done one by one.
    """
    first, end = support(law, losses)
    last = len(losses) - 1
    place = min(first, last)
    for run in losses.runs(first + 1, min(end - 2, last - 1)) if law.is_analytic else ():
        for start, masses in masses_by_series(law.curve(), losses, run, bits, stencils):
            yield range(place, start), None
            place = start + len(masses[0][0])
            yield range(start, place), masses
    yield range(place, min(end, last) + 1), None


def _tails(law: ExactCurve, losses: Losses) -> Callable[[int], arb]:
    """``G_j`` of Section S3 as a function of ``j``: how much of ``P`` is put beyond place ``j``."""
    value, last, (first, end) = law.curve(), len(losses) - 1, support(law, losses)

    @lru_cache(maxsize=3)  # the curve at one place, which the next masses need too
    def curve(j: int) -> arb:
        return arb(0) if j >= end else value(arb(losses[j]).exp())

    @lru_cache(maxsize=2)  # gaps are of two kinds
    def ratio_over(gap: fmpq) -> arb:
        return arb(-gap).exp()

    @lru_cache(maxsize=1)
    def tail(j: int) -> arb:
        if j < first or j >= end:
            return arb(int(j < first))
        if j == last:
            return curve(j)
        ratio = ratio_over(losses[j + 1] - losses[j])
        return (curve(j) - ratio * curve(j + 1)) / (1 - ratio)

    return tail


def _to_both_ends(gap: arb) -> list[Stencil]:
    """The mass of a place of Section S3.1."""
    ratio = (-gap).exp()
    before, here, after = (share / (1 - ratio) for share in (arb(1), -(1 + ratio), ratio))
    return [
        [StencilTerm(Fraction(-1), before), StencilTerm(Fraction(0), here), StencilTerm(Fraction(1), after)]
    ]


def _spread_curve(law: ExactCurve, losses: Losses, bits: int) -> tuple[list[int], int]:
    """The masses at the places and at infinity, rounded up."""
    unit, last = fmpz(1) << bits, len(losses) - 1
    masses: list[int | None] = [0] * len(losses)

    def mass(tail: Callable[[int], arb], j: int) -> arb:
        return (tail(j - 1) if j else arb(1)) - tail(j)

    with at_precision(bits + GUARD):
        tail = _tails(law, losses)
        for places, by_series in stretches(law, losses, bits, _to_both_ends):
            if by_series is None:
                found = [ceiling(mass(tail, j) * unit) for j in places]
            else:  # what is from 0 to 1 is 1; None where the error leaves a choice
                ((low, high),) = by_series
                pairs = zip(low, high, strict=True)
                found = list(high) if low is high else [b if a == b or b <= 1 else None for a, b in pairs]
            masses[places.start : places.stop] = found
    infinite = units_above(lambda: _tails(law, losses)(last), bits)
    return decide_each(masses, lambda: partial(mass, _tails(law, losses)), bits), infinite


def _spread_outcomes(law: ExactOutcomes, losses: Sequence[fmpq], bits: int) -> tuple[list[int], int]:
    """The masses at the places and at infinity, rounded up."""
    unit = fmpz(1) << bits
    for precision in (bits + GUARD, 2 * bits + 4 * GUARD):
        with at_precision(precision):
            placed = [mass * unit for mass in _placed(law, losses)]
            found = [ceiling(mass) for mass in placed]
            if None not in found:
                break
    with at_precision(precision):
        masses = [end_above(mass) if one is None else one for mass, one in zip(placed, found, strict=True)]
    return masses[:-1], masses[-1]


def _placed(law: ExactOutcomes, losses: Sequence[fmpq]) -> list[arb]:
    """Each set split between the ends of a cell that holds its loss; infinity is the place after the last."""
    edges, infinity, one, zero = [arb(loss) for loss in losses], len(losses), arb(1), arb(0)
    masses = [zero] * (infinity + 1)
    for p, _, loss in law.checked_sets():
        if p.is_zero():
            continue
        upper = bisect_left(edges, True, key=partial(le, loss))  # the first place that is certainly not below
        if upper == 0 or loss == arb.pos_inf():
            masses[infinity if upper else 0] += p
            continue
        share = one - (edges[upper - 1] - loss).exp()
        if upper < infinity:
            share = share / (one - arb(losses[upper - 1] - losses[upper]).exp())
        share = zero.max(share)
        masses[upper] += p * share
        masses[upper - 1] += p * zero.max(one - share)
    return masses
