"""Noise on the integers by its exact parameters (guarantees_strict, S6; guarantees_relations, R6)."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import NamedTuple

from flint import ctx

from evr._kernel.pairs.exact.law import Ball, ExactOutcomes, OutcomeSet, ball


class Noise(NamedTuple):
    """Symmetric noise on the integers. Those up to ``reach`` beyond both centres are sets of their own; with
    flat tails, all others of a side have one loss.
    """

    at: Callable[[int], Ball]  # the chance of x >= 0
    beyond: Callable[[int], Ball]  # the chance of more than x >= -1
    reach: int
    has_flat_tails: bool

    def sets(
        self, masses: list[Ball], first: int, tails: tuple[Ball, Ball], loss: Callable[[int], Ball]
    ) -> list[OutcomeSet]:
        """``P`` has these masses from ``first`` on and tails on both sides; ``Q`` is its mirror image."""
        (below, above), last = tails, first + len(masses) - 1
        inside = map(OutcomeSet, masses, reversed(masses), map(loss, range(first, last + 1)))
        low, high = (
            (loss(first - 1), loss(last + 1)) if self.has_flat_tails else (loss(first), Ball.pos_inf())
        )
        return [OutcomeSet(below, above, low), *inside, OutcomeSet(above, below, high)]


@dataclass(frozen=True)
class ExactDiscreteLaplace(ExactOutcomes):
    """Noise of probability ``tanh(a/2) e^{-a|x|}``; ``P`` is centred at ``sensitivity``, ``Q`` at 0."""

    parameter: Fraction
    sensitivity: int

    def noise(self) -> Noise:
        a, ratio = self.parameter, ball(-self.parameter).exp()
        atom, tail = (1 - ratio) / (1 + ratio), 1 / (1 + ratio)
        return Noise(lambda x: atom * ball(-a * x).exp(), lambda x: tail * ball(-a * (x + 1)).exp(), -1, True)

    def sets(self) -> list[OutcomeSet]:
        return _moved_sets(self)

    def loss(self, x: int) -> Ball:
        """``a (|x| - |x - s|)``."""
        return ball(self.parameter * (abs(x) - abs(x - self.sensitivity)))

    def greatest(self) -> Fraction:
        return self.parameter * self.sensitivity


@dataclass(frozen=True)
class ExactDiscreteGaussian(ExactOutcomes):
    """Noise of probability proportional to ``e^{-x^2 / (2 sigma^2)}``, centred likewise."""

    sigma: Fraction
    sensitivity: int

    def noise(self) -> Noise:
        """Its ``at`` takes ``x`` up to twice the sensitivity beyond its reach."""
        variance = self.sigma**2
        reach = math.isqrt(math.ceil(2 * variance * (ctx.prec + 8))) + 1  # any is sound; e^-prec is beyond
        terms = [ball(-x * x / (2 * variance)).exp() for x in range(reach + 2 * self.sensitivity + 1)]

        def beyond(last: int) -> Ball:
            """At least the first term, at most a geometric series."""
            first = ball(-Fraction((last + 1) ** 2) / (2 * variance)).exp()
            return first.union(first / (1 - ball(-Fraction(2 * last + 3) / (2 * variance)).exp()))

        total = 1 + 2 * (sum(terms[1 : reach + 1], Ball(0)) + beyond(reach))
        terms = [term / total for term in terms]
        return Noise(terms.__getitem__, lambda x: beyond(x) / total, reach, False)

    def sets(self) -> list[OutcomeSet]:
        return _moved_sets(self)

    def loss(self, x: int) -> Ball:
        """``(x^2 - (x - s)^2) / (2 sigma^2)``."""
        return ball(Fraction(self.sensitivity * (2 * x - self.sensitivity)) / (2 * self.sigma**2))

    def greatest(self) -> Ball:
        return Ball.pos_inf()


def _moved_sets(law: ExactDiscreteLaplace | ExactDiscreteGaussian) -> list[OutcomeSet]:
    """The sets of noise that is moved up by the sensitivity, against noise that is not."""
    noise, shift = law.noise(), law.sensitivity
    masses = [noise.at(abs(x - shift)) for x in range(-noise.reach, shift + noise.reach + 1)]
    tails = noise.beyond(noise.reach + shift), noise.beyond(noise.reach)
    return noise.sets(masses, -noise.reach, tails, law.loss)


@dataclass(frozen=True)
class ExactTwoSidedOutcomes(ExactOutcomes):
    """``(1-q) f(x) + q f(x - D)`` against ``(1-q) f(x) + q f(x + D)``, of the noise ``f`` of ``base``."""

    base: ExactDiscreteLaplace | ExactDiscreteGaussian
    q: Fraction

    def sets(self) -> list[OutcomeSet]:
        noise, shift = self.base.noise(), self.base.sensitivity
        q, rest, end = ball(self.q), ball(1 - self.q), noise.reach + shift
        factors = {x: rest + q * self.base.loss(x).exp() for x in range(-end - 1, end + 2)}

        def loss(x: int) -> Ball:
            return Ball(0) if x == 0 else (factors[x] / factors[-x]).log()

        masses = [rest * noise.at(abs(x)) + q * noise.at(abs(x - shift)) for x in range(-end, end + 1)]
        above, below = (rest * noise.beyond(end) + q * noise.beyond(end + by) for by in (-shift, shift))
        return noise.sets(masses, -end, (below, above), loss)
