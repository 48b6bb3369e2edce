"""Discrete Gaussian noise on many coordinates as a pair (docs/guarantees_state.md, G2): the continuous pair, its ``P``
raised by a factor ``A`` and cut to mass 1 from below, its ``Q`` lowered.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy.special import ndtri

from evr.laws.line.gaussian import NORMAL_REACH, log_normal_mass
from evr.laws.line.pair import DominatingPair, Floats, Measure


@dataclass(frozen=True)
class IntegerGaussianPair(DominatingPair):
    """``A N(mu, 1)`` against ``a N(0, 1)``, both on ``t > start``, where the first has mass 1; the rest of ``Q`` is an
    atom at ``start``.
    """

    mu: float
    log_up: float
    """``log A``."""
    log_ratio: float
    """``log(A / a)``: losses are raised by it."""

    @cached_property
    def start(self) -> float:
        """Where ``P`` begins."""
        return self.mu + max(float(ndtri(-math.expm1(-self.log_up))), -NORMAL_REACH + 1)

    def privacy_loss(self, t: Any) -> Floats:
        t = np.asarray(t, float)
        return np.where(t > self.start, self.mu * (t - self.mu / 2) + self.log_ratio, -np.inf)

    def point(self, loss: Any) -> Floats:
        with np.errstate(over="ignore"):
            return np.maximum(self.start, (np.asarray(loss, float) - self.log_ratio) / self.mu + self.mu / 2)

    def log_mass(self, measure: Measure, low: Any, high: Any) -> Floats:
        low, high = np.broadcast_arrays(np.asarray(low, float), np.asarray(high, float))
        inside = np.maximum(low, self.start), np.maximum(high, self.start)
        if measure is Measure.P:
            return np.minimum(self.log_up + log_normal_mass(inside[0] - self.mu, inside[1] - self.mu), 0.0)
        seen = self.log_up - self.log_ratio + log_normal_mass(*inside)
        atom = (low < self.start) & (self.start <= high)
        return np.minimum(np.where(atom, np.logaddexp(seen, self._log_rest), seen), 0.0)

    @cached_property
    def _log_rest(self) -> float:
        """``log`` of the mass of ``Q`` at ``start``."""
        log_down = self.log_up - self.log_ratio
        below = math.exp(log_down) * float(np.exp(log_normal_mass(-np.inf, self.start)))
        return math.log(max(-math.expm1(log_down), 0.0) + below)

    def draw(self, measure: Measure, generator: np.random.Generator, size: int) -> Floats:
        mean = self.mu if measure is Measure.P else 0.0
        drawn = generator.standard_normal(size) + mean
        if measure is Measure.Q:
            drawn[generator.random(size) >= math.exp(self.log_up - self.log_ratio)] = self.start
            return np.maximum(drawn, self.start)
        while (outside := np.flatnonzero(drawn <= self.start)).size:
            drawn[outside] = generator.standard_normal(outside.size) + mean
        return drawn

    @property
    def flats(self) -> Floats:
        return np.array([[-np.inf, self.start]])

    def span(self, order: float = 0.0) -> tuple[float, float]:
        centre = self.mu * (order + 1)
        return min(self.start, centre - NORMAL_REACH), max(0.0, centre) + NORMAL_REACH

    @property
    def loss_magnitude(self) -> float:
        return self.mu * (NORMAL_REACH + self.mu) + self.log_ratio

    def describe(self) -> str:
        return f"N({self.mu:.6g}, 1) | N(0, 1), rounded, losses raised by {self.log_ratio:.3g}"
