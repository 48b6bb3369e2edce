"""Poisson sampling of any pair (Zhu, Dong and Wang 2022, Theorem 11).

If ``(P, Q)`` dominates the base mechanism in the remove direction, the sampled one has ``((1-q)Q + qP, Q)``; if ``(P,
Q)`` dominates it in the *add* direction, the sampled one has ``(P, (1-q)P + qQ)``: the mixture is in the second slot.
Swapping the base pair and applying the remove formula is wrong for asymmetric pairs.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np

from evr.laws.law import Direction, Floats
from evr.laws.line.discrete import DiscretePair
from evr.laws.line.pair import DominatingPair, Measure, mix, unmix


@dataclass(frozen=True)
class SampledPair(DominatingPair):
    """A base pair ``(P, Q)`` seen through Poisson sampling with probability ``q``, ``0 < q < 1``.

    In the remove direction it is ``((1-q)Q + qP, Q)``, in the add direction ``(P, (1-q)P + qQ)``.
    """

    base: DominatingPair
    q: float
    direction: Direction

    @property
    def sign(self) -> float:
        """Losses of the add direction are those of the remove direction of the swapped pair, negated."""
        return 1.0 if self.direction is Direction.REMOVE else -1.0

    @property
    def _mixed(self) -> Measure:
        """Which law is a mixture with the other, whose base law is that of the records that are not sampled."""
        return Measure.P if self.direction is Direction.REMOVE else Measure.Q

    @property
    def flats(self) -> Floats:
        return self.base.flats

    @cached_property
    def _flat_losses(self) -> Floats:
        return self.privacy_loss(self.flats[:, 1])

    @property
    def loss_magnitude(self) -> float:
        return self.base.loss_magnitude + abs(math.log(self.q)) + abs(math.log1p(-self.q))

    def privacy_loss(self, t: Any) -> Floats:
        return self.sign * mix(self.sign * self.base.privacy_loss(t), self.q)

    def point(self, loss: Any) -> Floats:
        loss = np.asarray(loss, float)
        t = self.base.point(self.sign * unmix(self.sign * loss, self.q))
        if len(self.flats):  # rounding in the loss must not cut an atom
            rank = np.searchsorted(self._flat_losses, loss, side="right")
            ends = np.concatenate(([-np.inf], self.flats[:, 1]))
            starts = np.concatenate((self.flats[:, 0], [np.inf]))
            t = np.minimum(np.maximum(t, ends[rank]), starts[rank])
        return t

    def log_mass(self, measure: Measure, low: Any, high: Any) -> Floats:
        if measure is not self._mixed:
            return self.base.log_mass(measure, low, high)
        common = Measure.Q if self._mixed is Measure.P else Measure.P
        return np.logaddexp(
            math.log1p(-self.q) + self.base.log_mass(common, low, high),
            math.log(self.q) + self.base.log_mass(self._mixed, low, high),
        )

    def draw(self, measure: Measure, generator: np.random.Generator, size: int) -> Floats:
        if measure is not self._mixed:
            return self.base.draw(measure, generator, size)
        weight_p = self.q if self._mixed is Measure.P else 1 - self.q
        out = self.base.draw(Measure.Q, generator, size)
        from_p = np.flatnonzero(generator.random(size) < weight_p)
        out[from_p] = self.base.draw(Measure.P, generator, from_p.size)
        return out

    def span(self, order: float = 0.0) -> tuple[float, float]:
        return self.base.span(order if self.direction is Direction.REMOVE else min(order, 0.0))

    def describe(self) -> str:
        laws = "(1-q)Q + qP | Q" if self.direction is Direction.REMOVE else "P | (1-q)P + qQ"
        return f"{laws}, q = {self.q:.6g}, P | Q = {self.base.describe()}"


def sampled(base: DominatingPair, q: float, direction: Direction) -> DominatingPair:
    """The pair of a mechanism that is sampled by Poisson with probability ``q``, ``0 < q <= 1``, from its own in the
    same direction.

    What is sampled twice is sampled with the product of both probabilities, rounded up, as more records leak no less
    (docs/guarantees.md, Section 6.2).
    """
    if q == 1:
        return base
    if isinstance(base, SampledPair) and base.direction is direction and base.q * q > 0.0:
        return SampledPair(base.base, _rounded_up(base.q, q), direction)
    return SampledPair(base, q, direction)


def _rounded_up(one: float, other: float) -> float:
    """The least float that is not below the product of two probabilities.

    >>> _rounded_up(0.5, 0.25), _rounded_up(0.1, 0.1) > 0.1 * 0.1 - 1e-18
    (0.125, True)
    """
    found = one * other
    exact = Fraction(one) * Fraction(other)
    return found if Fraction(found) >= exact else math.nextafter(found, 1.0)


def outcomes(pair: DominatingPair) -> DominatingPair:
    """The same pair as one on finitely many outcomes, if it is one that is sampled; else the pair itself."""
    if not (isinstance(pair, SampledPair) and isinstance(pair.base, DiscretePair)):
        return pair
    low, high = pair.flats[:, 0], pair.flats[:, 1]
    log_p, log_q = (pair.log_mass(measure, low, high) for measure in (Measure.P, Measure.Q))
    return DiscretePair.from_logs(log_p, log_q, pair.privacy_loss(high), is_cut=pair.base.is_cut)


def finite_part(pair: DominatingPair) -> DominatingPair:
    """The part of a discrete pair with finite losses, which need not be a probability law; other pairs, and one without
    such losses, as they are.

    Where infinite losses are counted apart, the rest of a sum over outcomes needs no more.
    """
    pair = outcomes(pair)
    if not isinstance(pair, DiscretePair):
        return pair
    kept = np.isfinite(pair.losses) & (np.array(pair.log_p) > -np.inf)
    if not kept.any():
        return pair
    losses, log_p, log_q = (tuple(np.array(x)[kept].tolist()) for x in (pair.loss_values, pair.log_p, pair.log_q))
    return DiscretePair(losses, log_p, log_q, pair.is_cut)
