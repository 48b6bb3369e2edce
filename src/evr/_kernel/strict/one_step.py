"""One step on its grid: from balls to integers (docs/guarantees_strict.md, Sections S3 and S4.1), and balls in bins as
outcomes, on a grid of their ratio (docs/guarantees_highdim.md, Section 8).
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache, partial
from itertools import pairwise, zip_longest
from operator import le
from typing import Any, NamedTuple

from flint import arb, arb_poly, arb_series, ctx, fmpq, fmpz

from evr._kernel.pairs.exact import ExactBins, ExactCurve, ExactLaw, ExactOutcomes, OutcomeSet
from evr._kernel.pairs.exact.law import at_precision, ball
from evr._kernel.strict.masses import (
    GUARD,
    NOTHING,
    RAISES,
    GridLaw,
    Masses,
    ceiling,
    end_above,
    power_above,
    units_above,
)
from evr._kernel.strict.plan import Grid, power
from evr.types import Direction

MOST_PLACES = 1 << 18  # of a grid of ratios
MOST_SIZE = 1 << 20  # of a coarse cell of ratios, in fine ones
MORE_BITS = 40  # than those of what is made of the outcomes: sums of many roundings
_LEAST_BITS = 64
_BLOCK, _LEAST_BLOCK = 64, 8  # places that share a series: at first, and at least
_LEAST_ERROR = arb((1, -30))  # of a mass, in units: some masses are as small


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

    @lru_cache(maxsize=3)  # the curve at one place, which the next masses need too
    def curve(j: int) -> arb:
        return arb(0) if j >= end else value(arb(losses[j]).exp())

    def tail(j: int) -> arb:
        if j < first or j >= end:
            return arb(int(j < first))
        if j == places[-1]:
            return curve(j)
        ratio = arb(losses[j] - losses[j + 1]).exp()
        return (curve(j) - ratio * curve(j + 1)) / (1 - ratio)

    return first, end, tail


def _spread_curve(law: ExactCurve, losses: Sequence[fmpq], bits: int) -> tuple[list[int], int]:
    """The masses at the places and at infinity, rounded up."""
    unit, last = fmpz(1) << bits, len(losses) - 1
    masses: list[int | None] = [0] * len(losses)

    def mass(tail: Callable[[int], arb], j: int) -> arb:
        return (tail(j - 1) if j else arb(1)) - tail(j)

    with at_precision(bits + GUARD):
        first, end, tail = _tails(law, losses)
        inner = range(first + 1, min(end - 1, last)) if law.is_analytic else range(0)
        scaled = dict(_masses_by_series(law.curve(), losses, inner, bits))
        for j in range(min(first, last), min(end, last) + 1):
            masses[j] = ceiling(scaled[j] if j in scaled else mass(tail, j) * unit)
    infinite = 0 if end <= last else units_above(lambda: _tails(law, losses)[2](last), bits)
    return _decided(masses, lambda: partial(mass, _tails(law, losses)[2]), bits), infinite


def _masses_by_series(
    curve: Callable[[Any], Any], losses: Sequence[fmpq], places: range, bits: int
) -> Iterator[tuple[int, arb]]:
    """Places and ``2^bits`` times their masses, in blocks; places that no series serves are left out."""
    start, size = places.start, _BLOCK
    while (number := min(size, places.stop - start)) >= _LEAST_BLOCK:
        width, middle = losses[start + 1] - losses[start], number // 2
        found = None
        if losses[start + number] - losses[start - 1] == (number + 1) * width:  # as gaps are of two kinds only
            found = _mass_near(curve, losses[start + middle], width, middle + 1, bits)
        if found is None and number >= 2 * _LEAST_BLOCK:
            size = number * 2 // 3
            continue
        if found is not None:
            yield from enumerate(
                found.evaluate([arb(t - middle) for t in range(number)], algorithm="iter"), start=start
            )
        start, size = start + number, size * 4 // 3


def _mass_near(curve: Callable[[Any], Any], loss: fmpq, width: fmpq, reach: int, bits: int) -> arb_poly | None:
    """``2^bits`` times the mass ``t`` places beyond ``loss``, ``|t| < reach``, as a polynomial in ``t`` (S3.1);
    None where the rest of the series is too large.
    """
    near, far, step, last = arb(loss), arb(width * reach), arb(width), ctx.cap - 1
    ratio = (-step).exp()
    scale = arb(fmpz(1) << bits) / (1 - ratio)
    try:
        rest = curve(arb_series([(near - far).union(near + far), 1]).exp())[last]
    except ArithmeticError:
        return None
    error = 4 * scale * abs(rest) * far**last
    if not error < _LEAST_ERROR:
        return None
    series = curve(arb_series([near, 1]).exp())
    value = arb_poly(series.coeffs()[:last])(arb_poly([0, step]))
    before, after = (value(arb_poly([shift, 1])) for shift in (-1, 1))
    return (before - (1 + ratio) * value + ratio * after) * scale + (-error).union(error)


def _decided(found: Sequence[int | None], numbers: Callable[[], Callable[[int], arb]], bits: int) -> list[int]:
    """The integers that are found; those that one precision leaves open by more of it, as ``units_above`` does."""
    decided, unit = {j: one for j, one in enumerate(found) if one is not None}, fmpz(1) << bits
    for raises in range(1, RAISES):
        if left := [j for j in range(len(found)) if j not in decided]:
            with at_precision((bits + GUARD) << raises):
                number, rounded = numbers(), ceiling if raises < RAISES - 1 else end_above
                rows = ((j, rounded(number(j) * unit)) for j in left)
                decided.update((j, one) for j, one in rows if one is not None)
    return [decided[j] for j in range(len(found))]


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


class Sum(NamedTuple):
    """A sum of ratios under ``Q``: masses on the fine grid and on the coarse one, not below those of a law that is
    above the true one; and what was cut, an expectation of sums of ratios.
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
        near = sum_at(self.groups, epsilon if remove else -epsilon) // self.grid.spacing  # at most a place off
        return self._sets(self.sum.fine.part(*((near - 2, self.sum.fine.last) if remove else (0, near + 2))))

    def _sets(self, fine: Masses) -> list[OutcomeSet]:
        remove, infinite, found = self.direction is Direction.REMOVE, arb.pos_inf(), list[OutcomeSet]()
        unit, step, other = arb((1, -self.grid.bits)), ball(self.grid.spacing / self.groups), arb(0)
        for masses, size in ((fine, 1), (self.sum.coarse, self.grid.size)):
            for place, mass in enumerate(masses, start=masses.first):
                if mass:
                    m, ratio = arb(mass) * unit, place * size * step
                    loss = ratio.log() if place else -infinite
                    found.append(OutcomeSet(m * ratio, m, loss) if remove else OutcomeSet(m, m * ratio, -loss))
                    other += m * ratio
        if remove:
            cut = ball(self.sum.excess / self.groups) * unit
            return [*found, OutcomeSet(cut, arb(0), infinite)]
        return [*found, OutcomeSet(arb(0), arb(0).max(1 - other), -infinite)]


def outcomes_of(law: ExactBins, top: Fraction, spacing: Fraction, bits: int) -> MeanOutcomes:
    """Bins on a grid of ratios up to ``e^top``: in the remove direction losses beyond ``top`` are cut, in the add
    direction losses below ``-top`` are raised.
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
            f"{-(-top // 1):,}: a smaller epsilon or a wider spacing is wanted"
        )
    ends = (places, 0) if size == 1 else (MOST_PLACES // 4, -(-places // size))
    return Ratios(spacing, size, *ends, bits=bits)


def places_for(number: int, top: Fraction, spacing: Fraction) -> int:
    """How many places a grid of the sum of so many ratios has whose losses reach up to ``top``."""
    return max(1, -(-sum_at(number, top) // spacing))


def sum_at(number: int, loss: Fraction) -> Fraction:
    """The sum of so many ratios at a loss, rounded up."""
    return Fraction(number * power_above(loss, _LEAST_BITS), 1 << _LEAST_BITS)


def ratios_of(law: ExactBins, grid: Grid, spacing: Fraction) -> tuple[Fraction, Fraction]:
    """The loss that the grid of ratios of one step reaches up to, and its spacing: one that adds less variance to a
    loss than the grid of losses does, as long as there are not too many places. Nothing rests on it.
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
    """Where sums of ratios are: at the places ``0 .. top``, and beyond at ``size, 2 size, .. wide size``, if ``size``
    is not 1. Masses are in units of ``2^-bits``.
    """

    spacing: Fraction
    size: int
    top: int
    wide: int
    bits: int

    @cached_property
    def places(self) -> list[int]:
        first = (self.top // self.size + 1) * self.size  # of the coarse places, which are multiples of their size
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
            """The masses at the places from ``first`` to ``end``: differences of the slopes between places."""
            call, step = law.call(), ball(self.spacing)
            ends = places[max(0, first - 1) : end + 2]
            curve = [call(i * step) if i else arb(1) for i in ends]
            slopes = [(a - b) / ((j - i) * step) for (i, a), (j, b) in pairwise(zip(ends, curve, strict=True))]
            before, after = [arb(1)] * (first == 0), [arb(0)] * (end == last)
            return [a - b for a, b in pairwise([*before, *slopes, *after])]

        with at_precision(self.bits + GUARD):
            found = [ceiling(mass * unit) for mass in enclosed(0, last)]
        masses = _decided(found, lambda: lambda i: enclosed(i, i)[0], self.bits)
        beyond = units_above(lambda: law.call()(places[-1] * ball(self.spacing)), self.bits)
        return self.sum_of(masses, Fraction(beyond))

    def times(self, x: Sum, y: Sum) -> Sum:
        """The sum of both, cut at the end of the last grid."""
        product, excess = (x.fine * y.fine).rounded_up(self.bits), x.excess + y.excess
        if self.size == 1:
            fine, cut = _cut(product, self.top)
            return Sum(fine, NOTHING, excess + cut * self.spacing)
        mixed = x.coarse * (self._coarsened(y.fine) + y.coarse) + self._coarsened(x.fine) * y.coarse
        above = self._coarsened(product.part(self.top + 1, product.last))
        coarse, cut = _cut(mixed.rounded_up(self.bits) + above, self.wide)
        return Sum(product.part(0, self.top), coarse, excess + cut * self.spacing * self.size)

    def _coarsened(self, masses: Masses) -> Masses:
        """Masses sent to the two ends of coarse cells with shares that keep the mean, both rounded up."""
        if not len(masses):
            return NOTHING
        low, below = divmod(masses.first, self.size)
        bits = self.size.bit_length() - 1
        totals, raised = masses.merged(below, self.size), masses.merged(below, tuple(range(self.size)))
        up, less = raised.rounded_up(bits), raised.rounded_down(bits)
        down = [total - part for total, part in zip_longest(totals, less, fillvalue=0)]
        return Masses.of(low, down) + Masses(low + 1, up.packed, up.width, up.most)


def _cut(masses: Masses, top: int) -> tuple[Masses, int]:
    """The masses up to ``top``, those beyond put there, and by how many places they were beyond in all."""
    inside, above = masses.part(masses.first, top), masses.part(top + 1, masses.last)
    beyond = sum(i * mass for i, mass in enumerate(above, start=above.first - top))
    return (inside + Masses.of(top, [above.most]), beyond) if beyond else (inside, 0)
