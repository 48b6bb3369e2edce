"""Sampling without replacement of exact laws, under replace-one adjacency (docs/guarantees_relations.md, R2)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

from evr.laws.exact.law import Ball, ExactCurve, ExactLaw, ExactOutcomes, OutcomeSet, ball
from evr.laws.exact.sampled import SampledCurve, SampledOutcomes
from evr.laws.law import Direction


@dataclass(frozen=True)
class WithoutReplacementCurve(ExactCurve):
    """A curve seen through sampling of a share ``g`` of the records, ``0 < g < 1``."""

    base: ExactCurve
    g: Fraction

    def _side(self, direction: Direction) -> SampledCurve:
        return SampledCurve(self.base, self.g, direction)

    def curve(self) -> Callable[[Ball], Ball]:
        above, below = self._side(Direction.REMOVE).curve(), self._side(Direction.ADD).curve()
        one = Ball(1)

        def value(ratio: Ball) -> Ball:
            if ratio >= one:
                return above(ratio)
            if ratio <= one:
                return below(ratio)
            return above(ratio).union(below(ratio))  # one of the two holds

        return value

    def least(self) -> Ball:
        return self._side(Direction.ADD).least()

    def greatest(self) -> Ball:
        return self._side(Direction.REMOVE).greatest()


@dataclass(frozen=True)
class WithoutReplacementOutcomes(ExactOutcomes):
    """Outcomes seen through sampling of a share ``g`` of the records, ``0 < g < 1``."""

    base: ExactOutcomes
    g: Fraction

    def sets(self) -> list[OutcomeSet]:
        zero = Ball(0)
        found, rest = [], zero
        sides = {one: SampledOutcomes(self.base, self.g, one).sets() for one in Direction}
        kept = ball(1 - self.g)
        for one, lower, upper in zip(self.base.sets(), sides[Direction.ADD], sides[Direction.REMOVE], strict=True):
            if one.loss > zero:
                found.append(upper)
                rest = rest + kept * (one.p - one.q)
            elif one.loss < zero:
                found.append(lower)
            elif one.loss.is_zero():
                rest = rest + one.p
            else:
                raise ArithmeticError(
                    f"the sign of the loss {one.loss} of {self.base!r} is not certain: raise the precision"
                )
        return [*found, OutcomeSet(rest, rest, zero)]


def exact_without_replacement(law: ExactLaw, g: Fraction) -> ExactLaw:
    """The exact law of the sampled mechanism, for both directions; ``0 < g < 1``."""
    if isinstance(law, ExactOutcomes):
        return WithoutReplacementOutcomes(law, g)
    if isinstance(law, ExactCurve):
        return WithoutReplacementCurve(law, g)
    raise TypeError(f"{law!r} is neither an ExactCurve nor an ExactOutcomes: derive it from one of them")
