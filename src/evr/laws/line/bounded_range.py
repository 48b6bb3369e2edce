"""One step of bounded range as a pair (docs/guarantees_state.md, G4): ``t`` is the loss itself."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from evr.laws.line.pair import DominatingPair, Floats, Measure, log_difference


@dataclass(frozen=True)
class BoundedRangePair(DominatingPair):
    """The density of the loss ``y`` under ``P`` is ``e^{(epsilon + y)/2} / (2 (e^epsilon - 1))`` on ``[-epsilon,
    epsilon]``, and under ``Q`` it is ``e^-y`` times that.
    """

    epsilon: float

    def privacy_loss(self, t: Any) -> Floats:
        return np.clip(np.asarray(t, float), -self.epsilon, self.epsilon)

    def point(self, loss: Any) -> Floats:
        loss = np.asarray(loss, float)
        inside = np.clip(loss, -self.epsilon, self.epsilon)
        return np.where(loss < -self.epsilon, -np.inf, np.where(loss >= self.epsilon, np.inf, inside))

    def log_mass(self, measure: Measure, low: Any, high: Any) -> Floats:
        low, high = np.broadcast_arrays(self.privacy_loss(low), self.privacy_loss(high))
        if measure is Measure.Q:  # the mirror image
            low, high = -high, -low
        return log_difference(high / 2, np.minimum(low, high) / 2) - log_difference(self.epsilon / 2, -self.epsilon / 2)

    def draw(self, measure: Measure, generator: np.random.Generator, size: int) -> Floats:
        drawn = 2 * np.log1p(generator.random(size) * math.expm1(self.epsilon)) - self.epsilon
        return drawn if measure is Measure.P else -drawn

    def span(self, order: float = 0.0) -> tuple[float, float]:
        return -self.epsilon, self.epsilon

    def describe(self) -> str:
        return f"losses in a range of {self.epsilon:.6g}"
