"""Mixtures of Gaussians against one Gaussian (Choquette-Choo et al. 2024, "Privacy amplification
for matrix mechanisms").

Remove: ``P = sum_i p_i N(m_i, 1)``, ``Q = N(0, 1)``. Add: ``P = N(0, 1)``, ``Q = sum_i p_i N(-m_i,
1)``, the line being reflected so that the loss rises. ``m_i >= 0`` are the sensitivities over the
standard deviation.
"""

from __future__ import annotations

import abc
import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import logsumexp

from evr.laws.line.gaussian import (
    NORMAL_REACH,
    GaussianPair,
    log_mass_ratio,
    log_normal_mass,
)
from evr.laws.line.pair import DominatingPair, Floats, Measure


def _log_mean_exp(exponent: Floats, p: Floats) -> Floats:
    """``log sum_i p_i e^{exponent_i}`` for ``sum_i p_i = 1``, with relative accuracy where all
    exponents are small.
    """
    small = np.max(np.abs(exponent), axis=-1) < 1.0
    near = np.log1p(np.sum(p * np.expm1(np.clip(exponent, -1.0, 1.0)), axis=-1))
    return np.where(small, near, logsumexp(exponent, b=p, axis=-1))


@dataclass(frozen=True)
class _MixturePair(DominatingPair):
    """What both directions share: ``f(t) = log sum_i p_i e^{m_i t - m_i^2/2}``, convex and
    increasing, and its inverse.
    """

    means: tuple[float, ...]
    probabilities: tuple[float, ...]

    def _log_ratio(self, t: Any) -> Floats:
        t, m, p = (
            np.asarray(t, float)[..., None],
            np.array(self.means),
            np.array(self.probabilities),
        )
        with np.errstate(invalid="ignore"):
            exponent = np.where(m == 0, 0.0, m * t - m * m / 2)
        return _log_mean_exp(exponent, p)

    @property
    def loss_magnitude(self) -> float:
        positive = [p for p in self.probabilities if p > 0]
        return super().loss_magnitude + abs(math.log(min(positive)))

    def _inverse_log_ratio(self, value: Any) -> Floats:
        """Newton's method from the right, where a convex increasing function makes it monotone."""
        value = np.asarray(value, float)
        m, p = np.array(self.means), np.array(self.probabilities)
        floor = math.log(float(p[m == 0].sum())) if np.any(m == 0) else -math.inf
        solvable = (np.abs(value) < 1e150) & (value > floor)  # beyond, the place may not be a float
        target = np.where(solvable, value, floor + 1.0 if math.isfinite(floor) else 0.0)
        slopes, offsets = m[m > 0], np.log(p[m > 0])
        t = np.min((target[..., None] - offsets) / slopes + slopes / 2, axis=-1)
        for _ in range(200):
            exponent = m * t[..., None] - m * m / 2
            top = _log_mean_exp(exponent, p)
            slope = np.sum(m * p * np.exp(exponent - top[..., None]), axis=-1)
            step = (top - target) / np.maximum(slope, 1e-300)
            t = t - step
            if np.all(np.abs(step) <= 1e-14 * (1 + np.abs(t))):
                break
        return np.where(solvable, t, np.where((value <= floor) | (value < -1e100), -np.inf, np.inf))

    @abc.abstractmethod
    def _means_of(self, measure: Measure) -> tuple[Floats, Floats]: ...

    def log_mass(self, measure: Measure, low: Any, high: Any) -> Floats:
        m, p = self._means_of(measure)
        low, high = np.asarray(low, float)[..., None], np.asarray(high, float)[..., None]
        return logsumexp(log_normal_mass(low - m, high - m), b=p, axis=-1)

    def _log_mass_ratio(self, low: Any, high: Any) -> Floats:
        """``log`` of the mass of a cell under the mixture of ``N(m_i, 1)`` over that under ``N(0,
        1)``.
        """
        low, high = np.asarray(low, float)[..., None], np.asarray(high, float)[..., None]
        return _log_mean_exp(
            log_mass_ratio(np.array(self.means), low, high), np.array(self.probabilities)
        )

    def draw(self, measure: Measure, generator: np.random.Generator, size: int) -> Floats:
        m, p = self._means_of(measure)
        return generator.standard_normal(size) + m[generator.choice(m.size, size, p=p / p.sum())]

    def _gaussian_deltas(self, epsilons: Floats) -> Floats:
        return np.array(
            [
                GaussianPair(m).delta(float(e)) if m > 0 else max(0.0, -math.expm1(e))
                for m, e in zip(self.means, epsilons, strict=True)
            ]
        )


@dataclass(frozen=True)
class MixtureRemovePair(_MixturePair):
    """``sum_i p_i N(m_i, 1)`` against ``N(0, 1)``."""

    def privacy_loss(self, t: Any) -> Floats:
        return self._log_ratio(t)

    def point(self, loss: Any) -> Floats:
        return self._inverse_log_ratio(loss)

    def mean_loss(self, low: Any, high: Any) -> Floats:
        return self._log_mass_ratio(low, high)

    def _means_of(self, measure: Measure) -> tuple[Floats, Floats]:
        if measure is Measure.P:
            return np.array(self.means), np.array(self.probabilities)
        return np.zeros(1), np.ones(1)

    def span(self, order: float = 0.0) -> tuple[float, float]:
        centre = max(self.means) * (order + 1)
        return min(0.0, centre) - NORMAL_REACH, max(0.0, centre) + NORMAL_REACH

    def delta(self, epsilon: float) -> float:
        # With sum_i p_i e^{m_i t - m_i^2/2} = e^epsilon at the threshold t, delta is a mixture of
        # Gaussian deltas.
        if math.isinf(epsilon):
            return 0.0 if epsilon > 0 else 1.0
        t = float(self.point(epsilon))
        if math.isinf(t):
            return -math.expm1(epsilon)
        m, p = np.array(self.means), np.array(self.probabilities)
        return min(1.0, float(np.sum(p * self._gaussian_deltas(m * t - m * m / 2))))

    def describe(self) -> str:
        parts = [
            f"{p:.4g} N({m:.6g}, 1)"
            for p, m in zip(self.probabilities[:3], self.means[:3], strict=True)
        ]
        return " + ".join(parts) + (" + ..." if len(self.means) > 3 else "") + " | N(0, 1)"


@dataclass(frozen=True)
class MixtureAddPair(_MixturePair):
    """``N(0, 1)`` against ``sum_i p_i N(-m_i, 1)``."""

    def privacy_loss(self, t: Any) -> Floats:
        return -self._log_ratio(-np.asarray(t, float))

    def point(self, loss: Any) -> Floats:
        return -self._inverse_log_ratio(-np.asarray(loss, float))

    def mean_loss(self, low: Any, high: Any) -> Floats:
        return -self._log_mass_ratio(-np.asarray(high, float), -np.asarray(low, float))

    def _means_of(self, measure: Measure) -> tuple[Floats, Floats]:
        if measure is Measure.Q:
            return -np.array(self.means), np.array(self.probabilities)
        return np.zeros(1), np.ones(1)

    def span(self, order: float = 0.0) -> tuple[float, float]:
        most = max(self.means)
        return min(-most, most * order) - NORMAL_REACH, max(0.0, most * order) + NORMAL_REACH

    def delta(self, epsilon: float) -> float:
        if math.isinf(epsilon):
            return 0.0 if epsilon > 0 else 1.0
        t = float(self.point(epsilon))
        if math.isinf(t):
            return 0.0 if t > 0 else -math.expm1(epsilon)
        m, p = np.array(self.means), np.array(self.probabilities)
        single = m * t + m * m / 2
        return min(1.0, float(np.sum(p * np.exp(epsilon - single) * self._gaussian_deltas(single))))

    def describe(self) -> str:
        parts = [
            f"{p:.4g} N({-m:.6g}, 1)"
            for p, m in zip(self.probabilities[:3], self.means[:3], strict=True)
        ]
        return "N(0, 1) | " + " + ".join(parts) + (" + ..." if len(self.means) > 3 else "")
