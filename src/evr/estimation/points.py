"""The law of one step, by points, under a tilt: where it matters there are more of them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from evr.estimation.discretise import LossPoints, cell_edges, dot, loss_points
from evr.laws import DominatingPair, Floats, Measure
from evr.laws.line.pair import log_sum_exp

_MOST_CELLS = 2**22
# edges about a kink, in widths of the grid
_NEAR = np.arange(-48, 49) / 8.0


@dataclass(frozen=True)
class Tilted:
    """Points of one step under a tilt: weights that sum to 1, and losses as deviations from their mean, the origin."""

    weights: Floats
    deviations: Floats
    origin: float

    @classmethod
    def of(cls, points: LossPoints, order: float) -> Tilted:
        """Exponents are taken from the heaviest point, so that large orders lose no digits."""
        if order == 0.0:
            exponents = points.log_weights
        else:
            heaviest = int(np.argmax(points.log_weights + order * points.losses))
            exponents = points.log_weights + order * (points.losses - points.losses[heaviest])
        weights = np.exp(exponents - exponents.max())
        weights /= weights.sum()
        origin = dot(weights, points.losses)
        return cls(weights, points.losses - origin, origin)

    @property
    def variance(self) -> float:
        return dot(self.weights, self.deviations**2)

    def bulk(self) -> tuple[float, float]:
        """Where the bulk is, and how wide: medians, which rare large losses do not change."""
        middle = self._median(self.deviations)
        return self.origin + middle, self._median(np.abs(self.deviations - middle))

    def _median(self, numbers: Floats) -> float:
        rising = np.argsort(numbers)
        place = int(np.searchsorted(np.cumsum(self.weights[rising]), 0.5))
        return float(numbers[rising[min(place, rising.size - 1)]])

    @property
    def mean(self) -> float:
        """Of the deviations: what rounding left in the origin."""
        return dot(self.weights, self.deviations)

    def log_growth(self, shift: float) -> float:
        """``log E'[e^{shift deviation}]``."""
        exponents = shift * self.deviations
        if float(np.max(exponents)) < 600.0 and (gain := dot(self.weights, np.expm1(exponents))) > -0.5:
            return math.log1p(gain)
        with np.errstate(divide="ignore"):
            return log_sum_exp(np.log(self.weights) + exponents)


def log_moment(points: LossPoints, order: float, origin: float, log_mass: float) -> float:
    """``log E_P[e^{order (loss - origin)}]``, ``log_mass`` being that of the points' total probability.

    Where little is gained or lost by the tilt, only that is computed: the error is then relative to it, and not to 1.
    """
    exponents = order * (points.losses - origin)
    if float(np.max(exponents)) < 600.0 and float(np.max(points.log_weights)) <= log_mass + 1.0:
        gain = dot(np.exp(points.log_weights - log_mass), np.expm1(exponents))
        if -0.5 < gain < 1.0:
            return log_mass + math.log1p(gain)
    return log_sum_exp(points.log_weights + exponents)


@lru_cache(maxsize=256)
def _place(pair: DominatingPair, order: float, cap: float, *, tilted_only: bool = False) -> tuple[float, float]:
    """The range of ``t`` up to the cap that holds all but ``e^-80`` of the tilted law, and of ``P`` if asked for."""
    low, high = pair.span(order) if not tilted_only else _place(pair, order, cap)
    high = max(min(high, float(pair.point(cap))), low) if cap < math.inf else high
    for _ in range(12):
        edges = np.linspace(low, high, 129)
        losses = pair.privacy_loss(edges)
        log_p = pair.log_mass(Measure.P, edges[:-1], edges[1:])
        with np.errstate(invalid="ignore"):
            tilted = log_p + order * np.where(np.isfinite(losses[1:]), losses[1:], losses[:-1])
        tilted = np.where(np.isfinite(tilted), tilted, -np.inf)
        held = np.flatnonzero((tilted > np.max(tilted) - 80.0) | ((not tilted_only) & (log_p > np.max(log_p) - 80.0)))
        if held.size:
            low, high = float(edges[held[0]]), float(edges[held[-1] + 1])
        if not held.size or held[-1] + 1 - held[0] > 64:
            break
    return low, high


def _even(pair: DominatingPair, place: tuple[float, float], cells: int, most: int, width: float) -> list[Floats]:
    """Edges even in ``t``, and edges ``width`` apart in losses, or the ``most`` that there may be."""
    low, high = place
    parts = [np.linspace(low, high, cells + 1)]
    losses = pair.privacy_loss(np.array([low, high]))
    if losses[0] < losses[1] and np.all(np.isfinite(losses)):
        number = min(math.ceil(float(losses[1] - losses[0]) / width), most)
        parts.append(pair.point(np.linspace(losses[0], losses[1], max(2, number + 1))))
    return parts


@lru_cache(maxsize=64)
def points_of(
    pair: DominatingPair,
    order: float,
    cap: float,
    cells: int,
    width: float,
    *,
    joined: bool = False,
    keep: float = 120.0,
    kinks: tuple[float, ...] = (),
) -> LossPoints:
    """The law of one step up to ``cap``: cells even in ``t`` where it matters, and where the tilted law is none wider
    than ``width`` in losses; near the losses ``kinks`` cells are much finer.

    ``joined`` adds what is beyond the cap, joined into one loss. What has less than ``e^-keep`` of the tilted mass, and
    no probability to speak of, is left out.
    """
    if not joined and pair.point(cap) == -math.inf:  # every loss is beyond it, the least atom too
        return LossPoints(np.empty(0), np.empty(0), np.empty(0, dtype=bool))
    whole, held = _place(pair, order, cap), _place(pair, order, cap, tilted_only=True)
    parts = [cell_edges(pair, order, 64, None, cap), *_even(pair, held, cells, _MOST_CELLS, width)]
    if whole != held:
        parts += _even(pair, whole, 1024, 4096, width)
    if kinks:
        near = pair.point(np.add.outer(np.array(kinks), width * _NEAR).ravel())
        parts.append(near[(near > whole[0]) & (near < whole[1])])
    points = loss_points(pair, np.unique(np.concatenate(parts)), within=cap < math.inf and not joined)
    if not points.losses.size:
        return points
    tilted = points.log_weights + order * points.losses
    kept = (tilted > tilted.max() - keep) | (points.log_weights > -60.0)
    return LossPoints(points.losses[kept], points.log_weights[kept], points.is_atom[kept])


def rough_points(
    pair: DominatingPair, order: float, cap: float, *, joined: bool = False, keep: float = 120.0
) -> LossPoints:
    """As much of the law as a plan needs."""
    return points_of(pair, order, cap, 1024, 0.1 / max(order, 1.0), joined=joined, keep=keep)


def not_below(points: LossPoints, bottom: float) -> LossPoints:
    """The points, with lower losses raised to ``bottom``."""
    return points if bottom == -math.inf else points._replace(losses=np.maximum(points.losses, bottom))
