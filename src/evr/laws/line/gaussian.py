"""The Gaussian mechanism: ``P = N(mu, 1)``, ``Q = N(0, 1)`` with ``mu = 1 / noise_multiplier``, the
same both ways.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import erfcx, log_ndtr, ndtri_exp

from evr.laws.line.pair import DominatingPair, Floats, Measure, log_difference, log_ratio

_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(5)
_MILLS_NODES, _MILLS_WEIGHTS = np.polynomial.legendre.leggauss(20)
NORMAL_REACH = 39.0
"""In standard deviations: the logarithm of the normal tail beyond is below -760, less than the
least positive float.
"""


def log_normal_mass(low: Any, high: Any) -> Floats:
    """``log(Phi(high) - Phi(low))`` from whichever tail keeps relative accuracy."""
    low, high = np.broadcast_arrays(np.asarray(low, float), np.asarray(high, float))
    flip = low > 0
    near, far = np.where(flip, -low, high), np.where(flip, -high, low)
    return log_difference(log_ndtr(near), log_ndtr(np.minimum(far, near)))


def log_mass_ratio(mu: Any, low: Any, high: Any) -> Floats:
    """``log`` of the probability of ``(low, high]`` under ``N(mu, 1)`` over that under ``N(0, 1)``.

    Within a narrow cell the loss varies little around that of the middle, and a quadrature of the
    rest keeps an error that is relative to the loss; a wide cell takes the difference of two
    logarithms.
    """
    mu, low, high = np.broadcast_arrays(
        np.asarray(mu, float), np.asarray(low, float), np.asarray(high, float)
    )
    with np.errstate(invalid="ignore"):
        middle, half = (low + high) / 2, (high - low) / 2
        narrow = half * (np.abs(middle) + half + mu) < 0.5  # False where an end is infinite
    out = np.empty(mu.shape)
    m, centre, s = mu[narrow], middle[narrow], half[narrow] * _NODES[:, None]
    share = _WEIGHTS[:, None] * np.exp(-s * (centre + s / 2))
    out[narrow] = m * (centre - m / 2) + np.log1p(
        np.sum(share * np.expm1(m * s), axis=0) / np.sum(share, axis=0)
    )
    m, low, high = mu[~narrow], low[~narrow], high[~narrow]
    out[~narrow] = log_ratio(log_normal_mass(low - m, high - m), log_normal_mass(low, high))
    return out


def sample_normal(generator: np.random.Generator, low: Any, high: Any) -> Floats:
    """Standard normal draws restricted to ``(low, high]``, by inversion from the tail that keeps
    relative accuracy.
    """
    low, high = np.broadcast_arrays(np.asarray(low, float), np.asarray(high, float))
    flip = low > 0
    near, far = np.where(flip, -low, high), np.where(flip, -high, low)
    uniform = 1.0 - generator.random(low.shape)  # in (0, 1]
    log_probability = np.logaddexp(log_ndtr(far), np.log(uniform) + log_normal_mass(far, near))
    t = ndtri_exp(np.minimum(log_probability, 0.0))
    return np.clip(np.where(flip, -t, t), low, high)


def mills_difference(low: float, high: float) -> float:
    """``R(low) - R(high)`` of the normal tail's Mills ratio ``R``, without cancellation for close
    arguments.
    """

    def ratio(x: Any) -> Any:
        return math.sqrt(math.pi / 2) * erfcx(np.asarray(x) / math.sqrt(2))

    if high - low > 1.0:
        return float(ratio(low) - ratio(high))
    x = low + (high - low) * (_MILLS_NODES + 1) / 2  # R' = x R - 1
    return float((high - low) / 2 * np.sum(_MILLS_WEIGHTS * (1 - x * ratio(x))))


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

    def mean_loss(self, low: Any, high: Any) -> Floats:
        return log_mass_ratio(self.mu, low, high)

    def sample(
        self, measure: Measure, generator: np.random.Generator, low: Any, high: Any
    ) -> Floats:
        mean = self._mean(measure)
        return mean + sample_normal(generator, np.asarray(low) - mean, np.asarray(high) - mean)

    def draw(self, measure: Measure, generator: np.random.Generator, size: int) -> Floats:
        return generator.standard_normal(size) + self._mean(measure)

    def span(self, order: float = 0.0) -> tuple[float, float]:
        centre = self.mu * (order + 1)
        return min(0.0, centre) - NORMAL_REACH, max(0.0, centre) + NORMAL_REACH

    def delta(self, epsilon: float) -> float:
        if math.isinf(epsilon):
            return 0.0 if epsilon > 0 else 1.0
        # delta(epsilon) = 1 - e^epsilon + e^epsilon delta(-epsilon), the pair being symmetric
        if epsilon < 0:
            return min(1.0, -math.expm1(epsilon) + math.exp(epsilon) * self.delta(-epsilon))
        low = epsilon / self.mu - self.mu / 2
        if low > NORMAL_REACH:
            return 0.0
        if low < -30.0:  # the Mills ratio of low would overflow, and nothing cancels
            ratio = float(erfcx((low + self.mu) / math.sqrt(2.0)))
            return float(np.exp(log_ndtr(-low))) - 0.5 * math.exp(-low * low / 2.0) * ratio
        density = math.exp(-low * low / 2) / math.sqrt(2 * math.pi)
        return min(1.0, density * mills_difference(low, low + self.mu))

    @property
    def is_light(self) -> bool:
        return True

    def describe(self) -> str:
        return f"N({self.mu:.6g}, 1) | N(0, 1)"
