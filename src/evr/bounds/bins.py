"""What is proved of balls in bins with independent noise: docs/guarantees_highdim.md, Sections 5.2,
5.3, 6.2 and 6.3.

One ratio is ``A = e^{v - g/2}``, ``v ~ N(0, g)``, ``L`` the mean of ``b`` of them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
from scipy.special import gammaln, log_ndtr, logsumexp

from evr.bounds.moments import log_peak
from evr.laws.law import Floats
from evr.laws.line.gaussian import log_normal_mass
from evr.laws.line.pair import log_sum_exp

_CELLS = 512
_LAYERS = 60
_MANY, _FARTHEST = 30, 38.0
_REACH = 12.0  # deviations beyond which the cells of a normal law end


@dataclass(frozen=True)
class ScaledMeans:
    """A mixture of scaled means ``P_u`` for one training of ``bins`` bins: bounds on its samples in
    the remove direction.

    Attributes
    ----------
    bins, energy
        ``b`` and ``g``.
    weights, scales
        ``alpha_c`` and ``u_c`` of the components; some scale is above 1.
    """

    bins: int
    energy: float
    weights: tuple[float, ...]
    scales: tuple[float, ...]

    def log_greatest(self, epsilon: float) -> float:
        """``log`` of an upper bound on samples (5.3)."""
        bounds = [
            (u - 1) * (u * self.energy / 2 - epsilon) + log_scaling(u) - math.log(alpha)
            for alpha, u in zip(self.weights, self.scales, strict=True)
            if u > 1
        ]
        return min(bounds, default=math.inf)

    def log_excess(self, epsilon: float, log_clip: float) -> float:
        """``log`` of an upper bound on ``E[(X - B)_+]``, ``B = e^log_clip`` (5.2), the best of
        several ``lambda``.
        """
        cells = self._cells(log_clip)
        if cells is None:
            return math.inf
        found = math.inf
        # e^lambda grows as the greatest ratio over b does
        step, centre = (2.0, math.log(self.bins) - epsilon)
        tried: dict[float, float] = {}

        def value(log_lambda: float) -> float:
            if log_lambda not in tried:
                tried[log_lambda] = self._log_excess_at(epsilon, math.exp(log_lambda), cells)
            return tried[log_lambda]

        while step > 0.06:
            best = min((centre - step, centre, centre + step), key=value)
            found = min(found, value(best))
            step, centre = (step, best) if best != centre else (step / 2, centre)
            if abs(centre) > 60.0:
                break
        return found

    @np.errstate(over="ignore", invalid="ignore")  # beyond floats there is no bound
    def _log_excess_at(self, epsilon: float, slope: float, cells: _Cells) -> float:
        """The bound for one ``lambda``."""
        rate = slope / self.bins
        g = self.energy
        shift = g * cells.slopes * rate
        log_cells = rate * cells.offsets + g * (cells.slopes * rate) ** 2 / 2
        deviation = math.sqrt(g)
        masses = log_normal_mass((cells.low - shift) / deviation, (cells.high - shift) / deviation)
        below = rate * cells.below + log_ndtr(cells.low[0] / deviation)
        beyond = float(log_ndtr(-cells.high[-1] / deviation))
        log_one = log_sum_exp(np.concatenate((log_cells + masses, [below, beyond])))
        if math.isnan(log_one):
            return math.inf
        return self.bins * log_one - slope * math.exp(epsilon) - 1.0 - math.log(slope)

    @np.errstate(over="ignore", invalid="ignore")
    def _cells(self, log_clip: float) -> _Cells | None:
        """Linear functions above ``Psi`` on cells; None if no component is scaled up."""
        g, weights, scales = self.energy, np.array(self.weights), np.array(self.scales)
        up = scales > 1
        if not np.any(up):
            return None
        ends = (g / 2 * (scales[up] ** 2 - 1) - log_clip - np.log(weights[up])) / (scales[up] - 1)
        top = max(float(ends.min()), 0.0)
        edges = np.linspace(-_REACH * math.sqrt(g), top, _CELLS + 1)
        low, high = edges[:-1], edges[1:]
        middle, width = (low + high) / 2, high - low
        one = np.exp(edges - g / 2)
        rise = np.diff(one) / width
        exponents = (
            scales[:, None] * middle
            - scales[:, None] ** 2 * g / 2
            + np.log(weights)[:, None]
            + log_clip
        )
        taken = np.exp(np.minimum(exponents, 700.0))
        slopes = rise - (scales[:, None] * taken).sum(axis=0)
        at_middle = one[:-1] + rise * (middle - low) - taken.sum(axis=0)
        return _Cells(low, high, at_middle - slopes * middle, slopes, float(one[0]))

    def log_moment(self, epsilon: float, p: float) -> float:
        """``log`` of an upper bound on ``E[X^p]``, ``p > 1``, from bounds on excesses."""
        log_top = self.log_greatest(epsilon)
        log_mean = self.log_mean(epsilon)
        grid = np.linspace(log_mean - 1.5, log_top, _LAYERS)
        excesses = [self.log_excess(epsilon, x) for x in grid[:-1]]
        excesses = np.minimum.accumulate(np.minimum(excesses, log_mean)).tolist()
        # p (p-1) int t^{p-2} e(t) dt: from 0 to the first point with E[X], then from point to point
        terms = [log_mean + (p - 1) * grid[0]]
        for left, right, log_e in zip(grid[:-1], grid[1:], excesses, strict=True):
            terms.append(log_e + (p - 1) * right + math.log(-math.expm1((p - 1) * (left - right))))
        return math.log(p) + float(logsumexp(terms))

    def log_mean(self, epsilon: float) -> float:
        """``log`` of an upper bound on ``E[X] = delta``: ``t + e(t)`` at the best ``t``."""
        return _log_mean(self, epsilon)


@lru_cache(maxsize=8)
def _log_mean(means: ScaledMeans, epsilon: float) -> float:
    log_top = means.log_greatest(epsilon)
    points = np.linspace(log_top - 60.0, log_top, 61)
    return min(float(np.logaddexp(x, means.log_excess(epsilon, x))) for x in points)


@dataclass(frozen=True)
class _Cells:
    """Cells of ``v``; on each, ``Psi <= offsets + slopes v``. Below them ``Psi <= below``, beyond
    them ``Psi <= 0``.
    """

    low: Floats
    high: Floats
    offsets: Floats
    slopes: Floats
    below: float


def log_scaling(u: float) -> float:
    """``log`` of ``(u - 1)^{u - 1} / u^u``: the greatest value of ``(L - 1)_+ / L^u``."""
    return (u - 1) * math.log(u - 1) - u * math.log(u)


@dataclass(frozen=True)
class InverseMoment:
    """Bounds on ``phi(t) = E e^{-t A / b}`` and on ``M = E_Q[L^{-theta}]`` of one training (6.2).

    ``cells`` of ``A`` and ``points`` of ``log t``: the more, the tighter.
    """

    bins: int
    energy: float
    cells: int = 4096
    points: int = 1501

    @cached_property
    def _cells(self) -> tuple[Floats, Floats, Floats]:
        """Ends of cells of ``A``, masses, and the share of each mass at the upper end."""
        g, deviation = self.energy, math.sqrt(self.energy)
        # what is below counts as ratio 0, once for each bin
        low = _REACH if self.bins >= _MANY else _FARTHEST
        edges = np.linspace(-low, _REACH, self.cells + 1) * deviation
        ends = np.concatenate(([0.0], np.exp(edges - g / 2)))
        bounds = np.concatenate(([-np.inf], edges, [np.inf])) / deviation
        log_q = log_normal_mass(bounds[:-1], bounds[1:])
        log_p = log_normal_mass(bounds[:-1] - deviation, bounds[1:] - deviation)
        mass, mean = np.exp(log_q), np.exp(log_p)
        # beyond the last end, all of the mass at that end: e^{-tA/b} falls
        share = np.zeros(mass.size)
        share[:-1] = np.clip((mean[:-1] / mass[:-1] - ends[:-1]) / np.diff(ends), 0.0, 1.0)
        return ends, mass, share

    def log_transform(self, t: Floats) -> Floats:
        """``log`` of an upper bound on ``phi`` at each ``t >= 0``."""
        ends, mass, share = self._cells
        values = np.exp(-np.multiply.outer(t / self.bins, ends))
        upper = np.concatenate((values[..., 1:], values[..., -1:]), axis=-1)
        return np.log((values * (1 - share) + upper * share) @ mass)

    def log_bound(self, theta: float) -> float:
        """``log`` of an upper bound on ``M``."""
        grid = self._grid(theta)
        log_phi = self.log_transform(np.exp(grid))
        left, right = np.exp(grid[:-1]), np.exp(grid[1:])
        fall = np.maximum((log_phi[:-1] - log_phi[1:]) / (right - left), 0.0)  # c_1
        # c_0, the chord or above
        height = np.maximum(log_phi[:-1] + fall * left, log_phi[1:] + fall * right)
        middle, width = (grid[:-1] + grid[1:]) / 2, np.diff(grid)
        t = np.exp(middle)
        # of the tangent's rise
        half = np.maximum(np.abs(theta - self.bins * fall * t) * width / 2, 1e-12)
        terms = theta * middle + self.bins * (height - fall * t) + np.log(width)
        terms += half + np.log(-np.expm1(-2 * half) / (2 * half))
        ends = [theta * grid[0] - math.log(theta), self._log_tail(theta, float(grid[-1]))]
        return float(logsumexp(np.concatenate((terms, ends)))) - float(gammaln(theta))

    def _grid(self, theta: float) -> Floats:
        """Points of ``s = log t``, fine where the integrand is."""
        low, high = -60.0 / theta - 5.0, 5.0 + math.log(theta)
        while True:
            coarse = np.linspace(low, high, 200)
            exponent = theta * coarse + self.bins * self.log_transform(np.exp(coarse))
            matters = np.flatnonzero(exponent > exponent.max() - 45.0)
            if not matters.size:
                raise ValueError(f"theta={theta!r}: no bound on the inverse moment in floats")
            if matters[-1] < coarse.size - 1 or high > 300.0:
                break
            high += 10.0
        ends = coarse[max(matters[0] - 1, 0)], coarse[min(matters[-1] + 1, coarse.size - 1)]
        return np.linspace(*ends, self.points)

    def _log_tail(self, theta: float, log_t: float) -> float:
        """``log`` of a bound on the integral beyond ``e^log_t``, the best of several ``j``."""
        b, g = self.bins, self.energy
        bounds = []
        for j in np.geomspace(1.01 * theta / b + 1e-9, 1000.0, 200).tolist():
            if j * b > theta:
                inner = j * (math.log(j * b) - 1.0 - log_t) + g * j * (j + 1) / 2
                bounds.append(b * inner + theta * log_t - math.log(j * b - theta))
        return min(bounds)

    def log_add_bound(self, epsilon: float) -> float:
        """``log`` of an upper bound on delta of one training in the add direction (6.3)."""
        b = self.bins
        grid = np.exp(np.linspace(-6.0, 12.0, 145)) * max(1.0, math.exp(epsilon))
        log_phi = self.log_transform(grid)
        return float(np.min(epsilon - np.log(grid) + grid * math.exp(-epsilon) - 1.0 + b * log_phi))


def log_inverse(theta: float, log_moment: float, epsilon: float) -> float:
    """``log`` of ``M theta^theta / (1 + theta)^{1 + theta} e^{-theta epsilon}``: no sample of
    inverse order is above (6.2).
    """
    return log_moment + log_peak(theta) - theta * epsilon
