"""Lower bounds on delta in exact arithmetic (docs/guarantees_lower.md), by the test "the sum of the losses,
rounded to a grid, is large": its probability under ``P`` is rounded down, and that under ``Q`` up. Delta is
``sup_A P(A) - e^epsilon Q(A)``, so any test bounds it: which outcome has which score may come from a plan,
from floats or from a guess, as long as chances are enclosed.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import cache, lru_cache, partial
from itertools import pairwise
from operator import mul
from typing import NamedTuple, Self

from flint import fmpz

from evr._kernel.order import ceil_div
from evr._kernel.pairs.exact import ExactBins, ExactCurve, ExactLaw, RationalOutcomes
from evr._kernel.pairs.exact.law import at_precision, ball
from evr._kernel.pairs.exact.points import falling_hull
from evr._kernel.pairs.exact.sampled import ExactEither
from evr._kernel.pairs.nested import OneOf, SampledSteps
from evr._kernel.pairs.selection import Selection
from evr._kernel.pairs.steps import Step
from evr._kernel.strict.chances import chances_of, floor, sets_of
from evr._kernel.strict.grid_law import GridLaw, Rules, falling, raised
from evr._kernel.strict.masses import NOTHING, Masses
from evr._kernel.strict.plan import Grid, ProofPlan, Window
from evr._kernel.strict.proof import with_outcomes
from evr._kernel.strict.rounding import GUARD, power_above
from evr.errors import UnsupportedEventError
from evr.types import Direction


def bounds_below(
    steps: Sequence[Step], plan: ProofPlan, low: Fraction, high: Fraction
) -> Callable[[Fraction], Fraction]:
    """A function from an epsilon, from ``low`` to ``high``, to a rational number that is at most
    delta(epsilon) of the steps' pairs in one direction, whatever the plan.
    """
    _check(steps)
    known = with_outcomes(steps, plan, _outcomes)
    if plan.grids:
        return _composed(known, plan)
    law, bits = plan.of_law(known), plan.bits
    top = high if isinstance(law, ExactBins) and law.direction is Direction.REMOVE else -low
    sets = cache(partial(sets_of, law, top, plan.spacing, bits))

    def delta(epsilon: Fraction) -> Fraction:
        with at_precision(bits + 2 * GUARD):
            ratio, unit = ball(epsilon).exp(), fmpz(1) << bits
            gains = (
                [law.curve()(ratio)] if isinstance(law, ExactCurve) else [p - ratio * q for p, q in sets()]
            )
            return Fraction(sum(floor(gain * unit) for gain in gains), 1 << bits)

    return delta


def _check(steps: Sequence[Step]) -> None:
    """Refuse laws that are known from above only."""
    for law in (step.exact_law for step in steps):
        if isinstance(law, ExactEither):
            raise UnsupportedEventError(
                "so many kinds of steps are grouped to the safe side, which has no lower bound here:"
                " ask for an upper bound (evr.certify, method='strict'), or give fewer kinds"
            )
        if isinstance(law, OneOf | Selection):
            raise UnsupportedEventError(
                f"{law.describe()} has no lower bound here: what is known of it bounds delta from above."
                " Ask for an upper bound (evr.certify, method='strict')"
            )
        if isinstance(law, SampledSteps):
            _check(law.steps)


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
    inside, above = masses.between(floor, top), masses.between(top + 1, masses.last)
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


# --- a whole composition (L5, L6) -----------------------------------------------------------------


class _Whole(NamedTuple):
    """The score of a composition at the places from ``first`` on; masses in units of ``2^-2 bits``."""

    first: int
    p: list[int]
    q: list[int]
    infinite: int
    offset: Fraction


def _whole(steps: Sequence[Step], plan: ProofPlan) -> _Whole:
    halves, (second, *_), offset = plan.composed(steps, _Score.of_step, _Score.times)
    spacing, bits = plan.spacing, plan.bits
    start = Masses.of(0, [1 << bits])  # without steps all mass is at the loss 0
    nothing = _Score(*(GridLaw(0, NOTHING, start, 0, spacing, bits, one) for one in _RULES))
    first = halves[0] if halves else nothing
    p, q = (x.all_coarse() * y.all_coarse() for x, y in zip(first, second, strict=True))
    ps, qs = [*p], [*q.between(p.first, p.last)]
    qs = [0] * (q.first - p.first) + qs + [0] * len(ps)  # at the places of p
    return _Whole(p.first, ps, qs[: len(ps)], _RULES[0].infinite(first.p, second.p) << bits, offset)


def _composed(steps: Sequence[Step], plan: ProofPlan) -> Callable[[Fraction], Fraction]:
    first, p, q, infinite, offset = _whole(steps, plan)
    last, spacing, bits = first + len(p) - 1, plan.spacing, plan.bits
    wide = bits + GUARD

    def delta(epsilon: Fraction) -> Fraction:
        near, total = (epsilon - offset) // spacing, infinite
        upwards, downwards = range(max(near + 1, first), last + 1), range(near, first - 1, -1)
        for places in (upwards, downwards) if near <= last else ():
            ratio = power_above(-places.step * spacing, wide)
            factor = power_above(epsilon - offset - places.start * spacing, wide)
            for i in (place - first for place in places):
                gain = p[i] - (factor * q[i] >> wide) - 1
                if gain > 0:
                    total += gain
                elif places is downwards:
                    break
                factor = (factor * ratio >> wide) + 1
        return Fraction(total, 1 << 2 * bits)

    return delta


def _outcomes(steps: Sequence[Step], plan: ProofPlan) -> RationalOutcomes:
    """Outcomes that a composition dominates: of the tests "the score is at least n", and what coins make of
    them, the greatest chances under ``P``.
    """
    first, p, q, infinite, offset = _whole(steps, plan)
    bits, unit, wide = plan.bits, 1 << plan.bits, plan.bits + GUARD
    ratio = power_above(plan.spacing, wide)
    factor = power_above(-offset - (first + len(p) - 1) * plan.spacing, wide)
    above, below = infinite, 0
    tests = [(0, -(infinite >> bits))]
    for here, there in zip(reversed(p), reversed(q), strict=True):
        above, below = above + here, below + (factor * there >> wide) + 1
        factor = (factor * ratio >> wide) + 1
        tests.append((ceil_div(below, unit), -(above >> bits)))
    ends = falling_hull([*(test for test in tests if test[0] < unit), (unit, -unit)])
    ends += [(unit, -unit)] if ends[-1][0] < unit else []
    sets = [(infinite >> bits, 0), *((b - d, c - a) for (a, b), (c, d) in pairwise(ends))]
    return RationalOutcomes.of(*zip(*((Fraction(x, unit), Fraction(y, unit)) for x, y in sets), strict=True))
