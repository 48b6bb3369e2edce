"""Lower bounds on delta in exact arithmetic (docs/guarantees_lower.md), by the test "the sum of the losses,
rounded to a grid, is large": its probability under ``P`` is rounded down, and that under ``Q`` up.
"""

from bisect import bisect_left
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from fractions import Fraction
from functools import cache, lru_cache, partial
from itertools import pairwise
from operator import le, mul
from typing import Any, NamedTuple, Self

from flint import arb, arb_series, ctx, fmpq, fmpz

from evr._kernel.pairs.exact import ExactBins, ExactCurve, ExactGaussian, ExactLaw, ExactOutcomes
from evr._kernel.pairs.exact.law import at_precision, ball
from evr._kernel.pairs.exact.sampled import ExactEither
from evr._kernel.pairs.nested import NestedLaw, SampledSteps
from evr._kernel.pairs.steps import Step
from evr._kernel.strict.grid_law import GridLaw, Rules, falling, raised
from evr._kernel.strict.masses import NOTHING, Masses
from evr._kernel.strict.one_step import Losses, held, stretches
from evr._kernel.strict.plan import Grid, ProofPlan, Window, power
from evr._kernel.strict.proof import sampled_delta
from evr._kernel.strict.ratios import MORE_BITS, MOST_PLACES, places_for, ratios_of
from evr._kernel.strict.rounding import GUARD, end_above, power_above
from evr._kernel.strict.series import Part
from evr.errors import UnsupportedEventError
from evr.types import Direction

Chances = tuple[arb, arb]
"""The probabilities of a test, or of a set of outcomes, under ``P`` and under ``Q``."""
_NONE = (arb(0), arb(0))
_APART = 60


def bounds_below(
    steps: Sequence[Step], plan: ProofPlan, low: Fraction, high: Fraction
) -> Callable[[Fraction], Fraction]:
    """A function from an epsilon, from ``low`` to ``high``, to a rational number that is at most
    delta(epsilon) of the steps' pairs in one direction, whatever the plan.
    """
    if any(isinstance(step.law, ExactEither) for step in steps):
        raise UnsupportedEventError(
            "so many kinds of steps are grouped to the safe side, which has no lower bound here: ask for an"
            " upper bound"
            " (evr.certify, method='strict'), or give fewer kinds"
        )
    if plan.grids:
        return _composed(steps, plan)
    if len(steps) != 1 or steps[0].count != 1:
        raise ValueError("a plan without grids serves one step alone")
    law, bits = steps[0].exact_law, plan.bits
    if isinstance(law, SampledSteps):
        (inside,) = plan.nested[0].plans
        return partial(sampled_delta, law, bounds_below(law.steps, inside, low, high), bits=bits, above=False)
    top = high if isinstance(law, ExactBins) and law.direction is Direction.REMOVE else -low
    sets = cache(partial(_sets, law, top, plan.spacing, bits))

    def delta(epsilon: Fraction) -> Fraction:
        with at_precision(bits + 2 * GUARD):
            ratio, unit = ball(epsilon).exp(), fmpz(1) << bits
            gains = (
                [law.curve()(ratio)] if isinstance(law, ExactCurve) else [p - ratio * q for p, q in sets()]
            )
            return Fraction(sum(_floor(gain * unit) for gain in gains), 1 << bits)

    return delta


def _floor(number: arb) -> int:
    """The lower end of a ball, rounded down, or 0."""
    return max(0, -end_above(-number))


def _ceiling(number: arb) -> int:
    """The upper end of a ball, rounded up, or 0."""
    return max(0, end_above(number))


# --- one step (L3) --------------------------------------------------------------------------------


def _tests(law: ExactCurve) -> Callable[[arb], Chances]:
    """From a loss to the chances of a test about "it is exceeded", that under ``Q`` times ``e^loss``.
    Tests at losses that are ``2^-_APART`` or more from each other are nested.
    """
    curve: Callable[[Any], Any] = law.curve()
    finer = ctx.prec + _APART + 16

    @cache
    def finer_curve() -> Callable[[arb], arb]:
        return law.curve()

    def of_chord(loss: arb) -> Chances:
        with at_precision(finer):
            ratio, width = loss.exp().mid(), arb((1, -_APART - 4))
            first, second = finer_curve()(ratio), finer_curve()(ratio * (1 + width))
            fall = (first - second) / width
            return (second + fall).union(first + fall), fall * loss.exp() / ratio

    def test(loss: arb) -> Chances:
        if law.is_analytic:
            with suppress(ArithmeticError, ValueError):  # no formula holds throughout
                near = curve(arb_series([loss, 1], 2).exp())
                value, slope = near[0], near[1]
                if slope.is_finite():
                    return value - slope, -slope
        try:
            return of_chord(loss)
        except ArithmeticError:  # no root is enclosed next to the least ratio of a mixture
            return arb.nan(), arb.nan()

    return test


def _to_nearest(gap: arb) -> list[list[Part]]:
    """``p`` and ``q`` of a place, which is half a gap from both of its edges."""
    half, up, one = Fraction(1, 2), (gap / 2).exp(), arb(1)
    p = [Part(-half, one, -one), Part(half, -one, one)]
    return [p, [Part(-half, arb(0), -up), Part(half, arb(0), 1 / up)]]


def _of_curve(law: ExactCurve, losses: Losses, bits: int) -> tuple[list[int], list[int]]:
    """``p`` and ``q`` of the nearest place to the loss."""
    if losses.unit < fmpq(1, 1 << _APART):
        raise ValueError("the places of the plan are too near for its bits: balls cannot tell them apart")
    unit, last, (first, end) = fmpz(1) << bits, len(losses) - 1, held(law, losses)
    p, q, test = [0] * len(losses), [0] * len(losses), _tests(law)

    @cache
    def growth(gap: fmpq) -> arb:
        return arb(gap).exp()

    @lru_cache(maxsize=2)
    def beyond(edge: int) -> tuple[fmpq, Chances]:
        """The loss between a place and the next, and the test about it."""
        loss = (losses[max(edge, 0)] + losses[min(edge + 1, last)]) / 2
        if edge < first or edge >= min(end, last):
            return loss, _NONE if edge >= first else (arb(1), arb(loss).exp())
        return loss, test(arb(loss))

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
                p[j], q[j] = _floor(above * unit), _ceiling(below * unit)
    return p, q


def _sets(law: ExactLaw, top: Fraction, spacing: Fraction, bits: int) -> list[Chances]:
    """The chances of sets of outcomes that have nothing in common; of bins, of sums of ratios up to
    ``e^top``.
    """
    if isinstance(law, ExactOutcomes):
        return [(one.p, one.q) for one in law.sets()]
    if isinstance(law, ExactBins):
        return _sums_of_ratios(law, top, spacing, bits + MORE_BITS)
    raise UnsupportedEventError(
        f"{law.describe() if isinstance(law, NestedLaw) else type(law).__name__} has no lower bound here:"
        " what is "
        "known of it bounds delta from above. Ask for an upper bound (evr.certify, method='strict')"
    )


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
            beyond = product.part(last + 1, product.last).total()
            return product.part(0, last) + Masses.of(last, [beyond])

        unit = fmpz(1) << bits
        first, others = (Masses.of(0, [rounded(number * unit) for number in law]) for law in (one, plain))
        return [*times(first, power(others, law.bins - 1, times)), *[0] * (last + 1)]

    above, below = (tilted, plain) if law.direction is Direction.REMOVE else (plain, tilted)
    p, q = summed(above, _floor, Masses.rounded_down), summed(below, _ceiling, Masses.rounded_up)
    return [(arb((p[n], -bits)), arb((q[n], -bits))) for n in range(last + 1)]


def chances_of(law: ExactLaw, grid: Grid, spacing: Fraction, bits: int) -> tuple[list[int], list[int], int]:
    """``p``, ``q`` and the infinite mass of L2 that describe a score of one step on a grid, in units of
    ``2^-bits``.
    """
    losses, infinite = Losses(grid, spacing), arb(0)
    with at_precision(bits + GUARD):
        if isinstance(law, ExactCurve):
            return *_of_curve(law, losses, bits), 0
        rows, edges = [_NONE] * len(losses), [arb((low + high) / 2) for low, high in pairwise(losses)]
        ratios = ratios_of(law, grid, spacing) if isinstance(law, ExactBins) else (spacing, spacing)
        for p, q in _sets(law, *ratios, bits):
            if q.is_zero():
                infinite += p
            elif p > 0:
                place = bisect_left(edges, True, key=partial(le, (p / q).log()))  # any will do
                rows[place] = rows[place][0] + p, rows[place][1] + q
        unit = fmpz(1) << bits
        above = [_floor(p * unit) for p, _ in rows]
        below = [_ceiling(q * arb(loss).exp() * unit) for (_, q), loss in zip(rows, losses, strict=True)]
        return above, below, _floor(infinite * unit)


# --- the two lists of a score (L2, L4) ------------------------------------------------------------


def _coarsened(masses: Masses, spacing: Fraction, halvings: int, bits: int, *, weighted: bool) -> Masses:
    """Each block of places, from half of them below a coarse place on, at that place."""
    if not halvings or not len(masses):
        return masses
    size = 1 << halvings
    low, below = divmod(masses.first + size // 2, size)
    weights = _weights(spacing, size, bits) if weighted else (1,) * size
    (merged,) = masses.merged(below, weights)
    return replace(merged.rounded_up(bits) if weighted else merged, first=low)


@lru_cache(maxsize=256)
def _weights(spacing: Fraction, size: int, bits: int) -> tuple[int, ...]:
    """``2^bits e^{(size / 2 - r) spacing}``, rounded up."""
    return tuple(power_above((size // 2 - r) * spacing, bits) for r in range(size))


def _windowed(
    masses: Masses, floor: int, top: int, spacing: Fraction, bits: int, *, weighted: bool
) -> tuple[Masses, int]:
    """What is within ``floor .. top``, with what is beyond merged at ``top``; nothing goes to infinity."""
    inside, above = masses.part(floor, top), masses.part(top + 1, masses.last)
    merged, wide = above.total(), bits + GUARD
    if weighted and merged:
        weights = falling(power_above(-spacing, wide), wide, above.first - top, above.last - top, raised)
        merged = (sum(map(mul, above, weights)) >> wide) + 1
    return inside + Masses.of(top, [merged]), 0


_MOVES = [(partial(_coarsened, weighted=one), partial(_windowed, weighted=one)) for one in (False, True)]
_RULES = (
    Rules(
        Masses.rounded_down,
        *_MOVES[0],
        lambda x, y: x.infinite + y.infinite + (-x.infinite * y.infinite >> x.bits),
    ),
    Rules(Masses.rounded_up, *_MOVES[1], lambda x, y: 0),
)


class _Score(NamedTuple):
    """The lists ``p`` and ``q`` of the score of some steps, each on a fine and a coarse grid."""

    p: GridLaw
    q: GridLaw

    @classmethod
    def of_step(cls, law: ExactLaw, grid: Grid, spacing: Fraction, bits: int) -> Self:
        p, q, infinite = chances_of(law, grid, spacing, bits)
        lists = zip(((p, infinite), (q, 0)), _RULES, strict=True)
        return cls(*(GridLaw.on_grid(*one, grid, spacing, bits, rules) for one, rules in lists))

    def times(self, other: Self, window: Window) -> Self:
        return type(self)(*(x.times(y).within(window) for x, y in zip(self, other, strict=True)))


# --- the last sum (L5) ----------------------------------------------------------------------------


def _composed(steps: Sequence[Step], plan: ProofPlan) -> Callable[[Fraction], Fraction]:
    halves, (second, *_), offset = plan.composed(steps, _Score.of_step, _Score.times)
    spacing, bits = plan.spacing, plan.bits
    start = Masses.of(0, [1 << bits])  # without steps all mass is at the loss 0
    first = (
        halves[0]
        if halves
        else _Score(*(GridLaw(0, NOTHING, start, 0, spacing, bits, one) for one in _RULES))
    )
    p, q = (x.all_coarse() * y.all_coarse() for x, y in zip(first, second, strict=True))
    ps, qs = [*p], [*q.part(p.first, p.last)]
    qs = [0] * (q.first - p.first) + qs + [0] * len(ps)  # at the places of p
    infinite, wide = _RULES[0].infinite(first.p, second.p) << bits, bits + GUARD

    def delta(epsilon: Fraction) -> Fraction:
        near, total = (epsilon - offset) // spacing, infinite
        upwards, downwards = range(max(near + 1, p.first), p.last + 1), range(near, p.first - 1, -1)
        for places in (upwards, downwards) if near <= p.last else ():
            ratio = power_above(-places.step * spacing, wide)
            factor = power_above(epsilon - offset - places.start * spacing, wide)
            for i in (place - p.first for place in places):
                gain = ps[i] - (factor * qs[i] >> wide) - 1
                if gain > 0:
                    total += gain
                elif places is downwards:
                    break
                factor = (factor * ratio >> wide) + 1
        return Fraction(total, 1 << 2 * bits)

    return delta
