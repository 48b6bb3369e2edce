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

import numpy as np
from scipy.special import log_ndtr

from evr.estimation.atoms import Delta
from evr.estimation.closed_forms import pair_delta
from evr.estimation.grid import spread
from evr.estimation.points import LossPoints, dot
from evr.estimation.tilting import TiltedSum
from evr.laws import Direction
from evr.laws.line.gaussian import GaussianPair
from evr.laws.patterns.bins import IndependentBins

_RELATIVE = 2e-10  # wanted of the change from a grid of twice the width
_ROUNDING = 1e-15  # of a transform, relative to the Chernoff bound
_REACH = 38.5
_FAR = 690.0
_EIGHT = np.polynomial.legendre.leggauss(8)
_POINTS = tuple(2**n for n in range(12, 22))
_MOST_NODES = 2**19  # times eight


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

    From here on, ratios are in units of ``K`` and have the sign, so that the kink is at ``sign``.
    """
    start = TiltedSum([_nodes(law.energy, log_kink, sign)], [law.bins], 0.0)
    if start.mean_excess(sign) < 0.0:
        order = start.crossing(start.guess(sign), sign)
        if order is None:
            return Delta(0.0, 0.0)
        start = TiltedSum(start.points, start.counts, order)
    low, high = start.range(sign)
    low, high = min(low, 0.0), max(high, 0.0)
    best, previous = Delta(0.0, math.inf), math.inf
    for points in _POINTS:
        size = max(2, math.floor(points / (1.02 * (high - low))))  # of them up to the kink
        value, scale = _on_grid(law, log_kink, sign, start.order, (size, points, math.ceil(1.02 * high * size)))
        found = Delta(float(max(value, 0.0)), abs(value - previous) + _ROUNDING * scale + 1e-13 * abs(value))
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
