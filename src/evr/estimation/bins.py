"""Near-exact delta of balls in bins with independent noise, fixed for the whole training.

``L`` is a mean of ``b`` independent log-normal ratios ``A``, so delta is an expectation over a sum ``S`` of scalars:

    remove:  E[(S - K)_+] / b,  K = b e^epsilon          add:  e^epsilon E[(K - S)_+] / b,  K = b e^-epsilon

A ratio above ``K`` decides by itself: in the remove direction the rest is then linear and known in closed form, in the
add direction nothing is left. What remains is bounded, so it can be tilted, ``e^{slope A}``, such that the sum is
centred at ``K``; then its law is a power of one Fourier transform, with rounding relative to the Chernoff bound on
delta. Ratios are spread on the grid (``estimation.grid``), and ``K`` is a grid point, whose kink the Euler-Maclaurin
formula mends.

The result is an estimate with an estimate of its error (the change from a grid of twice the width), not a bound.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from scipy.fft import irfft, rfft
from scipy.optimize import brentq
from scipy.special import log_ndtr

from evr.estimation.atoms import Delta
from evr.estimation.closed_forms import pair_delta
from evr.estimation.grid import spread
from evr.estimation.points import dot
from evr.estimation.tilting import chernoff
from evr.laws import Direction, Floats
from evr.laws.line.gaussian import GaussianPair
from evr.laws.patterns.bins import IndependentBins

_RELATIVE = 2e-10  # wanted of the change from a grid of twice the width
_ROUNDING = 1e-15  # of a transform, relative to the Chernoff bound
_TAIL = 36.0  # log of the tilted mass that may wrap around
_REACH = 38.5
_FAR = 690.0
_EIGHT = np.polynomial.legendre.leggauss(8)
_POINTS = tuple(2**n for n in range(12, 22))
_MOST_NODES = 2**19  # times eight


class Nodes(NamedTuple):
    """A law on ``(0, K]``: ratios and logarithms of their weights."""

    ratios: Floats
    log_weights: Floats

    def tilted(self, slope: float) -> tuple[Floats, float]:
        """Weights tilted and normalised, and the logarithm of what they summed to."""
        exponent = self.log_weights + slope * self.ratios
        top = float(exponent.max())
        weights = np.exp(exponent - top)
        total = float(weights.sum())
        return weights / total, top + math.log(total)


class _Grid(NamedTuple):
    """Points up to the kink, and in all; how far beyond it the sum reaches; the tilt, and the side that counts."""

    size: int
    points: int
    reach: float
    slope: float
    sign: float


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
    """``E[S - K; some ratio above K] / b``, in closed form.

    With ``p = P(A > K)``, ``q = (1-p)^{b-1}`` and ``E[A; A > K] = E[(A-K)_+] + K p``, it is
    ``q E[(A-K)_+] + (1 - K/b)(1 - q) + q (b-1) K p / b``.
    """
    b, pair = law.bins, GaussianPair(math.sqrt(law.energy))
    threshold = epsilon + math.log(b)
    above = float(np.exp(log_ndtr(-(threshold + law.energy / 2) / math.sqrt(law.energy))))
    all_others = math.exp((b - 1) * math.log1p(-above))
    some = -math.expm1((b - 1) * math.log1p(-above))
    linear = some + math.exp(epsilon) * (all_others * (b - 1) * above - some)
    return max(0.0, all_others * pair_delta(pair, threshold) + linear)


def _bounded_part(law: IndependentBins, log_kink: float, sign: float, apart: float = 0.0) -> Delta:
    """``E[(sign (S/K - 1))_+; no ratio above K]``, of which accuracy relative to its sum with ``apart`` is wanted.

    From here on, ratios are in units of ``K``.
    """
    coarse = _nodes(law.energy, log_kink)
    slope = _slope(coarse, law.bins, sign)
    if math.isnan(slope):
        return Delta(0.0, 0.0)
    low, high = _range(coarse, law.bins, slope)
    best, previous = Delta(0.0, math.inf), math.inf
    for points in _POINTS:
        reach = high - 1.0 if sign > 0 else 1.0 - low
        grid = _Grid(max(2, math.floor(points / (high - low))), points, reach, slope, sign)
        nodes = _nodes(law.energy, log_kink, grid.size, slope)
        value, scale = _on_grid(nodes, law.bins, grid)
        found = Delta(float(max(value, 0.0)), abs(value - previous) + _ROUNDING * scale + 1e-13 * abs(value))
        best = min(best, found, key=lambda delta: delta.error)
        if found.error <= _RELATIVE * (value + apart) + 2 * _ROUNDING * scale:
            break
        previous = value
    return best


def _nodes(energy: float, log_kink: float, size: int = 0, slope: float = 0.0) -> Nodes:
    """Gauss-Legendre nodes of a ratio up to the kink, in its units. For a grid of ``size`` points up to the kink and a
    tilt they are no further apart than its points where it matters.
    """
    deviation, shift = math.sqrt(energy), energy / 2 + log_kink
    top = min(shift / deviation, _REACH + deviation)
    edges = np.linspace(min(-_REACH, top - _REACH), top, 513)
    ratios = np.exp(deviation * edges - shift)
    exponent = slope * ratios - edges**2 / 2
    matters = np.maximum(exponent[:-1], exponent[1:]) > exponent.max() - 60.0
    wanted = np.ceil(matters * np.diff(ratios) * size / 8)
    parts = np.clip(wanted, 1, _MOST_NODES // 512).astype(np.int64)
    starts = np.repeat(edges[:-1], parts)
    lengths = np.repeat(np.diff(edges) / parts, parts)
    offset = np.arange(parts.sum()) - np.repeat(np.cumsum(parts) - parts, parts)
    points, weights = _EIGHT
    t = (starts + lengths * offset)[:, None] + lengths[:, None] * (points + 1) / 2
    log_weights = np.log(weights / 2) + np.log(lengths)[:, None] - t**2 / 2 - math.log(2 * math.pi) / 2
    return Nodes(np.exp(deviation * t - shift).ravel(), log_weights.ravel())


def _slope(nodes: Nodes, bins: int, sign: float) -> float:
    """The slope at which the tilted sum has its mean at the kink; 0 if it is beyond it already, NaN if it never is."""

    def gap(slope: float) -> float:
        weights, _ = nodes.tilted(sign * slope)
        return sign * (bins * dot(weights, nodes.ratios) - 1.0)

    if gap(0.0) >= 0:
        return 0.0
    high = 1.0
    while gap(high) < 0:
        high *= 2
        if high > 1e12:
            return math.nan
    return sign * float(brentq(gap, 0.0, high, rtol=1e-6))


def _range(nodes: Nodes, bins: int, slope: float) -> tuple[float, float]:
    """Where the tilted sum is but for a negligible mass, by Chernoff's bound; the kink is in it."""
    weights, at_slope = nodes.tilted(slope)
    mean = dot(weights, nodes.ratios)
    deviation = math.sqrt(bins * dot(weights, (nodes.ratios - mean) ** 2)) + 1e-300
    shifts = np.geomspace(1e-3, 30.0, 31) / deviation
    up, down = (
        bins * np.array([nodes.tilted(slope + sign * shift)[1] - at_slope for shift in shifts]) for sign in (1, -1)
    )
    high = max(min(float(bins), chernoff(up, shifts, _TAIL)), 1.0)
    low = min(max(0.0, -chernoff(down, shifts, _TAIL)), 1.0)
    return low - 0.01 * (high - low), high + 0.01 * (high - low)


def _on_grid(nodes: Nodes, bins: int, grid: _Grid) -> tuple[float, float]:
    """The expectation on a grid (a ring that holds the sum's range), and what its rounding is relative to."""
    width, slope, sign = 1 / grid.size, grid.slope, int(grid.sign)
    weights, log_total = nodes.tilted(slope)
    law = irfft(rfft(spread(nodes.ratios * grid.size, weights, grid.points)) ** bins, grid.points)
    scale = math.exp(min(bins * log_total - slope, 700.0))
    steps = np.arange(grid.points if sign > 0 else min(grid.points, grid.size + 1))  # away from the kink
    near = law[(grid.size + sign * steps) % grid.points] * np.exp(-abs(slope) * width * steps)
    behind = law[(grid.size - sign) % grid.points] * math.exp(abs(slope) * width)
    bend = near[1] - 2 * near[0] + behind
    used = steps[: math.ceil(grid.reach * grid.size)]
    total = dot(near[: used.size], used.astype(float)) + near[0] / 12 - bend / 240  # Euler-Maclaurin at the kink
    return float(scale * width * total), scale * width
