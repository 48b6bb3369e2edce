"""The density of the ratio ``L`` of balls in bins with independent noise, anywhere, to some ten
digits.

``S = b L`` is a sum of ``b`` log-normal ratios. Its density at ``x`` is a sum over how many of them
exceed a cut ``c``; each term is a convolution of powers, of the ratios below and above the cut,
tilted such that it is centred at ``x``. Two or more above the cut matter little when it is placed
where the tilted density of one ratio is least: below it, the bulk shares the excess, above it a
jump carries it.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from scipy.fft import irfft, rfft
from scipy.optimize import brentq
from scipy.special import gammaln, ndtr

from evr.estimation.bins import Nodes, nodes_between, spread
from evr.estimation.sums import dot
from evr.laws import Floats
from evr.laws.mixture.bins import IndependentBins

_SAME = 1e-10  # change of a density's logarithm from one grid to the next
_LEAST, _MOST = 2**11, 2**16  # points of a grid
_TAIL = 38.0  # log of the tilted mass that may wrap around
_MOST_JUMPS = 3
_NEGLIGIBLE = -30.0
_FAR = 2.4
_FEW = 32
_RARE = 0.02  # expected number above the cut
_NOISE = 1e-14  # of a transform, relative to its greatest value
_BEYOND = 0.1  # in the loss: where the law of one ratio ends, for a density below


class _Term(NamedTuple):
    """So many ratios below the cut and above it; the tilt that centres their
    sum, and where it is.
    """

    below: int
    above: int
    slope: float
    low: float
    high: float
    deviation: float
    log_bound: float


class _Ratios:
    """One ratio below and above a cut, in units of the greatest sum."""

    def __init__(self, law: IndependentBins, log_unit: float, log_cut: float) -> None:
        self.law, self.log_unit, self.log_cut = law, log_unit, log_cut
        reach = 38.0 * math.sqrt(law.energy) + law.energy / 2 - log_unit
        self.parts = [
            self.nodes(above)
            for above in ((False, True) if log_cut < min(0.0, reach) else (False,))
        ]

    def nodes(self, above: bool, size: int = 0, slope: float = 0.0) -> Nodes:
        low, high = (self.log_cut, 0.0) if above else (-math.inf, self.log_cut)
        few = self.law.bins <= _FEW or above
        return nodes_between(self.law.energy, low, high, self.log_unit, size, slope, few=few)

    def moments(self, powers: tuple[int, int], slope: float) -> tuple[float, float, float]:
        """Mean and variance of the tilted sum, and the logarithm of what it is normalised by."""
        mean = variance = log_total = 0.0
        for nodes, power in zip(self.parts, powers, strict=False):
            if power:
                weights, log_one = nodes.tilted(slope)
                one = dot(weights, nodes.ratios)
                mean += power * one
                variance += power * dot(weights, (nodes.ratios - one) ** 2)
                log_total += power * log_one
        return mean, variance, log_total

    def term(self, below: int, above: int, place: float) -> _Term | None:
        """The term, tilted to ``place``; None if its sum never is there."""
        powers = (below, above)

        def gap(slope: float) -> float:
            return self.moments(powers, slope)[0] - place

        reach = 1.0
        while gap(-reach) > 0 or gap(reach) < 0:
            reach *= 2
            if reach > 1e9:
                return None
        slope = float(brentq(gap, -reach, reach, xtol=1e-9 * reach, rtol=1e-9))
        mean, variance, log_total = self.moments(powers, slope)
        deviation = math.sqrt(variance) + 1e-300
        highs, lows = [], []
        for shift in np.geomspace(1e-3, 30.0, 25) / deviation:
            highs.append((self.moments(powers, slope + shift)[2] - log_total + _TAIL) / shift)
            lows.append((log_total - self.moments(powers, slope - shift)[2] - _TAIL) / shift)
        low, high = max(*lows, 0.0), max(min(highs), mean)
        ways = gammaln(below + above + 1) - gammaln(below + 1) - gammaln(above + 1)
        log_bound = float(ways) + log_total - slope * place
        return _Term(below, above, slope, low, high, deviation, log_bound)

    def log_density(self, term: _Term, sums: Floats, points: int) -> Floats:
        """``log`` of the term's density at some sums, on a ring of so many points."""
        size = max(2, math.floor(points / (1.05 * (term.high - term.low) + 1e-12)))
        transform, log_total = np.ones(points // 2 + 1, dtype=complex), 0.0
        for above, power in enumerate((term.below, term.above)):
            if power:
                nodes = self.nodes(bool(above), size, term.slope)
                weights, log_one = nodes.tilted(term.slope)
                transform *= rfft(spread(nodes.ratios * size, weights, points)) ** power
                log_total += power * log_one
        ring = irfft(transform, points)
        ways = (
            gammaln(term.below + term.above + 1) - gammaln(term.below + 1) - gammaln(term.above + 1)
        )
        density = _interpolated(ring, sums * size)
        density = np.where(density > _NOISE * float(ring.max()), size * density, 0.0)
        with np.errstate(divide="ignore"):
            return np.log(density) + float(ways) + log_total - term.slope * sums


def _interpolated(ring: Floats, places: Floats) -> Floats:
    """Values between the points of a ring, by eight-point Lagrange interpolation."""
    first = np.floor(places).astype(np.int64) - 3
    x, out = places - first, np.zeros(places.size)
    for k in range(8):
        share = ring[(first + k) % ring.size]
        for other in range(8):
            if other != k:
                share = share * (x - other) / (k - other)
        out += share
    return out


def density_on(law: IndependentBins, losses: Floats) -> tuple[Floats, float]:
    """``log`` of the density of ``log L`` under ``Q`` at losses of a short interval; the deviation
    of a loss tilted to there.
    """
    log_unit = float(losses.max()) + math.log(law.bins) + _BEYOND
    sums = np.exp(losses - losses.max() - _BEYOND)
    place = float(sums[sums.size // 2])
    log_cut = _log_cut(law, float(sums[0]) * math.exp(log_unit))
    above = float(ndtr(-(log_cut + law.energy / 2) / math.sqrt(law.energy)))
    rare = log_cut - log_unit < math.log(place / 2) and law.bins * above < _RARE
    ratios = _Ratios(law, log_unit, log_cut - log_unit if rare else 0.0)
    jumps = min(_MOST_JUMPS, law.bins) if len(ratios.parts) > 1 else 0
    terms = [ratios.term(law.bins - k, k, place) for k in range(jumps + 1)]
    known = [term for term in terms if term is not None]
    most = max(term.log_bound for term in known)
    total = np.full(losses.size, -np.inf)
    for term in known:
        if term.log_bound > most + _NEGLIGIBLE:
            total = np.logaddexp(total, _converged(ratios, term, sums))
    main = max(known, key=lambda term: term.log_bound)
    return total + np.log(sums), main.deviation / place


def _converged(ratios: _Ratios, term: _Term, sums: Floats) -> Floats:
    points, found, change = _LEAST, ratios.log_density(term, sums, _LEAST), math.inf
    while points < _MOST and change > _SAME:
        points, previous = 2 * points, found
        found = ratios.log_density(term, sums, points)
        with np.errstate(invalid="ignore"):
            change = float(np.max(np.nan_to_num(np.abs(found - previous), nan=0.0)))
    return found


def _log_cut(law: IndependentBins, x: float) -> float:
    """Where the density of one ratio is least when tilted such that the bulk's sum is ``x``, or as
    near as it gets.

    It is the upper root of ``slope = (log a + 3 g / 2) / (g a)``. A steeper tilt moves the bulk
    further, until the cut that goes with it leaves too little of the bulk.
    """
    if x <= law.bins:
        return math.inf
    cuts, means = _cuts(law.bins, law.energy)
    reached = np.flatnonzero(means >= x)
    cut = float(cuts[reached[0]] if reached.size else cuts[np.argmax(means)])
    return (
        max(cut, math.log(0.45 * x)) if x > _FAR * law.bins else cut
    )  # a jump that makes up most of the sum


@lru_cache(maxsize=64)
def _cuts(bins: int, energy: float) -> tuple[Floats, Floats]:
    """Cuts from far to near, as logarithms, and the bulk's mean sum at the tilt that goes with
    each.
    """
    start = 1.0 - 1.5 * energy
    top = max(start + 1.0, 10.0 * math.sqrt(energy) + energy, math.log(bins) + 12.0)
    cuts = np.linspace(top, start + 0.2, 160)
    means = []
    for cut in cuts.tolist():
        slope = (cut + 1.5 * energy) / energy  # times e^-cut, the unit here
        nodes = nodes_between(energy, -math.inf, 0.0, cut)
        weights, _ = nodes.tilted(slope)
        means.append(bins * dot(weights, nodes.ratios) * math.exp(cut))
    return cuts, np.array(means)
