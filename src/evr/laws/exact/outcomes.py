"""Discrete mechanisms by their exact parameters (docs/guarantees_strict.md, S6; docs/guarantees_relations.md, R6)."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from fractions import Fraction
from typing import NamedTuple, Self

from flint import ctx

from evr.laws.exact.law import Ball, ExactOutcomes, OutcomeSet, ball


def rational_sets(masses: Iterable[tuple[Fraction, Fraction]]) -> list[OutcomeSet]:
    """Outcomes with rational probabilities, one by one."""
    return [
        OutcomeSet(ball(p), ball(q), ball(p / q).log() if p and q else Ball.pos_inf() if p else Ball.neg_inf())
        for p, q in masses
        if p or q
    ]


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
        """Two laws over the same outcomes; each must sum to exactly 1 (floats are read as the numbers they are)."""
        laws = tuple(tuple(Fraction(x) for x in law) for law in (p, q))
        if not laws[0] or len(laws[0]) != len(laws[1]):
            raise ValueError(
                f"p and q have {len(laws[0])} and {len(laws[1])} entries: give as many of each, at least 1"
            )
        for name, law in zip("pq", laws, strict=True):
            if min(law) < 0 or sum(law) != 1:
                raise ValueError(
                    f"{name} has entries below 0, or a sum of {float(sum(law))!r} that is not exactly 1: give "
                    "Fractions, or one entry as 1 minus the Fractions of the others"
                )
        return cls(*laws)

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


class Noise(NamedTuple):
    """Symmetric noise on the integers: the chances of ``x >= 0`` and of more than ``x``, and how far out single
    integers count; None where the loss is the same for all beyond both centres.
    """

    at: Callable[[int], Ball]
    beyond: Callable[[int], Ball]
    reach: int | None


@dataclass(frozen=True)
class ExactDiscreteLaplace(ExactOutcomes):
    """Noise of probability ``tanh(a/2) e^{-a |x|}`` on the integers; ``P`` is centred at ``sensitivity``, ``Q`` at 0.

    All ``x <= 0`` have one loss, and all ``x >= sensitivity``.
    """

    parameter: Fraction
    sensitivity: int

    def noise(self) -> Noise:
        """Itself; ``beyond`` takes ``x >= -1``."""
        a, ratio = self.parameter, ball(-self.parameter).exp()
        atom, tail = (1 - ratio) / (1 + ratio), 1 / (1 + ratio)
        return Noise(lambda x: atom * ball(-a * x).exp(), lambda x: tail * ball(-a * (x + 1)).exp(), None)

    def sets(self) -> list[OutcomeSet]:
        (at, beyond, _), s = self.noise(), self.sensitivity
        masses = [beyond(-1), *map(at, range(1, s)), beyond(s - 1)]
        return [OutcomeSet(masses[s - j], masses[j], self.loss(j)) for j in range(s + 1)]

    def loss(self, x: int) -> Ball:
        """``a (|x| - |x - s|)``."""
        return ball(self.parameter * (abs(x) - abs(x - self.sensitivity)))

    def greatest(self) -> Fraction:
        return self.parameter * self.sensitivity


@dataclass(frozen=True)
class ExactDiscreteGaussian(ExactOutcomes):
    """Noise of probability proportional to ``e^{-x^2 / (2 sigma^2)}`` on the integers; the support is infinite."""

    sigma: Fraction
    sensitivity: int

    def noise(self) -> Noise:
        """Itself; ``at`` takes ``x`` up to twice the sensitivity beyond its reach."""
        variance = self.sigma**2
        # sound for any reach; this one leaves out e^-prec
        reach = math.isqrt(math.ceil(2 * variance * (ctx.prec + 8))) + 1
        terms = [ball(-x * x / (2 * variance)).exp() for x in range(reach + 2 * self.sensitivity + 1)]

        def beyond(last: int) -> Ball:
            """At least the first term, at most a geometric series."""
            first = ball(-Fraction((last + 1) ** 2) / (2 * variance)).exp()
            return first.union(first / (1 - ball(-Fraction(2 * last + 3) / (2 * variance)).exp()))

        total = 1 + 2 * (sum(terms[1 : reach + 1], Ball(0)) + beyond(reach))
        terms = [term / total for term in terms]
        return Noise(terms.__getitem__, lambda x: beyond(x) / total, reach)

    def sets(self) -> list[OutcomeSet]:
        (at, beyond, reach), shift = self.noise(), self.sensitivity
        assert reach is not None
        near, far = beyond(reach), beyond(reach + shift)
        kept = [OutcomeSet(at(abs(x - shift)), at(abs(x)), self.loss(x)) for x in range(-reach, shift + reach + 1)]
        below, above = (OutcomeSet(far, near, self.loss(-reach)), OutcomeSet(near, far, Ball.pos_inf()))
        return [below, *kept, above]

    def loss(self, x: int) -> Ball:
        """``(x^2 - (x - s)^2) / (2 sigma^2)``."""
        return ball(Fraction(self.sensitivity * (2 * x - self.sensitivity)) / (2 * self.sigma**2))

    def greatest(self) -> Ball:
        return Ball.pos_inf()


@dataclass(frozen=True)
class ExactTwoSidedOutcomes(ExactOutcomes):
    """``(1-q) f(x) + q f(x - D)`` against ``(1-q) f(x) + q f(x + D)``: the noise ``f`` of ``base``, ``0 < q < 1``."""

    base: ExactDiscreteLaplace | ExactDiscreteGaussian
    q: Fraction

    def sets(self) -> list[OutcomeSet]:
        (at, beyond, reach), shift = self.base.noise(), self.base.sensitivity
        q, rest = ball(self.q), ball(1 - self.q)
        window = shift - 1 if reach is None else reach + shift
        factors = [rest + q * self.base.loss(x).exp() for x in range(-window - 1, window + 2)]

        def loss(x: int) -> Ball:
            return Ball(0) if x == 0 else (factors[window + 1 + x] / factors[window + 1 - x]).log()

        def mixed(absent: Ball, present: Ball) -> Ball:
            return rest * absent + q * present

        inside = range(-window, window + 1)
        moved = [mixed(at(abs(x)), at(abs(x - shift))) for x in inside]
        near, far = (mixed(beyond(window), beyond(window + by)) for by in (-shift, shift))
        low, high = (-window, Ball.pos_inf()) if reach is not None else (-shift, loss(shift))
        return [
            OutcomeSet(far, near, loss(low)),
            *(OutcomeSet(moved[window + x], moved[window - x], loss(x)) for x in inside),
            OutcomeSet(near, far, high),
        ]
