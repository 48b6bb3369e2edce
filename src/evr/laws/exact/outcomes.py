"""Discrete mechanisms by their exact parameters (docs/guarantees_strict.md, S6; docs/guarantees_relations.md, R6)."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from fractions import Fraction
from typing import NamedTuple, Self

from flint import ctx

from evr.laws.exact.law import Ball, ExactCurve, ExactOutcomes, OutcomeSet, ball, integer_above
from evr.laws.exact.line import ExactGaussian
from evr.laws.line.gaussian import ShiftedPair


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
        sizes = [len(law) for law in laws]
        if sizes[0] == 0 or sizes[0] != sizes[1]:
            raise ValueError(f"p and q have {sizes[0]} and {sizes[1]} entries: give as many of each, at least 1")
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
    """Symmetric noise on the integers."""

    at: Callable[[int], Ball]  # the chance of x >= 0
    beyond: Callable[[int], Ball]  # the chance of more than x
    reach: int | None  # up to which integers count one by one; None if all beyond both centres have one loss


@dataclass(frozen=True)
class ExactDiscreteLaplace(ExactOutcomes):
    """Noise of probability ``tanh(a/2) e^{-a|x|}`` on the integers; ``P`` is centred at ``sensitivity``, ``Q`` at 0."""

    parameter: Fraction
    sensitivity: int

    def noise(self) -> Noise:
        """Its ``beyond`` takes ``x >= -1``."""
        a, ratio = self.parameter, ball(-self.parameter).exp()
        atom, tail = (1 - ratio) / (1 + ratio), 1 / (1 + ratio)
        return Noise(lambda x: atom * ball(-a * x).exp(), lambda x: tail * ball(-a * (x + 1)).exp(), None)

    def sets(self) -> list[OutcomeSet]:
        (at, beyond, _), s = self.noise(), self.sensitivity  # one loss for all x <= 0, and one for all x >= s
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
        """Its ``at`` takes ``x`` up to twice the sensitivity beyond its reach."""
        variance = self.sigma**2
        reach = math.isqrt(math.ceil(2 * variance * (ctx.prec + 8))) + 1  # any is sound; this one leaves out e^-prec
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
        return [OutcomeSet(far, near, self.loss(-reach)), *kept, OutcomeSet(near, far, Ball.pos_inf())]

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

        inside = range(-window, window + 1)
        moved = [rest * at(abs(x)) + q * at(abs(x - shift)) for x in inside]
        near, far = (rest * beyond(window) + q * beyond(window + by) for by in (-shift, shift))
        low, high = (-window, Ball.pos_inf()) if reach is not None else (-shift, loss(shift))
        kept = [OutcomeSet(moved[window + x], moved[window - x], loss(x)) for x in inside]
        return [OutcomeSet(far, near, loss(low)), *kept, OutcomeSet(near, far, high)]


# --- integer noise in many dimensions: a Gaussian whose losses are raised (docs/guarantees_state.md, G2) ---

_BITS = 160
_LISTED = 64  # partial sums of clients whose factors are computed one by one
_ORDER, _MOST = 16, 0.5  # a usual order of the moments, and the greatest shift


@dataclass(frozen=True)
class ExactShifted(ExactCurve):
    """``N(m, 1)`` against ``e^-shift N(0, 1)`` and a rest apart, given ``m^2``. Both numbers add over a composition."""

    square: Fraction
    shift: Fraction

    def curve(self) -> Callable[[Ball], Ball]:
        base, factor = ExactGaussian(self.square).curve(), ball(-self.shift).exp()
        return lambda ratio: base(ratio * factor)

    def in_floats(self) -> ShiftedPair:
        return ShiftedPair(math.sqrt(self.square), float(self.shift))


def factors(sigma: Fraction, dimension: int, rounding: Fraction, clients: int = 1) -> tuple[Ball, Ball]:
    """``log A`` and ``log(A / a)``: how far the sum of ``clients`` discrete Gaussians, on so many coordinates, is from
    rounded continuous noise of variance ``clients sigma^2 - rounding^2``. Any ``rounding`` with ``eta < 1`` is valid.
    """
    of_rounding, of_noise = _eta(rounding**2), _eta(clients * sigma**2)
    summed = last = Ball(0)
    for k in range(1, min(clients, _LISTED)):
        last = _log_ratio(_eta(sigma**2 * Fraction(k, k + 1)))
        summed += last
    summed += max(0, clients - _LISTED) * last  # the terms fall
    up = (1 + of_rounding).log() - (1 + of_noise).log() + summed
    return dimension * up, dimension * (_log_ratio(of_rounding) + 2 * summed)


def _eta(square: Fraction) -> Ball:
    """``2 sum_{k >= 1} e^{-2 pi^2 t^2 k^2}``, given ``t^2``; the series ends in a geometric one."""
    one = (-2 * Ball.pi() ** 2 * ball(square)).exp()
    return 2 * (one + one**4 + (one**9 / (1 - one)).union(Ball(0)))


def _log_ratio(eta: Ball) -> Ball:
    if not eta < 1:
        raise ArithmeticError("noise or rounding below 0.2 is too far from the continuous one")
    return (1 + eta).log() - (1 - eta).log()


def integer_gaussian(sigma: float, sensitivity: float, dimension: int, clients: int = 1) -> ExactShifted | None:
    """The law of integer values of that L2 sensitivity with integer noise; None where no rounding is near enough.

    >>> print(integer_gaussian(50.0, 10.0, 10**6).curve()(Ball(1).exp()).str(4))
    [1.769e-8 +/- ...]
    """
    variance, best = clients * sigma**2, None
    for part in range(16, 144):
        t = part / 64
        if t * t > variance / 4:  # a third more in the variance is too much
            break
        summed = 4 * clients * math.exp(-((math.pi * sigma) ** 2))
        shift = dimension * (4 * math.exp(-2 * (math.pi * t) ** 2) + summed)
        cost = 3 * shift + (_ORDER + 1) / 2 * sensitivity**2 / (variance - t * t)
        if shift < _MOST and (best is None or cost < best[0]):
            best = cost, Fraction(part, 64)
    return None if best is None else rounded(Fraction(sigma), Fraction(sensitivity), dimension, best[1], clients)


def rounded(
    sigma: Fraction, sensitivity: Fraction, dimension: int, rounding: Fraction, clients: int = 1
) -> ExactShifted | None:
    """The law by a given rounding: the shift is raised until it covers the factor ``A`` at ratio 1, and so at all."""
    square = sensitivity**2 / (clients * sigma**2 - rounding**2)
    with ctx.workprec(_BITS):
        up, ratio = factors(sigma, dimension, rounding, clients)
        slope = _slope(square, Ball(0))
        for more in range(8, 64):
            shift = Fraction(integer_above((ratio + up / slope * more / 8) * (1 << _BITS)), 1 << _BITS)
            if (ball(shift) - ratio) * _slope(square, ball(-shift)) >= up:
                return ExactShifted(square, shift)
    return None


def _slope(square: Fraction, loss: Ball) -> Ball:
    """``-d log H / d loss = e^loss Q(y > loss) / H`` of the Gaussian pair."""
    mean = ball(square).sqrt()
    beyond = ((loss / mean + mean / 2) / Ball(2).sqrt()).erfc() / 2
    return loss.exp() * beyond / ExactGaussian(square).curve()(loss.exp())
