"""The three theorems of Wang et al. (2023), Appendix D, on the second moment of their importance
sampling: with their slips corrected, and sharpened.

Notation as in ``single_tilt.py``, whose decomposition by the greatest step is what evr states
instead. Proofs: ``single_tilt.md``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
from scipy.special import gammaln, log_ndtr

from evr._kernel.pairs import Floats
from evr._kernel.pairs.line.gaussian import NORMAL_REACH
from evr._kernel.pairs.line.pair import log_difference, log_sum_exp
from evr._kernel.sampled.moments import log_peak
from single_tilt import SingleBounds, slope_of_least

_CONJUGATES = (1.0, *np.round(1.0 + np.geomspace(0.02, 30.0, 20), 4).tolist())
WHOLE_ORDERS = (*range(1, 33), *range(34, 65, 2), *range(68, 129, 4), *range(136, 257, 8))


def log_truncated(bounds: SingleBounds, order: int, x: Floats | float) -> Floats:
    """``log r(order, x)``, ``r = E_P[e^{order loss}; t <= x]``, for a whole order >= 0: a sum of normal
    probabilities.

    ``P e^{order loss}`` is ``N(0,1) (1 - q + q e^{mu t - mu^2/2})^{order + 1}``: expand, and each term is a normal
    density centred at a multiple of ``mu``.
    """
    x = np.asarray(x, float)
    return expand(bounds, order, log_ndtr(x[..., None] - bounds.mu * np.arange(order + 2)))


def expand(bounds: SingleBounds, order: int, log_cdfs: Floats) -> Floats:
    """The binomial sum over the last axis; ``log_cdfs`` holds ``log Phi(x - mu j)`` for ``j = 0, 1, ...``."""
    n = order + 1
    j = np.arange(n + 1)
    log_weights = gammaln(n + 1) - gammaln(j + 1) - gammaln(n - j + 1)
    log_weights += (n - j) * math.log1p(-bounds.q) + j * math.log(bounds.q) + bounds.mu**2 * j * (j - 1) / 2
    return np.logaddexp.reduce(log_weights + log_cdfs[..., : n + 1], axis=-1)


def log_simple_moment(bounds: SingleBounds, epsilon: float, p: float) -> float:
    """``log`` of the paper's bound on ``E[S^p]`` under ``P``: its moment theorem at the best whole order; at most
    0.
    """
    mgfs = _log_mgfs(bounds)
    found = [bounds.count * mgf - o * epsilon + log_peak(o, p) for o, mgf in zip(WHOLE_ORDERS, mgfs, strict=True)]
    return min(0.0, *found)


@lru_cache(maxsize=64)
def _log_mgfs(bounds: SingleBounds) -> list[float]:
    return [float(log_truncated(bounds, order, math.inf)) for order in WHOLE_ORDERS]


@dataclass(frozen=True)
class Theorems:
    """The paper's bounds for the steps that ``bounds`` is about."""

    bounds: SingleBounds

    @cached_property
    def _edges(self) -> Floats:
        coarse = np.linspace(-NORMAL_REACH, NORMAL_REACH + self.bounds.mu, 256)
        return np.union1d(coarse, np.linspace(-1.0, 12.0 + self.bounds.mu, self.bounds.cells // 2))

    @cached_property
    def _log_powers(self) -> Floats:
        """``k log r(order, x)``: a row for each whole order, a column for each edge and for
        infinity.
        """
        x = np.append(self._edges, np.inf)
        log_cdfs = log_ndtr(x[:, None] - self.bounds.mu * np.arange(WHOLE_ORDERS[-1] + 2))
        rows = [expand(self.bounds, order, log_cdfs) for order in WHOLE_ORDERS]
        return self.bounds.count * np.stack(rows)

    def log_joint(self, epsilon: float, order: int | None) -> Floats:
        """``log`` of bounds on ``Pr[max t <= x, Y >= epsilon]`` at the edges and at infinity.

        Chernoff at one order, as the paper has it; or, without one, the least over all orders, of
        1, of ``Pr[max t <= x]``, and 0 where ``k`` times the loss at ``x`` is below epsilon.
        """
        chernoff = self._log_powers - epsilon * np.array(WHOLE_ORDERS)[:, None]
        if order is not None:
            return chernoff[WHOLE_ORDERS.index(order)]
        x = np.append(self._edges, np.inf)
        greatest = self.bounds.count * log_truncated(self.bounds, 0, x)
        possible = self.bounds.count * self.bounds.pair.privacy_loss(x) >= epsilon
        return np.where(possible, np.minimum(np.minimum(greatest, 0.0), chernoff.min(axis=0)), -np.inf)

    def log_inverse_moment(self, slope: float, log_joint: Floats) -> float:
        """``log`` of an upper sum of ``slope int Pr[max t <= x, Y >= epsilon] e^{-slope x} dx``, a
        bound on ``E[Z^-1; Y >= epsilon]``.

        The probability grows with ``x``, so on each cell it is at most its bound at the upper end;
        the exponential is integrated exactly. What is below the first edge has a probability that
        no float can hold.
        """
        edges = np.append(self._edges, np.inf)
        return log_sum_exp(log_joint[1:] + log_difference(-slope * edges[:-1], -slope * edges[1:]))

    def log_js(self, epsilon: float, slope: float, *, sharpened: bool) -> float:
        """Theorem "is-js": ``M L^{-1} E[S^2]`` with ``Z >= k L``; ``inf`` for ``slope < mu``."""
        bounds = self.bounds
        if slope < bounds.mu:
            return math.inf
        if sharpened:
            log_least = slope * bounds.least_mean_point(epsilon)
        else:  # ((epsilon/q + k)/k)^{theta sigma^2} e^{theta/2}
            rise = math.log1p(epsilon / (bounds.q * bounds.count))
            log_least = slope / bounds.mu * rise + slope * bounds.mu / 2
        return bounds.log_normaliser(slope) - log_least + log_simple_moment(bounds, epsilon, 2.0)

    def log_holder(self, epsilon: float, slope: float, *, sharpened: bool) -> float:
        """Theorem "is-holder" minimised over its order and exponent, Theorem "is-max" (``b = 1``)
        included.
        """
        joints = (
            [self.log_joint(epsilon, None)] if sharpened else [self.log_joint(epsilon, o) for o in WHOLE_ORDERS[:64]]
        )
        best = math.inf
        for b in _CONJUGATES:
            simple = 0.0
            if b > 1:
                simple = log_simple_moment(self.bounds, epsilon, 2 * b / (b - 1)) * (b - 1) / b
            for joint in joints:
                best = min(best, simple + self.log_inverse_moment(b * slope, joint) / b)
        return math.log(self.bounds.count) + self.bounds.log_normaliser(slope) + best

    def log_second_moment(self, epsilon: float, slope: float, *, sharpened: bool) -> float:
        """``log`` of the least of the paper's three bounds on ``E[X^2]``, slips corrected; or of
        the same sharpened.
        """
        return min(
            self.log_js(epsilon, slope, sharpened=sharpened), self.log_holder(epsilon, slope, sharpened=sharpened)
        )

    def best_slope(self, epsilon: float, *, sharpened: bool) -> float:
        """The slope of the least bound."""
        return slope_of_least(
            self.bounds, lambda slope: self.log_second_moment(epsilon, slope, sharpened=sharpened), epsilon
        )

    def least(self, epsilon: float, *, sharpened: bool) -> float:
        """``log`` of the least bound over all slopes."""
        slope = self.best_slope(epsilon, sharpened=sharpened)
        return self.log_second_moment(epsilon, slope, sharpened=sharpened)
