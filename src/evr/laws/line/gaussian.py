"""The Gaussian mechanism: ``P = N(mu, 1)``, ``Q = N(0, 1)`` with ``mu = 1 / noise_multiplier``, the same both ways."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import log_ndtr

from evr.laws.line.pair import DominatingPair, Floats, Measure, log_difference

NORMAL_REACH = 39.0
"""In standard deviations: the logarithm of the normal tail beyond is below -760, less than the least positive float."""


def log_normal_mass(low: Any, high: Any) -> Floats:
    """``log(Phi(high) - Phi(low))`` from whichever tail keeps relative accuracy."""
    low, high = np.broadcast_arrays(np.asarray(low, float), np.asarray(high, float))
    flip = low > 0
    near, far = np.where(flip, -low, high), np.where(flip, -high, low)
    return log_difference(log_ndtr(near), log_ndtr(np.minimum(far, near)))


@dataclass(frozen=True)
class GaussianPair(DominatingPair):
    """``N(mu, 1)`` against ``N(0, 1)``."""

    mu: float

    def privacy_loss(self, t: Any) -> Floats:
        return self.mu * (np.asarray(t, float) - self.mu / 2)

    def point(self, loss: Any) -> Floats:
        with np.errstate(over="ignore"):
            return np.asarray(loss, float) / self.mu + self.mu / 2

    def _mean(self, measure: Measure) -> float:
        return self.mu if measure is Measure.P else 0.0

    def log_mass(self, measure: Measure, low: Any, high: Any) -> Floats:
        mean = self._mean(measure)
        return log_normal_mass(np.asarray(low) - mean, np.asarray(high) - mean)

    def draw(self, measure: Measure, generator: np.random.Generator, size: int) -> Floats:
        return generator.standard_normal(size) + self._mean(measure)

    def span(self, order: float = 0.0) -> tuple[float, float]:
        centre = self.mu * (order + 1)
        return min(0.0, centre) - NORMAL_REACH, max(0.0, centre) + NORMAL_REACH

    def describe(self) -> str:
        return f"N({self.mu:.6g}, 1) | N(0, 1)"
