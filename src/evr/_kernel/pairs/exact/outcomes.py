"""Exact laws on finitely many outcomes (docs/guarantees_strict.md, Section S6)."""

from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from typing import Self

from evr._kernel.pairs.exact.law import Ball, ExactOutcomes, OutcomeSet, ball


def rational_sets(masses: Iterable[tuple[Fraction, Fraction]]) -> list[OutcomeSet]:
    """Outcomes with rational probabilities, one by one."""

    def loss(p: Fraction, q: Fraction) -> Ball:
        if p and q:
            return ball(p / q).log()
        return Ball.pos_inf() if p else Ball.neg_inf()

    return [OutcomeSet(ball(p), ball(q), loss(p, q)) for p, q in masses if p or q]


@dataclass(frozen=True)
class RationalOutcomes(ExactOutcomes):
    """Outcomes with rational probabilities.

    >>> print(RationalOutcomes.of([0.25, 0.75], [0.75, 0.25]).greatest().str(8))
    [1.0986123 +/- ...]
    """

    p: tuple[Fraction, ...]
    q: tuple[Fraction, ...]

    @classmethod
    def of(cls, p: Iterable[Fraction | float | int], q: Iterable[Fraction | float | int]) -> Self:
        """Two laws over the same outcomes, each with sum exactly 1: floats are the numbers that they are."""
        return cls(*(tuple(Fraction(x) for x in law) for law in (p, q)))

    def __post_init__(self) -> None:
        sizes = len(self.p), len(self.q)
        if sizes[0] == 0 or sizes[0] != sizes[1]:
            found = f"p and q have {sizes[0]} and {sizes[1]} entries"
            raise ValueError(f"{found}: give as many of each, at least 1")
        for name, law in (("p", self.p), ("q", self.q)):
            if min(law) < 0 or sum(law) != 1:
                why = f"{name} has entries below 0, or a sum of {float(sum(law))!r} that is not exactly 1"
                remedy = "give Fractions, or one entry as 1 minus the Fractions of the others"
                raise ValueError(f"{why}: {remedy}")

    def sets(self) -> list[OutcomeSet]:
        return rational_sets(zip(self.p, self.q, strict=True))


NON_PRIVATE_LAW = RationalOutcomes((Fraction(0), Fraction(1)), (Fraction(1), Fraction(0)))
"""All of ``P`` has infinite loss: what a mechanism without privacy is."""


@dataclass(frozen=True)
class ExactEpsilonDelta(ExactOutcomes):
    """A mechanism known only to be ``(epsilon, delta)``-DP: the pair of Kairouz, Oh and Viswanath (2015)."""

    epsilon: Fraction
    delta: Fraction

    def sets(self) -> list[OutcomeSet]:
        epsilon, delta, zero = ball(self.epsilon), ball(self.delta), Ball(0)
        high = ball(1 - self.delta) / (1 + (-epsilon).exp())
        low = ball(1 - self.delta) / (1 + epsilon.exp())
        middle = [OutcomeSet(low, high, -epsilon), OutcomeSet(high, low, epsilon)]
        if not self.delta:
            return middle
        return [OutcomeSet(zero, delta, Ball.neg_inf()), *middle, OutcomeSet(delta, zero, Ball.pos_inf())]

    def greatest(self) -> Fraction | Ball:
        return Ball.pos_inf() if self.delta else self.epsilon
