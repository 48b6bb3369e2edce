"""Balls in bins on a grid of their ratio: from one log-normal ratio to the mean of ``b`` of them
(docs/guarantees_highdim.md, Section 8).

One ratio ``A`` is spread to the ends of cells of a uniform grid, which keeps its mean. The sum of ``b`` of them is a
power of a polynomial with integer coefficients; what is beyond the top is cut.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from itertools import pairwise

from flint import arb, ctx, fmpz, fmpz_poly

from evr.bounds.strict.balls import GUARD, ceiling, integer_above, power_above
from evr.bounds.strict.masses import Masses
from evr.bounds.strict.plan import power
from evr.laws.exact import ExactBins, ExactLaw, ExactOutcomes, OutcomeSet
from evr.laws.exact.law import ball
from evr.laws.law import Direction

MOST_PLACES = 1 << 18
_MORE_BITS = 40  # than those of what is made of the outcomes: sums of many roundings
_LEAST_BITS = 64


@dataclass(frozen=True)
class BinsOutcomes(ExactOutcomes):
    """The mean of the bins' ratios on a grid: at place ``i`` it is ``i spacing / bins``."""

    law: ExactBins
    spacing: Fraction
    bits: int
    masses: Masses  # under ``Q``, in units of ``2^-bits``, not below those of a law that is above the true one
    excess: Fraction  # what was cut, in the same units: an expectation under ``Q`` of sums of ratios

    def sets(self) -> list[OutcomeSet]:
        return self._sets(self.masses)

    def sets_beyond(self, epsilon: Fraction) -> list[OutcomeSet]:
        remove = self.law.direction is Direction.REMOVE
        whole = power_above(epsilon if remove else -epsilon, _LEAST_BITS)
        ratio = Fraction(self.law.bins * whole, 1 << _LEAST_BITS) / self.spacing
        near = ratio.numerator // ratio.denominator  # e^epsilon is at most a place off
        ends = (near - 2, self.masses.last) if remove else (0, near + 2)
        return self._sets(self.masses.part(*ends))

    def _sets(self, masses: Masses) -> list[OutcomeSet]:
        unit, step = Fraction(1, 1 << self.bits), ball(self.spacing / self.law.bins)
        remove, infinite = self.law.direction is Direction.REMOVE, arb.pos_inf()
        found = []
        for place, mass in enumerate(masses.poly.coeffs(), start=masses.first):
            q = arb(mass) * ball(unit)
            ratio = place * step
            p = q * ratio
            if place == 0:
                found.append(OutcomeSet(arb(0), q, -infinite) if remove else OutcomeSet(q, arb(0), infinite))
            else:
                loss = ratio.log()
                found.append(OutcomeSet(p, q, loss) if remove else OutcomeSet(q, p, -loss))
        if remove and self.excess:
            cut = ball(self.excess * unit / self.law.bins)
            found.append(OutcomeSet(cut, arb(0), infinite))
        return found


def outcomes_of(law: ExactLaw, low: Fraction, high: Fraction, spacing: Fraction, bits: int) -> ExactLaw:
    """A law that is known by outcomes or by its curve as it is; bins on a grid whose losses reach from ``low``, below
    which they are raised, to ``high``, beyond which they are cut.
    """
    if not isinstance(law, ExactBins):
        return law
    wide = bits + _MORE_BITS
    top = high if law.direction is Direction.REMOVE else -low
    places = places_for(law, top, spacing)
    if places > MOST_PLACES:
        raise ValueError(
            f"bins on a grid of ratios would have more than the {MOST_PLACES:,} places that are followed, for losses "
            f"up to {-(-top.numerator // top.denominator):,}: a smaller epsilon or a wider spacing is wanted"
        )
    masses, excess = _sum(_one(law, places, spacing, wide), law.bins, places, spacing, wide)
    return BinsOutcomes(law, spacing, wide, masses, excess)


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
    return Fraction(1, 1 << halvings)


def _one(law: ExactBins, places: int, spacing: Fraction, bits: int) -> tuple[Masses, Fraction]:
    """One ratio at the places ``0 .. places``, masses rounded up; and what is beyond the top."""
    unit = fmpz(1) << bits

    def enclosed(first: int, last: int) -> list[arb]:
        """The masses at the places ``first .. last``: differences of the slopes of the curve between places."""
        call, inverse = law.call(), ball(1 / spacing)
        ends = range(first - 1, min(last + 1, places) + 1)
        curve = [arb(1) if i < 1 else call(i * ball(spacing)) for i in ends]
        slopes = [(a - b) * inverse for a, b in pairwise(curve)]
        if first == 0:
            slopes[0] = arb(1)
        return [a - b for a, b in pairwise([*slopes, arb(0)] if last == places else slopes)]

    with ctx.workprec(bits + GUARD):
        found = [ceiling(mass * unit) for mass in enclosed(0, places)]
    masses = [
        integer_above(partial(lambda at: enclosed(at, at)[0], i), bits) if n is None else n for i, n in enumerate(found)
    ]
    beyond = integer_above(lambda: law.call()(places * ball(spacing)), bits)
    return Masses(0, fmpz_poly(masses)), Fraction(beyond)


def _sum(one: tuple[Masses, Fraction], bins: int, places: int, spacing: Fraction, bits: int) -> tuple[Masses, Fraction]:
    """The sum of ``bins`` ratios, cut at ``places`` after each product."""

    def times(x: tuple[Masses, Fraction], y: tuple[Masses, Fraction]) -> tuple[Masses, Fraction]:
        product = (x[0] * y[0]).rounded_up(bits)
        inside, above = product.part(0, places), product.part(places + 1, product.last)
        if not len(above.poly):
            return inside, x[1] + y[1]
        kept = above.total()
        beyond = int(above.poly.derivative()(1)) + (above.first - places) * kept
        inside = inside + Masses(places, fmpz_poly([kept]))
        return inside, x[1] + y[1] + beyond * spacing

    return power(one, bins, times)
