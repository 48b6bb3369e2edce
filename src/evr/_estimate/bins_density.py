"""The density of the ratio ``L`` of balls in bins with independent noise, to some eleven digits everywhere.

``L`` is a mean of log-normal ratios. If ``e^y = c e^v + (1 - c) e^x`` with independent ``v`` and ``x``, then

    h(y) = int f(v) g(x) e^{y - x} / (1 - c) dv,   x = log((e^y - c e^v) / (1 - c))

is the density of ``y``, without cancellation however far out ``y`` is. Joining two means of ``n`` ratios, and one ratio
more where needed, a dozen joins reach 5000 bins. A density is held by its logarithm, as polynomials on some hundred
panels, halved until their last coefficients vanish. Integrals take Gauss-Legendre nodes on the common panels of both
factors, but for panels that cannot matter.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.polynomial.chebyshev import chebval
from numpy.typing import NDArray

from evr._kernel.pairs import Floats

_DEGREE = 14
_SMALL = 4e-13  # of a last coefficient, relative to the logarithm and to 1
_NATS = 8.0  # by which a density changes on a panel at the most
_LEFT_OUT = 40.0  # nats below the largest panel: what an integral leaves out
_MARGIN = 60.0  # nats that the densities of fewer ratios reach further down
_MOST_HALVINGS = 40
_BISECTIONS = 12  # to find where a density ends
_AT_ONCE = 400_000  # panels
_STEPS = 0.5  # between edges of its own that the map from v to x has
_K = np.arange(_DEGREE + 1)
_ANGLES = math.pi * (_K + 0.5) / (_DEGREE + 1)
_PLACES = np.cos(_ANGLES)
_FIT = np.cos(np.outer(_K, _ANGLES)) * np.where(_K > 0, 2.0, 1.0)[:, None] / (_DEGREE + 1)
NODES, WEIGHTS = np.polynomial.legendre.leggauss(16)
_EVEN = np.linspace(-1.0, 1.0, 9)

Indices = NDArray[np.int64]
Panels = tuple[Floats, Floats, Floats]  # lower and upper ends, and coefficients of Chebyshev polynomials in columns


@dataclass(frozen=True, eq=False)
class LogDensity:
    """The logarithm of a density on ``[edges[0], edges[-1]]``; beyond, it is nothing."""

    edges: Floats
    coefficients: Floats

    @cached_property
    def middle(self) -> Floats:
        return (self.edges[1:] + self.edges[:-1]) / 2

    @cached_property
    def half(self) -> Floats:
        return np.diff(self.edges) / 2

    @cached_property
    def bounds(self) -> tuple[Floats, Floats]:
        """About the least and the greatest value on each panel."""
        values = chebval(np.broadcast_to(_EVEN, (self.half.size, 9)), self.coefficients[:, :, None], tensor=False)
        return values.min(axis=1), values.max(axis=1)

    def on(self, panels: Indices, y: Floats) -> Floats:
        """Values at places of the panels, a row for each."""
        places = (y - self.middle[panels][:, None]) / self.half[panels][:, None]
        return np.asarray(chebval(places, self.coefficients[:, panels, None], tensor=False), float)

    def panel_of(self, y: Floats) -> Indices:
        """Out of range where there is none."""
        return np.searchsorted(self.edges, y, side="right") - 1


def _places(low: Floats, high: Floats) -> Floats:
    """Where polynomials are fitted, a row for each panel."""
    return ((low + high) / 2)[:, None] + ((high - low) / 2)[:, None] * _PLACES


def _halves(low: Floats, high: Floats) -> tuple[Floats, Floats]:
    middle = (low + high) / 2
    return np.concatenate((low, middle)), np.concatenate((middle, high))


def _joined(parts: list[Panels]) -> LogDensity:
    low, high, coefficients = (np.concatenate(x, axis=-1) for x in zip(*parts, strict=True))
    rising = np.argsort(low)
    return LogDensity(np.append(low[rising], high[rising[-1]]), coefficients[:, rising])


def log_density_of_mean(bins: int, energy: float, depth: float, parts: int = 1) -> LogDensity:
    """The density of ``log L`` under ``Q``, where it or that under ``P`` is above ``e^-depth``."""
    highest = energy / 2 + math.sqrt(2 * depth * energy) - math.log(bins)
    lowest = -(depth + max(highest, 0.0) + _MARGIN)

    def inner(y: Floats, log_density: Floats) -> NDArray[np.bool_]:
        return log_density > lowest

    def outer(y: Floats, log_density: Floats) -> NDArray[np.bool_]:
        return log_density + np.maximum(y, 0.0) > -depth

    one = _of_one(energy, -lowest)
    found, count = one, 1
    for bit in bin(bins)[3:]:
        held = outer if 2 * count == bins else inner
        found, count = _of_both(found, found, 0.5, held, parts), 2 * count
        if bit == "1":
            held = outer if count + 1 == bins else inner
            found, count = _of_both(one, found, 1 / (count + 1), held, parts), count + 1
    return found


def _of_one(energy: float, depth: float) -> LogDensity:
    """A normal law, whose logarithm is a polynomial."""
    log_top = -math.log(2 * math.pi * energy) / 2
    z = np.sqrt(2 * _NATS * np.arange(math.ceil((depth + max(log_top, 0.0)) / _NATS) + 1))
    z = np.unique(np.concatenate((-z, [-1.5, 1.5], z)))
    edges = math.sqrt(energy) * z
    values = log_top - _places(edges[:-1], edges[1:]) ** 2 / (2 * energy)
    return LogDensity(edges - energy / 2, _FIT @ values.T)


def _of_both(
    first: LogDensity, second: LogDensity, share: float, held: Callable[[Floats, Floats], NDArray[np.bool_]], parts: int
) -> LogDensity:
    """The density of ``log(share e^v + (1 - share) e^x)`` where it is held."""

    def value(y: Floats) -> Floats:
        if first is second:
            return math.log(2.0) + _half(first, first, 0.5, y, parts)
        return np.logaddexp(_half(first, second, share, y, parts), _half(second, first, 1 - share, y, parts))

    edges = np.union1d(first.edges, second.edges)
    low, high = _range(edges, lambda y: held(y, value(y)))
    edges = np.concatenate(([low], edges[(edges > low) & (edges < high)][::2], [high]))
    lows, highs = edges[:-1], edges[1:]
    done: list[Panels] = []
    for left in range(_MOST_HALVINGS, 0, -1):
        places = _places(lows, highs)
        values = value(places.ravel()).reshape(places.shape)
        fitted = _FIT @ values.T
        good = np.abs(fitted[-2:]).max(axis=0) <= _SMALL * np.maximum(1.0, np.abs(values).max(axis=1))
        good |= left == 1
        done.append((lows[good], highs[good], fitted[:, good]))
        if good.all():
            break
        lows, highs = _halves(lows[~good], highs[~good])
    return _flat_enough(_joined(done))


def _range(edges: Floats, held: Callable[[Floats], NDArray[np.bool_]]) -> tuple[float, float]:
    """The ends of what is held, which is an interval, to a small part of a panel."""
    grid = np.union1d(edges, (edges[1:] + edges[:-1]) / 2)
    inside = np.flatnonzero(held(grid))
    first, last = int(inside[0]), int(inside[-1])
    within = np.array([grid[first], grid[last]])
    beyond = np.array([grid[max(first - 1, 0)], grid[min(last + 1, grid.size - 1)]])
    for _ in range(_BISECTIONS):
        middle = (within + beyond) / 2
        good = held(middle)
        within, beyond = np.where(good, middle, within), np.where(good, beyond, middle)
    return float(within[0]), float(within[1])


def _flat_enough(density: LogDensity) -> LogDensity:
    """The same polynomials on panels that are halved until none changes by more than some nats."""
    for _ in range(_MOST_HALVINGS):
        least, greatest = density.bounds
        steep = greatest - least > _NATS
        if not steep.any():
            break
        low, high = density.edges[:-1], density.edges[1:]
        halves = _halves(low[steep], high[steep])
        values = density.on(np.tile(np.flatnonzero(steep), 2), _places(*halves))
        kept = low[~steep], high[~steep], density.coefficients[:, ~steep]
        density = _joined([kept, (*halves, _FIT @ values.T)])
    return density


def _half(small: LogDensity, great: LogDensity, share: float, y: Floats, parts: int) -> Floats:
    """``log`` of the part of the integral with ``v <= y <= x``; ``share`` is that of ``e^v``."""
    rises = np.arange(_STEPS, -math.log1p(-share), _STEPS)
    # where x changes fast with v, and where it ends to
    own = np.concatenate((_fall(rises, share), [0.0, -0.5, -1.0, -2.0, -4.0, -8.0, -16.0]))
    columns = small.edges.size + great.edges.size + own.size
    rows = max(1, _AT_ONCE // columns)
    found = [_half_of_few(small, great, share, y[start : start + rows], own, parts) for start in range(0, y.size, rows)]
    return np.concatenate(found)


def _rise(fall: Floats, share: float) -> Floats:
    """``x - y`` of ``v - y``."""
    return np.log1p(-share / (1 - share) * np.expm1(fall))


def _fall(rise: Floats, share: float) -> Floats:
    """``v - y`` of ``x - y``; minus infinity where no ``v`` is small enough."""
    gone = (1 - share) / share * np.expm1(np.minimum(rise, 700.0))
    with np.errstate(divide="ignore"):
        return np.log1p(-np.minimum(gone, 1.0))


def _half_of_few(small: LogDensity, great: LogDensity, share: float, y: Floats, own: Floats, parts: int) -> Floats:
    """The same at few places, so that arrays stay small."""
    column = y[:, None]
    of_x = _fall(np.maximum(great.edges - column, 0.0), share)
    edges = np.concatenate((small.edges - column, of_x, np.broadcast_to(own, (y.size, own.size))), axis=1)
    edges = np.clip(edges, np.minimum(small.edges[0] - column, 0.0), 0.0)
    edges.sort(axis=1)
    middle = (edges[:, 1:] + edges[:, :-1]) / 2
    of_small = small.panel_of(column + middle)
    of_great = great.panel_of(column + _rise(middle, share))
    there = (edges[:, 1:] > edges[:, :-1]) & (of_small >= 0) & (of_small < small.half.size)
    row, place = np.nonzero(there & (of_great >= 0) & (of_great < great.half.size))
    of_small, of_great = of_small[row, place], of_great[row, place]
    low, high = edges[row, place], edges[row, place + 1]
    log_width = np.log(high - low)
    least, most = (a[of_small] + b[of_great] + log_width for a, b in zip(small.bounds, great.bounds, strict=True))
    top = np.full(y.size, -np.inf)
    np.maximum.at(top, row, least)
    kept = np.repeat(np.flatnonzero(most > top[row] - _LEFT_OUT), parts)
    row, of_small, of_great = row[kept], of_small[kept], of_great[kept]
    half = ((high - low)[kept] / (2 * parts))[:, None]
    number = np.arange(kept.size) % parts
    fall = low[kept][:, None] + half * (2 * number[:, None] + 1 + NODES)
    rise = _rise(fall, share)
    column = y[row][:, None]
    exponent = small.on(of_small, column + fall) + great.on(of_great, column + rise) - rise
    np.maximum.at(top, row, exponent.max(axis=1, initial=-np.inf))
    with np.errstate(divide="ignore"):
        masses = (np.exp(exponent - top[row][:, None]) * half) @ WEIGHTS
        total = np.log(np.bincount(row, masses, minlength=y.size))
    return np.where(total > -np.inf, top, 0.0) + total - math.log1p(-share)
