"""Gaussian and Laplace mechanisms by their exact parameters (docs/guarantees_strict.md, Section S6)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

from evr.laws.exact.law import Ball, ExactCurve, ball


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

    def least(self) -> Ball:
        return Ball.neg_inf()

    def greatest(self) -> Ball:
        return Ball.pos_inf()


@dataclass(frozen=True)
class ExactLaplace(ExactCurve):
    """``Lap(1, scale)`` against ``Lap(0, scale)``."""

    scale: Fraction

    def curve(self) -> Callable[[Ball], Ball]:
        one, zero = Ball(1), Ball(0)
        factor = ball(-1 / self.scale).exp()

        def value(ratio: Ball) -> Ball:
            return zero.max(one - ratio).max(one - (ratio * factor).sqrt())

        return value

    def least(self) -> Ball:
        return ball(-1 / self.scale)

    def greatest(self) -> Fraction:
        return 1 / self.scale
