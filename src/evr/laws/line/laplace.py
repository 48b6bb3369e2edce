"""The Laplace mechanism: ``P = Lap(1, b)``, ``Q = Lap(0, b)`` with ``b = noise_multiplier``, the same both ways.

The loss is ``-1/b`` up to 0, ``(2t - 1)/b`` between and ``1/b`` beyond 1: two atoms and a smooth part.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from evr.laws.line.pair import DominatingPair, Floats, Measure, log_difference


def _log_cdf(x: Floats) -> Floats:
    """``log`` of the distribution function of the standard Laplace law."""
    return np.where(x < 0, x - math.log(2), np.log1p(-0.5 * np.exp(-np.maximum(x, 0.0))))


@dataclass(frozen=True)
class LaplacePair(DominatingPair):
    """``Lap(1, scale)`` against ``Lap(0, scale)``."""

    scale: float

    def privacy_loss(self, t: Any) -> Floats:
        return (2 * np.clip(np.asarray(t, float), 0.0, 1.0) - 1) / self.scale

    def point(self, loss: Any) -> Floats:
        loss = np.asarray(loss, float)
        with np.errstate(over="ignore"):
            inside = np.clip((loss * self.scale + 1) / 2, 0.0, 1.0)
        return np.where(loss < -1 / self.scale, -np.inf, np.where(loss >= 1 / self.scale, np.inf, inside))

    def _centred(self, measure: Measure, t: Any) -> Floats:
        return (np.asarray(t, float) - (1.0 if measure is Measure.P else 0.0)) / self.scale

    def log_mass(self, measure: Measure, low: Any, high: Any) -> Floats:
        low, high = np.broadcast_arrays(self._centred(measure, low), self._centred(measure, high))
        flip = low > 0
        near, far = np.where(flip, -low, high), np.where(flip, -high, low)
        narrow = near <= 0  # both ends on one side: e^near (1 - e^{far - near}) / 2
        with np.errstate(invalid="ignore"):
            one_sided = log_difference(near, far) - math.log(2)
        return np.where(narrow, one_sided, log_difference(_log_cdf(near), _log_cdf(np.minimum(far, near))))

    def draw(self, measure: Measure, generator: np.random.Generator, size: int) -> Floats:
        return generator.laplace(1.0 if measure is Measure.P else 0.0, self.scale, size)

    @property
    def flats(self) -> Floats:
        return np.array([[-np.inf, 0.0], [1.0, np.inf]])

    def span(self, order: float = 0.0) -> tuple[float, float]:
        return 0.0, 1.0

    def describe(self) -> str:
        return f"Lap(1, {self.scale:.6g}) | Lap(0, {self.scale:.6g})"
