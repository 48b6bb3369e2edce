"""One of two pairs, by a coin that everybody sees: the law of the loss is a mixture of both
(docs/guarantees_relations.md, Section R3.2).

The coordinate is that of the first pair; the second pair's losses lie within the range of the first's.
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

    def other(self, t: Any) -> Floats:
        """The coordinate of the second pair that has the same loss."""
        t = np.asarray(t, float)
        place = self.second.point(self.first.privacy_loss(t))
        return np.where(np.isinf(t), t, place)

    def log_masses(self, measure: Measure, low: Any, high: Any) -> tuple[Floats, Floats]:
        """``log`` of the probability of ``(low, high]`` by each pair."""
        return (
            self.log_first + self.first.log_mass(measure, low, high),
            self.log_second + self.second.log_mass(measure, self.other(low), self.other(high)),
        )

    def log_mass(self, measure: Measure, low: Any, high: Any) -> Floats:
        return np.logaddexp(*self.log_masses(measure, low, high))

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

    @property
    def loss_magnitude(self) -> float:
        return max(self.first.loss_magnitude, self.second.loss_magnitude)

    def describe(self) -> str:
        chance = math.exp(self.log_second)
        return f"{self.first.describe()}; with probability {chance:.4g} {self.second.describe()}"
