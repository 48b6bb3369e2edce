"""Gaussian and Laplace noise by its exact parameters (guarantees_strict, S6; guarantees_relations, R5
to R7).
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction

from evr._kernel.pairs.exact.law import (
    Ball,
    ExactCurve,
    ExactLaw,
    at_precision,
    ball,
    integer_above,
    proved_root,
)
from evr.types import Direction


@dataclass(frozen=True)
class ExactGaussian(ExactCurve):
    """``N(m, 1)`` against ``N(0, 1)``, given ``m^2``: one over the noise's variance, added over a
    composition.

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
    """``N(m_i, 1)`` against ``N(0, 1)`` with probability ``weights_i``, by a label that everybody sees; ``m_i
    > 0``.
    """

    squares: tuple[Fraction, ...]
    weights: tuple[Fraction, ...]

    def curve(self) -> Callable[[Ball], Ball]:
        curves = [ExactGaussian(square).curve() for square in self.squares]
        weights = [ball(weight) for weight in self.weights]
        return lambda ratio: sum(
            (w * curve(ratio) for w, curve in zip(weights, curves, strict=True)), Ball(0)
        )


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
    """``(1-q) Lap(0, b) + q Lap(1, b)`` against ``(1-q) Lap(0, b) + q Lap(-1, b)``, ``b = scale``, ``0 < q <
    1``.
    """

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
    sqrt(square)``.

    The sizes are non-negative and rise, not all zero; the weights are positive with sum 1.
    """

    sizes: tuple[Fraction, ...]
    weights: tuple[Fraction, ...]
    direction: Direction | None
    square: Fraction = Fraction(1)

    def curve(self) -> Callable[[Ball], Ball]:
        one, zero, floor, unit = Ball(1), Ball(0), ball(self._floor), ball(self.square).sqrt()
        means, weights = [ball(size) * unit for size in self.sizes], [ball(p) for p in self.weights]
        mixed, mirrored, alone = (
            _above(means, weights),
            _above([-m for m in means], weights),
            _above([zero], [one]),
        )
        closed = self.direction is None and len(means) == 2 and self.sizes[0] == 0
        place = (
            _closed(means[1], *weights)
            if closed
            else _place(means, weights, two_sided=self.direction is None)
        )

        def remove(ratio: Ball) -> Ball:
            if ratio <= floor:
                return one - ratio
            if not ratio > floor:  # between the two: the curve is continuous and falls
                return (one - ratio).union(one - floor)
            t = place(ratio)
            return mixed(t) - ratio * alone(t)

        def add(ratio: Ball) -> Ball:
            if not one > ratio * floor:  # the greatest loss is at most log(ratio), or close to it
                return zero if one <= ratio * floor else zero.union(zero.max(one - ratio * floor))
            t = -place(one / ratio)
            return alone(t) - ratio * mirrored(t)

        def both(ratio: Ball) -> Ball:
            t = place(ratio)
            return mixed(t) - ratio * mirrored(t)

        return {Direction.REMOVE: remove, Direction.ADD: add, None: both}[self.direction]

    @property
    def _floor(self) -> Fraction:
        return sum((p for p, size in zip(self.weights, self.sizes, strict=True) if size == 0), Fraction(0))

    def least(self) -> Ball:
        return (
            ball(self._floor).log() if self.direction is Direction.REMOVE and self._floor else Ball.neg_inf()
        )

    def greatest(self) -> Ball:
        return -ball(self._floor).log() if self.direction is Direction.ADD and self._floor else Ball.pos_inf()


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


def _place(
    means: Sequence[Ball], weights: Sequence[Ball], *, two_sided: bool = False
) -> Callable[[Ball], Ball]:
    """From ``r`` to a root of ``g(t) = r``, two-sided ``g(t) = r g(-t)``, ``g(t) = sum_i p_i e^{m_i t -
    m_i^2/2}``.
    """
    terms = [(m, p * (-m * m / 2).exp()) for p, m in zip(weights, means, strict=True)]
    floats = [(float(m), float(scale.log())) for m, scale in terms]

    def ratio_and_slope(t: Ball) -> tuple[Ball, Ball]:
        found = [(m, scale * (m * t).exp()) for m, scale in terms]
        return sum((term for _, term in found), Ball(0)), sum((m * term for m, term in found), Ball(0))

    def place(ratio: Ball) -> Ball:
        def beyond(t: Ball) -> tuple[Ball, Ball]:
            up, rise = ratio_and_slope(t)
            down, fall = ratio_and_slope(-t) if two_sided else (Ball(1), Ball(0))
            return up - ratio * down, rise + ratio * fall

        return proved_root(beyond, _start(floats, float(ratio.log().mid()), two_sided))

    return place


def _start(terms: list[tuple[float, float]], loss: float, two_sided: bool) -> float:
    """The place of a loss in floats: by Newton's steps from the right, where one term alone is enough. A step
    that leaves the bracket becomes a halving. Two-sided losses are odd.
    """

    def log_and_slope(t: float) -> tuple[float, float]:
        exponents = [m * t + o for m, o in terms]
        top = max(exponents)
        parts = [math.exp(e - top) for e in exponents]
        slope = sum(m * part for (m, _), part in zip(terms, parts, strict=True)) / sum(parts)
        return top + math.log(sum(parts)), slope

    target, low = (abs(loss), 0.0) if two_sided else (loss, -math.inf)
    t = high = min((target - o) / m for m, o in terms if m > 0)
    for _ in range(200):
        value, slope = log_and_slope(t)
        if two_sided:
            other, more = log_and_slope(-t)
            value, slope = value - other, slope + more
        low, high = (low, t) if value > target else (t, high)
        last, t = t, t - (value - target) / max(slope, 1e-300)
        t = t if low <= t <= high else (low + high) / 2
        if abs(t - last) <= 1e-12 * (1 + abs(t)):
            break
    return math.copysign(t, loss) if two_sided else t


# --- integer noise in many dimensions: a Gaussian whose losses are raised (docs/guarantees_state.md, G2) ---

_BITS = 160
_LISTED = 64  # partial sums of clients whose factors are computed one by one
_ORDER, _MOST = 16, 0.5  # a usual order of the moments, and the greatest shift


@dataclass(frozen=True)
class ExactShifted(ExactCurve):
    """``N(m, 1)`` against ``e^-shift N(0, 1)`` and a rest apart, given ``m^2``. Both numbers add over a
    composition.
    """

    square: Fraction
    shift: Fraction

    def curve(self) -> Callable[[Ball], Ball]:
        base, factor = ExactGaussian(self.square).curve(), ball(-self.shift).exp()
        return lambda ratio: base(ratio * factor)


def factors(sigma: Fraction, dimension: int, rounding: Fraction, clients: int = 1) -> tuple[Ball, Ball]:
    """``log A`` and ``log(A / a)``: how far the sum of ``clients`` discrete Gaussians, on so many
    coordinates, is from rounded continuous noise of variance ``clients sigma^2 - rounding^2``. Any
    ``rounding`` with ``eta < 1`` is valid.
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


def integer_gaussian(
    sigma: float, sensitivity: float, dimension: int, clients: int = 1
) -> ExactShifted | None:
    """The law of integer values of that L2 sensitivity with integer noise; None where no rounding is near
    enough.

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
    return (
        None if best is None else rounded(Fraction(sigma), Fraction(sensitivity), dimension, best[1], clients)
    )


def rounded(
    sigma: Fraction, sensitivity: Fraction, dimension: int, rounding: Fraction, clients: int = 1
) -> ExactShifted | None:
    """The law by a given rounding: the shift is raised until it covers the factor ``A`` at ratio 1, and so at
    all.
    """
    square = sensitivity**2 / (clients * sigma**2 - rounding**2)
    with at_precision(_BITS):
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
