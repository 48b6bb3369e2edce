"""Draws from ``Q L^-theta / M`` for independent bins, exactly: docs/guarantees_highdim.md, Section
6.2.

``L^-theta`` is a mixture over ``t`` of ``e^{-t L}``, under which the bins are independent. ``log
t`` has a log-concave density: it is drawn below tangents. Given ``t``, a coordinate is drawn from a
normal law around its mode, below the tangent there.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.special import logsumexp, wrightomega

from evr.laws.law import Floats
from evr.randomness import for_cells, of_rows

_TANGENTS = 48
_DEPTH = 40.0  # log of the density, below its peak, where the tangents' points end
_NODES = np.linspace(-40.0, 13.0, 849)  # in deviations; the tilted bins lie far below 0
_LEAST_DEPTH = 32.0  # log of a tilted bin's density, below its peak, where the nodes end
_STEEPEST = 100.0  # pull on a tilted bin, whose deviation is then 1.6 steps of the nodes


class InverseOrderSampler:
    """Coordinates of one training of ``bins`` bins.

    Parameters
    ----------
    bins, energy
        ``b`` and ``g``.
    theta
        The inverse order.
    """

    def __init__(self, bins: int, energy: float, theta: float) -> None:
        self.bins, self.energy, self.theta = bins, energy, theta
        deviation = math.sqrt(energy)
        self._ratios = np.exp(deviation * _NODES - energy / 2)
        self._log_weights = -(_NODES**2) / 2 + math.log(
            (_NODES[1] - _NODES[0]) / math.sqrt(2 * math.pi)
        )
        points = self._points()
        slopes = self._log_density(points)[1]
        # else two tangents are one
        bends = np.concatenate(([True], np.diff(slopes) < -1e-6 * theta))
        points = points[bends]
        self._points_at, self._heights, self._slopes = points, *self._log_density(points)
        self._check_reach()
        gaps = np.diff(self._slopes)
        crossing = (
            self._heights[:-1]
            - self._heights[1:]
            + self._slopes[1:] * points[1:]
            - self._slopes[:-1] * points[:-1]
        ) / gaps
        self._ends = np.concatenate(([-np.inf], crossing, [np.inf]))
        self._chances = self._pieces()

    def _check_reach(self) -> None:
        """Refuse an order at which a tilted bin is narrower than the nodes tell, or beyond them:
        ``phi`` would come out too small, and what is drawn would not be what weights assume.
        """
        deviation, log_t = math.sqrt(self.energy), float(self._points_at[-1])
        shift = math.log(self.energy / self.bins) - self.energy / 2
        pull = float(wrightomega(log_t + shift))
        end = -float(_NODES[0]) * deviation - pull  # from the mode down to the last node
        depth = -math.inf
        if end > 0.0:
            depth = pull / self.energy * (math.expm1(-end) + end) + end**2 / (2 * self.energy)
        if not (pull <= _STEEPEST and depth >= _LEAST_DEPTH):
            raise ValueError(
                f"inverse_order={self.theta!r}: the rule for {self.bins} bins of energy "
                f"{self.energy:.4g} does not reach what would be drawn"
            )

    def _log_density(self, s: Floats) -> tuple[Floats, Floats]:
        """``log f`` and its slope: ``theta s + b log phi(e^s)`` by the trapezium rule."""
        t = np.exp(s)[..., None] / self.bins
        exponents = self._log_weights - t * self._ratios
        log_phi = logsumexp(exponents, axis=-1)
        mean = np.exp(exponents - log_phi[..., None]) @ self._ratios
        return self.theta * s + self.bins * log_phi, self.theta - np.exp(s) * mean

    def _points(self) -> Floats:
        """Where tangents touch: from either side of the mode until the density is negligible."""
        low, high = -1.0, 1.0
        while self._log_density(np.array([low]))[1][0] <= 0:
            low *= 2
        while self._log_density(np.array([high]))[1][0] >= 0:
            high *= 2
        for _ in range(60):
            middle = (low + high) / 2
            low, high = (
                (middle, high) if self._log_density(np.array([middle]))[1][0] > 0 else (low, middle)
            )
        peak = float(self._log_density(np.array([low]))[0][0])
        ends = []
        for sign in (-1.0, 1.0):
            reach = 1.0
            while float(self._log_density(np.array([low + sign * reach]))[0][0]) > peak - _DEPTH:
                reach *= 1.5
            ends.append(low + sign * reach)
        # not at the mode, where a slope is 0
        left = np.linspace(ends[0], low, _TANGENTS, endpoint=False)
        return np.concatenate((left, np.linspace(low, ends[1], _TANGENTS + 1)[1:]))

    def _pieces(self) -> Floats:
        """Chances of the pieces of the envelope."""
        logs = []
        for i, slope in enumerate(self._slopes):
            low, high = (
                self._heights[i] + slope * (end - self._points_at[i])
                for end in self._ends[i : i + 2]
            )
            top, bottom = max(low, high), min(low, high)
            logs.append(top - math.log(abs(slope)) + math.log(-math.expm1(bottom - top)))
        return np.exp(np.array(logs) - logsumexp(logs))

    def tables(self) -> tuple[Floats, ...]:
        """What a device draws from: chances of the pieces added up, their ends, points, heights and
        slopes; logarithms of the nodes' weights, and their ratios.
        """
        chances = np.cumsum(self._chances)[:-1]
        tangents = (self._points_at, self._heights, self._slopes)
        return (chances, self._ends, *tangents, self._log_weights, self._ratios)

    def draw_times(self, generator: np.random.Generator, size: int) -> Floats:
        """``t``, exactly."""
        out, missing = np.empty(size), np.arange(size)
        cumulated = np.cumsum(self._chances)[:-1]
        while missing.size:
            numbers = of_rows(generator, missing)
            piece = np.searchsorted(cumulated, numbers.random(missing.size), side="right")
            slope, point = self._slopes[piece], self._points_at[piece]
            low, high = self._ends[piece], self._ends[piece + 1]
            start = np.where(slope > 0, high, low)  # the end where the envelope is greatest
            width = np.where(np.isfinite(low) & np.isfinite(high), high - low, np.inf)
            u = numbers.random(missing.size)
            s = start + np.log1p(u * np.expm1(-np.abs(slope) * width)) / slope
            roof = self._heights[piece] + slope * (s - point)
            floor = np.interp(s, self._points_at, self._heights, left=-np.inf, right=-np.inf)
            log_u = -numbers.standard_exponential(missing.size)
            kept = log_u <= floor - roof
            doubtful = np.flatnonzero(~kept)
            kept[doubtful] = log_u[doubtful] <= self._log_density(s[doubtful])[0] - roof[doubtful]
            out[missing[kept]] = s[kept]
            missing = missing[~kept]
        return np.exp(out)

    def draw(self, generator: np.random.Generator, size: int) -> Floats:
        """Coordinates, a row for each sample."""
        t = self.draw_times(generator, size)
        g = self.energy
        pull = wrightomega(np.log(t) + math.log(g / self.bins) - g / 2)  # minus the mode
        out = np.empty((size, self.bins))
        flat = out.reshape(-1)
        missing, cells = np.arange(out.size), for_cells(generator, self.bins)
        while missing.size:
            numbers = of_rows(cells, missing)
            x = math.sqrt(g) * numbers.standard_normal(missing.size)
            at = pull[missing // self.bins]
            flat[missing] = x - at
            gap = at / g * (np.expm1(x) - x)
            missing = missing[numbers.standard_exponential(missing.size) < gap]
        return out
