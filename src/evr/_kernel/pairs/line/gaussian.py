"""Gaussian noise: alone, with raised losses (guarantees_state, G2), mixed (Choquette-Choo et al. 2024)."""

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy.special import log_ndtr

from evr._kernel.pairs.law import Floats
from evr._kernel.pairs.line.pair import DominatingPair, Measure, log_difference, near_and_far
from evr.types import Direction

NORMAL_REACH = 39.0
"""In deviations: the logarithm of the normal tail beyond is below -760, less than any positive float."""
_START = -NORMAL_REACH - 1  # below it is what Q alone has of a shifted pair


def log_normal_mass(low: Any, high: Any) -> Floats:
    """``log(Phi(high) - Phi(low))`` from whichever tail keeps relative accuracy."""
    near, far = near_and_far(low, high)
    return log_difference(log_ndtr(near), log_ndtr(np.minimum(far, near)))


@dataclass(frozen=True)
class GaussianPair(DominatingPair):
    """``N(mu, 1)`` against ``N(0, 1)``, the same both ways; ``mu`` is one over the noise multiplier."""

    mu: float

    def privacy_loss(self, t: Any) -> Floats:
        return self.mu * (np.asarray(t, float) - self.mu / 2)

    def point(self, loss: Any) -> Floats:
        with np.errstate(over="ignore"):
            return np.asarray(loss, float) / self.mu + self.mu / 2

    def log_mass(self, measure: Measure, low: Any, high: Any) -> Floats:
        mean = self.mu if measure is Measure.P else 0.0
        return log_normal_mass(np.asarray(low) - mean, np.asarray(high) - mean)

    def draw(self, measure: Measure, generator: np.random.Generator, size: int) -> Floats:
        return generator.standard_normal(size) + (self.mu if measure is Measure.P else 0.0)

    def span(self, order: float = 0.0) -> tuple[float, float]:
        centre = self.mu * (order + 1)
        return min(0.0, centre) - NORMAL_REACH, max(0.0, centre) + NORMAL_REACH

    def describe(self) -> str:
        return f"N({self.mu:.6g}, 1) | N(0, 1)"


@dataclass(frozen=True)
class ShiftedPair(DominatingPair):
    """``N(mu, 1)`` against ``e^-shift N(0, 1)``; the rest of ``Q`` is an atom of infinitely negative loss."""

    mu: float
    shift: float

    @property
    def base(self) -> GaussianPair:
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


def log_weighted_mean(exponent: Floats, p: Floats) -> Floats:
    """``log sum_i p_i e^{exponent_i}``, ``sum_i p_i = 1``; relatively accurate if all exponents are small."""
    small = np.max(np.abs(exponent), axis=-1) < 1.0
    near = np.log1p(np.sum(p * np.expm1(np.clip(exponent, -1.0, 1.0)), axis=-1))
    return np.where(small, near, _log_weighted_sum(exponent, p))


def _log_weighted_sum(exponent: Floats, p: Floats) -> Floats:
    """``log sum_i p_i e^{exponent_i}``, several times as fast as SciPy's, which does so for any array."""
    top = np.max(exponent, axis=-1)
    shift = np.where(np.isfinite(top), top, 0.0)
    with np.errstate(divide="ignore", over="ignore"):
        return shift + np.log(np.sum(p * np.exp(exponent - shift[..., None]), axis=-1))


@dataclass(frozen=True)
class MixturePair(DominatingPair):
    """``sum_i p_i N(m_i, 1)`` against ``N(0, 1)`` (remove), ``N(0, 1)`` against ``sum_i p_i N(-m_i, 1)``
    (add), or the first mixture against the second one (None, which serves both directions). Means are not
    negative, and not all zero.

    The loss is ``f(t)`` if ``P`` is a mixture, less ``f(-t)`` if ``Q`` is one, where the convex function
    ``f(t) = log sum_i p_i e^{m_i t - m_i^2/2}`` rises.
    """

    means: tuple[float, ...]
    probabilities: tuple[float, ...]
    direction: Direction | None

    @cached_property
    def _terms(self) -> tuple[Floats, Floats]:
        """``m_i`` and ``p_i``."""
        return np.array(self.means), np.array(self.probabilities)

    def is_mixed(self, measure: Measure) -> bool:
        return self.direction is not (Direction.ADD if measure is Measure.P else Direction.REMOVE)

    def _law(self, measure: Measure) -> tuple[Floats, Floats]:
        """The centres of one law, and how likely each is."""
        if not self.is_mixed(measure):
            return np.zeros(1), np.ones(1)
        m, p = self._terms
        return m * (1.0 if measure is Measure.P else -1.0), p

    def _log_ratio(self, t: Floats) -> Floats:
        """``f(t)``."""
        m, p = self._terms
        with np.errstate(invalid="ignore"):
            return log_weighted_mean(np.where(m == 0, 0.0, m * t[..., None] - m * m / 2), p)

    def _slope(self, t: Floats, log_ratio: Floats) -> Floats:
        """``f'(t)``."""
        m, p = self._terms
        return np.sum(m * p * np.exp(m * t[..., None] - m * m / 2 - log_ratio[..., None]), axis=-1)

    def privacy_loss(self, t: Any) -> Floats:
        t = np.asarray(t, float)
        if self.direction is Direction.ADD:
            return -self._log_ratio(-t)
        return self._log_ratio(t) - self._log_ratio(-t) if self.direction is None else self._log_ratio(t)

    @property
    def loss_magnitude(self) -> float:
        rarest = min(p for p in self.probabilities if p > 0)
        return super().loss_magnitude + (2 if self.direction is None else 1) * abs(math.log(rarest))

    def point(self, loss: Any) -> Floats:
        loss = np.asarray(loss, float)
        if self.direction is None:  # the loss is odd
            size = np.minimum(np.abs(loss), 1e150)
            has_closed_form = len(self.means) == 2 and self.means[0] == 0.0
            found = self._closed(size) if has_closed_form else self._solved(size, 0.0)
            return np.copysign(np.where(np.isinf(loss), np.inf, found), loss)
        sign = 1.0 if self.direction is Direction.REMOVE else -1.0
        value = np.asarray(sign * loss)
        absent = math.fsum(p for p, m in zip(self.probabilities, self.means, strict=True) if m == 0)
        floor = math.log(absent) if absent else -math.inf
        solvable = (np.abs(value) < 1e150) & (value > floor)  # beyond, the root may not be a float
        t = np.where((value <= floor) | (value < -1e100), -np.inf, np.inf)
        t[solvable] = self._solved(value[solvable], -math.inf)
        return sign * t

    def _solved(self, target: Floats, low: float) -> Floats:
        """The root of ``f(t) = target``, or with two mixtures of ``f(t) - f(-t) = target``: by Newton's steps
        from the right, where one term alone is enough. A step that leaves the bracket becomes a halving.
        """
        m, p = self._terms
        t = high = np.min((target[..., None] - np.log(p[m > 0])) / m[m > 0] + m[m > 0] / 2, axis=-1)
        least = np.full(t.shape, low)
        for _ in range(200):
            value = self._log_ratio(t)
            slope = self._slope(t, value)
            if self.direction is None:
                other = self._log_ratio(-t)
                value, slope = value - other, slope + self._slope(-t, other)
            least, high = np.where(value > target, least, t), np.where(value > target, t, high)
            found = t - (value - target) / np.maximum(slope, 1e-300)
            found = np.where((found >= least) & (found <= high), found, (least + high) / 2)
            settled, t = np.all(np.abs(found - t) <= 1e-14 * (1 + np.abs(found))), found
            if settled:
                break
        return t

    def _closed(self, loss: Floats) -> Floats:
        """``(y/2 + asinh((1-q)/q e^{mu^2/2} sinh(y/2))) / mu``: two mixtures of the means 0 and ``mu``."""
        rest, q = self.probabilities
        mu, half = self.means[1], loss / 2
        scale = math.log(rest) - math.log(q) + mu * mu / 2
        with np.errstate(divide="ignore", over="ignore"):
            near = np.log(np.sinh(np.minimum(half, 1.0)))
            far = half + np.log1p(-np.exp(-2.0 * half)) - math.log(2.0)
            size = scale + np.where(half < 1.0, near, far)  # the logarithm of the hyperbolic sine
            found = np.where(size < 300.0, np.arcsinh(np.exp(np.minimum(size, 300.0))), size + math.log(2.0))
        return (half + found) / mu

    def log_mass(self, measure: Measure, low: Any, high: Any) -> Floats:
        m, p = self._law(measure)
        low, high = np.asarray(low, float)[..., None], np.asarray(high, float)[..., None]
        return _log_weighted_sum(log_normal_mass(low - m, high - m), p)

    def draw(self, measure: Measure, generator: np.random.Generator, size: int) -> Floats:
        m, p = self._law(measure)
        return generator.standard_normal(size) + m[generator.choice(m.size, size, p=p / p.sum())]

    def span(self, order: float = 0.0) -> tuple[float, float]:
        steepest = (2 if self.direction is None else 1) * max(self.means)  # the greatest slope of the loss
        shift = steepest * order
        low, high = self._law(Measure.Q)[0].min(), self._law(Measure.P)[0].max()
        return float(low + min(0.0, shift)) - NORMAL_REACH, float(high + max(0.0, shift)) + NORMAL_REACH

    def describe(self) -> str:
        def text(measure: Measure, sign: str) -> str:
            if not self.is_mixed(measure):
                return "N(0, 1)"
            shown = zip(self.probabilities[:3], self.means, strict=False)
            more = " + ..." if len(self.means) > 3 else ""
            return " + ".join(f"{p:.4g} N({sign if m else ''}{m:.6g}, 1)" for p, m in shown) + more

        return f"{text(Measure.P, '')} | {text(Measure.Q, '-')}"
