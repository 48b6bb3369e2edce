"""Compositions as outcomes, and the mean of the ratios of several groups (docs/guarantees_nested.md). All
masses are rounded towards a greater delta.
"""

from bisect import bisect_right
from dataclasses import dataclass
from fractions import Fraction

from flint import arb

from evr._kernel.order import power
from evr._kernel.pairs.exact import ExactOutcomes, OutcomeSet
from evr._kernel.pairs.exact.law import at_precision, ball
from evr._kernel.strict.masses import Masses
from evr._kernel.strict.ratios import MORE_BITS, MeanOutcomes, Ratios, Sum, grid_of_ratios
from evr._kernel.strict.rounding import GUARD, end_above
from evr.types import Direction


@dataclass(frozen=True)
class GridOutcomes(ExactOutcomes):
    """A composition on a grid: masses of ``P`` in units of ``2^-bits`` at the losses ``offset + place
    spacing``, and at infinity. ``Q`` has ``e^-loss`` times as much there, and the rest where ``P`` has
    nothing.
    """

    masses: Masses
    infinite: int
    offset: Fraction
    spacing: Fraction
    bits: int

    def sets(self) -> list[OutcomeSet]:
        found, total, unit = list[OutcomeSet](), arb(0), arb((1, -self.bits))
        step = ball(-self.spacing).exp()
        shrunk = ball(-self.offset - self.masses.first * self.spacing).exp() / step
        for place, mass in enumerate(self.masses, start=self.masses.first):
            shrunk = shrunk * step
            if mass:
                p = arb(mass) * unit
                total += p * shrunk
                found.append(OutcomeSet(p, p * shrunk, ball(self.offset + place * self.spacing)))
        return [
            OutcomeSet(arb(0), arb(0).max(1 - total), arb.neg_inf()),
            *found,
            OutcomeSet(arb(self.infinite) * unit, arb(0), arb.pos_inf()),
        ]


def mean_of(
    laws: list[tuple[ExactOutcomes, int]], direction: Direction, top: Fraction, spacing: Fraction, bits: int
) -> MeanOutcomes:
    """One of several groups, whose laws are given, each with the number of groups that have it: on a grid of
    ratios up to ``e^top``.
    """
    groups = sum(number for _, number in laws)
    grid = grid_of_ratios(groups, top, spacing, bits + MORE_BITS)
    total: Sum | None = None
    for law, number in laws:
        own = power(_ratios(law, direction, grid), number, grid.times)
        total = own if total is None else grid.times(total, own)
    assert total is not None
    return MeanOutcomes(direction, groups, grid, total)


def _ratios(law: ExactOutcomes, direction: Direction, grid: Ratios) -> Sum:
    """The ratio of one group under ``Q`` on the grid (G2.3). Remove: the ratio is rounded up, shares that
    keep it are rounded up, and what is left is at 0. Add: the ratio and the upper share are rounded down.
    """
    remove, unit, places = direction is Direction.REMOVE, 1 << grid.bits, grid.places
    masses, excess, last = [0] * len(places), 0, places[-1]
    with at_precision(grid.bits + GUARD):
        scale = 1 / ball(grid.spacing)
        for p, q, loss in law.checked_sets():
            mass = (q if remove else p) * unit
            if p.is_zero():
                continue
            if loss == arb.pos_inf() and remove:
                excess += end_above(p * unit)
                continue
            place = (loss.exp() * scale).upper() if remove else ((-loss).exp() * scale).lower()
            if place >= last:
                masses[-1] += end_above(mass)
                excess += end_above((place - last) * mass * ball(grid.spacing)) if remove else 0
                continue
            below = place.floor().unique_fmpz()  # a place is one number, an end of a ball
            assert below is not None
            low = bisect_right(places, int(below)) - 1
            width = places[low + 1] - places[low]
            share = ((place - places[low]) / width).max(arb(0)).min(arb(1))
            upper = max(0, end_above(mass * share) if remove else -end_above(-mass * share))
            masses[low + 1] += upper
            masses[low] += end_above(mass * (1 - share)) if remove else max(0, end_above(mass) - upper)
    if remove:
        masses[0] = max(0, unit - sum(masses[1:]))
    return grid.sum_of(masses, Fraction(excess))
