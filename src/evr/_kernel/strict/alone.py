"""What needs no grid (docs/guarantees_strict.md, S5.1): greatest losses, one step alone, infinite losses."""

import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import partial

from flint import arb

from evr._kernel.order import power
from evr._kernel.pairs.exact import ExactCurve, ExactLaw, ExactOutcomes
from evr._kernel.pairs.exact.law import at_precision, ball
from evr._kernel.pairs.nested import NestedLaw, OneOf, SampledSteps
from evr._kernel.pairs.selection import Selection
from evr._kernel.pairs.steps import Step
from evr._kernel.strict.grid_law import either
from evr._kernel.strict.rounding import GUARD, end_above, power_above, power_below, units_above
from evr.types import Direction

_COARSE = 53  # bits of greatest losses


def stays_within(steps: Sequence[Step], epsilon: Fraction) -> bool:
    """Whether the sum of the greatest losses is certainly at most epsilon, so that delta is 0 (S5.1)."""
    room, enclosed = epsilon, []
    with at_precision(_COARSE):
        for step in steps:
            greatest = step.exact_law.greatest()
            if isinstance(greatest, Fraction):
                room -= step.count * greatest
            else:
                enclosed.append(step.count * greatest)
        return room >= 0 if not enclosed else bool(sum(enclosed, arb(0)) <= ball(room))


def one_step_delta(law: ExactLaw, epsilon: Fraction, bits: int) -> Fraction:
    """At least delta of one step alone: its curve, rounded up to a multiple of ``2^-bits`` (S5.1)."""
    assert isinstance(law, ExactCurve | ExactOutcomes)
    return min(
        Fraction(max(0, units_above(partial(law.hockey_stick, epsilon), bits)), 1 << bits), Fraction(1)
    )


def infinite_delta(steps: Sequence[Step], bits: int = 256) -> Fraction:
    """At least the chance that some loss is infinite: delta at an infinite epsilon. Curves have none."""
    total = 0
    for step in steps:
        law, one = step.exact_law, 0
        if isinstance(law, Selection):
            one = min(math.ceil(law.rule.factor * infinite_delta(law.steps, bits) * (1 << bits)), 1 << bits)
        elif isinstance(law, NestedLaw):
            one = math.ceil(_nested_infinite(law, bits) * (1 << bits))
        elif isinstance(law, ExactOutcomes):
            one = units_above(partial(_infinite, law), bits)
        if one:
            total = either(total, power(one, step.count, lambda a, b: either(a, b, bits)), bits)
    return Fraction(total, 1 << bits)


def _nested_infinite(law: NestedLaw, bits: int) -> Fraction:
    """At least the probability that the loss of a law of compositions is infinite."""
    each = [infinite_delta(steps, bits) for steps in law.compositions]
    if isinstance(law, OneOf):
        numbers = [number for _, number in law.parts]
        if law.direction is Direction.ADD:  # the ratio of every group is 0
            return math.prod(
                (one**number for one, number in zip(each, numbers, strict=True)), start=Fraction(1)
            )
        return (
            sum((one * number for one, number in zip(each, numbers, strict=True)), Fraction(0)) / law.groups
        )
    assert isinstance(law, SampledSteps)
    return Fraction(0) if law.direction is Direction.ADD else law.share * each[0]


def _infinite(law: ExactOutcomes) -> arb:
    return sum((one.p for one in law.checked_sets() if one.loss == arb.pos_inf()), arb(0))


def sampled_delta(
    law: SampledSteps,
    inside: Callable[[Fraction], Fraction],
    epsilon: Fraction,
    bits: int,
    *,
    above: bool = True,
) -> Fraction:
    """Delta of one sample of a composition, from a bound on that of the composition (G1.2). For a bound from
    ``above`` the ratio ``e^epsilon`` is rounded down, and so is the epsilon inside; else both are rounded up.
    """
    power_of, share = power_below if above else power_above, law.share
    ratio = Fraction(power_of(epsilon, bits), 1 << bits)
    if law.direction is Direction.ADD or (law.direction is None and ratio < 1):
        factor = 1 - (1 - share) * ratio
        if factor <= 0:
            return Fraction(0)
        inner = share * ratio / factor
    elif ratio <= 1 - share:
        return 1 - ratio
    else:
        factor, inner = share, 1 + (ratio - 1) / share
    with at_precision(bits + GUARD):
        logarithm = ball(inner).log()
        units = -end_above(-logarithm, bits) if above else end_above(logarithm, bits)
    return min(Fraction(1), factor * inside(Fraction(units, 1 << bits)))
