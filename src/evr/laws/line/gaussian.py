"""The Gaussian mechanism, and integer noise in many dimensions: a Gaussian whose losses are raised
(docs/guarantees_state.md, G2).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import log_ndtr

from evr.laws.law import Floats
from evr.laws.line.pair import DominatingPair, Measure, log_difference

NORMAL_REACH = 39.0
"""In standard deviations: the logarithm of the normal tail beyond is below -760, less than the least positive float."""
_START = -NORMAL_REACH - 1  # below it is what Q alone has of a shifted pair


def log_normal_mass(low: Any, high: Any) -> Floats:
    """``log(Phi(high) - Phi(low))`` from whichever tail keeps relative accuracy."""
    low, high = np.broadcast_arrays(np.asarray(low, float), np.asarray(high, float))
    flip = low > 0
    near, far = np.where(flip, -low, high), np.where(flip, -high, low)
    return log_difference(log_ndtr(near), log_ndtr(np.minimum(far, near)))


@dataclass(frozen=True)
class GaussianPair(DominatingPair):
    """``N(mu, 1)`` against ``N(0, 1)``, the same both ways; ``mu`` is one over the noise multiplier."""

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


@dataclass(frozen=True)
class ShiftedPair(DominatingPair):
    """``N(mu, 1)`` against ``e^-shift N(0, 1)``; the rest of ``Q`` is an atom of infinitely negative loss."""

    mu: float
    shift: float

    @property
    def base(self) -> GaussianPair:
        """Before the shift."""
        return GaussianPair(self.mu)

    def privacy_loss(self, t: Any) -> Floats:
        t = np.asarray(t, float)
        return np.where(t > _START, self.base.privacy_loss(t) + self.shift, -np.inf)

    def point(self, loss: Any) -> Floats:
        return np.maximum(self.base.point(np.asarray(loss, float) - self.shift), _START)

    def log_mass(self, measure: Measure, low: Any, high: Any) -> Floats:
        low, high = np.broadcast_arrays(np.asarray(low, float), np.asarray(high, float))
        inside = self.base.log_mass(measure, np.maximum(low, _START), np.maximum(high, _START))
        if measure is Measure.P:
            return inside
        atom = np.where((low < _START) & (high >= _START), math.log(-math.expm1(-self.shift)), -np.inf)
        return np.logaddexp(inside - self.shift, atom)

    def draw(self, measure: Measure, generator: np.random.Generator, size: int) -> Floats:
        drawn = self.base.draw(measure, generator, size)
        if measure is Measure.Q:
            drawn[generator.random(size) < -math.expm1(-self.shift)] = _START
        return drawn

    @property
    def flats(self) -> Floats:
        return np.array([[-np.inf, _START]])

    def span(self, order: float = 0.0) -> tuple[float, float]:
        low, high = self.base.span(order)
        return min(low, _START), high

    def describe(self) -> str:
        return f"{self.base.describe()}, losses raised by {self.shift:.3g}"
