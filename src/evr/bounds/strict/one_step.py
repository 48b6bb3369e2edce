"""One step on its grid: from balls to integers (docs/guarantees_strict.md, Sections S3 and S4.1), and balls in bins as
outcomes, on a grid of their ratio (docs/guarantees_highdim.md, Section 8).
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache, lru_cache, partial
from itertools import pairwise
from operator import le
from typing import NamedTuple

from flint import arb, fmpq, fmpz, fmpz_poly

from evr.bounds.strict.masses import GUARD, NOTHING, GridLaw, Masses, ceiling, end_above, power_above, units_above
from evr.bounds.strict.plan import Grid, power
from evr.laws.exact import ExactBins, ExactCurve, ExactLaw, ExactOutcomes, OutcomeSet
from evr.laws.exact.law import at_precision, ball
from evr.laws.law import Direction

MOST_PLACES = 1 << 18  # of a grid of ratios
MOST_SIZE = 1 << 20  # of a coarse cell of ratios, in fine ones
MORE_BITS = 40  # than those of what is made of the outcomes: sums of many roundings
_LEAST_BITS = 64


def one_step(law: ExactLaw, grid: Grid, spacing: Fraction, bits: int) -> GridLaw:
    """A grid law that covers one step."""
    losses = losses_of(grid, spacing)
    if isinstance(law, ExactBins):
        law = outcomes_of(law, *ratios_of(law, grid, spacing), bits)
    if isinstance(law, ExactOutcomes):
        masses, infinite = _spread_outcomes(law, losses, bits)
    elif isinstance(law, ExactCurve):
        masses, infinite = _spread_curve(law, losses, bits)
    else:
        raise TypeError(f"{law!r} is neither an ExactCurve nor an ExactOutcomes: it cannot be enclosed")
    if min(masses) < 0:
        raise ValueError(f"{type(law).__name__} has a negative mass: give a curve that is convex and falls from 1 on")
    return GridLaw.on_grid(masses, min(infinite, 1 << bits), grid, spacing, bits)


def losses_of(grid: Grid, spacing: Fraction) -> list[fmpq]:
    """The losses of a grid's places, rising: coarse places below the fine ones, these, and coarse places above them."""
    size = 1 << grid.halvings
    places = [i * size for i in range(grid.floor, grid.top + 1)]
    if grid.halvings:
        below, above = grid.low - grid.floor, grid.high + 1 - grid.floor
        places[below:above] = range(grid.low * size, grid.high * size + 1)
    start, unit = (fmpq(x.numerator, x.denominator) for x in (grid.offset, spacing / size))
    return [start + unit * place for place in places]


def _tails(law: ExactCurve, losses: Sequence[fmpq]) -> tuple[int, int, Callable[[int], arb]]:
    """``G_j`` of Section S3 as a function of ``j``: how much of ``P`` is put beyond place ``j``. Before it, the first
    place at which it may be below 1, and the first from which on it is 0.
    """
    value, least, greatest = law.curve(), law.least(), law.greatest()
    most = ball(greatest) if isinstance(greatest, Fraction) else greatest
    places = range(len(losses))
    # Below `first` all losses are certainly at the next place or beyond it; from `end` on none is beyond.
    first = max(0, bisect_left(places, True, key=lambda j: not arb(losses[j]) <= least) - 1)
    end = bisect_left(places, True, key=lambda j: bool(arb(losses[j]) >= most))

    @lru_cache(maxsize=2)  # the curve at one place, which the next mass needs too
    def curve(j: int) -> arb:
        return arb(0) if j >= end else value(arb(losses[j]).exp())

    @cache
    def gap(width: fmpq) -> tuple[arb, arb]:
        """``s_j`` and ``1 / (1 - s_j)``."""
        ratio = arb(-width).exp()
        return ratio, 1 / (1 - ratio)

    def tail(j: int) -> arb:
        if j < first or j >= end:
            return arb(int(j < first))
        if j == places[-1]:
            return curve(j)
        ratio, inverse = gap(losses[j + 1] - losses[j])
        return (curve(j) - ratio * curve(j + 1)) * inverse

    return first, end, tail


def _spread_curve(law: ExactCurve, losses: Sequence[fmpq], bits: int) -> tuple[list[int], int]:
    """The masses at the places and at infinity, rounded up."""
    unit, last = fmpz(1) << bits, len(losses) - 1
    masses: list[int | None] = [0] * len(losses)

    def mass(j: int) -> arb:
        *_, tail = _tails(law, losses)
        return (tail(j - 1) if j else arb(1)) - tail(j)

    with at_precision(bits + GUARD):
        first, end, tail = _tails(law, losses)
        before = arb(1)
        for j in range(min(first, last), min(end, last) + 1):
            after = tail(j)
            masses[j], before = ceiling((before - after) * unit), after
    infinite = 0 if end <= last else units_above(lambda: _tails(law, losses)[2](last), bits)
    return _decided(masses, mass, bits), infinite


def _decided(found: Sequence[int | None], number: Callable[[int], arb], bits: int) -> list[int]:
    """The integers that are found; those that one precision leaves open, one by one."""
    return [units_above(partial(number, j), bits) if one is None else one for j, one in enumerate(found)]


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


# --- balls in bins --------------------------------------------------------------------------------
# One ratio ``A`` is spread to the ends of cells of a uniform grid, which keeps its mean. The sum of ``b`` of them is a
# power of a polynomial with integer coefficients; what is beyond the top is cut.


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
    grid: _Ratios
    sum: _Sum  # of all bins

    def sets(self) -> list[OutcomeSet]:
        return self._sets(self.sum.fine)

    def sets_beyond(self, epsilon: Fraction) -> list[OutcomeSet]:
        remove = self.law.direction is Direction.REMOVE
        # e^epsilon is at most a place off
        near = _sum_at(self.law, epsilon if remove else -epsilon) // self.grid.spacing
        ends = (near - 2, self.sum.fine.last) if remove else (0, near + 2)
        return self._sets(self.sum.fine.part(*ends))

    def _sets(self, fine: Masses) -> list[OutcomeSet]:
        remove, infinite, found = self.law.direction is Direction.REMOVE, arb.pos_inf(), []
        unit, step = Fraction(1, 1 << self.grid.bits), ball(self.grid.spacing / self.law.bins)
        for masses, size in ((fine, 1), (self.sum.coarse, self.grid.size)):
            for place, mass in enumerate(masses.poly.coeffs(), start=masses.first):
                q, ratio = arb(mass) * ball(unit), place * size * step
                p, loss = q * ratio, ratio.log() if place else -infinite
                found.append(OutcomeSet(p, q, loss) if remove else OutcomeSet(q, p, -loss))
        if self.sum.excess:
            cut = ball(self.sum.excess * unit / self.law.bins)
            found.append(OutcomeSet(cut, arb(0), infinite) if remove else OutcomeSet(arb(0), cut, -infinite))
        return found


def outcomes_of(law: ExactBins, top: Fraction, spacing: Fraction, bits: int) -> BinsOutcomes:
    """Bins on a grid of ratios up to ``e^top``: in the remove direction losses beyond ``top`` are cut, in the add
    direction losses below ``-top`` are raised.
    """
    places, size = places_for(law, top, spacing), 1
    if places > MOST_PLACES:  # a fine grid for usual sums, and a coarse one beyond
        while places > size * MOST_PLACES // 4:
            size *= 2
    if size > MOST_SIZE:
        raise ValueError(
            f"bins on grids of ratios would have more than {MOST_PLACES:,} places, for losses up to "
            f"{-(-top // 1):,}: a smaller epsilon or a wider spacing is wanted"
        )
    ends = (places, 0) if size == 1 else (MOST_PLACES // 4, -(-places // size))
    grid = _Ratios(spacing, size, *ends, bits=bits + MORE_BITS)
    return BinsOutcomes(law, grid, power(grid.one(law), law.bins, grid.times))


def places_for(law: ExactBins, top: Fraction, spacing: Fraction) -> int:
    """How many places a grid of ratios has whose losses reach up to ``top``."""
    return -(-_sum_at(law, top) // spacing)


def _sum_at(law: ExactBins, loss: Fraction) -> Fraction:
    """The sum of ratios at a loss, rounded up."""
    return Fraction(law.bins * power_above(loss, _LEAST_BITS), 1 << _LEAST_BITS)


def ratios_of(law: ExactBins, grid: Grid, spacing: Fraction) -> tuple[Fraction, Fraction]:
    """The loss that the grid of ratios of one step reaches up to, and its spacing: one that adds less variance to a
    loss than the grid of losses does, as long as there are not too many places. Nothing rests on it.
    """
    remove, most = law.direction is Direction.REMOVE, MOST_PLACES // 2
    top = grid.offset + grid.top * spacing if remove else -(grid.offset + grid.floor * spacing)
    fine, greatest = spacing / (1 << grid.halvings), _sum_at(law, top)
    if greatest > most:  # on two grids
        return top, Fraction(2) ** (3 + law.bins.bit_length() - (MOST_PLACES // 4).bit_length())
    target = max(Fraction(1), 4 / (fine * fine * law.bins))  # of 1 / spacing^2
    halvings = int(target).bit_length() // 2 + 2
    while halvings and greatest * (1 << halvings) > most:
        halvings -= 1
    return top, Fraction(1, 1 << halvings)


@dataclass(frozen=True)
class _Ratios:
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

        with at_precision(self.bits + GUARD):
            found = [ceiling(mass * unit) for mass in enclosed(0, last)]
        masses = _decided(found, lambda i: enclosed(i, i)[0], self.bits)
        beyond = units_above(lambda: law.call()(places[-1] * ball(self.spacing)), self.bits)
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
