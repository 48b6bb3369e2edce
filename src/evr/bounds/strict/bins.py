"""Balls in bins on a grid of their ratio: from one log-normal ratio to the mean of ``b`` of them
(docs/guarantees_highdim.md, Section 8).

One ratio ``A`` is spread to the ends of cells of a uniform grid, which keeps its mean. The sum of ``b`` of them is a
power of a polynomial with integer coefficients; what is beyond the top is cut.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from itertools import chain, pairwise
from typing import NamedTuple

from flint import arb, ctx, fmpz, fmpz_poly

from evr.bounds.strict.balls import GUARD, ceiling, integer_above, power_above
from evr.bounds.strict.masses import NOTHING, Masses
from evr.bounds.strict.plan import power
from evr.laws.exact import ExactBins, ExactLaw, ExactOutcomes, OutcomeSet
from evr.laws.exact.law import ball
from evr.laws.law import Direction

MOST_PLACES = 1 << 18
MOST_SIZE = 1 << 20  # of a coarse cell, in fine ones
_MORE_BITS = 40  # than those of what is made of the outcomes: sums of many roundings
_LEAST_BITS = 64


class _Sum(NamedTuple):
    """A sum of ratios under ``Q``: masses on the fine grid and on the coarse one, not below those of a law that is
    above the true one; and what was cut, an expectation of sums of ratios.
    """

    fine: Masses
    coarse: Masses
    excess: Fraction


@dataclass(frozen=True)
class BinsOutcomes(ExactOutcomes):
    """The mean of the bins' ratios on a grid: at place ``i`` it is ``i spacing / bins``."""

    law: ExactBins
    grid: _Grid
    sum: _Sum  # of all bins

    def sets(self) -> list[OutcomeSet]:
        return self._sets(self.sum.fine)

    def sets_beyond(self, epsilon: Fraction) -> list[OutcomeSet]:
        remove = self.law.direction is Direction.REMOVE
        whole = power_above(epsilon if remove else -epsilon, _LEAST_BITS)
        ratio = Fraction(self.law.bins * whole, 1 << _LEAST_BITS) / self.grid.spacing
        near = ratio.numerator // ratio.denominator  # e^epsilon is at most a place off
        ends = (near - 2, self.sum.fine.last) if remove else (0, near + 2)
        return self._sets(self.sum.fine.part(*ends))

    def _sets(self, fine: Masses) -> list[OutcomeSet]:
        unit, step = Fraction(1, 1 << self.grid.bits), ball(self.grid.spacing / self.law.bins)
        remove, infinite = self.law.direction is Direction.REMOVE, arb.pos_inf()
        found = []
        _, coarse, excess = self.sum
        near = enumerate(fine.poly.coeffs(), start=fine.first)
        far = enumerate(coarse.poly.coeffs(), start=coarse.first)
        for place, mass in chain(near, ((place * self.grid.size, mass) for place, mass in far)):
            q = arb(mass) * ball(unit)
            ratio = place * step
            p = q * ratio
            if place == 0:
                found.append(OutcomeSet(arb(0), q, -infinite) if remove else OutcomeSet(q, arb(0), infinite))
            else:
                loss = ratio.log()
                found.append(OutcomeSet(p, q, loss) if remove else OutcomeSet(q, p, -loss))
        if remove and excess:
            found.append(OutcomeSet(ball(excess * unit / self.law.bins), arb(0), infinite))
        return found


def outcomes_of(law: ExactLaw, low: Fraction, high: Fraction, spacing: Fraction, bits: int) -> ExactLaw:
    """A law that is known by outcomes or by its curve as it is; bins on a grid whose losses reach from ``low``, below
    which they are raised, to ``high``, beyond which they are cut.
    """
    if not isinstance(law, ExactBins):
        return law
    top = high if law.direction is Direction.REMOVE else -low
    places, size = places_for(law, top, spacing), 1
    if places > MOST_PLACES:  # a fine grid for usual sums, and a coarse one beyond
        while places > size * MOST_PLACES // 4:
            size *= 2
    if size > MOST_SIZE:
        raise ValueError(
            f"bins on grids of ratios would have more than {MOST_PLACES:,} places, for losses up to "
            f"{-(-top.numerator // top.denominator):,}: a smaller epsilon or a wider spacing is wanted"
        )
    ends = (places, 0) if size == 1 else (MOST_PLACES // 4, -(-places // size))
    grid = _Grid(spacing, size, *ends, bits=bits + _MORE_BITS)
    return BinsOutcomes(law, grid, power(grid.one(law), law.bins, grid.times))


def places_for(law: ExactBins, top: Fraction, spacing: Fraction) -> int:
    """How many places a grid of ratios has whose losses reach up to ``top``."""
    ratio = Fraction(law.bins * power_above(top, _LEAST_BITS), 1 << _LEAST_BITS) / spacing
    return -(-ratio.numerator // ratio.denominator)


def spacing_for(law: ExactBins, fine: Fraction, top: Fraction) -> Fraction:
    """A spacing of ratios that adds less variance to a loss than a grid of losses of spacing ``fine`` does, as long as
    there are not too many places. Nothing rests on it.
    """
    target = max(Fraction(1), 4 / (fine * fine * law.bins))  # of 1 / spacing^2
    halvings = int(target).bit_length() // 2 + 2
    most = MOST_PLACES // 2
    while halvings and law.bins * power_above(top, _LEAST_BITS) << halvings > most << _LEAST_BITS:
        halvings -= 1
    if law.bins * power_above(top, _LEAST_BITS) > most << _LEAST_BITS:  # on two grids
        return Fraction(2) ** (3 + law.bins.bit_length() - (MOST_PLACES // 4).bit_length())
    return Fraction(1, 1 << halvings)


@dataclass(frozen=True)
class _Grid:
    """Where sums of ratios are: at the places ``0 .. top``, and beyond at ``size, 2 size, .. wide size``, if ``size``
    is not 1. Masses are in units of ``2^-bits``.
    """

    spacing: Fraction
    size: int
    top: int
    wide: int
    bits: int

    def one(self, law: ExactBins) -> _Sum:
        """One ratio, masses rounded up."""
        first = (self.top // self.size + 1) * self.size  # of the coarse places, which are multiples of their size
        places = [*range(self.top + 1), *range(first, self.wide * self.size + 1, self.size)]
        unit, last = fmpz(1) << self.bits, len(places) - 1

        def enclosed(first: int, end: int) -> list[arb]:
            """The masses at the places from ``first`` to ``end``: differences of the slopes between places."""
            call, step = law.call(), ball(self.spacing)
            ends = places[max(0, first - 1) : end + 2]
            curve = [call(i * step) if i else arb(1) for i in ends]
            slopes = [(a - b) / ((j - i) * step) for (i, a), (j, b) in pairwise(zip(ends, curve, strict=True))]
            before, after = [arb(1)] * (first == 0), [arb(0)] * (end == last)
            return [a - b for a, b in pairwise([*before, *slopes, *after])]

        with ctx.workprec(self.bits + GUARD):
            found = [ceiling(mass * unit) for mass in enclosed(0, last)]
        masses = [
            integer_above(partial(lambda at: enclosed(at, at)[0], i), self.bits) if n is None else n
            for i, n in enumerate(found)
        ]
        beyond = integer_above(lambda: law.call()(places[-1] * ball(self.spacing)), self.bits)
        fine, coarse = fmpz_poly(masses[: self.top + 1]), fmpz_poly(masses[self.top + 1 :])
        return _Sum(Masses(0, fine), Masses(self.top // self.size + 1, coarse), Fraction(beyond))

    def times(self, x: _Sum, y: _Sum) -> _Sum:
        """The sum of both, cut at the end of the last grid."""
        product, excess = (x.fine * y.fine).rounded_up(self.bits), x.excess + y.excess
        if self.size == 1:
            fine, cut = _cut(product, self.top)
            return _Sum(fine, NOTHING, excess + cut * self.spacing)
        mixed = x.coarse * (self._coarsened(y.fine) + y.coarse) + self._coarsened(x.fine) * y.coarse
        above = self._coarsened(product.part(self.top + 1, product.last))
        coarse, cut = _cut(mixed.rounded_up(self.bits) + above, self.wide)
        return _Sum(product.part(0, self.top), coarse, excess + cut * self.spacing * self.size)

    def _coarsened(self, masses: Masses) -> Masses:
        """Masses sent to the two ends of coarse cells with shares that keep the mean, both rounded up."""
        if not len(masses.poly):
            return NOTHING
        low, size = masses.first // self.size, self.size
        numbers = [fmpz(0)] * (masses.first - low * size) + masses.poly.coeffs()
        parts = [numbers[i : i + size] for i in range(0, len(numbers), size)]
        raised = [sum((r * m for r, m in enumerate(part)), fmpz(0)) for part in parts]
        up = fmpz_poly([-(-m // size) for m in raised])
        down = fmpz_poly([sum(part, fmpz(0)) - m // size for part, m in zip(parts, raised, strict=True)])
        return Masses(low, down + up.left_shift(1))


def _cut(masses: Masses, top: int) -> tuple[Masses, int]:
    """The masses up to ``top``, those beyond put there, and by how many places they were beyond in all."""
    inside, above = masses.part(masses.first, top), masses.part(top + 1, masses.last)
    if not len(above.poly):
        return inside, 0
    kept = above.total()
    return inside + Masses(top, fmpz_poly([kept])), int(above.poly.derivative()(1)) + (above.first - top) * kept
