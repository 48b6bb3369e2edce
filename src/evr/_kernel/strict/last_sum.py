"""A composition in two halves, and the last sum (docs/guarantees_strict.md, Section S5)."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from evr._kernel.pairs.steps import Step
from evr._kernel.strict.grid_law import either
from evr._kernel.strict.masses import Masses
from evr._kernel.strict.one_step import one_step
from evr._kernel.strict.plan import MOST_PLACES, ProofPlan
from evr._kernel.strict.rounding import GUARD, power_below


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
        cut = (epsilon - self.offset) // self.spacing  # the places of a sum above it are beyond epsilon
        if cut < self.first.first + self.second.first - MOST_PLACES:
            return Fraction(1)  # the plan's offset is so far off that the sum would take too long
        step = power_below(-self.spacing, wide)
        rest = power_below(epsilon - self.offset - cut * self.spacing, wide)
        first, second = [*self.first], [*self.second]
        total = above = lost = 0  # `above` is S, `lost` is R of Section S5
        for place in range(self.second.last, cut - self.first.last, -1):
            value = second[place - self.second.first] if place >= self.second.first else 0
            above += value
            lost = ((value << GUARD) + lost) * step >> wide
            other = cut + 1 - place
            if other >= self.first.first:
                total += first[other - self.first.first] * (above - (lost * rest >> (wide + GUARD)))
        units = total + (self.infinite << self.bits)
        return min(Fraction(units, 1 << (2 * self.bits)), Fraction(1))

    def digest(self, plan: ProofPlan) -> str:
        """SHA-256 of the plan and of the integers: two machines that follow one plan agree on it."""
        masses = "".join(f"{one.first}:{[*one]};" for one in (self.first, self.second))
        text = f"{plan.to_json()}{masses}{self.infinite}:{self.offset}:{self.spacing}:{self.bits}"
        return hashlib.sha256(text.encode()).hexdigest()


def halves(steps: Sequence[Step], plan: ProofPlan) -> Halves:
    """Both halves of the composition, by the plan."""
    first, second, offset = plan.composed(steps, one_step, lambda x, y, window: x.times(y).within(window))
    # without steps all mass is at the loss 0
    one = first[0].all_coarse() if first else Masses.of(0, [1 << plan.bits])
    other = one if first and first[0] is second[0] else second[0].all_coarse()
    infinite = either(first[0].infinite if first else 0, second[0].infinite, plan.bits)
    return Halves(one, other, infinite, offset, plan.spacing, plan.bits)
