"""Integer noise in many dimensions as a pair (docs/guarantees_state.md, G2): a Gaussian whose losses are raised."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from evr.laws.line.gaussian import NORMAL_REACH, GaussianPair
from evr.laws.line.pair import DominatingPair, Floats, Measure

_START = -NORMAL_REACH - 1  # below it is what Q alone has


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
