"""Points are a pair: laws that are known by upper bounds of their curve at finitely many ratios
(docs/guarantees_state.md, G1), and zero-concentrated differential privacy as such a law (G3).
"""

from __future__ import annotations

import abc
import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from itertools import pairwise

import numpy as np
from flint import ctx

from evr.laws.exact.law import Ball, ExactOutcomes, OutcomeSet, ball, integer_above
from evr.laws.exact.outcomes import rational_sets

Point = tuple[Fraction, Fraction]
"""A ratio ``g > 0``, and a number that is not below ``H_g``."""

_BITS = 64  # of a bound, beyond its leading one
# where a zCDP curve is bounded, in deviations of a Gaussian's loss: 40 are enough for any float
_PLACES = (
    *np.arange(-6.0, -2.0, 0.5),
    *np.arange(-2.0, 1.0, 0.05),
    *np.arange(1.0, 7.0, 0.02),
    *np.arange(7.0, 40.0, 0.5),
)


def above(exponent: Fraction, bits: int) -> Fraction:
    """A multiple of ``2^-bits`` that is not below ``e^exponent``, and little above it."""
    size = max(0, math.ceil(float(exponent) / math.log(2)))
    with ctx.workprec(bits + size + 64):
        return Fraction(integer_above(ball(exponent).exp() * (1 << bits)), 1 << bits)


def hull(points: Sequence[Point]) -> list[tuple[Fraction, Fraction]]:
    """The pair whose curve is the greatest convex one below ``(0, 1)`` and the points, which rise: the masses of ``P``
    and ``Q`` at ratio 0, at the ratios where the curve bends, and at an infinite ratio.

    >>> hull([(Fraction(1), Fraction(1, 2)), (Fraction(2), Fraction(0))])
    [(Fraction(0, 1), Fraction(1, 2)), (Fraction(1, 1), Fraction(1, 2)), (Fraction(0, 1), Fraction(0, 1))]
    """
    lower: list[Point] = [(Fraction(0), Fraction(1))]
    for g, h in points:
        if h >= lower[-1][1]:
            continue  # the curve does not rise: this point says nothing
        while len(lower) > 1:
            (a, x), (b, y) = lower[-2:]
            if (y - x) * (g - a) < (h - x) * (b - a):
                break
            lower.pop()
        lower.append((g, h))
    slopes = [(y - x) / (b - a) for (a, x), (b, y) in pairwise(lower)]
    slopes.append(Fraction(0))
    bends = [(g, after - before) for (g, _), (before, after) in zip(lower[1:], pairwise(slopes), strict=True)]
    return [(Fraction(0), 1 + slopes[0]), *((g * q, q) for g, q in bends), (lower[-1][1], Fraction(0))]


class ExactPoints(ExactOutcomes):
    """A law that is known by proved points of its curve."""

    @abc.abstractmethod
    def points(self) -> list[Point]:
        """The points, their ratios rising."""

    def sets(self) -> list[OutcomeSet]:
        return rational_sets(_hull_of(self))


@lru_cache(maxsize=64)
def _hull_of(law: ExactPoints) -> list[tuple[Fraction, Fraction]]:
    return hull(law.points())


@dataclass(frozen=True)
class ExactConcentrated(ExactPoints):
    """A mechanism of which only ``(xi, rho)``-zCDP is known, in both directions; both numbers add over a composition.

    Examples
    --------
    >>> law = ExactConcentrated(Fraction(1, 2))
    >>> print(law.bound(Fraction(4)).str(8))
    [0.00019579542 +/- ...]
    """

    rho: Fraction
    xi: Fraction = Fraction(0)

    def bound(self, epsilon: Fraction) -> Ball:
        """``e^{(a-1)(a rho + xi - epsilon)} (1 - 1/a)^a / (a-1)`` at a good order ``a``; any ``a > 1`` is valid."""
        a = Fraction(_order(float(self.rho), float(epsilon - self.xi)))
        exponent = ball((a - 1) * (a * self.rho + self.xi - epsilon))
        return (exponent + ball(a) * ball(1 - 1 / a).log()).exp() / ball(a - 1)

    def points(self) -> list[Point]:
        deviation = math.sqrt(2 * self.rho)
        bits = 96 + max(0, -2 * math.frexp(deviation)[1])
        found: dict[Fraction, Fraction] = {}
        with ctx.workprec(bits + 2 * _BITS):
            for place in _PLACES:
                epsilon = self.xi + self.rho + Fraction(place * deviation)
                value = self._mirrored(epsilon) if epsilon < 0 else self.bound(epsilon)
                found[above(epsilon, bits)] = _rounded_up(value)
        return sorted(found.items())

    def _mirrored(self, epsilon: Fraction) -> Ball:
        """By the other direction: ``1 - e^epsilon + e^epsilon h(-epsilon)``."""
        return 1 - ball(epsilon).exp() * (1 - self.bound(-epsilon))


def _order(rho: float, epsilon: float) -> float:
    """The order at which the bound is about least: the root of ``(2a-1) rho - epsilon + log(1 - 1/a)``."""
    low, high = 1.0 + 1e-12, 2.0
    while (2 * high - 1) * rho - epsilon + math.log1p(-1 / high) < 0:
        high *= 2
    for _ in range(60):
        a = (low + high) / 2
        low, high = (a, high) if (2 * a - 1) * rho - epsilon + math.log1p(-1 / a) < 0 else (low, a)
    return high


def _rounded_up(value: Ball) -> Fraction:
    """A rational number of few bits that is not below the number, and at most 1."""
    shift = _BITS - math.floor(float(value.upper().log() / Ball(2).log()))
    unit = Fraction(2) ** -max(0, shift)
    return min(unit * integer_above(value / ball(unit)), Fraction(1))
