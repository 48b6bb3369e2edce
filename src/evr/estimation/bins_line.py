"""Balls in bins with independent noise as a pair on a line, for estimates.

The ratio ``L`` of one training is a number, so its loss is one of a pair on a line: ``log L`` has
some density ``q`` under ``Q`` and ``e^y q(y)`` under ``P``. ``q`` has no closed form, but tilted
Fourier transforms (``estimation.bins``) give it to ten digits anywhere: each tilt centres the sum
somewhere else, and its part of the density is read off around there. So bins compose with
themselves, redrawn in each epoch, and with all other pairs, by the default accountant.

The table is for estimates. Nothing is drawn from it, and no guarantee rests on it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
from scipy.interpolate import BSpline, make_interp_spline

from evr.estimation.bins import bins_delta
from evr.estimation.bins_density import density_on
from evr.laws import Direction, DominatingPair, Floats, Measure, Step
from evr.laws.line.pair import log_difference
from evr.laws.mixture.bins import IndependentBins

_NOTHING = -75.0  # log of the mass at which the table ends: 1e-33
_FARTHEST = 600.0
_STEP, _WIDEST = 1.5, 0.3  # how far a tilt serves: deviations of its loss, and at most
_POINTS = 24  # of the table, from each tilt
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(8)


@dataclass(frozen=True)
class RatioLaw:
    """The density of ``y = log L`` under ``Q`` on ``[low, high]``: its logarithm as a spline, and
    tail sums at its knots.
    """

    knots: Floats
    log_density: BSpline

    @cached_property
    def _below(self) -> dict[Measure, Floats]:
        return {m: np.concatenate(([0.0], np.cumsum(self._pieces(m)))) for m in Measure}

    @cached_property
    def _above(self) -> dict[Measure, Floats]:
        return {m: np.concatenate((np.cumsum(self._pieces(m)[::-1])[::-1], [0.0])) for m in Measure}

    def _pieces(self, measure: Measure) -> Floats:
        return self._between(measure, self.knots[:-1], self.knots[1:])

    def _between(self, measure: Measure, low: Floats, high: Floats) -> Floats:
        """Mass of short intervals."""
        half = (high - low) / 2
        y = (low + half)[..., None] + half[..., None] * _NODES
        exponent = self.log_density(y) + (y if measure is Measure.P else 0.0)
        return half * np.einsum("...i,i->...", np.exp(exponent), _WEIGHTS)

    def tails(self, measure: Measure, y: Floats) -> tuple[Floats, Floats]:
        """Mass up to ``y`` and beyond it."""
        inside = np.clip(y, self.knots[0], self.knots[-1])
        index = np.clip(
            np.searchsorted(self.knots, inside, side="right") - 1, 0, self.knots.size - 2
        )
        below = self._below[measure][index] + self._between(measure, self.knots[index], inside)
        above = self._above[measure][index + 1] + self._between(
            measure, inside, self.knots[index + 1]
        )
        return below, above


@lru_cache(maxsize=64)
def ratio_law(bins: int, energy: float) -> RatioLaw:
    """The density of ``log L``, in intervals from the middle outwards until nothing is left."""
    law = IndependentBins(Direction.REMOVE, bins, energy)
    first = min(_WIDEST, math.sqrt(math.expm1(min(energy, 50.0)) / bins))
    upper, lower = list(_outwards(law, first, 1)), list(_outwards(law, first, -1))
    losses, logs = (np.concatenate(parts) for parts in zip(*lower[::-1], *upper, strict=True))
    return RatioLaw(losses, make_interp_spline(losses, logs, k=5))


def _outwards(law: IndependentBins, width: float, sign: int) -> Iterator[tuple[Floats, Floats]]:
    """Losses and logarithms of their density in one interval after the other, away from 0."""
    end = 0.0
    while abs(end) < _FARTHEST:
        low, high = sorted((end, end + sign * width))
        end += sign * width
        losses = np.linspace(low, high, 2 * _POINTS + 1)[1::2]
        log_density, deviation = density_on(law, losses)
        if not np.all(np.isfinite(log_density)):
            return
        yield losses, log_density
        if float(log_density[-1 if sign > 0 else 0]) + max(end, 0.0) + math.log(width) < _NOTHING:
            return
        width = min(_WIDEST, _STEP * deviation)


@dataclass(frozen=True)
class BinsPair(DominatingPair):
    """``IndependentBins`` as a pair on the line of its losses."""

    law: IndependentBins

    @property
    def _sign(self) -> float:
        return 1.0 if self.law.direction is Direction.REMOVE else -1.0

    @property
    def _table(self) -> RatioLaw:
        return ratio_law(self.law.bins, self.law.energy)

    def privacy_loss(self, t: Any) -> Floats:
        return np.asarray(t, float)

    def point(self, loss: Any) -> Floats:
        return np.asarray(loss, float)

    def log_mass(self, measure: Measure, low: Any, high: Any) -> Floats:
        low, high = np.broadcast_arrays(np.asarray(low, float), np.asarray(high, float))
        if self._sign < 0:  # the roles of both laws change with the sign of the loss
            measure = Measure.Q if measure is Measure.P else Measure.P
            low, high = -high, -low
        (below_low, above_low), (below_high, above_high) = (
            self._table.tails(measure, y) for y in (low, high)
        )
        with np.errstate(divide="ignore"):
            logs = [
                np.log(np.maximum(x, 0.0)) for x in (below_low, above_low, below_high, above_high)
            ]
        upper = low > 0
        return np.where(upper, log_difference(logs[1], logs[3]), log_difference(logs[2], logs[0]))

    def draw(self, measure: Measure, generator: np.random.Generator, size: int) -> Floats:
        raise NotImplementedError("bins are drawn from the law itself, not from its table")

    def span(self, order: float = 0.0) -> tuple[float, float]:
        ends = float(self._table.knots[0]), float(self._table.knots[-1])
        return ends if self._sign > 0 else (-ends[1], -ends[0])

    @property
    def delta_error(self) -> float:
        return 5e-9

    def delta(self, epsilon: float) -> float:
        return (
            bins_delta(self.law, epsilon).value
            if 0 <= epsilon < math.inf
            else super().delta(epsilon)
        )

    def describe(self) -> str:
        return self.law.describe()


def on_lines(steps: tuple[Step, ...]) -> tuple[Step, ...]:
    """The steps, bins of independent noise as pairs on a line; others as they are."""
    return tuple(
        Step(BinsPair(s.law), s.count) if isinstance(s.law, IndependentBins) else s for s in steps
    )
