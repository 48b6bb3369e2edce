"""Mixtures of Gaussians against one Gaussian (Choquette-Choo et al. 2024, "Privacy amplification for matrix
mechanisms").

Remove: ``P = sum_i p_i N(m_i, 1)``, ``Q = N(0, 1)``. Add: ``P = N(0, 1)``, ``Q = sum_i p_i N(-m_i, 1)``, the line being
reflected so that the loss rises. ``m_i >= 0`` are the sensitivities over the standard deviation.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from evr.laws.line.gaussian import NORMAL_REACH, log_normal_mass
from evr.laws.line.pair import Direction, DominatingPair, Floats, Measure


def log_mean_exp(exponent: Floats, p: Floats) -> Floats:
    """``log sum_i p_i e^{exponent_i}`` for ``sum_i p_i = 1``, with relative accuracy where all exponents are small."""
    small = np.max(np.abs(exponent), axis=-1) < 1.0
    near = np.log1p(np.sum(p * np.expm1(np.clip(exponent, -1.0, 1.0)), axis=-1))
    return np.where(small, near, log_weighted_sum(exponent, p))


def log_weighted_sum(exponent: Floats, p: Floats) -> Floats:
    """``log sum_i p_i e^{exponent_i}``; SciPy's does the same for any array, and takes several times as long."""
    top = np.max(exponent, axis=-1)
    shift = np.where(np.isfinite(top), top, 0.0)
    with np.errstate(divide="ignore", over="ignore"):
        return shift + np.log(np.sum(p * np.exp(exponent - shift[..., None]), axis=-1))


@dataclass(frozen=True)
class MixturePair(DominatingPair):
    """``sum_i p_i N(m_i, 1)`` against ``N(0, 1)`` (remove), ``N(0, 1)`` against ``sum_i p_i N(-m_i, 1)`` (add).

    With ``f(t) = log sum_i p_i e^{m_i t - m_i^2/2}``, which is convex and rises, the loss is ``f(t)`` or ``-f(-t)``.
    """

    means: tuple[float, ...]
    probabilities: tuple[float, ...]
    direction: Direction

    @property
    def _sign(self) -> float:
        return 1.0 if self.direction is Direction.REMOVE else -1.0

    def privacy_loss(self, t: Any) -> Floats:
        t, m, p = (self._sign * np.asarray(t, float)[..., None], np.array(self.means), np.array(self.probabilities))
        with np.errstate(invalid="ignore"):
            exponent = np.where(m == 0, 0.0, m * t - m * m / 2)
        return self._sign * log_mean_exp(exponent, p)

    @property
    def loss_magnitude(self) -> float:
        positive = [p for p in self.probabilities if p > 0]
        return super().loss_magnitude + abs(math.log(min(positive)))

    def point(self, loss: Any) -> Floats:
        """Newton's method from the right, where a convex increasing function makes it monotone."""
        value = self._sign * np.asarray(loss, float)
        m, p = np.array(self.means), np.array(self.probabilities)
        floor = math.log(float(p[m == 0].sum())) if np.any(m == 0) else -math.inf
        solvable = (np.abs(value) < 1e150) & (value > floor)  # beyond, the place may not be a float
        target = np.where(solvable, value, floor + 1.0 if math.isfinite(floor) else 0.0)
        slopes, offsets = m[m > 0], np.log(p[m > 0])
        t = np.min((target[..., None] - offsets) / slopes + slopes / 2, axis=-1)
        for _ in range(200):
            exponent = m * t[..., None] - m * m / 2
            top = log_mean_exp(exponent, p)
            slope = np.sum(m * p * np.exp(exponent - top[..., None]), axis=-1)
            step = (top - target) / np.maximum(slope, 1e-300)
            t = t - step
            if np.all(np.abs(step) <= 1e-14 * (1 + np.abs(t))):
                break
        beyond = np.where((value <= floor) | (value < -1e100), -np.inf, np.inf)
        return self._sign * np.where(solvable, t, beyond)

    def _means_of(self, measure: Measure) -> tuple[Floats, Floats]:
        """The centres of one law, and how likely each is."""
        mixture = Measure.P if self.direction is Direction.REMOVE else Measure.Q
        if measure is not mixture:
            return np.zeros(1), np.ones(1)
        return self._sign * np.array(self.means), np.array(self.probabilities)

    def log_mass(self, measure: Measure, low: Any, high: Any) -> Floats:
        m, p = self._means_of(measure)
        low, high = np.asarray(low, float)[..., None], np.asarray(high, float)[..., None]
        return log_weighted_sum(log_normal_mass(low - m, high - m), p)

    def draw(self, measure: Measure, generator: np.random.Generator, size: int) -> Floats:
        m, p = self._means_of(measure)
        return generator.standard_normal(size) + m[generator.choice(m.size, size, p=p / p.sum())]

    def span(self, order: float = 0.0) -> tuple[float, float]:
        most = max(self.means)
        if self.direction is Direction.REMOVE:
            least, centre = 0.0, most * (order + 1)
        else:
            least, centre = -most, most * order
        return min(least, centre) - NORMAL_REACH, max(0.0, centre) + NORMAL_REACH

    def describe(self) -> str:
        parts = [
            f"{p:.4g} N({self._sign * m:.6g}, 1)" for p, m in zip(self.probabilities[:3], self.means[:3], strict=True)
        ]
        mixture = " + ".join(parts) + (" + ..." if len(self.means) > 3 else "")
        if self.direction is Direction.REMOVE:
            return f"{mixture} | N(0, 1)"
        return f"N(0, 1) | {mixture}"
