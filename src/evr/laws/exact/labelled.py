"""One of several Gaussian mechanisms, by its exact parameters (docs/guarantees_relations.md, Section R7)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

from evr.laws.exact.law import Ball, ExactCurve, ball
from evr.laws.exact.line import ExactGaussian


@dataclass(frozen=True)
class ExactLabelled(ExactCurve):
    """``N(m_i, 1)`` against ``N(0, 1)`` with probability ``weights_i``, given ``m_i^2 > 0``."""

    squares: tuple[Fraction, ...]
    weights: tuple[Fraction, ...]

    def curve(self) -> Callable[[Ball], Ball]:
        curves = [ExactGaussian(square).curve() for square in self.squares]
        weights = [ball(weight) for weight in self.weights]

        def value(ratio: Ball) -> Ball:
            return sum((w * curve(ratio) for w, curve in zip(weights, curves, strict=True)), Ball(0))

        return value

    def least(self) -> Ball:
        return Ball.neg_inf()

    def greatest(self) -> Ball:
        return Ball.pos_inf()
