"""Near-exact delta of balls in bins with independent noise, fixed for the whole training. No guarantee rests on it.

``L`` is a mean of ``b`` independent log-normal ratios ``A``, so delta is an expectation over a sum ``S`` of scalars:

    remove:  E[(S - K)_+] / b,  K = b e^epsilon          add:  e^epsilon E[(K - S)_+] / b,  K = b e^-epsilon

A ratio above ``K`` decides by itself: the rest is then known in closed form (remove), or nothing (add). What remains is
bounded, so it can be tilted, ``e^{slope A}``, such that the sum is centred at ``K``; its law is a power of one Fourier
transform on a grid (``estimation.grid``) that has ``K`` as a point, whose kink the Euler-Maclaurin formula mends.

``log L`` is the loss of a pair on a line, with a density ``q`` under ``Q`` and ``e^y q(y)`` under ``P``, held in a
table (``estimation.bins_density``). So bins compose with themselves, redrawn in each epoch, and with all other pairs.
What the masses of both laws lack to 1 is the table's error, which is stated.
"""

import math
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
from scipy.special import log_ndtr

from evr._estimate.atoms import Delta
from evr._estimate.bins_density import NODES, WEIGHTS, Indices, LogDensity, log_density_of_mean
from evr._estimate.closed_forms import TableError, delta_error, pair_delta, table_error_of
from evr._estimate.points import LossPoints, dot
from evr._estimate.spectrum import spread
from evr._estimate.tilting import TiltedSum
from evr._kernel.pairs import Direction, DominatingPair, Floats, Measure
from evr._kernel.pairs.line.gaussian import GaussianPair
from evr._kernel.pairs.patterns.bins import IndependentBins

_RELATIVE = 2e-10  # wanted of the change from a grid of twice the width
_ROUNDING = 1e-15  # of a transform, relative to the Chernoff bound
_REACH = 38.5
_FAR = 690.0
_EIGHT = np.polynomial.legendre.leggauss(8)
_POINTS = tuple(2**n for n in range(12, 19))  # more of them take longer than a table
_MOST_NODES = 2**19  # times eight
_DEPTH = 170.0  # the table ends where the densities of both laws are below e^-170, or 1e-74
_PARTS = (1, 2)  # of each panel of an integral
_GOOD = 1e-10  # what the masses may lack
_TIMES = 8.0  # a density may be wrong by so many times what the masses lack
_LEAST = 1e-11  # error of a table whose masses are right
_SETTLED = 2.5e-10  # a transform's relative error, as far as its grids tell: good enough
_ALONE = 5e-9  # what is stated of it: grids that agree may both be wrong by more than they differ
_FEW = np.polynomial.legendre.leggauss(6)
_NARROW = 0.125  # of a panel: few nodes are enough


def bins_delta(law: IndependentBins, epsilon: float) -> Delta:
    """Delta of one training, with an estimate of the error.

    Examples
    --------
    >>> law = IndependentBins(Direction.REMOVE, bins=100, energy=10 / 3**2)
    >>> f"{bins_delta(law, 1.0).value:.6e}"
    '1.302178e-06'
    """
    if epsilon > _FAR:  # e^epsilon is no float: as if the record's bin were known, which is no less
        value = pair_delta(GaussianPair(math.sqrt(law.energy)), epsilon)
        return Delta(value, value)
    if law.direction is Direction.ADD:
        found = _bounded_part(law, math.log(law.bins) - epsilon, -1.0)
        return Delta(min(1.0, found.value), found.error)
    beyond, scale = _beyond(law, epsilon), math.exp(epsilon)
    found = _bounded_part(law, math.log(law.bins) + epsilon, 1.0, apart=beyond / scale)
    return Delta(min(1.0, beyond + scale * found.value), scale * found.error + 1e-13 * beyond)


def _beyond(law: IndependentBins, epsilon: float) -> float:
    """``E[S - K; some ratio above K] / b = q E[(A-K)_+] + (1 - K/b)(1 - q) + q (b-1) K p / b`` with ``p = P(A > K)``
    and ``q = (1-p)^{b-1}``, for ``E[A; A > K] = E[(A-K)_+] + K p``.
    """
    b, pair = law.bins, GaussianPair(math.sqrt(law.energy))
    threshold = epsilon + math.log(b)
    above = float(np.exp(log_ndtr(-(threshold + law.energy / 2) / math.sqrt(law.energy))))
    all_others = math.exp((b - 1) * math.log1p(-above))
    some = -math.expm1((b - 1) * math.log1p(-above))
    linear = some + math.exp(epsilon) * (all_others * (b - 1) * above - some)
    return max(0.0, all_others * pair_delta(pair, threshold) + linear)


def _bounded_part(law: IndependentBins, log_kink: float, sign: float, apart: float = 0.0) -> Delta:
    """``E[(sign (S/K - 1))_+; no ratio above K]``, accurate relative to its sum with ``apart``. Here and below, ratios
    are in units of ``K`` and have the sign, so that the kink is at ``sign``.
    """
    start = TiltedSum([_nodes(law.energy, log_kink, sign)], [law.bins], 0.0)
    if start.mean_excess(sign) < 0.0:
        order = start.crossing(start.guess(sign), sign)
        if order is None:
            return Delta(0.0, 0.0)
        start = start.at(order)
    low, high = start.range(sign)
    low, high = min(low, 0.0), max(high, 0.0)
    best, previous = Delta(0.0, math.inf), math.inf
    for points in _POINTS:
        size = max(2, math.floor(points / (1.02 * (high - low))))  # of them up to the kink
        value, scale = _on_grid(law, log_kink, sign, start.order, (size, points, math.ceil(1.02 * high * size)))
        found = Delta(float(max(0.0, value)), abs(value - previous) + _ROUNDING * scale + 1e-13 * abs(value))
        best = min(best, found, key=lambda delta: delta.error)
        if found.error <= _RELATIVE * (value + apart) + 2 * _ROUNDING * scale:
            break
        previous = value
    return best


def _nodes(energy: float, log_kink: float, sign: float, size: int = 0, slope: float = 0.0) -> LossPoints:
    """Gauss-Legendre nodes of a ratio up to the kink. For a grid of ``size`` points up to the kink and a tilt they are
    no further apart than its points where it matters.
    """
    deviation, shift = math.sqrt(energy), energy / 2 + log_kink
    top = min(shift / deviation, _REACH + deviation)
    edges = np.linspace(min(-_REACH, top - _REACH), top, 513)
    ratios = np.exp(deviation * edges - shift)
    exponent = sign * slope * ratios - edges**2 / 2
    matters = np.maximum(exponent[:-1], exponent[1:]) > exponent.max() - 60.0
    wanted = np.ceil(matters * np.diff(ratios) * size / 8)
    parts = np.clip(wanted, 1, _MOST_NODES // 512).astype(np.int64)
    starts = np.repeat(edges[:-1], parts)
    lengths = np.repeat(np.diff(edges) / parts, parts)
    offset = np.arange(parts.sum()) - np.repeat(np.cumsum(parts) - parts, parts)
    points, weights = _EIGHT
    t = (starts + lengths * offset)[:, None] + lengths[:, None] * (points + 1) / 2
    log_weights = np.log(weights / 2) + np.log(lengths)[:, None] - t**2 / 2 - math.log(2 * math.pi) / 2
    found = sign * np.exp(deviation * t - shift).ravel()
    return LossPoints(found, log_weights.ravel(), np.zeros(found.size, dtype=bool))


def _on_grid(
    law: IndependentBins, log_kink: float, sign: float, slope: float, grid: tuple[int, int, int]
) -> tuple[float, float]:
    """The expectation on a grid (a ring that holds the sum's range), and what its rounding is relative to. The grid has
    so many points up to the kink, in all, and beyond the kink.
    """
    size, points, reach = grid
    nodes = _nodes(law.energy, log_kink, sign, size, slope)
    tilted = TiltedSum([nodes], [law.bins], slope)
    spectrum = np.fft.rfft(spread(nodes.losses * size, tilted.parts[0].weights, points))
    probabilities = np.fft.irfft(spectrum**law.bins, points)
    scale, kink, fall = math.exp(min(tilted.log_bound(sign), 700.0)), round(sign * size), slope / size
    steps = np.arange(max(2, min(reach, points)))  # away from the kink
    near = probabilities[(kink + steps) % points] * np.exp(-fall * steps)
    bend = near[1] - 2 * near[0] + probabilities[(kink - 1) % points] * math.exp(fall)
    total = dot(near, steps.astype(float)) + near[0] / 12 - bend / 240  # Euler-Maclaurin at the kink
    return float(scale * total / size), scale / size


@dataclass(frozen=True, eq=False)
class RatioLaw:
    """The law of ``y = log L`` under ``P`` and ``Q``, by a table of its density under ``Q``."""

    density: LogDensity

    @property
    def ends(self) -> tuple[float, float]:
        return float(self.density.edges[0]), float(self.density.edges[-1])

    @cached_property
    def error(self) -> TableError:
        """The error of the density, from what the masses of both laws lack to 1; and the mass beyond the table."""
        lacking = max(abs(float(below[-1]) - 1.0) for below, _ in self._sums.values())
        return TableError(max(_LEAST, _TIMES * lacking), math.exp(-_DEPTH))

    @cached_property
    def _sums(self) -> dict[Measure, tuple[Floats, Floats]]:
        """Masses below and above each edge."""
        edges, found = self.density.edges, {}
        for measure in Measure:
            pieces = self._within(measure, np.arange(edges.size - 1), edges[:-1], edges[1:])
            below, above = np.cumsum(pieces), np.cumsum(pieces[::-1])[::-1]
            found[measure] = np.concatenate(([0.0], below)), np.concatenate((above, [0.0]))
        return found

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
        """The mass of intervals, with a relative error."""
        edges = self.density.edges
        low, high = (np.clip(y, *self.ends) for y in (low, high))
        high = np.maximum(low, high)
        first = np.clip(np.searchsorted(edges, low, side="right") - 1, 0, edges.size - 2)
        last = np.clip(np.searchsorted(edges, high, side="left") - 1, first, edges.size - 2)
        found = self._within(measure, first, low, np.minimum(high, edges[first + 1]))
        far = last > first
        start, end = first[far] + 1, last[far]
        below, above = self._sums[measure]
        between = np.where(edges[start] > 0, above[start] - above[end], below[end] - below[start])
        found[far] += between + self._within(measure, end, edges[end], high[far])
        return found

    def delta(self, epsilon: float, direction: Direction) -> float:
        """Delta of one training, by an integral without cancellation."""
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
    if not 0 <= epsilon < math.inf:
        pair = BinsPair(law)
        return Delta(pair_delta.dispatch(DominatingPair)(pair, epsilon), pair.table.error.of(1.0))
    found = bins_delta(law, epsilon)
    if found.error <= _SETTLED * found.value:
        return Delta(found.value, _ALONE * found.value)
    table = ratio_law(law.bins, law.energy)
    value = table.delta(epsilon, law.direction)
    return min(found, Delta(value, table.error.of(value)), key=lambda delta: delta.error)


@dataclass(frozen=True)
class BinsPair(DominatingPair):
    """``IndependentBins`` as a pair on the line of its losses."""

    law: IndependentBins

    @property
    def _sign(self) -> float:
        return 1.0 if self.law.direction is Direction.REMOVE else -1.0

    @property
    def table(self) -> RatioLaw:
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
    return _alone(pair.law, epsilon).value


@delta_error.register
def _(pair: BinsPair, epsilon: float) -> float:
    return _alone(pair.law, epsilon).error
