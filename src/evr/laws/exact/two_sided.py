"""Noise shifted to both sides, by its exact parameters (docs/guarantees_relations.md, Sections R5 and R6)."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

from evr.laws.exact.law import Ball, ExactCurve, ExactOutcomes, OutcomeSet, ball, proved_root
from evr.laws.exact.outcomes import ExactDiscreteGaussian, ExactDiscreteLaplace

_HALVINGS = 80


@dataclass(frozen=True)
class ExactTwoSided(ExactCurve):
    """``sum_i p_i N(m_i, 1)`` against ``sum_i p_i N(-m_i, 1)``, ``m_i = sizes_i sqrt(square)``.

    The sizes are non-negative and rise, the weights are positive with sum 1.

    Examples
    --------
    >>> sizes, weights = (Fraction(0), Fraction(1)), (Fraction(99, 100), Fraction(1, 100))
    >>> law = ExactTwoSided(Fraction(1), sizes, weights)
    >>> print(law.curve()(Ball("0.5").exp()).str(8, radius=False))
    2.4556481e-7
    """

    square: Fraction
    sizes: tuple[Fraction, ...]
    weights: tuple[Fraction, ...]

    def curve(self) -> Callable[[Ball], Ball]:
        unit, root, half, zero = ball(self.square).sqrt(), Ball(2).sqrt(), Ball(1) / 2, Ball(0)
        means = [ball(size) * unit for size in self.sizes]
        weights = [ball(p) for p in self.weights]
        two = len(means) == 2 and self.sizes[0] == 0
        threshold = _closed(means[1], *weights) if two else _Root(means, weights)

        def value(ratio: Ball) -> Ball:
            t = threshold(ratio)
            terms = (
                p * (((t - m) / root).erfc() - ratio * ((t + m) / root).erfc())
                for p, m in zip(weights, means, strict=True)
            )
            return half * sum(terms, zero)

        return value

    def least(self) -> Ball:
        return Ball.neg_inf()

    def greatest(self) -> Ball:
        return Ball.pos_inf()


def _closed(mean: Ball, rest: Ball, q: Ball) -> Callable[[Ball], Ball]:
    """The place of a loss for means 0 and ``mean`` (R5.2)."""
    scale = rest / q * (mean * mean / 2).exp()

    def place(ratio: Ball) -> Ball:
        half = ratio.log() / 2
        return (half + (scale * half.sinh()).asinh()) / mean

    return place


class _Root:
    """The root of ``g(t) = r g(-t)``, ``g(t) = sum_i p_i e^{m_i t - m_i^2/2}``."""

    def __init__(self, means: list[Ball], weights: list[Ball]) -> None:
        self._means = means
        self._scales = [p * (-m * m / 2).exp() for p, m in zip(weights, means, strict=True)]
        self._floats = [
            (float(m.mid()), float(p.mid().log().mid()) - float(m.mid()) ** 2 / 2)
            for p, m in zip(weights, means, strict=True)
        ]

    def _sides(self, t: Ball) -> tuple[Ball, Ball]:
        """``g(t)`` and its slope."""
        terms = [scale * (m * t).exp() for scale, m in zip(self._scales, self._means, strict=True)]
        slopes = [term * m for term, m in zip(terms, self._means, strict=True)]
        return sum(terms, Ball(0)), sum(slopes, Ball(0))

    def _start(self, loss: float) -> float:
        """A root in floats, by bisection of the loss, which is odd and rises."""

        def log_g(t: float) -> float:
            exponents = [m * t + o for m, o in self._floats]
            top = max(exponents)
            return top + math.log(sum(math.exp(e - top) for e in exponents))

        mean, offset = self._floats[-1]
        low, high = 0.0, (abs(loss) - offset) / mean
        for _ in range(_HALVINGS):
            middle = (low + high) / 2
            if log_g(middle) - log_g(-middle) > abs(loss):
                high = middle
            else:
                low = middle
        return math.copysign((low + high) / 2, loss)

    def __call__(self, ratio: Ball) -> Ball:
        def beyond(t: Ball) -> tuple[Ball, Ball]:
            (up, rise), (down, fall) = self._sides(t), self._sides(-t)
            return up - ratio * down, rise + ratio * fall

        return proved_root(beyond, self._start(float(ratio.log().mid())))


@dataclass(frozen=True)
class ExactTwoSidedLaplace(ExactCurve):
    """``(1-q) Lap(0, b) + q Lap(1, b)`` against ``(1-q) Lap(0, b) + q Lap(-1, b)``, ``b = scale``, ``0 < q < 1``.

    Examples
    --------
    >>> law = ExactTwoSidedLaplace(Fraction(1), Fraction(1, 10))
    >>> print(law.curve()(Ball(1)).str(8, radius=False))
    0.063212056
    """

    scale: Fraction
    q: Fraction

    def curve(self) -> Callable[[Ball], Ball]:
        one, zero, q, rest = Ball(1), Ball(0), ball(self.q), ball(1 - self.q)
        rare = q * ball(-1 / self.scale).exp()

        def above(ratio: Ball) -> Ball:
            inner = ratio * (rest + rare) - rest  # at least ``rare``
            return zero.max(q - (rare * inner.max(rare)).sqrt())

        def below(ratio: Ball) -> Ball:
            return one - ratio + ratio * above(one / ratio)

        def value(ratio: Ball) -> Ball:
            if ratio >= one:
                return above(ratio)
            return below(ratio) if ratio <= one else above(ratio.upper()).union(below(ratio.lower()))

        return value

    def least(self) -> Ball:
        return -self.greatest()

    def greatest(self) -> Ball:
        q, rest, size = ball(self.q), ball(1 - self.q), ball(1 / self.scale)
        return ((rest + q * size.exp()) / (rest + q * (-size).exp())).log()


@dataclass(frozen=True)
class ExactTwoSidedOutcomes(ExactOutcomes):
    """``(1-q) f(x) + q f(x - D)`` against ``(1-q) f(x) + q f(x + D)``: ``f`` is the noise of ``base``, ``D`` its
    sensitivity, ``0 < q < 1``.
    """

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
