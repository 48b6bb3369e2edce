"""Noise on a line by its exact parameters: Gaussian, Laplace, and mixtures (docs/guarantees_strict.md, S6;
docs/guarantees_relations.md, R5 to R7).
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction

from evr._kernel.pairs.exact.law import Ball, ExactCurve, ExactLaw, ball, proved_root
from evr.types import Direction


@dataclass(frozen=True)
class ExactGaussian(ExactCurve):
    """``N(m, 1)`` against ``N(0, 1)``, given ``m^2``: one over the noise's variance, which adds up.

    >>> print(ExactGaussian(Fraction(1, 4)).curve()(Ball(1)).str(10))
    [0.1974126514 +/- ...]
    """

    square: Fraction

    @property
    def is_analytic(self) -> bool:
        return True

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
    """``N(m_i, 1)``, ``m_i > 0``, against ``N(0, 1)`` with chance ``weights_i``, by a label that all see."""

    squares: tuple[Fraction, ...]
    weights: tuple[Fraction, ...]

    def curve(self) -> Callable[[Ball], Ball]:
        curves = [ExactGaussian(square).curve() for square in self.squares]
        weighted = list(zip(map(ball, self.weights), curves, strict=True))
        return lambda ratio: sum((weight * curve(ratio) for weight, curve in weighted), Ball(0))


@dataclass(frozen=True)
class ExactBins(ExactLaw):
    """Balls in bins (docs/guarantees_highdim.md, Section 8): ``L`` is the mean of ``bins`` independent ratios
    ``A = e^{v - g/2}``, ``v ~ N(0, g)``, and ``g = energy``.
    """

    direction: Direction
    bins: int
    energy: Fraction

    def greatest(self) -> Ball:
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
    """``(1-q) Lap(0, b) + q Lap(1, b)`` against ``(1-q) Lap(0, b) + q Lap(-1, b)``, ``b = scale``."""

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
    """``sum_i p_i N(m_i, 1)`` against ``N(0, 1)`` (remove), ``N(0, 1)`` against ``sum_i p_i N(-m_i, 1)``
    (add), or the first mixture against the second one (None, which serves both directions); ``m_i = sizes_i
    sqrt(square)``. Sizes are non-negative and rise, not all zero; weights are positive with sum 1.
    """

    sizes: tuple[Fraction, ...]
    weights: tuple[Fraction, ...]
    direction: Direction | None
    square: Fraction = Fraction(1)

    def curve(self) -> Callable[[Ball], Ball]:
        one, zero = Ball(1), Ball(0)
        floor, unit = ball(self._floor), ball(self.square).sqrt()
        means, weights = [ball(size) * unit for size in self.sizes], [ball(p) for p in self.weights]
        mixed, mirrored = _above(means, weights), _above([-m for m in means], weights)
        alone, is_two_sided = _above([zero], [one]), self.direction is None
        if is_two_sided and len(means) == 2 and self.sizes[0] == 0:
            threshold = _closed(means[1], *weights)
        else:
            threshold = _threshold(means, weights, is_two_sided=is_two_sided)

        def remove(ratio: Ball) -> Ball:
            if ratio <= floor:
                return one - ratio
            if not ratio > floor:  # between the two: the curve is continuous and falls
                return (one - ratio).union(one - floor)
            t = threshold(ratio)
            return mixed(t) - ratio * alone(t)

        def add(ratio: Ball) -> Ball:
            if not one > ratio * floor:  # the greatest loss is at most log(ratio), or close to it
                return zero if one <= ratio * floor else zero.union(zero.max(one - ratio * floor))
            t = -threshold(one / ratio)
            return alone(t) - ratio * mirrored(t)

        def both(ratio: Ball) -> Ball:
            t = threshold(ratio)
            return mixed(t) - ratio * mirrored(t)

        return {Direction.REMOVE: remove, Direction.ADD: add, None: both}[self.direction]

    @property
    def _floor(self) -> Fraction:
        """The weight of the size 0: ratios of the remove direction are above it."""
        return sum((p for p, size in zip(self.weights, self.sizes, strict=True) if size == 0), Fraction(0))

    def least(self) -> Ball:
        has_least = self.direction is Direction.REMOVE and self._floor
        return ball(self._floor).log() if has_least else Ball.neg_inf()

    def greatest(self) -> Ball:
        has_greatest = self.direction is Direction.ADD and self._floor
        return -ball(self._floor).log() if has_greatest else Ball.pos_inf()


def _above(means: Sequence[Ball], weights: Sequence[Ball]) -> Callable[[Ball], Ball]:
    """The function from ``t`` to the mass of ``sum_i p_i N(m_i, 1)`` above it."""
    root, zero = Ball(2).sqrt(), Ball(0)
    terms = [(p / 2, m / root) for p, m in zip(weights, means, strict=True)]

    def mass(t: Ball) -> Ball:
        t = t / root
        return sum((p * (t - m).erfc() for p, m in terms), zero)

    return mass


def _closed(mean: Ball, rest: Ball, q: Ball) -> Callable[[Ball], Ball]:
    """Where the two-sided ratio of means 0 and ``mean`` is ``r`` (R5.2)."""
    scale = rest / q * (mean * mean / 2).exp()

    def threshold(ratio: Ball) -> Ball:
        half = ratio.log() / 2
        return (half + (scale * half.sinh()).asinh()) / mean

    return threshold


def _threshold(
    means: Sequence[Ball], weights: Sequence[Ball], *, is_two_sided: bool
) -> Callable[[Ball], Ball]:
    """The root of ``g(t) = r``, or of ``g(t) = r g(-t)``; ``g(t) = sum_i p_i e^{m_i t - m_i^2/2}``."""
    terms = [(m, p * (-m * m / 2).exp()) for p, m in zip(weights, means, strict=True)]
    floats = [(float(m), float(scale.log())) for m, scale in terms]

    def ratio_and_slope(t: Ball) -> tuple[Ball, Ball]:
        found = [(m, scale * (m * t).exp()) for m, scale in terms]
        return sum((term for _, term in found), Ball(0)), sum((m * term for m, term in found), Ball(0))

    def threshold(ratio: Ball) -> Ball:
        def beyond(t: Ball) -> tuple[Ball, Ball]:
            up, rise = ratio_and_slope(t)
            down, fall = ratio_and_slope(-t) if is_two_sided else (Ball(1), Ball(0))
            return up - ratio * down, rise + ratio * fall

        return proved_root(beyond, _start(floats, float(ratio.log().mid()), is_two_sided))

    return threshold


def _start(terms: list[tuple[float, float]], loss: float, is_two_sided: bool) -> float:
    """The root in floats, by Newton's steps from the right, where one term alone is enough. A step that
    leaves the bracket becomes a halving. Two-sided losses are odd.
    """

    def log_and_slope(t: float) -> tuple[float, float]:
        exponents = [m * t + o for m, o in terms]
        top = max(exponents)
        shares = [math.exp(e - top) for e in exponents]
        slope = sum(m * share for (m, _), share in zip(terms, shares, strict=True)) / sum(shares)
        return top + math.log(sum(shares)), slope

    target, low = (abs(loss), 0.0) if is_two_sided else (loss, -math.inf)
    t = high = min((target - o) / m for m, o in terms if m > 0)
    for _ in range(200):
        value, slope = log_and_slope(t)
        if is_two_sided:
            other, more = log_and_slope(-t)
            value, slope = value - other, slope + more
        low, high = (low, t) if value > target else (t, high)
        last, t = t, t - (value - target) / max(slope, 1e-300)
        t = t if low <= t <= high else (low + high) / 2
        if abs(t - last) <= 1e-12 * (1 + abs(t)):
            break
    return math.copysign(t, loss) if is_two_sided else t
