"""Pairs by a label that everybody sees: batches of a bounded size, and users in batches of a fixed size
(docs/guarantees_relations.md, R3.2 and R7.3).
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from evr._kernel.pairs.law import Floats
from evr._kernel.pairs.line.pair import DominatingPair, Measure


@dataclass(frozen=True)
class EitherPair(DominatingPair):
    """One of several pairs without atoms, by a label that everybody sees, each with chance ``e^log_weight``.
    The coordinate is that of the first pair; losses of the others lie within the range of its losses.
    """

    pairs: tuple[DominatingPair, ...]
    log_weights: tuple[float, ...]

    def privacy_loss(self, t: Any) -> Floats:
        return self.pairs[0].privacy_loss(t)

    def point(self, loss: Any) -> Floats:
        return self.pairs[0].point(loss)

    def coordinates(self, t: Any) -> list[Floats]:
        """The coordinates of each pair that have the same loss."""
        t = np.asarray(t, float)
        loss = self.privacy_loss(t)
        return [t, *(np.where(np.isinf(t), t, pair.point(loss)) for pair in self.pairs[1:])]

    def log_masses(self, measure: Measure, low: Any, high: Any) -> Floats:
        """``log`` of the probability of ``(low, high]`` by each pair."""
        rows = zip(self.pairs, self.log_weights, self.coordinates(low), self.coordinates(high), strict=True)
        return np.array([weight + pair.log_mass(measure, *ends) for pair, weight, *ends in rows])

    def log_mass(self, measure: Measure, low: Any, high: Any) -> Floats:
        return np.logaddexp.reduce(self.log_masses(measure, low, high), axis=0)

    def draw(self, measure: Measure, generator: np.random.Generator, size: int) -> Floats:
        weights = np.exp(self.log_weights)
        label = generator.choice(weights.size, size, p=weights / weights.sum())
        out = self.pairs[0].draw(measure, generator, size)
        for number, pair in enumerate(self.pairs[1:], start=1):
            chosen = np.flatnonzero(label == number)
            out[chosen] = self.point(pair.privacy_loss(pair.draw(measure, generator, chosen.size)))
        return out

    def span(self, order: float = 0.0) -> tuple[float, float]:
        ends = np.array([self.point(pair.privacy_loss(np.array(pair.span(order)))) for pair in self.pairs])
        low, high = self.pairs[0].span(order)
        finite = ends[np.isfinite(ends)]
        return float(np.min(finite, initial=low)), float(np.max(finite, initial=high))

    @property
    def loss_magnitude(self) -> float:
        return max(pair.loss_magnitude for pair in self.pairs)

    def describe(self) -> str:
        shown = zip(np.exp(self.log_weights[:3]), self.pairs, strict=False)
        texts = [f"with probability {chance:.4g} {pair.describe()}" for chance, pair in shown]
        return "; ".join(texts) + ("; ..." if len(self.pairs) > 3 else "")
