"""Balls in bins with independent noise as a pair on a line, for estimates.

The ratio ``L`` of one training is a number, so its loss is one of a pair on a line: ``log L`` has some density ``q``
under ``Q`` and ``e^y q(y)`` under ``P``. ``q`` has no closed form, but a table of it (``estimation.bins_density``)
serves as well. So bins compose with themselves, redrawn in each epoch, and with all other pairs, by the default
accountant.

Both laws must have a mass of 1. What the table lacks to that is its error; if it is not small, the table is made again
with finer integrals, and what is left is stated.

The table is for estimates. Nothing is drawn from it, and no guarantee rests on it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import numpy as np

from evr.estimation.atoms import Delta
from evr.estimation.bins import bins_delta
from evr.estimation.bins_density import NODES, WEIGHTS, Indices, LogDensity, log_density_of_mean
from evr.estimation.closed_forms import TableError, delta_error, pair_delta, table_error_of
from evr.laws import Direction, DominatingPair, Floats, Measure, Step
from evr.laws.patterns.bins import IndependentBins

_DEPTH = 170.0  # the table ends where the densities of both laws are below e^-170, or 1e-74
_PARTS = (1, 2)  # of each panel of an integral
_GOOD = 1e-10  # what the masses may lack
_TIMES = 8.0  # a density may be wrong by so many times what the masses lack
_LEAST = 1e-11  # error of a table whose masses are right
_SETTLED = 2.5e-10  # a transform's relative error, as far as its grids tell: good enough
_ALONE = 5e-9  # what is stated of it: grids that agree may both be wrong by more than they differ
_FEW = np.polynomial.legendre.leggauss(6)
_NARROW = 0.125  # of a panel: few nodes are enough


@dataclass(frozen=True, eq=False)
class RatioLaw:
    """The law of ``y = log L`` under ``P`` and ``Q``, by a table of its density under ``Q``."""

    density: LogDensity

    @property
    def ends(self) -> tuple[float, float]:
        return float(self.density.edges[0]), float(self.density.edges[-1])

    @cached_property
    def error(self) -> TableError:
        """Of the density, from what the masses of both laws lack to 1; and what is beyond the table."""
        lacking = max(abs(float(self._below[measure][-1]) - 1.0) for measure in Measure)
        return TableError(max(_LEAST, _TIMES * lacking), math.exp(-_DEPTH))

    @cached_property
    def _below(self) -> dict[Measure, Floats]:
        return {m: np.concatenate(([0.0], np.cumsum(self._pieces(m)))) for m in Measure}

    @cached_property
    def _above(self) -> dict[Measure, Floats]:
        return {m: np.concatenate((np.cumsum(self._pieces(m)[::-1])[::-1], [0.0])) for m in Measure}

    def _pieces(self, measure: Measure) -> Floats:
        edges = self.density.edges
        return self._within(measure, np.arange(edges.size - 1), edges[:-1], edges[1:])

    def _within(self, measure: Measure, panel: Indices, low: Floats, high: Floats) -> Floats:
        """Mass of intervals, each in one panel."""
        found = np.zeros(panel.size)
        narrow = high - low < _NARROW * 2.0 * self.density.half[panel]
        for some, (nodes, weights) in ((narrow, _FEW), (~narrow, (NODES, WEIGHTS))):
            half = (high[some] - low[some])[:, None] / 2
            y = low[some][:, None] + half * (1.0 + nodes)
            exponent = self.density.on(panel[some], y) + (y if measure is Measure.P else 0.0)
            found[some] = (np.exp(exponent) * half) @ weights
        return found

    def mass(self, measure: Measure, low: Floats, high: Floats) -> Floats:
        """Of intervals, accurate relative to it."""
        edges = self.density.edges
        low, high = (np.clip(y, *self.ends) for y in (low, high))
        high = np.maximum(low, high)
        first = np.clip(np.searchsorted(edges, low, side="right") - 1, 0, edges.size - 2)
        last = np.clip(np.searchsorted(edges, high, side="left") - 1, first, edges.size - 2)
        found = self._within(measure, first, low, np.minimum(high, edges[first + 1]))
        far = last > first
        start, end = first[far] + 1, last[far]
        below, above = self._below[measure], self._above[measure]
        between = np.where(edges[start] > 0, above[start] - above[end], below[end] - below[start])
        found[far] += between + self._within(measure, end, edges[end], high[far])
        return found

    def delta(self, epsilon: float, direction: Direction) -> float:
        """Of one training: an integral without cancellation."""
        edges = self.density.edges
        sign = 1.0 if direction is Direction.REMOVE else -1.0
        kink = min(max(sign * epsilon, edges[0]), edges[-1])
        edges = np.union1d(edges, [kink])
        middle = (edges[1:] + edges[:-1]) / 2
        half = np.diff(edges)[:, None] / 2
        y = middle[:, None] + half * NODES
        exponent = self.density.on(self.density.panel_of(middle), y) + (y if sign > 0 else 0.0)
        gain = -np.expm1(np.minimum(epsilon - sign * y, 0.0))
        return float(np.sum((np.exp(exponent) * gain * half) @ WEIGHTS))


@lru_cache(maxsize=64)
def ratio_law(bins: int, energy: float) -> RatioLaw:
    """The law of ``log L``, made again with finer integrals while its masses are not good."""
    found = []
    for parts in _PARTS:
        found.append(RatioLaw(log_density_of_mean(bins, energy, _DEPTH, parts)))
        if found[-1].error.relative <= _TIMES * _GOOD:
            break
    return min(found, key=lambda law: law.error.relative)


@lru_cache(maxsize=4096)
def _alone(law: IndependentBins, epsilon: float) -> Delta:
    """Delta of one training: by a transform, or by the table where that is not good enough."""
    found = bins_delta(law, epsilon)
    if found.error <= _SETTLED * found.value:
        return Delta(found.value, _ALONE * found.value)
    table = ratio_law(law.bins, law.energy)
    value = table.delta(epsilon, law.direction)
    by_table = Delta(value, table.error.of(value))
    return min(found, by_table, key=lambda delta: delta.error)


@dataclass(frozen=True)
class BinsPair(DominatingPair):
    """``IndependentBins`` as a pair on the line of its losses."""

    law: IndependentBins

    @property
    def _sign(self) -> float:
        return 1.0 if self.law.direction is Direction.REMOVE else -1.0

    @property
    def table(self) -> RatioLaw:
        """Of both laws."""
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
        with np.errstate(divide="ignore"):
            return np.log(self.table.mass(measure, low.ravel(), high.ravel())).reshape(low.shape)

    def draw(self, measure: Measure, generator: np.random.Generator, size: int) -> Floats:
        """By the law itself, whatever the table's error is."""
        coordinates = self.law.draw_null(generator, size)
        if (measure is Measure.P) == (self._sign > 0):  # with the record: any bin will do
            coordinates[:, 0] += self.law.energy
        return np.asarray(self._sign * self.law.log_ratio(coordinates))

    def span(self, order: float = 0.0) -> tuple[float, float]:
        low, high = self.table.ends
        return (low, high) if self._sign > 0 else (-high, -low)

    def describe(self) -> str:
        return self.law.describe()


@table_error_of.register
def _(pair: BinsPair) -> TableError:
    return pair.table.error


@pair_delta.register
def _(pair: BinsPair, epsilon: float) -> float:
    if 0 <= epsilon < math.inf:
        return _alone(pair.law, epsilon).value
    return pair_delta.dispatch(DominatingPair)(pair, epsilon)


@delta_error.register
def _(pair: BinsPair, epsilon: float) -> float:
    if 0 <= epsilon < math.inf:
        return _alone(pair.law, epsilon).error
    return pair.table.error.of(1.0)


def on_lines(steps: tuple[Step, ...]) -> tuple[Step, ...]:
    """The steps, bins of independent noise as pairs on a line; others as they are."""
    return tuple(Step(BinsPair(s.law), s.count) if isinstance(s.law, IndependentBins) else s for s in steps)
