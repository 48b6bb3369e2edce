"""What is proved of the paper's importance sampling for equal Poisson-sampled Gaussian steps.

Notation of Wang et al. (2023), Appendix D, in units of the noise: ``P = (1-q) N(0,1) + q N(mu,1)``, ``mu = 1/sigma``,
so their ``t`` is ``sigma t`` here and ``e^{theta t}`` is ``e^{slope t}`` with ``slope = theta sigma``. A sample is

    X = S W,  S = (1 - e^{epsilon - Y})_+,  W = k M / Z,  Z = sum_i e^{slope t_i},  M = E_P[e^{slope t}]

The bound on ``E[X^2]`` is a decomposition by the greatest step, which needs no Hoelder inequality. The paper's three
theorems are in ``paper/theorems.py``. Proofs: docs/guarantees_single.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from evr.bounds.moments import log_peak
from evr.bounds.spreading import Cells, even_edges
from evr.laws import Direction, Floats
from evr.laws.line.gaussian import GaussianPair, log_normal_mass
from evr.laws.line.pair import log_sum_exp
from evr.laws.line.poisson import SampledPair

_REAL_ORDERS = np.geomspace(0.02, 250.0, 64)


@dataclass(frozen=True)
class SingleBounds:
    """Bounds for ``count`` equal steps of one pair; ``cells`` is how finely the line is cut."""

    mu: float
    q: float
    count: int
    cells: int = 4096

    @cached_property
    def pair(self) -> SampledPair:
        """The pair of one step."""
        return SampledPair(GaussianPair(self.mu), self.q, Direction.REMOVE)

    def log_normaliser(self, slope: float) -> float:
        """``log M``, exact; at a negative slope too."""
        return slope**2 / 2 + float(np.logaddexp(math.log1p(-self.q), math.log(self.q) + slope * self.mu))

    def least_mean_point(self, total: float) -> float:
        """The point at which every step has an equal share of a total loss."""
        return float(self.pair.point(total / self.count))

    @cached_property
    def _table(self) -> Cells:
        cells = Cells.of(self.pair, even_edges(self.pair, self.cells))
        held = cells.log_p > -np.inf
        return Cells(*(column[held] for column in cells))

    @cached_property
    def _log_rests(self) -> Floats:
        """``log E_P[e^{s loss}; t <= upper end]`` from above: by order, order 0 first, and by cell."""
        table = self._table
        rows = [np.minimum(np.logaddexp.accumulate(table.log_p), 0.0)]
        lower, upper = table.spread()  # a chord is above what is convex in e^{-loss}
        for s in _REAL_ORDERS:
            ends = np.logaddexp(lower + s * table.least, upper + s * table.greatest)
            rows.append(np.logaddexp.accumulate(ends))
        return np.stack(rows)

    def _log_given_greatest(self, epsilon: float, p: float) -> Floats:
        """For each cell, ``log`` of a bound on ``E[S^p; the others are not greater]`` given one step in the cell."""
        table, k = self._table, self.count
        constants = np.array([log_peak(float(s), p) for s in _REAL_ORDERS])
        with np.errstate(invalid="ignore"):
            chernoff = constants[:, None] + _REAL_ORDERS[:, None] * (table.greatest - epsilon)
        log_rests = (k - 1) * self._log_rests if k > 1 else np.zeros_like(self._log_rests)
        log_rest = np.minimum(log_rests[0], (chernoff + log_rests[1:]).min(axis=0))
        with np.errstate(divide="ignore"):
            log_most = p * np.log(-np.expm1(np.minimum(epsilon - k * table.greatest, 0.0)))
        return np.minimum(log_rest, log_most)

    def log_moment(self, epsilon: float, p: float, slope: float) -> float:
        """``log`` of a bound on ``E[X^p]``, ``p >= 1``; with ``p = 1`` on delta, whatever the slope."""
        table, tilt = self._table, (p - 1) * slope
        weights = (math.log1p(-self.q), math.log(self.q) - tilt * self.mu)
        first, second = (
            w + log_normal_mass(table.low + tilt - m, table.high + tilt - m)
            for w, m in zip(weights, (0.0, self.mu), strict=True)
        )
        mass = tilt**2 / 2 + np.logaddexp(first, second)  # E_P[e^{-(p-1) slope t}; cell]
        if slope >= self.mu:
            log_least = math.log(self.count) + slope * self.least_mean_point(epsilon)
            mass = np.minimum(mass, table.log_p - (p - 1) * log_least)
        log_sum = log_sum_exp(mass + self._log_given_greatest(epsilon, p))
        return (p - 1) * (math.log(self.count) + self.log_normaliser(slope)) + math.log(self.count) + log_sum

    def log_delta(self, epsilon: float) -> float:
        """``log`` of an upper bound on delta."""
        return self.log_moment(epsilon, 1.0, self.mu)

    def log_greatest(self, epsilon: float, slope: float) -> float:
        """``log`` of a bound on ``X``: of ``(1 - e^{epsilon - v}) k M / min{Z : Y = v}`` for all ``v``, from above."""
        v = epsilon + np.concatenate(([0.0], np.geomspace(1e-6, 60.0, 4000)))
        log_z = slope * self.pair.point(v / self.count) + (math.log(self.count) if slope >= self.mu else 0.0)
        with np.errstate(divide="ignore"):
            log_s = np.log(-np.expm1(epsilon - np.append(v[1:], np.inf)))
        return math.log(self.count) + self.log_normaliser(slope) + float(np.max(log_s - log_z))
