"""The law of one step's privacy loss as weighted points, from interval probabilities alone.

For a cell ``(low, high]`` both ``P(cell)`` and ``Q(cell) = E_P[e^{-loss}; cell]`` are known exactly. Two rules keep
both: one point at ``log P(cell)/Q(cell)``, and two points at the ends of the cell. They miss the variance inside the
cell by ``-width^2/12`` and ``+width^2/6`` when the loss is evenly spread, so two thirds of the first and one third of
the second is correct to fourth order: Simpson's rule, written for probabilities.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from evr._estimate.closed_forms import mean_loss
from evr._kernel.pairs import Direction, DominatingPair, Floats, Measure, infinite_loss_mass
from evr._kernel.pairs.line.gaussian import GaussianPair
from evr._kernel.pairs.line.labelled import EitherPair
from evr._kernel.pairs.line.pair import log_sum_exp
from evr._kernel.pairs.line.poisson import SampledPair


def dot(x: Floats, y: Floats) -> float:
    """The sum of ``x * y``. BLAS would wake threads for it, and its last digits depend on the number of cores."""
    return float(np.sum(x * y))


def cell_edges(pair: DominatingPair, order: float, cells: int, cap: float = np.inf) -> Floats:
    """Edges in ``t``: even over the pair's span, and the ends of its flats; one cell is beyond the loss ``cap``."""
    low, high = pair.span(order)
    top = float(pair.point(cap)) if cap < np.inf else np.inf
    edges = np.union1d(np.linspace(low, max(min(high, top), low), cells + 1), pair.flats.ravel())
    return edges[np.isfinite(edges) & (edges <= max(top, low))]


class LossPoints(NamedTuple):
    """Finite losses and the logarithms of their probabilities under ``P``; atoms of the loss are marked."""

    losses: Floats
    log_weights: Floats
    is_atom: np.ndarray[tuple[int], np.dtype[np.bool_]]


def loss_points(pair: DominatingPair, edges: Floats, *, within: bool = False) -> LossPoints:
    """The law of the finite loss as points; what is beyond the last edge is joined, or left out (``within``)."""
    flats, beyond = pair.flats, pair.flats[:0]
    if edges[-1] < np.max(flats[np.isfinite(flats)], initial=-np.inf):
        below = flats[:, 0] < edges[-1]
        flats, beyond = flats[below], beyond if within else flats[~below]
    ends = np.concatenate(([-np.inf], edges, edges[:0] if within else [np.inf]))
    low, high = ends[:-1], ends[1:]
    if len(flats):  # cells inside a flat are left out; the ends of flats are among the edges
        index = np.searchsorted(flats[:, 0], low, side="right") - 1
        outside = (index < 0) | (high > flats[np.maximum(index, 0), 1])
        low, high = low[outside], high[outside]
    centre = mean_loss(pair, low, high)
    first = pair.pairs[0] if isinstance(pair, EitherPair) else pair
    if isinstance(first, SampledPair) and first.direction is Direction.ADD:  # Q is the mixture, and P the simpler law
        log_p = pair.log_mass(Measure.P, low, high)
    else:
        with np.errstate(invalid="ignore"):
            log_p = pair.log_mass(Measure.Q, low, high) + centre
    if len(beyond):
        gaps = np.column_stack((np.append(edges[-1], beyond[:, 1]), np.append(beyond[:, 0], np.inf)))
        log_p[-1] = _log_total(pair, Measure.P, gaps)
        centre[-1] = log_p[-1] - _log_total(pair, Measure.Q, gaps) if log_p[-1] > -np.inf else np.nan
    keep = np.isfinite(log_p) & np.isfinite(centre)
    losses, weights = _simpson(pair, low[keep], high[keep], log_p[keep], centre[keep])
    atom = np.zeros(losses.size, dtype=bool)
    if len(flats):
        losses = np.concatenate((losses, pair.privacy_loss(flats[:, 1])))
        weights = np.concatenate((weights, pair.log_mass(Measure.P, flats[:, 0], flats[:, 1])))
        atom = np.concatenate((atom, np.ones(len(flats), dtype=bool)))
    if len(beyond):
        finite = beyond[pair.privacy_loss(beyond[:, 1]) < np.inf]
        joined_p, joined_q = (_log_total(pair, measure, finite) for measure in (Measure.P, Measure.Q))
        joined = joined_p - joined_q if joined_q > -np.inf else np.inf
        losses, weights, atom = np.append(losses, joined), np.append(weights, joined_p), np.append(atom, True)
    keep = np.isfinite(losses) & np.isfinite(weights)
    return LossPoints(losses[keep], weights[keep], atom[keep])


def _simpson(pair: DominatingPair, low: Floats, high: Floats, log_p: Floats, centre: Floats) -> tuple[Floats, Floats]:
    """Points of cells, and the logarithms of their weights: at the loss of the whole cell, and at both ends."""
    least, greatest = pair.privacy_loss(low), pair.privacy_loss(high)
    centre = np.clip(centre, least, greatest)
    with np.errstate(invalid="ignore", over="ignore", divide="ignore"):
        # The share a of the upper end keeps Q: (1-a) e^{-least} + a e^{-greatest} = e^{-centre}.
        share = np.expm1(least - centre) / np.expm1(least - greatest)
    # Cells that reach to infinity keep one point, which is exact for whatever is linear in e^{-loss} there.
    bounded = np.isfinite(least) & np.isfinite(greatest) & (greatest > least) & np.isfinite(share)
    bounded &= np.isfinite(low) & np.isfinite(high)
    share = np.clip(np.where(bounded, share, 0.5), 0.0, 1.0)
    ends = np.where(bounded, np.log(1 / 3), -np.inf)
    with np.errstate(divide="ignore"):
        shares = np.where(bounded, np.log(2 / 3), 0.0), ends + np.log1p(-share), ends + np.log(share)
    losses = np.concatenate((centre, np.where(bounded, least, 0.0), np.where(bounded, greatest, 0.0)))
    return losses, np.concatenate([log_p + part for part in shares])


def _log_total(pair: DominatingPair, measure: Measure, intervals: Floats) -> float:
    """``log`` of the probability of all of the intervals."""
    return log_sum_exp(np.append(pair.log_mass(measure, intervals[:, 0], intervals[:, 1]), -np.inf))


def log_mgf(pair: DominatingPair, order: float) -> float:
    """``log E_P[e^{order loss}]``, by cells; those that matter are halved until it moves by less than 1e-11."""
    if isinstance(pair, GaussianPair):
        return order * (order + 1) * pair.mu**2 / 2
    if order == 0.0:
        return 0.0
    if order > 0.0 and infinite_loss_mass(pair) > 0.0:
        return math.inf
    coarse = cell_edges(pair, order, 2**11)
    losses = pair.privacy_loss(coarse)
    with np.errstate(invalid="ignore"):
        most = np.maximum(order * losses[:-1], order * losses[1:])
        size = pair.log_mass(Measure.P, coarse[:-1], coarse[1:]) + np.where(np.isfinite(most), most, -np.inf)
    held = np.flatnonzero(size >= np.max(size) - 50.0)
    first, last = (held[0], held[-1] + 1) if held.size else (0, -1)
    previous = np.nan
    for exponent in range(9, 20):
        points = loss_points(pair, np.union1d(coarse, np.linspace(coarse[first], coarse[last], 2**exponent + 1)))
        value = log_sum_exp(points.log_weights + order * points.losses)
        # a change of the logarithm is relative already
        if abs(value - previous) <= 1e-11 + 1e-14 * abs(value):
            break
        previous = value
    return value


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
        rising = np.argsort(numbers, kind="stable")  # quick where parts are in order, as here
        place = int(np.searchsorted(np.cumsum(self.weights[rising]), 0.5))
        return float(numbers[rising[min(place, rising.size - 1)]])

    @property
    def mean(self) -> float:
        """The mean of the deviations: what rounding left in the origin."""
        return dot(self.weights, self.deviations)

    def log_growth(self, shift: float) -> float:
        """``log E'[e^{shift deviation}]``."""
        exponents = shift * self.deviations
        if float(np.max(exponents)) < 600.0 and (gain := dot(self.weights, np.expm1(exponents))) > -0.5:
            return math.log1p(gain)
        with np.errstate(divide="ignore"):
            return log_sum_exp(np.log(self.weights) + exponents)


def log_moment(points: LossPoints, order: float, origin: float, log_mass: float) -> float:
    """``log E_P[e^{order (loss - origin)}]``, ``log_mass`` being that of the points' total probability."""
    exponents = order * (points.losses - origin)
    if float(np.max(exponents)) < 600.0 and float(np.max(points.log_weights)) <= log_mass + 1.0:
        gain = dot(np.exp(points.log_weights - log_mass), np.expm1(exponents))  # if small, its error is relative to it
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
        held = np.flatnonzero((tilted >= np.max(tilted) - 80.0) | ((not tilted_only) & (log_p >= np.max(log_p) - 80.0)))
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
    bottom: float = -math.inf,
) -> LossPoints:
    """The law of one step up to ``cap``, with losses below ``bottom`` raised to it. Cells are even in ``t``; where the
    tilted law is, none is wider than ``width`` in losses, and near the losses ``kinks`` they are much finer. ``joined``
    adds what is beyond the cap as one loss. What has less than ``e^-keep`` of the tilted mass, and no probability to
    speak of, is left out.
    """
    if not joined and pair.point(cap) == -math.inf:  # every loss is beyond it, the least atom too
        return LossPoints(np.empty(0), np.empty(0), np.empty(0, dtype=bool))
    whole, held = _place(pair, order, cap), _place(pair, order, cap, tilted_only=True)
    if bottom > -math.inf:  # what is raised needs no fine cells
        held = (min(max(held[0], float(pair.point(bottom))), held[1]), held[1])
    parts = [cell_edges(pair, order, 64, cap), *_even(pair, held, cells, _MOST_CELLS, width)]
    if whole != held:
        parts += _even(pair, whole, 1024, 4096, width)
    if kinks:
        near = pair.point(np.add.outer(np.array(kinks), width * _NEAR).ravel())
        parts.append(near[(near > whole[0]) & (near < whole[1])])
    points = loss_points(pair, np.unique(np.concatenate(parts)), within=cap < math.inf and not joined)
    if not points.losses.size:
        return points
    tilted = points.log_weights + order * points.losses
    kept = (tilted >= tilted.max() - keep) | (points.log_weights > -60.0)  # the greatest may have no digits left
    return not_below(LossPoints(points.losses[kept], points.log_weights[kept], points.is_atom[kept]), bottom)


def rough_points(
    pair: DominatingPair, order: float, cap: float, *, joined: bool = False, keep: float = 120.0
) -> LossPoints:
    """As much of the law as a plan needs."""
    return points_of(pair, order, cap, 1024, 0.1 / max(order, 1.0), joined=joined, keep=keep)


def not_below(points: LossPoints, bottom: float) -> LossPoints:
    """The points, with lower losses raised to ``bottom``."""
    return points if bottom == -math.inf else points._replace(losses=np.maximum(points.losses, bottom))
