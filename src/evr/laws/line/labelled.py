"""One of several Gaussian mechanisms, by a label that everybody sees: what users are whose records are sampled without
replacement (docs/guarantees_relations.md, Section R7.3).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from evr.laws.line.gaussian import NORMAL_REACH, log_normal_mass
from evr.laws.line.mixture import log_weighted_sum
from evr.laws.line.pair import DominatingPair, Floats, Measure


@dataclass(frozen=True)
class LabelledGaussians(DominatingPair):
    """``N(m_i, 1)`` against ``N(0, 1)`` with probability ``p_i``, ``0 < m_i``. The coordinate is the loss itself."""

    means: tuple[float, ...]
    probabilities: tuple[float, ...]

    def privacy_loss(self, t: Any) -> Floats:
        return np.asarray(t, float)

    def point(self, loss: Any) -> Floats:
        return np.asarray(loss, float)

    def _centres(self, measure: Measure) -> Floats:
        return np.square(self.means) * (0.5 if measure is Measure.P else -0.5)

    def log_mass(self, measure: Measure, low: Any, high: Any) -> Floats:
        centres, m = self._centres(measure), np.array(self.means)
        low, high = ((np.asarray(t, float)[..., None] - centres) / m for t in (low, high))
        return log_weighted_sum(log_normal_mass(low, high), np.array(self.probabilities))

    def draw(self, measure: Measure, generator: np.random.Generator, size: int) -> Floats:
        p = np.array(self.probabilities)
        label = generator.choice(p.size, size, p=p / p.sum())
        return self._centres(measure)[label] + np.array(self.means)[label] * generator.standard_normal(size)

    def span(self, order: float = 0.0) -> tuple[float, float]:
        m = np.array(self.means)
        centres = np.square(m) * (order + 0.5)
        low, high = np.minimum(-np.square(m) / 2, centres), np.maximum(np.square(m) / 2, centres)
        return float((low - NORMAL_REACH * m).min()), float((high + NORMAL_REACH * m).max())

    def describe(self) -> str:
        parts = [f"{p:.4g}: N({m:.6g}, 1) | N(0, 1)" for p, m in zip(self.probabilities[:3], self.means, strict=False)]
        return "; ".join(parts) + ("; ..." if len(self.means) > 3 else "")
