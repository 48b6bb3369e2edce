"""One of two pairs, by a coin that everybody sees: the law of the loss is a mixture of both
(docs/guarantees_relations.md, Section R3.2).

The coordinate is that of the first pair; the second pair's losses lie within the range of the
first's.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from evr.laws.line.pair import DominatingPair, Floats, Measure


@dataclass(frozen=True)
class EitherPair(DominatingPair):
    """``first`` with probability ``e^log_first``, else ``second``; both without atoms."""

    first: DominatingPair
    second: DominatingPair
    log_first: float
    log_second: float

    def privacy_loss(self, t: Any) -> Floats:
        return self.first.privacy_loss(t)

    def point(self, loss: Any) -> Floats:
        return self.first.point(loss)

    def _other(self, t: Any) -> Floats:
        """The coordinate of the second pair that has the same loss."""
        t = np.asarray(t, float)
        place = self.second.point(self.first.privacy_loss(t))
        return np.where(np.isinf(t), t, place)

    def _log_masses(self, measure: Measure, low: Any, high: Any) -> tuple[Floats, Floats]:
        return (
            self.log_first + self.first.log_mass(measure, low, high),
            self.log_second + self.second.log_mass(measure, self._other(low), self._other(high)),
        )

    def log_mass(self, measure: Measure, low: Any, high: Any) -> Floats:
        return np.logaddexp(*self._log_masses(measure, low, high))

    def mean_loss(self, low: Any, high: Any) -> Floats:
        # P/Q = 1 + a mean of P_i/Q_i - 1, whose error is relative to the loss
        first, second = self._log_masses(Measure.Q, low, high)
        total = np.logaddexp(first, second)
        means = (
            self.first.mean_loss(low, high),
            self.second.mean_loss(self._other(low), self._other(high)),
        )
        with np.errstate(invalid="ignore", over="ignore", divide="ignore"):
            parts = [
                np.where(mass > -np.inf, np.exp(mass - total) * np.expm1(np.minimum(mean, 1.0)), 0)
                for mass, mean in zip((first, second), means, strict=True)
            ]
            near = np.log1p(parts[0] + parts[1])
            far = np.logaddexp(*self._log_masses(Measure.P, low, high)) - total
        small = np.maximum(np.abs(means[0]), np.abs(means[1])) < 0.5
        return np.where(small, near, far)

    def draw(self, measure: Measure, generator: np.random.Generator, size: int) -> Floats:
        out = self.first.draw(measure, generator, size)
        from_second = np.flatnonzero(generator.random(size) < math.exp(self.log_second))
        drawn = self.second.draw(measure, generator, from_second.size)
        out[from_second] = self.first.point(self.second.privacy_loss(drawn))
        return out

    def span(self, order: float = 0.0) -> tuple[float, float]:
        low, high = self.first.span(order)
        ends = self.first.point(self.second.privacy_loss(np.array(self.second.span(order))))
        finite = ends[np.isfinite(ends)].tolist()
        return min([low, *finite]), max([high, *finite])

    def delta(self, epsilon: float) -> float:
        return math.exp(self.log_first) * self.first.delta(epsilon) + math.exp(
            self.log_second
        ) * self.second.delta(epsilon)

    @property
    def loss_magnitude(self) -> float:
        return max(self.first.loss_magnitude, self.second.loss_magnitude)

    @property
    def mixed(self) -> Measure | None:
        return self.first.mixed

    def describe(self) -> str:
        chance = math.exp(self.log_second)
        return f"{self.first.describe()}; with probability {chance:.4g} {self.second.describe()}"
