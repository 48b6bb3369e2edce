"""Poisson sampling of any pair (Zhu, Dong and Wang 2022, Theorem 11).

If ``(P, Q)`` dominates the base mechanism in the remove direction, the sampled one has ``((1-q)Q +
qP, Q)``; if ``(P, Q)`` dominates it in the *add* direction, the sampled one has ``(P, (1-q)P +
qQ)``: the mixture is in the second slot. Swapping the base pair and applying the remove formula is
wrong for asymmetric pairs.
"""

from __future__ import annotations

import abc
import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np

from evr.laws.line.discrete import DiscretePair
from evr.laws.line.gaussian import GaussianPair
from evr.laws.line.pair import (
    UNIT,
    Direction,
    DominatingPair,
    Floats,
    Measure,
    Pairs,
    SampledGaussian,
    line_pair,
)


def _mix(loss: Any, q: float) -> Floats:
    """``log(1 - q + q e^loss)``, relatively accurate: by the first form unless nearly all of ``1 -
    q`` cancels or ``e^loss`` overflows.
    """
    loss = np.asarray(loss, float)
    change = q * np.expm1(np.minimum(loss, 600.0))
    with np.errstate(divide="ignore"):
        near = np.log1p(change)
    return np.where(
        (change > -0.5) & (loss < 600.0), near, np.logaddexp(math.log1p(-q), math.log(q) + loss)
    )


def _mixed_doubt(loss: Floats, doubt: Floats, q: float) -> Floats:
    """How far ``_mix`` may be off if its loss is: its derivative is at most 1, and about ``q
    e^loss`` where that is small.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        weight = q * np.exp(np.minimum(loss + doubt, 600.0))
        slope = np.minimum(weight / (1.0 - q), 1.0)
        found = slope * doubt + 8.0 * UNIT * np.abs(_mix(loss, q))
    return np.where(np.isfinite(found), found, np.inf)


def _unmix(loss: Any, q: float) -> Floats:
    """The inverse of ``_mix``; ``-inf`` below its range."""
    loss = np.asarray(loss, float)
    with np.errstate(divide="ignore", invalid="ignore"):
        near = np.log1p(np.maximum(np.expm1(np.clip(loss, -1.0, 1.0)) / q, -1.0))
        below = np.log(np.maximum(np.exp(np.minimum(loss, -1.0)) - (1 - q), 0.0) / q)
        above = loss - math.log(q) + np.log1p(-(1 - q) * np.exp(-np.maximum(loss, 1.0)))
    return np.where(loss < -1.0, below, np.where(loss > 1.0, above, near))


@dataclass(frozen=True)
class _SampledPair(DominatingPair):
    """A base pair seen through Poisson sampling with probability ``q``, ``0 < q < 1``."""

    base: DominatingPair
    q: float

    @property
    def flats(self) -> Floats:
        return self.base.flats

    @cached_property
    def _flat_losses(self) -> Floats:
        return self.privacy_loss(self.flats[:, 1])

    @property
    def is_cut(self) -> bool:
        return self.base.is_cut

    def _gaussian(self, direction: Direction) -> SampledGaussian | None:
        if not isinstance(self.base, GaussianPair):
            return None
        return SampledGaussian(self.base.mu, self.q, direction)

    @property
    def loss_magnitude(self) -> float:
        return self.base.loss_magnitude + abs(math.log(self.q)) + abs(math.log1p(-self.q))

    @abc.abstractmethod
    def _base_loss(self, loss: Any) -> Floats: ...

    def point(self, loss: Any) -> Floats:
        loss = np.asarray(loss, float)
        t = self.base.point(self._base_loss(loss))
        if len(self.flats):  # rounding in the loss must not cut an atom
            rank = np.searchsorted(self._flat_losses, loss, side="right")
            ends = np.concatenate(([-np.inf], self.flats[:, 1]))
            starts = np.concatenate((self.flats[:, 0], [np.inf]))
            t = np.minimum(np.maximum(t, ends[rank]), starts[rank])
        return t

    def _mixed_mass(self, common: Measure, low: Any, high: Any) -> Floats:
        """Of ``1 - q`` times one base law and ``q`` times the other."""
        rare = Measure.P if common is Measure.Q else Measure.Q
        return np.logaddexp(
            math.log1p(-self.q) + self.base.log_mass(common, low, high),
            math.log(self.q) + self.base.log_mass(rare, low, high),
        )

    def _mixed_draw(self, generator: np.random.Generator, size: int, weight_p: float) -> Floats:
        out = self.base.draw(Measure.Q, generator, size)
        from_p = np.flatnonzero(generator.random(size) < weight_p)
        out[from_p] = self.base.draw(Measure.P, generator, from_p.size)
        return out


@dataclass(frozen=True)
class SampledRemovePair(_SampledPair):
    """``((1-q)Q + qP, Q)`` over a base pair ``(P, Q)`` of the remove direction."""

    @property
    def sampled_gaussian(self) -> SampledGaussian | None:
        return self._gaussian(Direction.REMOVE)

    def privacy_loss(self, t: Any) -> Floats:
        return _mix(self.base.privacy_loss(t), self.q)

    def mean_loss(self, low: Any, high: Any) -> Floats:
        return _mix(self.base.mean_loss(low, high), self.q)

    def mean_and_doubt(self, low: Any, high: Any) -> tuple[Floats, Floats]:
        mean, doubt = self.base.mean_and_doubt(low, high)
        return _mix(mean, self.q), _mixed_doubt(mean, doubt, self.q)

    def _base_loss(self, loss: Any) -> Floats:
        return _unmix(loss, self.q)

    def log_mass(self, measure: Measure, low: Any, high: Any) -> Floats:
        if measure is Measure.P:
            return self._mixed_mass(Measure.Q, low, high)
        return self.base.log_mass(measure, low, high)

    def draw(self, measure: Measure, generator: np.random.Generator, size: int) -> Floats:
        if measure is Measure.P:
            return self._mixed_draw(generator, size, self.q)
        return self.base.draw(measure, generator, size)

    def span(self, order: float = 0.0) -> tuple[float, float]:
        return self.base.span(order)

    def delta(self, epsilon: float) -> float:
        # P'(A) - e^epsilon Q(A) = q (P(A) - e^epsilon' Q(A)), epsilon' the base loss at which the
        # sampled one is epsilon.
        inner = float(_unmix(epsilon, self.q))
        if inner == -math.inf:
            return -math.expm1(epsilon)
        return self.q * self.base.delta(inner)

    def describe(self) -> str:
        return f"(1-q)Q + qP | Q, q = {self.q:.6g}, P | Q = {self.base.describe()}"


@dataclass(frozen=True)
class SampledAddPair(_SampledPair):
    """``(P, (1-q)P + qQ)`` over a base pair ``(P, Q)`` of the add direction."""

    @property
    def sampled_gaussian(self) -> SampledGaussian | None:
        return self._gaussian(Direction.ADD)

    @property
    def mixes_second(self) -> bool:
        return True

    def privacy_loss(self, t: Any) -> Floats:
        return -_mix(-self.base.privacy_loss(t), self.q)

    def mean_loss(self, low: Any, high: Any) -> Floats:
        return -_mix(-self.base.mean_loss(low, high), self.q)

    def mean_and_doubt(self, low: Any, high: Any) -> tuple[Floats, Floats]:
        mean, doubt = self.base.mean_and_doubt(low, high)
        return -_mix(-mean, self.q), _mixed_doubt(-mean, doubt, self.q)

    def _base_loss(self, loss: Any) -> Floats:
        return -_unmix(-np.asarray(loss, float), self.q)

    def log_mass(self, measure: Measure, low: Any, high: Any) -> Floats:
        if measure is Measure.Q:
            return self._mixed_mass(Measure.P, low, high)
        return self.base.log_mass(measure, low, high)

    def draw(self, measure: Measure, generator: np.random.Generator, size: int) -> Floats:
        if measure is Measure.Q:
            return self._mixed_draw(generator, size, 1 - self.q)
        return self.base.draw(measure, generator, size)

    def span(self, order: float = 0.0) -> tuple[float, float]:
        return self.base.span(min(order, 0.0))

    def delta(self, epsilon: float) -> float:
        # P(A) - e^epsilon((1-q)P(A) + qQ(A)) = c (P(A) - e^epsilon' Q(A)), c = 1 - e^epsilon (1-q).
        least = epsilon + math.log1p(-self.q)
        if least >= 0:
            return 0.0
        return -math.expm1(least) * self.base.delta(float(self._base_loss(epsilon)))

    @property
    def infinite_loss_mass(self) -> float:
        return 0.0  # the second slot holds all of the first

    def describe(self) -> str:
        return f"P | (1-q)P + qQ, q = {self.q:.6g}, P | Q = {self.base.describe()}"


def sampled(base: Pairs, q: float) -> Pairs:
    """The pairs of the Poisson-sampled mechanism, each direction from its own base pair; ``0 < q <=
    1``.

    Sampling what is sampled is sampling with the product of both probabilities; rounded up, as more
    records leak no less (docs/guarantees.md, Section 6.2).
    """
    if q == 1:
        return base
    return Pairs(
        _once(SampledRemovePair, line_pair(base.remove), q),
        _once(SampledAddPair, line_pair(base.add), q),
    )


def _once(
    kind: type[SampledRemovePair | SampledAddPair], base: DominatingPair, q: float
) -> DominatingPair:
    if isinstance(base, kind) and base.q * q > 0.0:
        return kind(base.base, _rounded_up(base.q, q))
    return kind(base, q)


def _rounded_up(one: float, other: float) -> float:
    """The least float that is not below the product of two probabilities.

    >>> _rounded_up(0.5, 0.25), _rounded_up(0.1, 0.1) > 0.1 * 0.1 - 1e-18
    (0.125, True)
    """
    found = one * other
    exact = Fraction(one) * Fraction(other)
    return found if Fraction(found) >= exact else math.nextafter(found, 1.0)


def outcomes(pair: DominatingPair) -> DominatingPair:
    """The same pair as one on finitely many outcomes, if it is one that is sampled; else the pair
    itself.
    """
    if not (isinstance(pair, _SampledPair) and isinstance(pair.base, DiscretePair)):
        return pair
    low, high = pair.flats[:, 0], pair.flats[:, 1]
    log_p, log_q = (pair.log_mass(measure, low, high) for measure in (Measure.P, Measure.Q))
    return DiscretePair.from_logs(log_p, log_q, pair.privacy_loss(high), is_cut=pair.base.is_cut)


def finite_part(pair: DominatingPair) -> DominatingPair:
    """The part of a discrete pair with finite losses, which need not be a probability law; other
    pairs, and one without such losses, as they are.

    Where infinite losses are counted apart, the rest of a sum over outcomes needs no more.
    """
    pair = outcomes(pair)
    if not isinstance(pair, DiscretePair):
        return pair
    kept = np.isfinite(pair.losses) & (np.array(pair.log_p) > -np.inf)
    if not kept.any():
        return pair
    losses, log_p, log_q = (
        tuple(np.array(x)[kept].tolist()) for x in (pair.loss_values, pair.log_p, pair.log_q)
    )
    return DiscretePair(losses, log_p, log_q, pair.is_cut)
