"""The law of a privacy loss as weighted points, from interval probabilities alone.

For a cell ``(low, high]`` both ``P(cell)`` and ``Q(cell) = E_P[e^{-loss}; cell]`` are known exactly. Two rules keep
both: one point at ``log P(cell)/Q(cell)``, and two points at the ends of the cell. They miss the variance inside the
cell by ``-width^2/12`` and ``+width^2/6`` when the loss is evenly spread, so two thirds of the first and one third of
the second is correct to fourth order: Simpson's rule, written for probabilities.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from evr.estimation.closed_forms import mean_loss
from evr.laws import Direction, DominatingPair, Floats, Measure, infinite_loss_mass
from evr.laws.line.either import EitherPair
from evr.laws.line.gaussian import GaussianPair
from evr.laws.line.pair import log_sum_exp
from evr.laws.line.poisson import SampledPair


def dot(x: Floats, y: Floats) -> float:
    """The sum of ``x * y``, the same on every machine. BLAS hands long vectors to threads: waking them costs more than
    the sum, and the last digits then depend on the number of cores.
    """
    return float(np.sum(x * y))


def cell_edges(
    pair: DominatingPair, order: float, cells: int, losses: Floats | None = None, cap: float = np.inf
) -> Floats:
    """Edges in ``t``: evenly spaced over the pair's span, the ends of its flats, and the given ``losses``.

    There is one cell beyond the loss ``cap``.
    """
    low, high = pair.span(order)
    top = float(pair.point(cap)) if cap < np.inf else np.inf
    parts = [np.linspace(low, max(min(high, top), low), cells + 1), pair.flats.ravel()]
    if losses is not None:
        parts.append(pair.point(losses))
    edges = np.unique(np.concatenate(parts))
    return edges[np.isfinite(edges) & (edges <= max(top, low))]


class LossPoints(NamedTuple):
    """Finite losses and the logarithms of their probabilities under ``P``; atoms of the loss are marked."""

    losses: Floats
    log_weights: Floats
    is_atom: np.ndarray[tuple[int], np.dtype[np.bool_]]


def loss_points(pair: DominatingPair, edges: Floats, *, within: bool = False) -> LossPoints:
    """The law of the finite privacy loss as weighted points, exact for atoms, of fourth order elsewhere.

    What is beyond the last edge is joined: its atoms into one point, the rest into another. Both keep ``P`` and ``Q``.
    With ``within`` it is left out.
    """
    flats, beyond = _split(pair.flats, edges)
    beyond = beyond[:0] if within else beyond
    low, high = _cells_outside(np.concatenate(([-np.inf], edges, edges[:0] if within else [np.inf])), flats)
    centre = mean_loss(pair, low, high)
    if _second_is_mixed(pair):
        log_p = pair.log_mass(Measure.P, low, high)
    else:  # the second law is the simpler one, as a rule
        with np.errstate(invalid="ignore"):
            log_p = pair.log_mass(Measure.Q, low, high) + centre
    if len(beyond):
        gaps = np.column_stack((np.append(edges[-1], beyond[:, 1]), np.append(beyond[:, 0], np.inf)))
        log_p[-1] = _log_total(pair, Measure.P, gaps)
        centre[-1] = log_p[-1] - _log_total(pair, Measure.Q, gaps) if log_p[-1] > -np.inf else np.nan
    keep = np.isfinite(log_p) & np.isfinite(centre)
    low, high, log_p, centre = low[keep], high[keep], log_p[keep], centre[keep]
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
        losses = np.concatenate((centre, np.where(bounded, least, 0.0), np.where(bounded, greatest, 0.0)))
        weights = np.concatenate(
            (
                log_p + np.where(bounded, np.log(2 / 3), 0.0),
                log_p + ends + np.log1p(-share),
                log_p + ends + np.log(share),
            )
        )
    atom = np.zeros(losses.size, dtype=bool)
    if len(flats):
        flat_losses, flat_weights = (pair.privacy_loss(flats[:, 1]), pair.log_mass(Measure.P, flats[:, 0], flats[:, 1]))
        losses, weights = (np.concatenate((losses, flat_losses)), np.concatenate((weights, flat_weights)))
        atom = np.concatenate((atom, np.ones(len(flats), dtype=bool)))
    if len(beyond):
        finite = beyond[pair.privacy_loss(beyond[:, 1]) < np.inf]
        joined_p, joined_q = (_log_total(pair, measure, finite) for measure in (Measure.P, Measure.Q))
        joined = joined_p - joined_q if joined_q > -np.inf else np.inf
        losses, weights, atom = (np.append(losses, joined), np.append(weights, joined_p), np.append(atom, True))
    keep = np.isfinite(losses) & np.isfinite(weights)
    return LossPoints(losses[keep], weights[keep], atom[keep])


def _second_is_mixed(pair: DominatingPair) -> bool:
    """Whether ``Q`` is the mixture of the two laws, and ``P`` the simpler one."""
    first = pair.first if isinstance(pair, EitherPair) else pair
    return isinstance(first, SampledPair) and first.direction is Direction.ADD


def _log_total(pair: DominatingPair, measure: Measure, intervals: Floats) -> float:
    """``log`` of the probability of all of the intervals."""
    return log_sum_exp(np.append(pair.log_mass(measure, intervals[:, 0], intervals[:, 1]), -np.inf))


def _split(flats: Floats, edges: Floats) -> tuple[Floats, Floats]:
    """Flats up to the last edge, and those beyond, if edges end below some."""
    if not len(flats) or edges[-1] >= np.max(flats[np.isfinite(flats)], initial=-np.inf):
        return flats, flats[:0]
    within = flats[:, 0] < edges[-1]
    return flats[within], flats[~within]


def _cells_outside(edges: Floats, flats: Floats) -> tuple[Floats, Floats]:
    """Consecutive edges as cells, without those inside a flat (the ends of the flats are among the edges)."""
    low, high = edges[:-1], edges[1:]
    if not len(flats):
        return low, high
    index = np.searchsorted(flats[:, 0], low, side="right") - 1
    inside = (index >= 0) & (high <= flats[np.maximum(index, 0), 1])
    return low[~inside], high[~inside]


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
    held = np.flatnonzero(size > np.max(size) - 50.0)
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
