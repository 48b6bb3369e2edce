"""Laws of steps with their counts, in one direction, and what follows from tilting them all by one
order.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from attacking.laws import LONG, Law, Normals, Unreached, exact, long, mechanisms
from attacking.tilted import EPS, Tilted, TiltedGaussian, nodes, tilt

Tilts = Sequence[Tilted | TiltedGaussian]
DISTANCES = LONG(1e-18), LONG(1e30)
_NONE = np.empty(0, LONG)


@dataclass(frozen=True)
class Composition:
    """Laws with their counts; Gaussian mechanisms are one."""

    parts: tuple[tuple[Law, int], ...]

    @classmethod
    def of(cls, event: Any, direction: str) -> Composition:
        square, parts = LONG(0), []
        for mechanism, count in mechanisms(event):
            if isinstance(mechanism, Normals) and mechanism.is_gaussian:
                square += count * mechanism.means[0] ** 2
            else:
                parts.append((mechanism.law(direction), count))
        if square > 0:
            parts.append((Law(_NONE, _NONE, square=square), 1))
        return cls(tuple(parts))

    @property
    def is_atomic(self) -> bool:
        return all(law.is_atomic for law, _ in self.parts)

    @property
    def infinite(self) -> Any:
        """The probability of an infinite loss."""
        return -np.expm1(sum((count * np.log1p(-law.infinite) for law, count in self.parts), LONG(0)))

    @property
    def greatest(self) -> Any:
        """The least upper bound of the finite losses, exactly where it is finite."""
        bounds = [(law.greatest, count) for law, count in self.parts]
        if any(not np.isfinite(bound) for bound, _ in bounds):
            return -np.inf if any(np.isneginf(bound) for bound, _ in bounds) else np.inf
        return sum((exact(bound) * count for bound, count in bounds), Fraction(0))

    def tilted(self, order: Any, reach: float | None = 0.0) -> Tilts:
        return [tilt(law, order, reach) for law, _ in self.parts]

    def excess(self, tilts: Tilts, epsilon: float) -> Any:
        """The tilted mean of the sum less epsilon, in exact arithmetic."""
        means = (exact(t.mean) * count for t, (_, count) in zip(tilts, self.parts, strict=True))
        return long(sum(means, Fraction(0)) - exact(epsilon))

    def variance(self, tilts: Tilts) -> float:
        return sum(count * t.variance for t, (_, count) in zip(tilts, self.parts, strict=True))

    def log_scale(self, tilts: Tilts, order: Any, excess: Any) -> Any:
        """``log(M(order) e^{-order epsilon})``."""
        scales = (count * t.log_scale for t, (_, count) in zip(tilts, self.parts, strict=True))
        return sum(scales, LONG(0)) + order * excess

    def log_bound(self, epsilon: float, order: Any, tilts: Tilts) -> float:
        """About the logarithm of ``1 / pi`` times the integral of the integrand's modulus over a
        contour.
        """
        size = float(self.log_scale(tilts, order, self.excess(tilts, epsilon)) - np.log(order * (order + 1)))
        curvature = self.variance(tilts) + float(1 / order**2 + 1 / (order + 1) ** 2)
        return size - 0.5 * math.log(2 * math.pi * curvature)

    def saddle(self, epsilon: float, side: int = 1) -> Any:
        """Where on the real axis ``M(a) e^{-a eps} / (a (a + 1))`` is least: right of 0, or (side
        -1) left of -1.

        Newton's method on the logarithm of the distance from the pole, kept in a bracket.
        """
        low, high = DISTANCES
        spread = LONG(np.sqrt(self.variance(self.tilted(LONG(0), None)))) or LONG(1)
        distance = min(max(1 / spread, low), high)
        for _ in range(200):
            slope, curvature = self._slope(epsilon, distance, side)
            low, high = (distance, high) if slope < 0 else (low, distance)
            if slope * slope < 0.02 * curvature or high < low * (1 + LONG(1e-6)):  # nearer gains less than 1%
                return order_at(distance, side)
            step = -slope / (curvature * distance) if np.isfinite(slope) else LONG(-np.inf)
            distance = distance * np.exp(np.clip(step, -4, 4))
            if not low < distance < high:
                distance = np.sqrt(low) * np.sqrt(high)
        raise Unreached("no saddle point")

    def _slope(self, epsilon: float, distance: Any, side: int) -> tuple[Any, Any]:
        """Of the logarithm, with its curvature; a distance at which a law cannot be integrated is
        too large.
        """
        try:
            tilts = self.tilted(order_at(distance, side), None)
        except Unreached:
            return LONG(np.inf), LONG(1)
        slope = side * self.excess(tilts, epsilon) - 1 / distance - 1 / (distance + 1)
        return slope, self.variance(tilts) + 1 / distance**2 + 1 / (distance + 1) ** 2

    def without_doubt(self, epsilon: float) -> tuple[Any, Any]:
        """``E[1 - e^{eps - Y}]`` of the finite losses and, about, how large its error is."""
        log_mass, log_ratio, size = LONG(0), LONG(epsilon), LONG(abs(epsilon))
        for law, count in self.parts:
            if law.square is not None:
                continue
            log_p, loss = nodes(law, LONG(0), 0.0)
            top = np.max(log_p)
            weights = np.exp(log_p - top)
            total = np.sum(weights)
            log_mass += count * (np.log1p(-law.lost) if law.lost is not None else top + np.log(total))
            with np.errstate(over="ignore", invalid="ignore"):
                gains = weights * np.expm1(-loss)
                mean = np.sum(gains) / total
            if abs(mean) < 0.5:
                log_ratio += count * np.log1p(mean)
                size += count * (EPS + np.sum(np.abs(gains)) / total)
            else:
                log_q, loss = nodes(law, LONG(-1), 0.0)
                log_ratio += count * (np.logaddexp.reduce(log_q - loss) - top - np.log(total))
                size += count * (1 + np.max(np.abs(loss)))
        mass = np.exp(log_mass)
        return mass * -np.expm1(log_ratio), 50 * EPS * mass * (size * min(LONG(1), np.exp(log_ratio)) + abs(log_mass))


def order_at(distance: Any, side: int) -> Any:
    """The order at a distance from the pole: 0 on the right side, -1 on the left."""
    return distance if side > 0 else -1 - distance
