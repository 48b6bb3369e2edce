"""Poisson sampling of exact laws, ``((1-q)Q + qP, Q)`` and ``(P, (1-q)P + qQ)`` (docs/guarantees_strict.md, S6)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

from evr.laws.exact.law import Ball, ExactCurve, ExactLaw, ExactOutcomes, OutcomeSet, ball
from evr.laws.law import Direction


def _sampled_loss(loss: Ball, q: Fraction, direction: Direction) -> Ball:
    """The loss of a sampled step where that of the step is ``loss``; it rises with it."""
    if direction is Direction.ADD:
        return -_sampled_loss(-loss, q, Direction.REMOVE)
    if loss.is_zero() or loss == Ball.pos_inf():
        return loss
    rare = Ball(0) if loss == Ball.neg_inf() else loss.exp()
    return (ball(1 - q) + ball(q) * rare).log()


def seen_through(base: Callable[[Ball], Ball], q: Ball, rest: Ball, direction: Direction) -> Callable[[Ball], Ball]:
    """The curve of a pair seen through Poisson sampling with probability ``q``; ``rest`` is ``1 - q``."""
    zero, one = Ball(0), Ball(1)

    def remove(ratio: Ball) -> Ball:
        inner = (ratio - rest) / q
        if inner > zero:
            return q * base(inner)
        if inner <= zero:
            return one - ratio
        return (one - ratio).union(q)  # 1 - r below 1 - q; above, between that and q

    def add(ratio: Ball) -> Ball:
        scale = one - rest * ratio
        if scale > zero:
            return scale * base(q * ratio / scale)
        return zero if scale <= zero else zero.union(scale.upper())

    return remove if direction is Direction.REMOVE else add


@dataclass(frozen=True)
class SampledCurve(ExactCurve):
    """A curve seen through Poisson sampling with probability ``q``, ``0 < q < 1``."""

    base: ExactCurve
    q: Fraction
    direction: Direction

    def curve(self) -> Callable[[Ball], Ball]:
        return seen_through(self.base.curve(), ball(self.q), ball(1 - self.q), self.direction)

    def least(self) -> Ball:
        return _sampled_loss(self.base.least(), self.q, self.direction)

    def greatest(self) -> Ball:
        most = self.base.greatest()
        return _sampled_loss(ball(most) if isinstance(most, Fraction) else most, self.q, self.direction)


@dataclass(frozen=True)
class SampledOutcomes(ExactOutcomes):
    """Outcomes seen through Poisson sampling with probability ``q``, ``0 < q < 1``."""

    base: ExactOutcomes
    q: Fraction
    direction: Direction

    def sets(self) -> list[OutcomeSet]:
        q, rest = ball(self.q), ball(1 - self.q)
        found = []
        for one in self.base.sets():
            loss = _sampled_loss(one.loss, self.q, self.direction)
            if self.direction is Direction.REMOVE:
                found.append(OutcomeSet(rest * one.q + q * one.p, one.q, loss))
            else:
                found.append(OutcomeSet(one.p, rest * one.p + q * one.q, loss))
        return found


def exact_sampled(law: ExactLaw, q: Fraction, direction: Direction) -> ExactLaw:
    """The exact law of a mechanism that is sampled by Poisson with probability ``q``, ``0 < q <= 1``, from its own in
    the same direction.

    What is sampled twice is sampled with the product of both probabilities.
    """
    if q == 1:
        return law
    if isinstance(law, SampledOutcomes) and law.direction is direction:
        return SampledOutcomes(law.base, law.q * q, direction)
    if isinstance(law, SampledCurve) and law.direction is direction:
        return SampledCurve(law.base, law.q * q, direction)
    if isinstance(law, ExactOutcomes):
        return SampledOutcomes(law, q, direction)
    if isinstance(law, ExactCurve):
        return SampledCurve(law, q, direction)
    raise TypeError(f"{law!r} is neither an ExactCurve nor an ExactOutcomes: derive it from one of them")
