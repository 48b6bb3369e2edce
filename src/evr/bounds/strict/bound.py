"""A composition's two halves by a plan, and the last sum: a bound on delta (docs/guarantees_strict.md, Section S5)."""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from flint import arb, fmpz, fmpz_poly

from evr.bounds.strict.balls import GUARD, integer_above, power_below
from evr.bounds.strict.masses import GridLaw, Masses, either
from evr.bounds.strict.one_step import one_step
from evr.bounds.strict.plan import MOST_PLACES, ProofPlan, compose, power, schedule
from evr.laws.exact import ExactCurve, ExactLaw, ExactOutcomes
from evr.laws.exact.law import ball
from evr.laws.selection import Selection
from evr.laws.steps import Step


@dataclass(frozen=True)
class Halves:
    """Two halves of a composition on the coarse grid. They bound delta at any epsilon."""

    first: Masses
    second: Masses
    infinite: int
    offset: Fraction
    spacing: Fraction
    bits: int

    def delta(self, epsilon: Fraction) -> Fraction:
        """A rational number that is at least delta(epsilon)."""
        wide = self.bits + GUARD
        ratio = (epsilon - self.offset) / self.spacing
        # of the places of a sum, those above it are beyond epsilon
        cut = ratio.numerator // ratio.denominator
        if cut < self.first.first + self.second.first - MOST_PLACES:
            return Fraction(1)  # the plan's offset is so far off that the sum would take too long
        step = fmpz(power_below(-self.spacing, wide))
        rest = fmpz(power_below(epsilon - self.offset - cut * self.spacing, wide))
        first, second, zero = self.first.poly.coeffs(), self.second.poly.coeffs(), fmpz(0)
        total, above, lost = zero, zero, zero  # `above` is S, `lost` is R of Section S5
        for place in range(self.second.last, cut - self.first.last, -1):
            value = second[place - self.second.first] if place >= self.second.first else zero
            above += value
            lost = ((value << GUARD) + lost) * step >> wide
            other = cut + 1 - place
            if other >= self.first.first:
                total += first[other - self.first.first] * (above - (lost * rest >> (wide + GUARD)))
        units = int(total) + (self.infinite << self.bits)
        return min(Fraction(units, 1 << (2 * self.bits)), Fraction(1))

    def digest(self, plan: ProofPlan) -> str:
        """SHA-256 of the plan and of the integers: two machines that follow one plan agree on it."""
        text = hashlib.sha256(str(plan.to_json()).encode())
        for masses in (self.first, self.second):
            text.update(f"{masses.first}:{masses.poly.coeffs()};".encode())
        text.update(f"{self.infinite}:{self.offset}:{self.spacing}:{self.bits}".encode())
        return text.hexdigest()


def halves(steps: Sequence[Step], plan: ProofPlan) -> Halves:
    """Both halves of the composition, by the plan."""
    counts = tuple(step.count for step in steps)
    needed = len(schedule(counts))
    if len(plan.grids) != len(steps) or len(plan.windows) != needed:
        held = f"the plan has {len(plan.grids)} grids and {len(plan.windows)} windows"
        raise ValueError(f"{held}: steps with counts {counts} need {len(steps)} and {needed}")
    known: dict[int, GridLaw] = {}
    windows = iter(plan.windows)

    def step(kind: int) -> GridLaw:
        if kind not in known:
            known[kind] = one_step(steps[kind].exact_law, plan.grids[kind], plan.spacing, plan.bits)
        return known[kind]

    def times(x: GridLaw, y: GridLaw) -> GridLaw:
        return x.times(y).within(next(windows))

    first, second = compose(counts, step, times)
    if not second:
        raise ValueError("a composition without steps has no halves: its delta is 0")
    offset = sum((s.count * grid.offset for s, grid in zip(steps, plan.grids, strict=True)), Fraction(0))
    nothing = Masses(0, fmpz_poly([1 << plan.bits]))  # all mass at the loss 0: no step
    one = first[0].all_coarse() if first else nothing
    other = one if first and first[0] is second[0] else second[0].all_coarse()
    infinite = either(first[0].infinite if first else 0, second[0].infinite, plan.bits)
    return Halves(one, other, infinite, offset, plan.spacing, plan.bits)


def stays_within(steps: Sequence[Step], epsilon: Fraction) -> bool:
    """Whether the sum of the greatest losses is certainly at most epsilon, so that delta is 0 (S5.1)."""
    room, enclosed = epsilon, []
    for step in steps:
        greatest = step.exact_law.greatest()
        if isinstance(greatest, Fraction):
            room -= step.count * greatest
        else:
            enclosed.append(step.count * greatest)
    return room >= 0 if not enclosed else bool(sum(enclosed, arb(0)) <= ball(room))


def one_step_delta(law: ExactLaw, epsilon: Fraction, bits: int) -> Fraction:
    """At least delta of one step alone: its curve at epsilon, rounded up to a multiple of ``2^-bits`` (S5.1)."""

    def delta() -> arb:
        if isinstance(law, ExactCurve):
            return law.curve()(ball(epsilon).exp())
        assert isinstance(law, ExactOutcomes)
        held = (one for one in law.sets_beyond(epsilon) if not one.p.is_zero())
        return sum((one.p * arb(0).max(1 - (ball(epsilon) - one.loss).exp()) for one in held), arb(0))

    units = integer_above(delta, bits)
    return min(Fraction(max(0, units), 1 << bits), Fraction(1))


def infinite_delta(steps: Sequence[Step], bits: int = 256) -> Fraction:
    """At least the probability that some loss is infinite: delta at an infinite epsilon. Curves have no such losses."""
    total = 0
    for step in steps:
        if isinstance(law := step.exact_law, Selection):
            units = law.rule.factor * infinite_delta(law.steps, bits) * (1 << bits)
            one = min(-(-units.numerator // units.denominator), 1 << bits)
        elif isinstance(law, ExactOutcomes):
            one = integer_above(functools.partial(_infinite, law), bits)
        else:
            one = 0
        if one:
            total = either(total, power(one, step.count, lambda a, b: either(a, b, bits)), bits)
    return Fraction(total, 1 << bits)


def _infinite(law: ExactOutcomes) -> arb:
    return sum((one.p for one in law.sets() if one.loss == arb.pos_inf()), arb(0))
