"""Mixtures of Gaussians against one Gaussian by their exact parameters (docs/guarantees_strict.md, Section S6)."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

from evr.laws.exact.law import Ball, ExactCurve, ball, proved_root
from evr.laws.law import Direction


@dataclass(frozen=True)
class ExactMixture(ExactCurve):
    """``sum_i p_i N(m_i, 1)`` against ``N(0, 1)`` (remove), ``N(0, 1)`` against ``sum_i p_i N(-m_i, 1)`` (add).

    The means are non-negative, not all zero, the weights positive with sum 1.
    """

    means: tuple[Fraction, ...]
    weights: tuple[Fraction, ...]
    direction: Direction

    def curve(self) -> Callable[[Ball], Ball]:
        inverse = _Inverse(self.means, self.weights)
        root, half, one, zero = Ball(2).sqrt(), Ball(1) / 2, Ball(1), Ball(0)
        centres = [ball(m) / root for m in self.means]
        weights = [ball(p) for p in self.weights]
        floor = ball(self._floor)

        def mixed(t: Ball) -> Ball:
            """Twice the mass of ``sum_i p_i N(m_i, 1)`` above ``t``, which is given over ``sqrt(2)``."""
            return sum((p * (t - m).erfc() for p, m in zip(weights, centres, strict=True)), zero)

        def remove(ratio: Ball) -> Ball:
            if ratio <= floor:
                return one - ratio
            if not ratio > floor:
                # between the two, the curve being continuous and falling
                return (one - ratio).union(one - floor)
            t = inverse(ratio) / root
            return half * (mixed(t) - ratio * t.erfc())

        def add(ratio: Ball) -> Ball:
            if not one > ratio * floor:  # the greatest loss is at most log(ratio), or close to it
                return zero if one <= ratio * floor else zero.union(zero.max(one - ratio * floor))
            t = -inverse(one / ratio) / root
            flipped = sum((p * (t + m).erfc() for p, m in zip(weights, centres, strict=True)), zero)
            return half * (t.erfc() - ratio * flipped)

        return remove if self.direction is Direction.REMOVE else add

    @property
    def _floor(self) -> Fraction:
        return sum((p for p, m in zip(self.weights, self.means, strict=True) if m == 0), Fraction(0))

    def least(self) -> Ball:
        if self.direction is Direction.ADD or not self._floor:
            return Ball.neg_inf()
        return ball(self._floor).log()

    def greatest(self) -> Ball:
        if self.direction is Direction.ADD and self._floor:
            return -ball(self._floor).log()
        return Ball.pos_inf()


class _Inverse:
    """The root of ``g(t) = sum_i p_i e^{m_i t - m_i^2/2} = r``."""

    def __init__(self, means: tuple[Fraction, ...], weights: tuple[Fraction, ...]) -> None:
        self._means = [ball(m) for m in means]
        self._scales = [ball(p) * (-ball(m * m) / 2).exp() for p, m in zip(weights, means, strict=True)]
        self._floats = [(float(m), math.log(p) - float(m) ** 2 / 2) for p, m in zip(weights, means, strict=True)]
        self._zero = Ball(0)

    def _ratio(self, t: Ball) -> tuple[Ball, Ball]:
        """``g(t)`` and its slope."""
        terms = [scale * (mean * t).exp() for scale, mean in zip(self._scales, self._means, strict=True)]
        slopes = [term * mean for term, mean in zip(terms, self._means, strict=True)]
        return sum(terms, self._zero), sum(slopes, self._zero)

    def _start(self, target: float) -> float:
        """A root of ``log g = target`` in floats, from the right, where Newton's steps are monotone."""
        t = min((target - o) / m for m, o in self._floats if m > 0)
        for _ in range(100):
            exponents = [m * t + o for m, o in self._floats]
            top = max(exponents)
            parts = [math.exp(e - top) for e in exponents]
            slope = sum(m * p for (m, _), p in zip(self._floats, parts, strict=True)) / sum(parts)
            step = (top + math.log(sum(parts)) - target) / max(slope, 1e-300)
            t -= step
            if abs(step) <= 1e-12 * (1 + abs(t)):
                break
        return t

    def __call__(self, ratio: Ball) -> Ball:
        def beyond(t: Ball) -> tuple[Ball, Ball]:
            value, slope = self._ratio(t)
            return value - ratio, slope

        return proved_root(beyond, self._start(float(ratio.log().mid())))
