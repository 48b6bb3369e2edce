"""Sampling without replacement of any pair, under replace-one adjacency
(docs/guarantees_relations.md, Section R2).

Where the base loss is positive the pair is ``((1-g)Q + gP, Q)``, where it is negative ``(P, (1-g)P
+ gQ)``, and the rest of both laws is at loss 0. The line of the base is cut at its loss 0, and the
atom is put into the gap: an interval of length 1.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from evr.errors import UnsupportedEventError
from evr.laws.line.discrete import DiscretePair
from evr.laws.line.pair import Direction, DominatingPair, Floats, Measure
from evr.laws.line.poisson import SampledPair


@dataclass(frozen=True)
class WithoutReplacementPair(DominatingPair):
    """A base pair without an atom at loss 0 seen through sampling of a share ``g``, ``0 < g < 1``,
    of the records.
    """

    base: DominatingPair
    g: float

    @cached_property
    def _lower(self) -> SampledPair:
        return SampledPair(self.base, self.g, Direction.ADD)

    @cached_property
    def _upper(self) -> SampledPair:
        return SampledPair(self.base, self.g, Direction.REMOVE)

    @cached_property
    def _cut(self) -> float:
        """Where the base loss is 0."""
        return float(self.base.point(0.0))

    @cached_property
    def _log_atom(self) -> float:
        """``log`` of the mass at loss 0, the same of both laws."""
        return math.log1p(-self.g) + math.log(self.base.delta(0.0))

    def _below(self, t: Any) -> Floats:
        """The coordinate of the base, up to the cut."""
        return np.minimum(np.asarray(t, float), self._cut)

    def _above(self, t: Any) -> Floats:
        """The coordinate of the base, from the cut on."""
        return np.maximum(np.asarray(t, float) - 1.0, self._cut)

    def _inside(self, t: Any) -> Floats:
        """How much of the atom is at most ``t``."""
        return np.clip(np.asarray(t, float) - self._cut, 0.0, 1.0)

    def _by_side(self, t: Any, lower: Floats, upper: Floats) -> Floats:
        return np.where(np.asarray(t, float) <= self._cut, lower, upper)

    def privacy_loss(self, t: Any) -> Floats:
        t = np.asarray(t, float)
        loss = self._by_side(
            t,
            np.minimum(self._lower.privacy_loss(self._below(t)), 0.0),
            np.maximum(self._upper.privacy_loss(self._above(t)), 0.0),
        )
        return np.where((t > self._cut) & (t <= self._cut + 1.0), 0.0, loss)

    def point(self, loss: Any) -> Floats:
        loss = np.asarray(loss, float)
        below = np.minimum(self._lower.point(np.minimum(loss, 0.0)), self._cut)
        above = np.maximum(self._upper.point(np.maximum(loss, 0.0)) + 1.0, self._cut + 1.0)
        return np.where(loss < 0, below, above)

    def _log_masses(self, measure: Measure, low: Any, high: Any) -> tuple[Floats, Floats, Floats]:
        """``log`` of the mass below the atom, of the atom, and above it."""
        with np.errstate(divide="ignore"):
            atom = self._log_atom + np.log(np.maximum(self._inside(high) - self._inside(low), 0.0))
        return (
            self._lower.log_mass(measure, self._below(low), self._below(high)),
            atom,
            self._upper.log_mass(measure, self._above(low), self._above(high)),
        )

    def log_mass(self, measure: Measure, low: Any, high: Any) -> Floats:
        below, atom, above = self._log_masses(measure, low, high)
        return np.logaddexp(np.logaddexp(below, atom), above)

    def mean_loss(self, low: Any, high: Any) -> Floats:
        return self._by_side(
            high,
            self._lower.mean_loss(self._below(low), self._below(high)),
            self._upper.mean_loss(self._above(low), self._above(high)),
        )

    def mean_and_doubt(self, low: Any, high: Any) -> tuple[Floats, Floats]:
        below = self._lower.mean_and_doubt(self._below(low), self._below(high))
        above = self._upper.mean_and_doubt(self._above(low), self._above(high))
        return (
            self._by_side(high, below[0], above[0]),
            self._by_side(high, below[1], above[1]),
        )

    def sample(
        self, measure: Measure, generator: np.random.Generator, low: Any, high: Any
    ) -> Floats:
        low, high = np.broadcast_arrays(np.asarray(low, float), np.asarray(high, float))
        below, atom, above = self._log_masses(measure, low, high)
        chance = generator.random(low.shape)
        total = np.logaddexp(np.logaddexp(below, atom), above)
        first = chance < np.exp(below - total)
        last = ~first & (chance >= np.exp(np.logaddexp(below, atom) - total)) & (above > -np.inf)
        middle = ~first & ~last
        out = np.empty(low.shape)
        out[first] = self._lower.sample(
            measure, generator, self._below(low[first]), self._below(high[first])
        )
        out[last] = 1.0 + self._upper.sample(
            measure, generator, self._above(low[last]), self._above(high[last])
        )
        start, stop = self._inside(low[middle]), self._inside(high[middle])
        inside = stop - (stop - start) * generator.random(start.shape)
        out[middle] = self._cut + inside
        return np.clip(out, low, high)

    @property
    def flats(self) -> Floats:
        base = self.base.flats
        lower, upper = base[base[:, 1] <= self._cut], base[base[:, 0] >= self._cut] + 1.0
        return np.vstack([lower, [[self._cut, self._cut + 1.0]], upper])

    def span(self, order: float = 0.0) -> tuple[float, float]:
        (low, _), (_, high) = self._lower.span(order), self._upper.span(order)
        return low, high + 1.0

    def delta(self, epsilon: float) -> float:
        return self._upper.delta(epsilon) if epsilon >= 0 else self._lower.delta(epsilon)

    @property
    def infinite_loss_mass(self) -> float:
        return self._upper.infinite_loss_mass

    @property
    def is_cut(self) -> bool:
        return self.base.is_cut

    @property
    def loss_magnitude(self) -> float:
        return self._upper.loss_magnitude

    def describe(self) -> str:
        mixed = "(1-g)Q + gP | Q above 0, P | (1-g)P + gQ below"
        return f"{mixed}, g = {self.g:.6g}, P | Q = {self.base.describe()}"


def sampled(base: DominatingPair, g: float) -> DominatingPair:
    """The pair of the sampled mechanism, for both directions; ``0 < g < 1``."""
    if isinstance(base, DiscretePair):
        return _of_outcomes(base, g)
    losses = base.privacy_loss(base.flats[:, 1])
    if np.any(losses == 0.0):
        raise UnsupportedEventError(
            f"sampling without replacement of {base.describe()} has no pair here: its loss has an "
            "atom at 0. Sample once, a mechanism that does not sample"
        )
    return WithoutReplacementPair(base, g)


def _of_outcomes(base: DiscretePair, g: float) -> DiscretePair:
    """The same for outcomes."""
    upper, lower = (SampledPair(base, g, direction) for direction in Direction)
    low, high = base.flats[:, 0], base.flats[:, 1]
    below, above = base.losses < 0, base.losses > 0
    at = base.losses == 0

    def kept(law: Callable[[SampledPair], Floats], middle: Any) -> Floats:
        return np.concatenate((law(lower)[below], middle, law(upper)[above]))

    with np.errstate(divide="ignore"):
        rest = np.log(np.exp(np.array(base.log_p)[at]).sum() + (1.0 - g) * base.delta(0.0))

    def masses(measure: Measure) -> Floats:
        return kept(lambda pair: pair.log_mass(measure, low, high), [rest])

    log_p, log_q = (masses(measure) for measure in Measure)
    losses = kept(lambda pair: pair.privacy_loss(high), [0.0])
    return DiscretePair.from_logs(log_p, log_q, losses, is_cut=base.is_cut)
