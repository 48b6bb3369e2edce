"""Noise shifted to both sides: what Poisson sampling and mixtures are under replace-one
(docs/guarantees_relations.md, Sections R5 and R6).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from evr.laws.line.discrete import DiscretePair
from evr.laws.line.gaussian import NORMAL_REACH, log_normal_mass
from evr.laws.line.laplace import LaplacePair
from evr.laws.line.mixture import log_mean_exp, log_weighted_sum
from evr.laws.line.pair import DominatingPair, Floats, Measure
from evr.laws.line.poisson import mix

_HALVINGS = 110


@dataclass(frozen=True)
class TwoSidedPair(DominatingPair):
    """``sum_i p_i N(m_i, 1)`` against ``sum_i p_i N(-m_i, 1)``, ``0 <= m_i``, not all zero.

    With ``f(t) = log sum_i p_i e^{m_i t - m_i^2/2}`` the loss is ``f(t) - f(-t)``: odd, and rising.
    """

    means: tuple[float, ...]
    probabilities: tuple[float, ...]

    def _half(self, t: Floats) -> Floats:
        m, p = np.array(self.means), np.array(self.probabilities)
        with np.errstate(invalid="ignore"):
            exponent = np.where(m == 0, 0.0, m * t[..., None] - m * m / 2)
        return log_mean_exp(exponent, p)

    def privacy_loss(self, t: Any) -> Floats:
        t = np.asarray(t, float)
        return self._half(t) - self._half(-t)

    @property
    def loss_magnitude(self) -> float:
        positive = [p for p in self.probabilities if p > 0]
        return super().loss_magnitude + 2.0 * abs(math.log(min(positive)))

    def point(self, loss: Any) -> Floats:
        loss = np.asarray(loss, float)
        size = np.minimum(np.abs(loss), 1e150)
        found = self._closed(size) if len(self.means) == 2 and self.means[0] == 0.0 else self._bisected(size)
        found = np.where(np.isinf(loss), np.inf, found)
        return np.copysign(found, loss)

    def _closed(self, loss: Floats) -> Floats:
        """``(y/2 + asinh((1-q)/q e^{mu^2/2} sinh(y/2))) / mu``, for two means, one of them 0."""
        rest, q = self.probabilities
        mu, half = self.means[1], loss / 2
        scale = math.log(rest) - math.log(q) + mu * mu / 2
        with np.errstate(divide="ignore", over="ignore"):
            log_sinh = np.where(
                half < 1.0,
                np.log(np.sinh(np.minimum(half, 1.0))),
                half + np.log1p(-np.exp(-2.0 * half)) - math.log(2.0),
            )
            size = scale + log_sinh
            found = np.where(size < 300.0, np.arcsinh(np.exp(np.minimum(size, 300.0))), size + math.log(2.0))
        return (half + found) / mu

    def _bisected(self, loss: Floats) -> Floats:
        """The loss is at least ``log p + m t - m^2/2`` at ``t >= 0``, for each mean."""
        m, p = self.means[-1], self.probabilities[-1]
        low, high = np.zeros(loss.shape), (loss + m * m / 2 - math.log(p)) / m
        for _ in range(_HALVINGS):
            middle = (low + high) / 2
            above = self.privacy_loss(middle) > loss
            low, high = np.where(above, low, middle), np.where(above, middle, high)
        return low

    def log_mass(self, measure: Measure, low: Any, high: Any) -> Floats:
        m, p = self._centres(measure), np.array(self.probabilities)
        low, high = np.asarray(low, float)[..., None], np.asarray(high, float)[..., None]
        return log_weighted_sum(log_normal_mass(low - m, high - m), p)

    def _centres(self, measure: Measure) -> Floats:
        return np.array(self.means) * (1.0 if measure is Measure.P else -1.0)

    def draw(self, measure: Measure, generator: np.random.Generator, size: int) -> Floats:
        m, p = self._centres(measure), np.array(self.probabilities)
        return generator.standard_normal(size) + m[generator.choice(m.size, size, p=p / p.sum())]

    def span(self, order: float = 0.0) -> tuple[float, float]:
        most = max(self.means)
        shift = 2.0 * most * order  # the loss rises by at most 2 m for each unit of t
        return -most + min(0.0, shift) - NORMAL_REACH, most + max(0.0, shift) + NORMAL_REACH

    def describe(self) -> str:
        parts = [f"{p:.4g} N(±{m:.6g}, 1)" for p, m in zip(self.probabilities[:3], self.means[:3], strict=True)]
        return " + ".join(parts) + (" + ..." if len(self.means) > 3 else "")


@dataclass(frozen=True)
class TwoSidedLaplacePair(DominatingPair):
    """``(1-q) Lap(0, b) + q Lap(1, b)`` against ``(1-q) Lap(0, b) + q Lap(-1, b)``, ``b = scale``, ``0 < q < 1``.

    The loss is odd, and ``log(1 + c (e^{2t/b} - 1))`` from 0 to 1, ``c = q e^{-1/b} / (1 - q + q e^{-1/b})``; beyond 1
    it does not rise.
    """

    scale: float
    q: float

    @property
    def _log_c(self) -> float:
        return math.log(self.q) - 1 / self.scale - float(mix(-1 / self.scale, self.q))

    def privacy_loss(self, t: Any) -> Floats:
        t = np.asarray(t, float)
        size = 2 * np.minimum(np.abs(t), 1.0) / self.scale
        with np.errstate(divide="ignore"):
            return np.copysign(np.logaddexp(0.0, self._log_c + size + np.log(-np.expm1(-size))), t)

    def point(self, loss: Any) -> Floats:
        loss = np.asarray(loss, float)
        size, most = np.abs(loss), float(self.privacy_loss(1.0))
        with np.errstate(divide="ignore"):
            found = self.scale / 2 * np.logaddexp(0.0, size + np.log(-np.expm1(-size)) - self._log_c)
        inside = np.copysign(np.minimum(found, 1.0), loss)
        return np.where(loss < -most, -np.inf, np.where(loss >= most, np.inf, inside))

    def log_mass(self, measure: Measure, low: Any, high: Any) -> Floats:
        if measure is Measure.Q:
            return self.log_mass(Measure.P, -np.asarray(high, float), -np.asarray(low, float))
        base = LaplacePair(self.scale)
        absent, present = (base.log_mass(one, low, high) for one in (Measure.Q, Measure.P))
        return np.logaddexp(math.log1p(-self.q) + absent, math.log(self.q) + present)

    def draw(self, measure: Measure, generator: np.random.Generator, size: int) -> Floats:
        drawn = generator.laplace(0.0, self.scale, size) + (generator.random(size) < self.q)
        return drawn if measure is Measure.P else -drawn

    @property
    def flats(self) -> Floats:
        return np.array([[-np.inf, -1.0], [1.0, np.inf]])

    def span(self, order: float = 0.0) -> tuple[float, float]:
        return -1.0, 1.0

    def describe(self) -> str:
        return f"(1-q) Lap(0, {self.scale:.6g}) + q Lap(±1, {self.scale:.6g}), q = {self.q:.6g}"


def two_sided_outcomes(absent: Floats, present: Floats, losses: Floats, q: float, *, is_cut: bool) -> DiscretePair:
    """The same for noise on integers ``-n .. n``: the logarithms of its law, of the law moved up, and their
    difference.
    """
    log_p = np.logaddexp(math.log1p(-q) + absent, math.log(q) + present)
    rising = mix(losses, q)
    return DiscretePair.from_logs(log_p, log_p[::-1], rising - rising[::-1], is_cut=is_cut)
