"""Laws known by bounds of their curve at some ratios: hulls and zCDP (docs/guarantees_state.md, G1, G3)."""

import abc
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from itertools import pairwise
from typing import TypeVar

import numpy as np

from evr._kernel.pairs.exact.law import Ball, ExactOutcomes, OutcomeSet, at_precision, ball, integer_above
from evr._kernel.pairs.exact.outcomes import rational_sets

CurvePoint = tuple[Fraction, Fraction]
"""A ratio ``g > 0``, and a number that is not below ``H_g``."""
P = TypeVar("P", bound=tuple[Fraction | int, Fraction | int])

_BITS = 64  # of a bound, beyond its leading one
_SPANS = (-6.0, -2.0, 0.5), (-2.0, 1.0, 0.05), (1.0, 7.0, 0.02), (7.0, 40.0, 0.5)
_DEVIATIONS = np.concatenate([np.arange(*span) for span in _SPANS])  # of the loss, where zCDP is bounded


def above(exponent: Fraction, bits: int) -> Fraction:
    """A multiple of ``2^-bits`` that is not below ``e^exponent``, and little above it."""
    size = max(0, math.ceil(float(exponent) / math.log(2)))
    with at_precision(bits + size + 64):
        return Fraction(integer_above(ball(exponent).exp() * (1 << bits)), 1 << bits)


def falling_hull(points: Iterable[P]) -> list[P]:
    """The points, rising in their first number, where the greatest convex falling function below bends."""
    lower: list[P] = []
    for point in points:
        g, h = point
        if lower and h >= lower[-1][1]:
            continue  # the function does not rise: this point says nothing
        while len(lower) > 1:
            (a, x), (b, y) = lower[-2:]
            if (y - x) * (g - a) < (h - x) * (b - a):
                break
            lower.pop()
        lower.append(point)
    return lower


def hull(points: Sequence[CurvePoint]) -> list[tuple[Fraction, Fraction]]:
    """The pair of the greatest convex curve below ``(0, 1)`` and the points, whose ratios rise: the masses of
    ``P`` and ``Q`` at ratio 0, at the ratios where the curve bends, and at an infinite ratio.

    >>> hull([(Fraction(1), Fraction(1, 2)), (Fraction(2), Fraction(0))])
    [(Fraction(0, 1), Fraction(1, 2)), (Fraction(1, 1), Fraction(1, 2)), (Fraction(0, 1), Fraction(0, 1))]
    """
    lower = falling_hull([(Fraction(0), Fraction(1)), *points])
    slopes = [*((y - x) / (b - a) for (a, x), (b, y) in pairwise(lower)), Fraction(0)]
    bends = [(g, after - before) for (g, _), (before, after) in zip(lower[1:], pairwise(slopes), strict=True)]
    return [(Fraction(0), 1 + slopes[0]), *((g * q, q) for g, q in bends), (lower[-1][1], Fraction(0))]


class ExactPoints(ExactOutcomes):
    """A law that is known by proved points of its curve."""

    @abc.abstractmethod
    def points(self) -> list[CurvePoint]:
        """The points, their ratios rising."""

    def sets(self) -> list[OutcomeSet]:
        return rational_sets(_hull_of(self))


@lru_cache(maxsize=64)
def _hull_of(law: ExactPoints) -> list[tuple[Fraction, Fraction]]:
    return hull(law.points())


@dataclass(frozen=True)
class ExactConcentrated(ExactPoints):
    """A mechanism of which only ``(xi, rho)``-zCDP is known, in both directions; both numbers add up.

    >>> print(ExactConcentrated(Fraction(1, 2)).bound(Fraction(4)).str(8))
    [0.00019579542 +/- ...]
    """

    rho: Fraction
    xi: Fraction = Fraction(0)

    def bound(self, epsilon: Fraction) -> Ball:
        """``e^{(a-1)(a rho + xi - epsilon)} (1 - 1/a)^a / (a-1)`` at a good order; any ``a > 1`` is valid."""
        a = Fraction(_order(float(self.rho), float(epsilon - self.xi)))
        exponent = ball((a - 1) * (a * self.rho + self.xi - epsilon))
        return (exponent + ball(a) * ball(1 - 1 / a).log()).exp() / ball(a - 1)

    def points(self) -> list[CurvePoint]:
        deviation = math.sqrt(2 * self.rho)
        bits = 96 + max(0, -2 * math.frexp(deviation)[1])
        found: dict[Fraction, Fraction] = {}
        with at_precision(bits + 2 * _BITS):
            for number in _DEVIATIONS:
                epsilon = self.xi + self.rho + Fraction(number * deviation)
                value = self.bound(abs(epsilon))
                if epsilon < 0:  # by the other direction
                    value = 1 - ball(epsilon).exp() * (1 - value)
                found[above(epsilon, bits)] = _rounded_up(value)
        return sorted(found.items())


def _order(rho: float, epsilon: float) -> float:
    """The order at which the bound is about least: the root of ``(2a-1) rho - epsilon + log(1 - 1/a)``."""

    def is_below(a: float) -> bool:
        return (2 * a - 1) * rho - epsilon + math.log1p(-1 / a) < 0

    low, high = 1.0 + 1e-12, 2.0
    while is_below(high):
        high *= 2
    for _ in range(60):
        a = (low + high) / 2
        low, high = (a, high) if is_below(a) else (low, a)
    return high


def _rounded_up(value: Ball) -> Fraction:
    """A rational number of few bits that is not below the number, and at most 1."""
    shift = _BITS - math.floor(float(value.upper().log() / Ball(2).log()))
    unit = Fraction(2) ** -max(0, shift)
    return min(unit * integer_above(value / ball(unit)), Fraction(1))
