"""What needs no grid (docs/guarantees_strict.md, S5.1): greatest losses, one step alone, infinite losses."""

import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import partial

from flint import arb

from evr._kernel.order import ceil_div, power
from evr._kernel.pairs.exact import ExactCurve, ExactLaw, ExactOutcomes
from evr._kernel.pairs.exact.law import at_precision, ball
from evr._kernel.pairs.nested import OneOf, SampledSteps
from evr._kernel.pairs.selection import Selection
from evr._kernel.pairs.steps import Step
from evr._kernel.strict.grid_law import either
from evr._kernel.strict.rounding import GUARD, end_above, power_below, units_above
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
    units = units_above(partial(law.hockey_stick, epsilon), bits)
    return Fraction(min(max(0, units), 1 << bits), 1 << bits)


def infinite_delta(steps: Sequence[Step], bits: int = 256) -> Fraction:
    """At least the chance that some loss is infinite: delta at an infinite epsilon. Curves have none."""
    total = 0
    for step in steps:
        one = _infinite_units(step.exact_law, bits)
        total = either(total, power(one, step.count, lambda a, b: either(a, b, bits)), bits) if one else total
    return Fraction(total, 1 << bits)


def _infinite_units(law: ExactLaw, bits: int) -> int:
    """``2^bits`` times the probability that the loss is infinite, rounded up."""
    if isinstance(law, ExactOutcomes):
        return units_above(
            lambda: sum((one.p for one in law.checked_sets() if one.loss == arb.pos_inf()), arb(0)), bits
        )
    each, found = [infinite_delta(steps, bits) for steps in law.compositions], Fraction(0)
    if isinstance(law, Selection):
        found = law.rule.factor * each[0]
    elif isinstance(law, SampledSteps) and law.direction is not Direction.ADD:
        found = law.share * each[0]
    elif isinstance(law, OneOf):
        groups = [(one, number) for one, (_, number) in zip(each, law.alike, strict=True)]
        if law.direction is Direction.ADD:  # the ratio of every group is 0
            found = math.prod((one**number for one, number in groups), start=Fraction(1))
        else:
            found = sum((one * number for one, number in groups), Fraction(0)) / law.groups
    return min(ceil_div(found * (1 << bits)), 1 << bits)


def sampled_delta(
    law: SampledSteps, inside: Callable[[Fraction], Fraction], epsilon: Fraction, bits: int
) -> Fraction:
    """At least delta of one sample of a composition, from a bound on that of the composition (G1.2): the
    ratio ``e^epsilon`` is rounded down, and so is the epsilon inside.
    """
    ratio, share = Fraction(power_below(epsilon, bits), 1 << bits), law.share
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
        units = -end_above(-ball(inner).log(), bits)
    return min(Fraction(1), factor * inside(Fraction(units, 1 << bits)))
