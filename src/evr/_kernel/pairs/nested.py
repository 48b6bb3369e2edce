"""Laws made of compositions: one sample of the records that several mechanisms run on, and one of several
groups of mechanisms, drawn at random (docs/guarantees_nested.md). A strict proof plans the compositions
inside, and what is made of them. No sample can be drawn of these laws.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from evr._kernel.pairs.exact.law import Ball, ExactLaw, at_precision, ball
from evr._kernel.pairs.exact.sampled import sampled_loss
from evr._kernel.pairs.law import LossLaw
from evr._kernel.pairs.steps import Step
from evr.types import Direction

_COARSE = 53  # bits of greatest losses


class NestedLaw(LossLaw, ExactLaw):
    """A law of compositions, in one direction."""


@dataclass(frozen=True)
class SampledSteps(NestedLaw):
    """A composition on one sample of the records, which holds a record with probability ``share``,
    ``0 < share < 1``: drawn by Poisson, or without replacement if there is no ``direction``.
    """

    steps: tuple[Step, ...]
    share: Fraction
    direction: Direction | None

    @property
    def compositions(self) -> tuple[tuple[Step, ...], ...]:
        return (self.steps,)

    def greatest(self) -> Ball:
        with at_precision(_COARSE):
            share, most = ball(self.share), _greatest_of(self.steps)
            return sampled_loss(most, share, 1 - share, self.direction or Direction.REMOVE)

    def describe(self) -> str:
        return f"one sample, q = {float(self.share):.6g}, of {_described(self.steps)}"


@dataclass(frozen=True)
class OneOf(NestedLaw):
    """One of several groups, drawn uniformly for each record: ``alike`` are their compositions, each with how
    many groups have it.
    """

    direction: Direction
    alike: tuple[tuple[tuple[Step, ...], int], ...]

    @property
    def compositions(self) -> tuple[tuple[Step, ...], ...]:
        return tuple(steps for steps, _ in self.alike)

    @property
    def groups(self) -> int:
        return sum(number for _, number in self.alike)

    def greatest(self) -> Ball:
        sign = 1 if self.direction is Direction.REMOVE else -1
        with at_precision(_COARSE):
            total = sum((n * (sign * _greatest_of(steps)).exp() for steps, n in self.alike), Ball(0))
            return Ball.pos_inf() if total.is_zero() else sign * (total / self.groups).log()

    def describe(self) -> str:
        groups = "; ".join(f"{n:,} of {_described(steps)}" for steps, n in self.alike)
        return f"one of {self.groups:,} groups: {groups}"


def _greatest_of(steps: Sequence[Step]) -> Ball:
    """The sum of the greatest losses."""
    each = ((step.count, step.exact_law.greatest()) for step in steps)
    return sum((n * (ball(most) if isinstance(most, Fraction) else most) for n, most in each), Ball(0))


def _described(steps: Sequence[Step]) -> str:
    return ", ".join(f"{step.count:,} x {step.floats.describe()}" for step in steps)
