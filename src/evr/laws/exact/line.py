"""Gaussian and Laplace mechanisms by their exact parameters (docs/guarantees_strict.md, Section S6), and what replaces
them where steps are labelled, replaced or put into bins.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

from evr.laws.exact.law import Ball, ExactCurve, ExactLaw, ball
from evr.laws.law import Direction


@dataclass(frozen=True)
class ExactGaussian(ExactCurve):
    """``N(m, 1)`` against ``N(0, 1)``, given ``m^2``: one over the noise's variance, added over a composition.

    Examples
    --------
    >>> law = ExactGaussian(Fraction(1, 4))
    >>> print(law.curve()(Ball(1)).str(10))
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

    Examples
    --------
    >>> law = ExactBins(Direction.REMOVE, 10, Fraction(1))
    >>> print(law.call()(Ball(1)).str(10))
    [0.3829249225 +/- ...]
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
    """``(1-q) Lap(0, b) + q Lap(1, b)`` against ``(1-q) Lap(0, b) + q Lap(-1, b)``, ``b = scale``, ``0 < q < 1``
    (docs/guarantees_relations.md, Section R6).

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

        return by_side(above, lambda ratio: one - ratio + ratio * above(one / ratio))

    def least(self) -> Ball:
        return -self.greatest()

    def greatest(self) -> Ball:
        q, rest, size = ball(self.q), ball(1 - self.q), ball(1 / self.scale)
        return ((rest + q * size.exp()) / (rest + q * (-size).exp())).log()
