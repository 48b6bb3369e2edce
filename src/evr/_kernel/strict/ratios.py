"""Balls in bins as outcomes, on a grid of their ratio (docs/guarantees_highdim.md, Section 8).

One ratio ``A`` is spread to the ends of cells of a uniform grid, which keeps its mean. The sum of ``b`` of
them is a power of a polynomial with integer coefficients; what is beyond the top is cut.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import pairwise, zip_longest
from typing import NamedTuple

from flint import arb, fmpz

from evr._kernel.order import ceil_div, power
from evr._kernel.pairs.exact import ExactBins, ExactOutcomes, OutcomeSet
from evr._kernel.pairs.exact.law import at_precision, ball
from evr._kernel.strict.masses import NOTHING, Masses
from evr._kernel.strict.plan import Grid
from evr._kernel.strict.rounding import GUARD, ceiling, decide_each, power_above, units_above
from evr.types import Direction

MOST_PLACES = 1 << 18  # of a grid of ratios
MOST_SIZE = 1 << 20  # of a coarse cell of ratios, in fine ones
MORE_BITS = 40  # than those of what is made of the outcomes: sums of many roundings
_LEAST_BITS = 64


class Sum(NamedTuple):
    """A sum of ratios under ``Q``: masses on the fine grid and on the coarse one, not below those of a law
    that is above the true one; and what was cut, an expectation of sums of ratios.
    """

    fine: Masses
    coarse: Masses
    excess: Fraction


@dataclass(frozen=True)
class MeanOutcomes(ExactOutcomes):
    """The mean of the ratios of some groups on a grid: at place ``i`` it is ``i spacing / groups``."""

    direction: Direction
    groups: int
    grid: Ratios
    sum: Sum  # of all groups

    def sets(self) -> list[OutcomeSet]:
        return self._sets(self.sum.fine)

    def sets_beyond(self, epsilon: Fraction) -> list[OutcomeSet]:
        remove = self.direction is Direction.REMOVE
        # at most a place off
        near = sum_at(self.groups, epsilon if remove else -epsilon) // self.grid.spacing
        return self._sets(
            self.sum.fine.between(*((near - 2, self.sum.fine.last) if remove else (0, near + 2)))
        )

    def _sets(self, fine: Masses) -> list[OutcomeSet]:
        remove, infinite, found = self.direction is Direction.REMOVE, arb.pos_inf(), list[OutcomeSet]()
        unit, step, other = arb((1, -self.grid.bits)), ball(self.grid.spacing / self.groups), arb(0)
        for masses, size in ((fine, 1), (self.sum.coarse, self.grid.size)):
            for place, mass in enumerate(masses, start=masses.first):
                if mass:
                    m, ratio = arb(mass) * unit, place * size * step
                    loss = ratio.log() if place else -infinite
                    found.append(
                        OutcomeSet(m * ratio, m, loss) if remove else OutcomeSet(m, m * ratio, -loss)
                    )
                    other += m * ratio
        if remove:
            cut = ball(self.sum.excess / self.groups) * unit
            return [*found, OutcomeSet(cut, arb(0), infinite)]
        return [*found, OutcomeSet(arb(0), arb(0).max(1 - other), -infinite)]


def outcomes_of(law: ExactBins, top: Fraction, spacing: Fraction, bits: int) -> MeanOutcomes:
    """Bins on a grid of ratios up to ``e^top``: in the remove direction losses beyond ``top`` are cut, in the
    add direction losses below ``-top`` are raised.
    """
    grid = grid_of_ratios(law.bins, top, spacing, bits + MORE_BITS)
    return MeanOutcomes(law.direction, law.bins, grid, power(grid.one(law), law.bins, grid.times))


def grid_of_ratios(number: int, top: Fraction, spacing: Fraction, bits: int) -> Ratios:
    """The grid of the sum of so many ratios, for losses up to ``top``."""
    places, size = places_for(number, top, spacing), 1
    if places > MOST_PLACES:  # a fine grid for usual sums, and a coarse one beyond
        while places > size * MOST_PLACES // 4:
            size *= 2
    if size > MOST_SIZE:
        raise ValueError(
            f"bins on grids of ratios would have more than {MOST_PLACES:,} places, for losses up to "
            f"{ceil_div(top):,}: a smaller epsilon or a wider spacing is wanted"
        )
    ends = (places, 0) if size == 1 else (MOST_PLACES // 4, ceil_div(places, size))
    return Ratios(spacing, size, *ends, bits=bits)


def places_for(number: int, top: Fraction, spacing: Fraction) -> int:
    """How many places a grid of the sum of so many ratios has whose losses reach up to ``top``."""
    return max(1, ceil_div(sum_at(number, top), spacing))


def sum_at(number: int, loss: Fraction) -> Fraction:
    """The sum of so many ratios at a loss, rounded up."""
    return Fraction(number * power_above(loss, _LEAST_BITS), 1 << _LEAST_BITS)


def ratios_of(law: ExactBins, grid: Grid, spacing: Fraction) -> tuple[Fraction, Fraction]:
    """The loss that the grid of ratios of one step reaches up to, and its spacing: one that adds less
    variance to a loss than the grid of losses does, as long as there are not too many places. Nothing rests
    on it.
    """
    remove, most = law.direction is Direction.REMOVE, MOST_PLACES // 2
    top = grid.offset + grid.top * spacing if remove else -(grid.offset + grid.floor * spacing)
    fine, greatest = spacing / (1 << grid.halvings), sum_at(law.bins, top)
    if greatest > most:  # on two grids
        return top, Fraction(2) ** (3 + law.bins.bit_length() - (MOST_PLACES // 4).bit_length())
    target = max(Fraction(1), 4 / (fine * fine * law.bins))  # of 1 / spacing^2
    halvings = int(target).bit_length() // 2 + 2
    while halvings and greatest * (1 << halvings) > most:
        halvings -= 1
    return top, Fraction(1, 1 << halvings)


@dataclass(frozen=True)
class Ratios:
    """Where sums of ratios are: at the places ``0 .. top``, and beyond at ``size, 2 size, .. wide size``, if
    ``size`` is not 1. Masses are in units of ``2^-bits``.
    """

    spacing: Fraction
    size: int
    top: int
    wide: int
    bits: int

    @cached_property
    def places(self) -> list[int]:
        first = (self.top // self.size + 1) * self.size  # coarse places are multiples of their size
        return [*range(self.top + 1), *range(first, self.wide * self.size + 1, self.size)]

    def sum_of(self, masses: Sequence[int], excess: Fraction) -> Sum:
        """Masses at the places, and what was cut."""
        fine, coarse = masses[: self.top + 1], masses[self.top + 1 :]
        return Sum(Masses.of(0, fine), Masses.of(self.top // self.size + 1, coarse), excess)

    def one(self, law: ExactBins) -> Sum:
        """One ratio, masses rounded up."""
        places = self.places
        unit, last = fmpz(1) << self.bits, len(places) - 1

        def enclosed(first: int, end: int) -> list[arb]:
            """The masses at places ``first`` to ``end``: differences of the slopes between places."""
            call, step = law.call(), ball(self.spacing)
            ends = places[max(0, first - 1) : end + 2]
            curve = [call(i * step) if i else arb(1) for i in ends]
            slopes = [
                (a - b) / ((j - i) * step) for (i, a), (j, b) in pairwise(zip(ends, curve, strict=True))
            ]
            if first == 0:
                slopes.insert(0, arb(1))
            if end == last:
                slopes.append(arb(0))
            return [a - b for a, b in pairwise(slopes)]

        with at_precision(self.bits + GUARD):
            found = [ceiling(mass * unit) for mass in enclosed(0, last)]
        masses = decide_each(found, lambda: lambda i: enclosed(i, i)[0], self.bits)
        beyond = units_above(lambda: law.call()(places[-1] * ball(self.spacing)), self.bits)
        return self.sum_of(masses, Fraction(beyond))

    def times(self, x: Sum, y: Sum) -> Sum:
        """The sum of both, cut at the end of the last grid."""
        product, excess = (x.fine * y.fine).rounded_up(self.bits), x.excess + y.excess
        if self.size == 1:
            fine, cut = _cut(product, self.top)
            return Sum(fine, NOTHING, excess + cut * self.spacing)
        mixed = x.coarse * (self._coarsened(y.fine) + y.coarse) + self._coarsened(x.fine) * y.coarse
        above = self._coarsened(product.between(self.top + 1, product.last))
        coarse, cut = _cut(mixed.rounded_up(self.bits) + above, self.wide)
        return Sum(product.between(0, self.top), coarse, excess + cut * self.spacing * self.size)

    def _coarsened(self, masses: Masses) -> Masses:
        """Masses sent to the two ends of coarse cells with shares that keep the mean, both rounded up."""
        if not len(masses):
            return NOTHING
        low, below = divmod(masses.first, self.size)
        bits = self.size.bit_length() - 1
        totals, raised = masses.merged(below, (1,) * self.size, range(self.size))
        up, less = raised.rounded_up(bits), raised.rounded_down(bits)
        down = [total - up_share for total, up_share in zip_longest(totals, less, fillvalue=0)]
        return Masses.of(low, down) + Masses(low + 1, up.packed, up.width, up.most)


def _cut(masses: Masses, top: int) -> tuple[Masses, int]:
    """The masses up to ``top``, those beyond put there, and by how many places they were beyond in all."""
    inside, above = masses.between(masses.first, top), masses.between(top + 1, masses.last)
    beyond = sum(i * mass for i, mass in enumerate(above, start=above.first - top))
    return (inside + Masses.of(top, [above.most]), beyond) if beyond else (inside, 0)
