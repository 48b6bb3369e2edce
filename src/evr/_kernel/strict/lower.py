"""Lower bounds on delta in exact arithmetic (docs/guarantees_lower.md), by the test "the sum of the losses,
rounded to a grid, is large": its probability under ``P`` is rounded down, and that under ``Q`` up.
"""

from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import cache, lru_cache, partial
from itertools import accumulate, pairwise
from operator import le
from typing import NamedTuple, Self

from flint import arb, ctx, fmpz

from evr._kernel.pairs.exact import (
    ExactBins,
    ExactCurve,
    ExactGaussian,
    ExactLaw,
    ExactOutcomes,
    SampledCurve,
)
from evr._kernel.pairs.exact.law import at_precision, ball
from evr._kernel.pairs.exact.sampled import ExactEither
from evr._kernel.pairs.nested import NestedLaw, SampledSteps
from evr._kernel.pairs.steps import Step
from evr._kernel.strict.grid_law import GridLaw, Rules
from evr._kernel.strict.masses import NOTHING, Masses
from evr._kernel.strict.one_step import Losses
from evr._kernel.strict.plan import Grid, ProofPlan, Window, power
from evr._kernel.strict.proof import sampled_delta
from evr._kernel.strict.ratios import MORE_BITS, MOST_PLACES, places_for, ratios_of
from evr._kernel.strict.rounding import GUARD, end_above, power_above
from evr.errors import UnsupportedEventError
from evr.types import Direction

Chances = tuple[arb, arb]
"""The probabilities of a test, or of a set of outcomes, under ``P`` and under ``Q``."""
_ALL, _NONE = (arb(1), arb(1)), (arb(0), arb(0))
_NEAR = 64  # two ratios a share of ``2^-_NEAR`` apart show a test of the curve between them


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


def _between(law: ExactCurve, ratios: Sequence[arb]) -> list[Chances]:
    """The chances of the outcomes before the first ratio, between one and the next, and beyond the last."""
    if not all(bool(low < high) for low, high in pairwise(ratios)):
        raise ValueError("the places of the plan are too near for its bits: balls cannot tell them apart")
    tests = [_ALL, *_tests(law, [ratio.mid() for ratio in ratios]), _NONE]
    return [(a - c, b - d) for (a, b), (c, d) in pairwise(tests)]


def _tests(law: ExactCurve, ratios: Sequence[arb]) -> list[Chances]:
    """Tests about "the loss exceeds ``log(ratio)``" for exact numbers that rise, of which each takes no more
    than the one before, whatever rounding did to the numbers.
    """
    ratios = list(accumulate(ratios, max))
    if isinstance(law, SampledCurve):
        q, rest = ball(law.q), ball(1 - law.q)
        if law.direction is Direction.REMOVE:
            return [
                (rest * b + q * a, b) for a, b in _tests(law.base, [((r - rest) / q).mid() for r in ratios])
            ]
        scales = [(1 - rest * ratio).mid() for ratio in ratios]
        inner = [
            (q * r / one).mid() if one > 0 else arb.pos_inf() for r, one in zip(ratios, scales, strict=True)
        ]
        return [(a, rest * a + q * b) for a, b in _tests(law.base, inner)]
    if isinstance(law, ExactGaussian):  # "the outcome exceeds a threshold"
        mean, root = ball(law.square).sqrt(), arb(2).sqrt()
        with at_precision(_NEAR):
            rough = [
                (ratio.log() / mean + mean / 2).mid() if ratio > 0 else arb.neg_inf() for ratio in ratios
            ]

        def beyond(threshold: arb) -> Chances:
            if not threshold.is_finite():
                return _NONE if threshold > 0 else _ALL
            return ((threshold - mean) / root).erfc() / 2, (threshold / root).erfc() / 2

        return [beyond(threshold) for threshold in accumulate(rough, max)]
    with at_precision(ctx.prec + _NEAR + 8):
        curve, grown = law.curve(), 1 + arb((1, -_NEAR))

        def best(low: arb) -> Chances:
            if not 0 < low < arb.pos_inf():
                return _NONE if low > 0 else _ALL
            high = (low * grown).mid()
            first, second = curve(low), curve(high)
            size = (first - second) / (high - low)
            return (second + size * low).union(first + size * low), size

        try:
            return [best(ratio) for ratio in ratios]
        except ArithmeticError as error:  # no root is enclosed next to the least ratio of a mixture
            raise ValueError(
                f"no lower bound by this plan, since balls cannot tell its tests: {error}"
            ) from None


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
        middles = [ball((i + Fraction(1, 2)) * spacing) for i in range(last)]
        tilted, plain = zip(*_between(ExactGaussian(law.energy), middles), strict=True)

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
    middles = [(low + high) / 2 for low, high in pairwise(losses)]
    with at_precision(bits + GUARD):
        if isinstance(law, ExactCurve):
            rows = _between(law, [arb(middle).exp() for middle in middles])
        else:
            rows, edges = [_NONE] * len(losses), [arb(middle) for middle in middles]
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
    size, wide = 1 << halvings, bits + GUARD
    low, below = divmod(masses.first + size // 2, size)
    weights = _weights(spacing, size, wide) if weighted else (1,) * size
    (merged,) = masses.merged(below, weights)
    return replace(merged.rounded_up(wide) if weighted else merged, first=low)


@lru_cache(maxsize=256)
def _weights(spacing: Fraction, size: int, bits: int) -> tuple[int, ...]:
    """``2^bits e^{(size / 2 - r) spacing}``, rounded up."""
    return tuple(power_above((size // 2 - r) * spacing, bits) for r in range(size))


def _windowed(
    masses: Masses, floor: int, top: int, spacing: Fraction, bits: int, *, weighted: bool
) -> tuple[Masses, int]:
    """What is within ``floor .. top``, with what is beyond merged at ``top``; nothing goes to infinity."""
    inside, above = masses.part(floor, top), masses.part(top + 1, masses.last)
    merged, wide = fmpz(above.total()), bits + GUARD
    if weighted and merged:
        step, gap = fmpz(power_above(-spacing, wide)), power_above((top + 1 - above.first) * spacing, wide)
        merged = fmpz(0)
        for mass in map(fmpz, reversed([*above])):
            merged = (((mass << GUARD) + merged) * step >> wide) + 1
        merged = (merged * gap >> wide + GUARD) + 1
    return inside + Masses.of(top, [int(merged)]), 0


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
    ps, qs = (dict(enumerate(map(fmpz, x), start=x.first)) for x in (p, q))
    infinite, wide = _RULES[0].infinite(first.p, second.p) << bits, bits + GUARD

    def delta(epsilon: Fraction) -> Fraction:
        near, total = (epsilon - offset) // spacing, fmpz(infinite)
        upwards, downwards = range(max(near + 1, p.first), p.last + 1), range(near, p.first - 1, -1)
        for places in (upwards, downwards) if near <= p.last else ():
            ratio = fmpz(power_above(-places.step * spacing, wide))
            factor = fmpz(power_above(epsilon - offset - places.start * spacing, wide))
            for place in places:
                gain = ps[place] - (factor * qs.get(place, 0) >> wide) - 1
                if gain > 0:
                    total += gain
                elif places is downwards:
                    break
                factor = (factor * ratio >> wide) + 1
        return Fraction(int(total), 1 << 2 * bits)

    return delta
