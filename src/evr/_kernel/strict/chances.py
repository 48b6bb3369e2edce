"""The chances of a score of one step, from balls to integers: those under ``P`` are rounded down, those under
``Q`` up (docs/guarantees_lower.md, Sections L3 and L6).
"""

from bisect import bisect_left
from collections.abc import Callable, Sequence
from contextlib import suppress
from fractions import Fraction
from functools import cache, lru_cache, partial
from itertools import pairwise
from operator import le
from typing import Any, cast

from flint import arb, arb_series, ctx, fmpq, fmpz

from evr._kernel.order import power
from evr._kernel.pairs.exact import ExactBins, ExactCurve, ExactGaussian, ExactLaw, ExactOutcomes
from evr._kernel.pairs.exact.law import at_precision, ball
from evr._kernel.strict.masses import Masses
from evr._kernel.strict.one_step import Losses, stretches
from evr._kernel.strict.plan import Grid
from evr._kernel.strict.ratios import MORE_BITS, MOST_PLACES, places_for, ratios_of
from evr._kernel.strict.rounding import GUARD, end_above
from evr._kernel.strict.series import Stencil, StencilTerm
from evr.types import Direction

Chances = tuple[arb, arb]
"""The probabilities of a test, or of a set of outcomes, under ``P`` and under ``Q``."""
_NONE = (arb(0), arb(0))
_APART = 60  # edges may be ``2^-_APART`` from each other, and not less


def floor(number: arb) -> int:
    """The lower end of a ball, rounded down, or 0."""
    return max(0, -end_above(-number))


def _ceiling(number: arb) -> int:
    """The upper end of a ball, rounded up, or 0."""
    return max(0, end_above(number))


def _tests(law: ExactCurve) -> Callable[[arb], Chances]:
    """From a loss to the chances of a test about "it is exceeded", that under ``Q`` times ``e^loss``; not
    finite where balls do not tell. Tests at losses that are ``2^-_APART`` or more from each other are nested.
    """
    curve, least, most, finer = law.curve(), law.least(), law.greatest(), ctx.prec + _APART + 16
    greatest = ball(most) if isinstance(most, Fraction) else most

    @cache
    def finer_curve() -> Callable[[arb], arb]:
        return law.curve()

    def by_tangent(loss: arb) -> Chances:
        near = cast(Any, curve)(arb_series([loss, 1], 2).exp())
        return near[0] - near[1], -near[1]

    def by_chord(loss: arb) -> Chances:
        with at_precision(finer):
            ratio, width = loss.exp().mid(), arb((1, -_APART - 4))
            first, second = finer_curve()(ratio), finer_curve()(ratio * (1 + width))
            fall = (first - second) / width
            return (second + fall).union(first + fall), fall * loss.exp() / ratio

    def test(loss: arb) -> Chances:
        if loss <= least:
            return arb(1), loss.exp()
        if loss >= greatest:
            return _NONE
        try:
            return by_tangent(loss) if law.is_analytic else by_chord(loss)
        except ArithmeticError:  # no formula holds throughout, or no root is enclosed
            return arb.nan(), arb.nan()

    return test


def _to_nearest(gap: arb) -> list[Stencil]:
    """``p`` and ``q`` of a place, which is half a gap from both of its edges."""
    half, up, one = Fraction(1, 2), (gap / 2).exp(), arb(1)
    p = [StencilTerm(-half, one, -one), StencilTerm(half, -one, one)]
    return [p, [StencilTerm(-half, arb(0), -up), StencilTerm(half, arb(0), 1 / up)]]


def _of_curve(law: ExactCurve, losses: Losses, bits: int) -> tuple[list[int], list[int]]:
    """``p`` and ``q`` of the nearest place to the loss."""
    if losses.unit < fmpq(1, 1 << _APART):
        raise ValueError("the places of the plan are too near for its bits: balls cannot tell them apart")
    unit, last = fmpz(1) << bits, len(losses) - 1
    p, q, test = [0] * len(losses), [0] * len(losses), _tests(law)

    @cache
    def growth(gap: fmpq) -> arb:
        return arb(gap).exp()

    @lru_cache(maxsize=2)
    def beyond(edge: int) -> tuple[fmpq, Chances]:
        """The loss between a place and the next, and the test about it: all, before the first place."""
        loss = (losses[max(edge, 0)] + losses[min(edge + 1, last)]) / 2
        if edge < 0:
            return loss, (arb(1), arb(loss).exp())
        return loss, test(arb(loss)) if edge < last else _NONE

    for places, by_series in stretches(law, losses, bits, _to_nearest):
        if by_series is not None:
            (least, _), (_, most) = by_series
            p[places.start : places.stop] = [max(0, one - 1) for one in least]
            q[places.start : places.stop] = most
            continue
        for j in places:
            (low, (a, b)), (high, (c, d)) = beyond(j - 1), beyond(j)
            above, below = a - c, b * growth(losses[j] - low) - d * growth(losses[j] - high)
            with suppress(ValueError):  # no finite enclosure: the outcomes are given up
                p[j], q[j] = floor(above * unit), _ceiling(below * unit)
    return p, q


def sets_of(law: ExactLaw, top: Fraction, spacing: Fraction, bits: int) -> list[Chances]:
    """The chances of disjoint sets of outcomes; of bins, those of sums of ratios up to ``e^top``."""
    if isinstance(law, ExactOutcomes):
        try:
            found = law.sets()
        except ArithmeticError:  # the sign of a loss is not certain
            with at_precision(4 * ctx.prec):
                found = law.sets()
        return [(one.p, one.q) for one in found]
    if isinstance(law, ExactBins):
        return _sums_of_ratios(law, top, spacing, bits + MORE_BITS)
    raise TypeError(f"{law!r} has neither a curve nor outcomes nor bins: it has no score")


def _sums_of_ratios(law: ExactBins, top: Fraction, spacing: Fraction, bits: int) -> list[Chances]:
    """Bins by the sum of their ratios, rounded to a grid (L6)."""
    while (last := int(places_for(law.bins, top, spacing))) > MOST_PLACES:
        spacing *= 2
    with at_precision(bits + GUARD):
        test = _tests(ExactGaussian(law.energy))
        ratios = [ball((i + Fraction(1, 2)) * spacing) for i in range(last)]
        tests = [(a, b / ratio) for ratio in ratios for a, b in [test(ratio.log())]]
        pairs = pairwise([(arb(1), arb(1)), *tests, _NONE])
        tilted, plain = zip(*((a - c, b - d) for (a, b), (c, d) in pairs), strict=True)

    def summed(
        one: Sequence[arb], rounded: Callable[[arb], int], divided: Callable[[Masses, int], Masses]
    ) -> list[int]:
        """The law of a sum of ratios: ``one`` of this law, and all others of the plain one."""

        def times(x: Masses, y: Masses) -> Masses:
            product = divided(x * y, bits)
            beyond = product.between(last + 1, product.last).total()
            return product.between(0, last) + Masses.of(last, [beyond])

        unit = fmpz(1) << bits
        first, others = (Masses.of(0, [rounded(number * unit) for number in law]) for law in (one, plain))
        return [*times(first, power(others, law.bins - 1, times)), *[0] * (last + 1)]

    above, below = (tilted, plain) if law.direction is Direction.REMOVE else (plain, tilted)
    p, q = summed(above, floor, Masses.rounded_down), summed(below, _ceiling, Masses.rounded_up)
    return [(arb((p[n], -bits)), arb((q[n], -bits))) for n in range(last + 1)]


def chances_of(law: ExactLaw, grid: Grid, spacing: Fraction, bits: int) -> tuple[list[int], list[int], int]:
    """``p``, ``q`` and the infinite mass (L2) of a score of one step on a grid, in units of ``2^-bits``."""
    losses, infinite = Losses(grid, spacing), arb(0)
    with at_precision(bits + GUARD):
        if isinstance(law, ExactCurve):
            return *_of_curve(law, losses, bits), 0
        rows, edges = [_NONE] * len(losses), [arb((low + high) / 2) for low, high in pairwise(losses)]
        ratios = ratios_of(law, grid, spacing) if isinstance(law, ExactBins) else (spacing, spacing)
        for p, q in sets_of(law, *ratios, bits):
            if q.is_zero():
                infinite += p
            elif p > 0:
                place = bisect_left(edges, True, key=partial(le, (p / q).log()))  # any will do
                rows[place] = rows[place][0] + p, rows[place][1] + q
        unit = fmpz(1) << bits
        above = [floor(p * unit) for p, _ in rows]
        below = [_ceiling(q * arb(loss).exp() * unit) for (_, q), loss in zip(rows, losses, strict=True)]
        return above, below, floor(infinite * unit)
