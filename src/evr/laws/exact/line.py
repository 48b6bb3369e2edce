"""Gaussian and Laplace noise by its exact parameters: alone, chosen by a label, in bins, mixed, and moved to both sides
(docs/guarantees_strict.md, Section S6; docs/guarantees_relations.md, Sections R5 to R7).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction

from evr.laws.exact.law import Ball, ExactCurve, ExactLaw, ball, proved_root
from evr.laws.law import Direction


@dataclass(frozen=True)
class ExactGaussian(ExactCurve):
    """``N(m, 1)`` against ``N(0, 1)``, given ``m^2``: one over the noise's variance, added over a composition.

    >>> print(ExactGaussian(Fraction(1, 4)).curve()(Ball(1)).str(10))
    [0.1974126514 +/- ...]
    """

    square: Fraction

    def curve(self) -> Callable[[Ball], Ball]:
        mean = ball(self.square).sqrt()
        root, half = Ball(2).sqrt(), Ball(1) / 2
        slope, low, high = 1 / (mean * root), -mean / (2 * root), mean / (2 * root)

        def value(ratio: Ball) -> Ball:
            centre = ratio.log() * slope  # over sqrt(2), as the error function wants it
            return half * ((centre + low).erfc() - ratio * (centre + high).erfc())

        return value


@dataclass(frozen=True)
class ExactLabelled(ExactCurve):
    """``N(m_i, 1)`` against ``N(0, 1)`` with probability ``weights_i``, given ``m_i^2 > 0``: one of several Gaussian
    mechanisms, by a label that everybody sees (docs/guarantees_relations.md, Section R7).
    """

    squares: tuple[Fraction, ...]
    weights: tuple[Fraction, ...]

    def curve(self) -> Callable[[Ball], Ball]:
        curves = [ExactGaussian(square).curve() for square in self.squares]
        weights = [ball(weight) for weight in self.weights]
        return lambda ratio: sum((w * curve(ratio) for w, curve in zip(weights, curves, strict=True)), Ball(0))


@dataclass(frozen=True)
class ExactBins(ExactLaw):
    """Balls in bins with independent noise (docs/guarantees_highdim.md, Section 8): ``L`` is the mean of ``bins``
    independent ratios ``A = e^{v - g/2}``, ``v ~ N(0, g)``, and ``g = energy`` is rational.
    """

    direction: Direction
    bins: int
    energy: Fraction

    def greatest(self) -> Fraction | Ball:
        return Ball.pos_inf()

    def call(self) -> Callable[[Ball], Ball]:
        """The function from ``a > 0`` to ``E_Q[(A - a)_+]``: the curve of a Gaussian."""
        return ExactGaussian(self.energy).curve()


@dataclass(frozen=True)
class ExactLaplace(ExactCurve):
    """``Lap(1, scale)`` against ``Lap(0, scale)``."""

    scale: Fraction

    def curve(self) -> Callable[[Ball], Ball]:
        one, zero = Ball(1), Ball(0)
        factor = ball(-1 / self.scale).exp()
        return lambda ratio: zero.max(one - ratio).max(one - (ratio * factor).sqrt())

    def least(self) -> Ball:
        return ball(-1 / self.scale)

    def greatest(self) -> Fraction:
        return 1 / self.scale


def by_side(above: Callable[[Ball], Ball], below: Callable[[Ball], Ball]) -> Callable[[Ball], Ball]:
    """The curve that is ``above`` from the ratio 1 on, and ``below`` up to it."""
    one = Ball(1)

    def value(ratio: Ball) -> Ball:
        if ratio >= one:
            return above(ratio)
        return below(ratio) if ratio <= one else above(ratio).union(below(ratio))  # one of the two holds

    return value


@dataclass(frozen=True)
class ExactTwoSidedLaplace(ExactCurve):
    """``(1-q) Lap(0, b) + q Lap(1, b)`` against ``(1-q) Lap(0, b) + q Lap(-1, b)``, ``b = scale``, ``0 < q < 1``."""

    scale: Fraction
    q: Fraction

    def curve(self) -> Callable[[Ball], Ball]:
        one, zero, q, rest = Ball(1), Ball(0), ball(self.q), ball(1 - self.q)
        rare = q * ball(-1 / self.scale).exp()

        def above(ratio: Ball) -> Ball:
            inner = ratio * (rest + rare) - rest  # at least ``rare``
            return zero.max(q - (rare * inner.max(rare)).sqrt())

        return by_side(above, lambda ratio: one - ratio + ratio * above(one / ratio))

    def least(self) -> Ball:
        return -self.greatest()

    def greatest(self) -> Ball:
        q, rest, size = ball(self.q), ball(1 - self.q), ball(1 / self.scale)
        return ((rest + q * size.exp()) / (rest + q * (-size).exp())).log()


@dataclass(frozen=True)
class ExactMixture(ExactCurve):
    """``sum_i p_i N(m_i, 1)`` against ``N(0, 1)`` (remove), ``N(0, 1)`` against ``sum_i p_i N(-m_i, 1)`` (add).

    The means are non-negative, not all zero, the weights positive with sum 1.
    """

    means: tuple[Fraction, ...]
    weights: tuple[Fraction, ...]
    direction: Direction

    def curve(self) -> Callable[[Ball], Ball]:
        one, zero, floor = Ball(1), Ball(0), ball(self._floor)
        means, weights = [ball(m) for m in self.means], [ball(p) for p in self.weights]
        place, alone = _Place(means, weights), _above([zero], [one])
        mixed, mirrored = _above(means, weights), _above([-m for m in means], weights)

        def remove(ratio: Ball) -> Ball:
            if ratio <= floor:
                return one - ratio
            if not ratio > floor:
                # between the two, the curve being continuous and falling
                return (one - ratio).union(one - floor)
            t = place(ratio)
            return mixed(t) - ratio * alone(t)

        def add(ratio: Ball) -> Ball:
            if not one > ratio * floor:  # the greatest loss is at most log(ratio), or close to it
                return zero if one <= ratio * floor else zero.union(zero.max(one - ratio * floor))
            t = -place(one / ratio)
            return alone(t) - ratio * mirrored(t)

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


@dataclass(frozen=True)
class ExactTwoSided(ExactCurve):
    """``sum_i p_i N(m_i, 1)`` against ``sum_i p_i N(-m_i, 1)``, ``m_i = sizes_i sqrt(square)``.

    The sizes are non-negative and rise, the weights are positive with sum 1.
    """

    square: Fraction
    sizes: tuple[Fraction, ...]
    weights: tuple[Fraction, ...]

    def curve(self) -> Callable[[Ball], Ball]:
        unit, weights = ball(self.square).sqrt(), [ball(p) for p in self.weights]
        means = [ball(size) * unit for size in self.sizes]
        mixed, mirrored = _above(means, weights), _above([-m for m in means], weights)
        two = len(means) == 2 and self.sizes[0] == 0
        place = _closed(means[1], *weights) if two else _Place(means, weights, two_sided=True)

        def value(ratio: Ball) -> Ball:
            t = place(ratio)
            return mixed(t) - ratio * mirrored(t)

        return value


def _above(means: Sequence[Ball], weights: Sequence[Ball]) -> Callable[[Ball], Ball]:
    """The function from ``t`` to the mass of ``sum_i p_i N(m_i, 1)`` above it."""
    root, zero = Ball(2).sqrt(), Ball(0)
    terms = [(p / 2, m / root) for p, m in zip(weights, means, strict=True)]

    def mass(t: Ball) -> Ball:
        t = t / root
        return sum((p * (t - m).erfc() for p, m in terms), zero)

    return mass


def _closed(mean: Ball, rest: Ball, q: Ball) -> Callable[[Ball], Ball]:
    """The place of a loss for means 0 and ``mean`` (R5.2)."""
    scale = rest / q * (mean * mean / 2).exp()

    def place(ratio: Ball) -> Ball:
        half = ratio.log() / 2
        return (half + (scale * half.sinh()).asinh()) / mean

    return place


class _Place:
    """The function from ``r`` to the root of ``g(t) = r``, or two-sided of ``g(t) = r g(-t)``, where ``g(t) = sum_i p_i
    e^{m_i t - m_i^2/2}``.
    """

    def __init__(self, means: Sequence[Ball], weights: Sequence[Ball], *, two_sided: bool = False) -> None:
        self._two_sided = two_sided
        self._terms = [(m, p * (-m * m / 2).exp()) for p, m in zip(weights, means, strict=True)]
        self._floats = [(float(m), float(scale.log())) for m, scale in self._terms]

    def __call__(self, ratio: Ball) -> Ball:
        def beyond(t: Ball) -> tuple[Ball, Ball]:
            up, rise = self._ratio(t)
            down, fall = self._ratio(-t) if self._two_sided else (Ball(1), Ball(0))
            return up - ratio * down, rise + ratio * fall

        return proved_root(beyond, self._start(float(ratio.log().mid())))

    def _ratio(self, t: Ball) -> tuple[Ball, Ball]:
        """``g(t)`` and its slope."""
        terms = [(m, scale * (m * t).exp()) for m, scale in self._terms]
        return sum((term for _, term in terms), Ball(0)), sum((m * term for m, term in terms), Ball(0))

    def _log_ratio(self, t: float) -> tuple[float, float]:
        """``log g(t)`` and its slope, in floats."""
        exponents = [m * t + o for m, o in self._floats]
        top = max(exponents)
        parts = [math.exp(e - top) for e in exponents]
        slope = sum(m * part for (m, _), part in zip(self._floats, parts, strict=True)) / sum(parts)
        return top + math.log(sum(parts)), slope

    def _start(self, loss: float) -> float:
        """The root in floats: Newton's steps from the right, where all of them go left if ``log g`` is all there is;
        where one leaves the bracket, it is halved. Two-sided losses are odd.
        """
        target, low = (abs(loss), 0.0) if self._two_sided else (loss, -math.inf)
        t = high = min((target - o) / m for m, o in self._floats if m > 0)  # where one term alone is enough
        for _ in range(200):
            value, slope = self._log_ratio(t)
            if self._two_sided:
                other, more = self._log_ratio(-t)
                value, slope = value - other, slope + more
            low, high = (low, t) if value > target else (t, high)
            last, t = t, t - (value - target) / max(slope, 1e-300)
            t = t if low <= t <= high else (low + high) / 2
            if abs(t - last) <= 1e-12 * (1 + abs(t)):
                break
        return math.copysign(t, loss) if self._two_sided else t
