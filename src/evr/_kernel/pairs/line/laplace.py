"""Pairs of bounded losses: Laplace noise, also on both sides (docs/guarantees_relations.md, R6), and bounded
range (docs/guarantees_state.md, G4).
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from evr._kernel.pairs.law import Floats
from evr._kernel.pairs.line.pair import (
    DominatingPair,
    Measure,
    log_difference,
    log_mixture,
    mix,
    near_and_far,
)


def log_cdf(x: Floats) -> Floats:
    """``log`` of the distribution function of the standard Laplace law."""
    return np.where(x < 0, x - math.log(2), np.log1p(-0.5 * np.exp(-np.maximum(x, 0.0))))


@dataclass(frozen=True)
class LaplacePair(DominatingPair):
    """``Lap(1, b)`` against ``Lap(0, b)``, ``b = scale``: the loss is ``(2t - 1)/b`` between two atoms."""

    scale: float

    def privacy_loss(self, t: Any) -> Floats:
        return (2 * np.clip(np.asarray(t, float), 0.0, 1.0) - 1) / self.scale

    def point(self, loss: Any) -> Floats:
        loss = np.asarray(loss, float)
        with np.errstate(over="ignore"):
            inside = np.clip((loss * self.scale + 1) / 2, 0.0, 1.0)
        return _within(inside, loss, 1 / self.scale)

    def log_mass(self, measure: Measure, low: Any, high: Any) -> Floats:
        centre = 1.0 if measure is Measure.P else 0.0
        near, far = near_and_far(*((np.asarray(t, float) - centre) / self.scale for t in (low, high)))
        narrow = near <= 0  # both ends on one side: e^near (1 - e^{far - near}) / 2
        with np.errstate(invalid="ignore"):
            one_sided = log_difference(near, far) - math.log(2)
        return np.where(narrow, one_sided, log_difference(log_cdf(near), log_cdf(np.minimum(far, near))))

    def draw(self, measure: Measure, generator: np.random.Generator, size: int) -> Floats:
        return generator.laplace(1.0 if measure is Measure.P else 0.0, self.scale, size)

    @property
    def flats(self) -> Floats:
        return np.array([[-np.inf, 0.0], [1.0, np.inf]])

    def span(self, order: float = 0.0) -> tuple[float, float]:
        return 0.0, 1.0

    def describe(self) -> str:
        return f"Lap(1, {self.scale:.6g}) | Lap(0, {self.scale:.6g})"


def _within(t: Floats, loss: Floats, greatest: float) -> Floats:
    """The point ``t`` of a loss, where losses go from ``-greatest`` to ``greatest``."""
    return np.where(loss < -greatest, -np.inf, np.where(loss >= greatest, np.inf, t))


@dataclass(frozen=True)
class TwoSidedLaplacePair(DominatingPair):
    """``(1-q) Lap(0, b) + q Lap(1, b)`` against ``(1-q) Lap(0, b) + q Lap(-1, b)``, ``b = scale``. The loss
    is odd: from 0 to 1 it is ``log(1 + c (e^{2t/b} - 1))``, ``c = q e^{-1/b} / (1 - q + q e^{-1/b})``.
    """

    scale: float
    q: float

    @property
    def log_c(self) -> float:
        return math.log(self.q) - 1 / self.scale - float(mix(-1 / self.scale, self.q))

    def privacy_loss(self, t: Any) -> Floats:
        t = np.asarray(t, float)
        size = 2 * np.minimum(np.abs(t), 1.0) / self.scale
        with np.errstate(divide="ignore"):
            return np.copysign(np.logaddexp(0.0, self.log_c + size + np.log(-np.expm1(-size))), t)

    def point(self, loss: Any) -> Floats:
        loss = np.asarray(loss, float)
        size = np.abs(loss)
        with np.errstate(divide="ignore"):
            found = self.scale / 2 * np.logaddexp(0.0, size + np.log(-np.expm1(-size)) - self.log_c)
        inside = np.copysign(np.minimum(found, 1.0), loss)
        return _within(inside, loss, float(self.privacy_loss(1.0)))

    def log_mass(self, measure: Measure, low: Any, high: Any) -> Floats:
        if measure is Measure.Q:  # the mirror image
            return self.log_mass(Measure.P, -np.asarray(high, float), -np.asarray(low, float))
        base = LaplacePair(self.scale)
        return log_mixture(base.log_mass(Measure.Q, low, high), base.log_mass(Measure.P, low, high), self.q)

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


@dataclass(frozen=True)
class BoundedRangePair(DominatingPair):
    """Under ``P`` the loss ``t`` has density ``e^{(a + t)/2} / (2 (e^a - 1))``, ``|t| <= a = epsilon``."""

    epsilon: float

    def privacy_loss(self, t: Any) -> Floats:
        return np.clip(np.asarray(t, float), -self.epsilon, self.epsilon)

    def point(self, loss: Any) -> Floats:
        loss = np.asarray(loss, float)
        return _within(loss, loss, self.epsilon)

    def log_mass(self, measure: Measure, low: Any, high: Any) -> Floats:
        low, high = np.broadcast_arrays(self.privacy_loss(low), self.privacy_loss(high))
        if measure is Measure.Q:  # the mirror image
            low, high = -high, -low
        whole = log_difference(self.epsilon / 2, -self.epsilon / 2)
        return log_difference(high / 2, np.minimum(low, high) / 2) - whole

    def draw(self, measure: Measure, generator: np.random.Generator, size: int) -> Floats:
        drawn = 2 * np.log1p(generator.random(size) * math.expm1(self.epsilon)) - self.epsilon
        return drawn if measure is Measure.P else -drawn

    def span(self, order: float = 0.0) -> tuple[float, float]:
        return -self.epsilon, self.epsilon

    def describe(self) -> str:
        return f"losses in a range of {self.epsilon:.6g}"
