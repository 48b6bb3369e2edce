"""Dominating pairs on a line (Zhu, Dong and Wang 2022, Definition 7).

The coordinate ``t`` is chosen so that the privacy loss ``log dP/dQ`` is *non-decreasing in t*. Intervals are
half-open, ``(low, high]``. A discrete law lives on the integers ``0, 1, 2, ...`` in the order of its losses.
"""

import abc
import enum
import math
from typing import Any

import numpy as np

from evr._kernel.pairs.law import UNIT, Floats, LossLaw
from evr.errors import UnsupportedEventError


class Measure(enum.Enum):
    """Which law of the pair."""

    P = "P"
    Q = "Q"


class DominatingPair(LossLaw):
    """A pair of laws on a line. Immutable, hashable, comparable by value."""

    @abc.abstractmethod
    def privacy_loss(self, t: Any) -> Floats:
        """``log dP/dQ`` at ``t``, non-decreasing; infinite where one law alone has mass."""

    @abc.abstractmethod
    def point(self, loss: Any) -> Floats:
        """The largest ``t`` with ``privacy_loss(t) <= loss``; ``-inf`` if none has, ``+inf`` if every has."""

    @abc.abstractmethod
    def log_mass(self, measure: Measure, low: Any, high: Any) -> Floats:
        """``log`` of the probability of ``(low, high]``, relatively accurate in both tails."""

    @abc.abstractmethod
    def draw(self, measure: Measure, generator: np.random.Generator, size: int) -> Floats:
        """``size`` exact draws."""

    @property
    def flats(self) -> Floats:
        """The atoms: intervals ``(low, high]`` of one loss, infinite or not, as rows in order."""
        return np.empty((0, 2))

    @abc.abstractmethod
    def span(self, order: float = 0.0) -> tuple[float, float]:
        """A range of ``t`` that holds all but 1e-300 of ``Q`` and of ``P e^{order loss}``."""

    @property
    def loss_magnitude(self) -> float:
        """The greatest finite loss in absolute value: rounding is relative to it."""
        losses = np.abs(self.privacy_loss(np.array(self.span())))
        return float(np.max(losses[np.isfinite(losses)], initial=0.0))


def line_pair(law: LossLaw) -> DominatingPair:
    """The law as a pair on a line; one in many dimensions is refused by name."""
    if not isinstance(law, DominatingPair):
        why = f"{law.describe()} has no pair on a line, which this method needs"
        remedy = "the default method of estimate_delta, estimate_epsilon and verify, which serves such laws"
        raise UnsupportedEventError(f"{why}. Use {remedy}")
    return law


def log_difference(larger: Any, smaller: Any) -> Floats:
    """``log(e^larger - e^smaller)`` for ``larger >= smaller``, without overflow; ``-inf`` if equal."""
    larger, smaller = np.broadcast_arrays(np.asarray(larger, float), np.asarray(smaller, float))
    gap = np.where(np.isneginf(larger), 0.0, smaller - np.where(np.isneginf(larger), 0.0, larger))
    with np.errstate(divide="ignore"):
        return np.where(np.isneginf(larger), -np.inf, larger + np.log(-np.expm1(np.minimum(gap, 0.0))))


def log_sum_exp(x: Floats) -> float:
    """``log(sum(e^x))`` of a non-empty array; SciPy's does so for any array, and takes ten times as long."""
    top = float(x.max())
    return top + math.log(float(np.exp(x - top).sum())) if math.isfinite(top) else top


def near_and_far(low: Any, high: Any) -> tuple[Floats, Floats]:
    """Intervals of a symmetric law as differences of left tails, up to ``near`` and up to ``far <= near``:
    those on the right of 0 are mirrored, since small tails are relatively accurate.
    """
    low, high = np.broadcast_arrays(np.asarray(low, float), np.asarray(high, float))
    flip = low > 0
    return np.where(flip, -low, high), np.where(flip, -high, low)


def log_mixture(absent: Any, present: Any, q: float) -> Floats:
    """``log((1 - q) e^absent + q e^present)``."""
    return np.logaddexp(math.log1p(-q) + absent, math.log(q) + present)


def mix(loss: Any, q: float) -> Floats:
    """``log(1 - q + q e^loss)``, relatively accurate where ``1 - q`` nearly cancels or powers overflow."""
    loss = np.asarray(loss, float)
    change = q * np.expm1(np.minimum(loss, 600.0))
    with np.errstate(divide="ignore"):
        near = np.log1p(change)
    return np.where((change > -0.5) & (loss < 600.0), near, log_mixture(0.0, loss, q))


def mix_error(loss: Any, error: Any, q: float) -> Floats:
    """How far ``mix`` is off, at most, where the loss is off by ``error``: its slope is at most 1, and about
    ``q e^loss`` where that is small.
    """
    loss = np.asarray(loss, float)
    with np.errstate(over="ignore", invalid="ignore"):
        slope = np.minimum(q * np.exp(np.minimum(loss + error, 600.0)) / (1.0 - q), 1.0)
        far = np.where(loss < 600.0, 0.0, abs(math.log(q)) + loss)  # two terms that may nearly cancel
        found = slope * error + 8.0 * UNIT * (np.abs(mix(loss, q)) + far)
    return np.where(np.isnan(found), np.inf, found)


def unmix(loss: Any, q: float) -> Floats:
    """The inverse of ``mix``; ``-inf`` below its range."""
    loss = np.asarray(loss, float)
    with np.errstate(divide="ignore", invalid="ignore"):
        near = np.log1p(np.maximum(np.expm1(np.clip(loss, -1.0, 1.0)) / q, -1.0))
        below = np.log(np.maximum(np.exp(np.minimum(loss, -1.0)) - (1 - q), 0.0) / q)
        above = loss - math.log(q) + np.log1p(-(1 - q) * np.exp(-np.maximum(loss, 1.0)))
    return np.where(loss < -1.0, below, np.where(loss > 1.0, above, near))
