"""Balls in bins with independent noise by their exact parameters (docs/guarantees_highdim.md, Section 8)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

from evr.laws.exact.law import Ball, ExactLaw, ball
from evr.laws.law import Direction


@dataclass(frozen=True)
class ExactBins(ExactLaw):
    """``L`` is the mean of ``bins`` independent ratios ``A = e^{v - g/2}``, ``v ~ N(0, g)``, and ``g = energy`` is
    rational.

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
        """The function from ``a > 0`` to ``E_Q[(A - a)_+]``, constants enclosed at the present precision: ``Phi(t + s)
        - a Phi(t)``, ``s^2 = g``, ``t = -log(a)/s - s/2``.
        """
        deviation = ball(self.energy).sqrt()
        root = ball(2).sqrt()

        def value(a: Ball) -> Ball:
            t = -a.log() / deviation - deviation / 2
            return ((-(t + deviation) / root).erfc() - a * (-t / root).erfc()) / 2

        return value
