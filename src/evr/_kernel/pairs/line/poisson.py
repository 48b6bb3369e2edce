"""Sampled pairs: by Poisson (Zhu et al. 2022, Theorem 11), without replacement (guarantees_relations, R2)."""

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import Any

import numpy as np

from evr._kernel.pairs.law import Floats
from evr._kernel.pairs.line.discrete import DiscretePair
from evr._kernel.pairs.line.pair import (
    DominatingPair,
    Measure,
    log_difference,
    log_mixture,
    mix,
    mix_error,
    unmix,
)
from evr.errors import UnsupportedEventError
from evr.types import Direction


@dataclass(frozen=True)
class SampledPair(DominatingPair):
    """A base pair ``(P, Q)`` seen through Poisson sampling with probability ``q``, ``0 < q < 1``.

    In the remove direction it is ``((1-q)Q + qP, Q)``, in the add direction ``(P, (1-q)P + qQ)``: the mixture
    is in the second slot. To swap the base pair and apply the remove formula is wrong for asymmetric pairs.
    """

    base: DominatingPair
    q: float
    direction: Direction

    @property
    def sign(self) -> float:
        """Losses of the add direction are those of the remove direction of the swapped pair, negated."""
        return 1.0 if self.direction is Direction.REMOVE else -1.0

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

    def _is_mixed(self, measure: Measure) -> bool:
        return (measure is Measure.P) == (self.direction is Direction.REMOVE)

    def log_mass(self, measure: Measure, low: Any, high: Any) -> Floats:
        if not self._is_mixed(measure):
            return self.base.log_mass(measure, low, high)
        common = Measure.Q if measure is Measure.P else Measure.P  # the law of records that are not sampled
        absent, present = self.base.log_mass(common, low, high), self.base.log_mass(measure, low, high)
        return log_mixture(absent, present, self.q)

    def draw(self, measure: Measure, generator: np.random.Generator, size: int) -> Floats:
        if not self._is_mixed(measure):
            return self.base.draw(measure, generator, size)
        weight_p = self.q if measure is Measure.P else 1 - self.q
        out = self.base.draw(Measure.Q, generator, size)
        from_p = np.flatnonzero(generator.random(size) < weight_p)
        out[from_p] = self.base.draw(Measure.P, generator, from_p.size)
        return out

    def span(self, order: float = 0.0) -> tuple[float, float]:
        return self.base.span(order if self.direction is Direction.REMOVE else min(order, 0.0))

    def describe(self) -> str:
        laws = "(1-q)Q + qP | Q" if self.direction is Direction.REMOVE else "P | (1-q)P + qQ"
        return f"{laws}, q = {self.q:.6g}, P | Q = {self.base.describe()}"


def poisson_sampled(base: DominatingPair, q: Fraction | float, direction: Direction) -> DominatingPair:
    """The base seen through Poisson sampling, ``0 < q <= 1``: sampled twice, with the product of both."""
    if isinstance(base, SampledPair) and base.direction is direction and base.q * float(q) > 0.0:
        q, base = Fraction(base.q) * Fraction(q), base.base
    share = _not_below(q)
    return base if share == 1.0 else SampledPair(base, share, direction)


def _not_below(q: Fraction | float) -> float:
    """The probability as a float, rounded up: more records leak no less (docs/guarantees.md, Section 6.2)."""
    nearest = float(q)
    return nearest if nearest >= q else math.nextafter(nearest, 1.0)


def outcomes(pair: DominatingPair) -> DominatingPair:
    """A sampled discrete pair as a discrete pair; any other pair as it is."""
    if not (isinstance(pair, SampledPair) and isinstance(pair.base, DiscretePair)):
        return pair
    low, high = pair.flats[:, 0], pair.flats[:, 1]
    log_p, log_q = (pair.log_mass(measure, low, high) for measure in (Measure.P, Measure.Q))
    error = _mixed_error(pair.base, pair.sign * pair.base.losses, pair.q)
    return DiscretePair.from_logs(log_p, log_q, pair.privacy_loss(high), is_cut=pair.base.is_cut, error=error)


def _mixed_error(base: DiscretePair, losses: Floats, q: float) -> float:
    """How far finite losses of a base may be off once they are mixed."""
    return float(np.max(mix_error(losses[np.isfinite(losses)], base.loss_error, q), initial=0.0))


@lru_cache(maxsize=64)  # a search for tilts asks thousands of times
def without_infinite(pair: DominatingPair) -> DominatingPair:
    """The finite losses of a discrete pair, where infinite ones count apart; other pairs as they are."""
    pair = outcomes(pair)
    if not isinstance(pair, DiscretePair):
        return pair
    kept = np.isfinite(pair.losses) & (pair.logs[Measure.P] > -np.inf)
    if kept.all() or not kept.any():
        return pair
    rows = pair.losses, pair.logs[Measure.P], pair.logs[Measure.Q]
    losses, log_p, log_q = (tuple(row[kept].tolist()) for row in rows)
    return DiscretePair(losses, log_p, log_q, pair.is_cut, pair.error)


@dataclass(frozen=True)
class WithoutReplacementPair(DominatingPair):
    """A base pair without an atom at loss 0 seen through sampling of a share ``g`` of the records: it is
    ``((1-g)Q + gP, Q)`` where the base loss is positive, ``(P, (1-g)P + gQ)`` where it is negative. The rest
    of both laws is an atom at loss 0: an interval of length 1, where the line of the base is cut.
    """

    base: DominatingPair
    g: float

    @cached_property
    def lower(self) -> SampledPair:
        """The pair where the loss is negative."""
        return SampledPair(self.base, self.g, Direction.ADD)

    @cached_property
    def upper(self) -> SampledPair:
        """The pair where the loss is positive."""
        return SampledPair(self.base, self.g, Direction.REMOVE)

    @cached_property
    def _cut(self) -> float:
        """Where the base loss is 0."""
        return float(self.base.point(0.0))

    def below(self, t: Any) -> Floats:
        """The coordinate of the base, up to the cut."""
        return np.minimum(np.asarray(t, float), self._cut)

    def above(self, t: Any) -> Floats:
        """The coordinate of the base, from the cut on."""
        return np.maximum(np.asarray(t, float) - 1.0, self._cut)

    def by_side(self, t: Any, lower: Floats, upper: Floats) -> Floats:
        """The value of the side on which ``t`` is."""
        return np.where(np.asarray(t, float) <= self._cut, lower, upper)

    def privacy_loss(self, t: Any) -> Floats:
        t = np.asarray(t, float)
        below, above = self.lower.privacy_loss(self.below(t)), self.upper.privacy_loss(self.above(t))
        loss = self.by_side(t, np.minimum(below, 0.0), np.maximum(above, 0.0))
        return np.where((t > self._cut) & (t <= self._cut + 1.0), 0.0, loss)

    def point(self, loss: Any) -> Floats:
        loss = np.asarray(loss, float)
        below = np.minimum(self.lower.point(np.minimum(loss, 0.0)), self._cut)
        above = np.maximum(self.upper.point(np.maximum(loss, 0.0)) + 1.0, self._cut + 1.0)
        return np.where(loss < 0, below, above)

    def _log_masses(self, measure: Measure, low: Any, high: Any) -> tuple[Floats, Floats, Floats]:
        """``log`` of the mass below the atom, of the atom, and above it."""
        p_above, q_above = (self.base.log_mass(one, self._cut, np.inf) for one in (Measure.P, Measure.Q))
        to_low, to_high = (np.clip(np.asarray(t, float) - self._cut, 0.0, 1.0) for t in (low, high))
        with np.errstate(divide="ignore"):
            overlap = np.log(np.maximum(to_high - to_low, 0.0))
        atom = math.log1p(-self.g) + float(log_difference(p_above, q_above)) + overlap
        below = self.lower.log_mass(measure, self.below(low), self.below(high))
        return below, atom, self.upper.log_mass(measure, self.above(low), self.above(high))

    def log_mass(self, measure: Measure, low: Any, high: Any) -> Floats:
        below, atom, above = self._log_masses(measure, low, high)
        return np.logaddexp(np.logaddexp(below, atom), above)

    def draw(self, measure: Measure, generator: np.random.Generator, size: int) -> Floats:
        masses = np.exp(np.array(self._log_masses(measure, -np.inf, np.inf)))
        side = generator.choice(3, size, p=masses / masses.sum())
        out = self._cut + 1.0 - generator.random(size)  # in the atom
        for pair, number, above in ((self.lower, 0, False), (self.upper, 2, True)):
            left = np.flatnonzero(side == number)
            while left.size:  # draws on the other side are drawn again
                t = pair.draw(measure, generator, left.size)
                out[left] = t + above
                left = left[(t > self._cut) != above]
        return out

    @property
    def flats(self) -> Floats:
        base = self.base.flats
        lower, upper = base[base[:, 1] <= self._cut], base[base[:, 0] >= self._cut] + 1.0
        return np.vstack([lower, [[self._cut, self._cut + 1.0]], upper])

    def span(self, order: float = 0.0) -> tuple[float, float]:
        (low, _), (_, high) = self.lower.span(order), self.upper.span(order)
        return low, high + 1.0

    @property
    def loss_magnitude(self) -> float:
        return self.upper.loss_magnitude

    def describe(self) -> str:
        mixed = "(1-g)Q + gP | Q above 0, P | (1-g)P + gQ below"
        return f"{mixed}, g = {self.g:.6g}, P | Q = {self.base.describe()}"


def sampled_without_replacement(base: DominatingPair, share: Fraction) -> DominatingPair:
    """The pair of the sampled mechanism, for both directions; ``0 < share < 1``."""
    g = _not_below(share)
    if g == 1.0:
        return base
    if isinstance(base, DiscretePair):
        return _of_outcomes(base, g)
    if np.any(base.privacy_loss(base.flats[:, 1]) == 0.0):
        why = f"sampling without replacement of {base.describe()} has no pair here: its loss has an atom at 0"
        raise UnsupportedEventError(f"{why}. Sample once, a mechanism that does not sample")
    return WithoutReplacementPair(base, g)


def _of_outcomes(base: DiscretePair, g: float) -> DiscretePair:
    """A discrete pair, sampled without replacement: the outcome of loss 0 takes what is left of both laws."""
    losses, log_p, log_q = base.losses, base.logs[Measure.P], base.logs[Measure.Q]
    above, sides = losses > 0, np.sign(losses)
    mixed = log_mixture(np.where(above, log_q, log_p), np.where(above, log_p, log_q), g)
    kept, p = losses != 0, np.exp(log_p)
    with np.errstate(divide="ignore"):
        rest = np.log(p[~kept].sum() + (1.0 - g) * (p[above] @ -np.expm1(-losses[above])))
    new_p = np.append(np.where(above, mixed, log_p)[kept], rest)
    new_q = np.append(np.where(above, log_q, mixed)[kept], rest)
    new_losses = np.append((sides * mix(sides * losses, g))[kept], 0.0)
    error = _mixed_error(base, np.abs(losses), g)
    return DiscretePair.from_logs(new_p, new_q, new_losses, is_cut=base.is_cut, error=error)
