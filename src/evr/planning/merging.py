"""Steps on a few outcomes: a pair that dominates, whose sums cost as much as it has outcomes, however many steps.

The losses of a cell are moved to its two ends such that both laws keep their mass there: under ``Q`` the likelihood
ratio keeps its mean and is spread out, so delta can only grow (docs/guarantees.md, Section 3.9). Cells are narrow where
a step weighs most, so that it grows by about an allowance.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from scipy.optimize import minimize_scalar

from evr.bounds.spreading import Cells, even_edges
from evr.bounds.tilt import Tilt
from evr.laws import DiscretePair, DominatingPair, Floats, Measure, Step, outcomes
from evr.laws.line.pair import log_sum_exp

_FEWEST_CELLS = 20  # so that the rule for their number holds
_FINE = 40_000  # cells that edges are placed among
_SHARE_OF_INFINITE = 0.1  # of the allowance, for losses that become infinite
_CAPS = (2.0, 1.2, 0.3, 0.1, 0.03)  # over the scale: how much of it one step may carry, in turn
_ORDERS = (1.0, 2e3)  # of tilts that are tried: over the scale, and over the least deviation
_NEXT_TO = 15.0  # of exponents: e^-15 of the rest is not worth cells
_RARE = math.log(1e-12)
_LEAST_DRIFT = 1e-6  # of delta: what rounding may take from it without a word

Edges = tuple[float, ...] | None


class Where(NamedTuple):
    """Tilts of each kind of step that lead to where delta comes from, and about Chernoff's ``log`` bound on it."""

    tilts: list[list[Tilt]]
    log_bound: float


def where_it_counts(steps: Sequence[Step], epsilon: float) -> Where:
    """For each share of epsilon that one step may carry, the tilts that centre the sum at epsilon. Only shares whose
    exponent in Chernoff's bound is next to the greatest are kept, for the others hardly contribute.
    """
    cells = [_fine_cells(step.pair) for step in steps]
    floors = [_floor(one) for one in cells]
    sizes = [_deviation(step, own) for step, own in zip(steps, cells, strict=True)]
    scale, least = max(epsilon, math.hypot(*sizes)), max(min(sizes), 1e-12)
    orders = (math.log(_ORDERS[0] / scale), math.log(_ORDERS[1] / least))
    if orders[0] >= orders[1]:  # losses of about 1e-16
        raise _too_coarse(steps[0])
    found: list[tuple[float, list[Tilt]]] = []
    for share in _CAPS:
        cap = share * scale

        def tilts(log_order: float, cap: float = cap) -> list[Tilt]:
            return [Tilt(math.exp(log_order), max(cap, floor), floor) for floor in floors]

        def chernoff(log_order: float, tilts: Callable[[float], list[Tilt]] = tilts) -> float:
            logs = (
                step.count * log_sum_exp(_log_weights(own, tilt))
                for step, own, tilt in zip(steps, cells, tilts(log_order), strict=True)
            )
            return math.fsum(logs) - math.exp(log_order) * epsilon

        best = minimize_scalar(chernoff, bounds=orders, method="bounded", options={"xatol": 0.05, "maxiter": 40})
        found.append((float(best.fun), tilts(float(best.x))))
    greatest = max(exponent for exponent, _ in found)
    kept = [tilts for exponent, tilts in found if exponent > greatest - _NEXT_TO]
    if not kept:  # numbers beyond all floats
        raise _too_coarse(steps[0])
    return Where([list(of_step) for of_step in zip(*kept, strict=True)], greatest)


def merging_edges(
    steps: Sequence[Step], where: Sequence[Sequence[Tilt]], delta: float, allowance: float
) -> list[Edges]:
    """Where to cut the losses of steps, to draw them as a few outcomes; None for steps that have finitely many.

    Delta grows by a share of about ``allowance``, for which ``delta``, about its size or less, says what of it may
    become infinite losses.
    """
    spread = [not isinstance(outcomes(step.pair), DiscretePair) for step in steps]
    each = allowance / max(sum(spread), 1)
    return [
        edges_of(step, tilts, each, delta) if x else None for step, tilts, x in zip(steps, where, spread, strict=True)
    ]


def edges_of(step: Step, where: Sequence[Tilt], allowance: float, delta: float) -> tuple[float, ...]:
    """Where to cut the losses of a kind of step. They are refused where they are so small, and so many, that their
    rounding, raised to be safe, would cost more than the allowance.
    """
    edges = _edges(step, _fine_cells(step.pair), where, allowance, delta)
    order = max(tilt.order for tilt in where)
    drift = step.count * _drift(Cells.of(step.pair, edges)) * (1.0 + order)
    if drift > max(allowance, _LEAST_DRIFT):
        raise _too_coarse(step)
    return tuple(edges.tolist())


def _too_coarse(step: Step) -> ValueError:
    return ValueError(
        f"floats know total losses of {step.count} steps of {step.pair.describe()} too coarsely to "
        "draw them as outcomes: use method='strict', or estimate by method='fft'"
    )


@lru_cache(maxsize=16)
def _fine_cells(pair: DominatingPair) -> Cells:
    cells = Cells.of(pair, even_edges(pair, _FINE))
    held = cells.log_p > -np.inf
    return Cells(*(column[held] for column in cells))


def _centres(cells: Cells) -> Floats:
    """The means, within the cells: a mean of a difference of logarithms may be outside."""
    return np.clip(cells.mean, cells.least, cells.greatest)


def _drift(cells: Cells) -> float:
    """By how much the mean loss of a step rises because cells' means are raised by their doubt."""
    with np.errstate(invalid="ignore"):
        raised = np.clip(cells.mean + cells.doubt, cells.least, cells.greatest) - _centres(cells)
    return float(np.sum(np.where(np.isfinite(raised), raised, 0.0) * np.exp(cells.log_p)))


def _floor(cells: Cells) -> float:
    """A loss that all but 1e-12 of ``P`` is not below, and not above 0."""
    place = int(np.searchsorted(np.logaddexp.accumulate(cells.log_p), _RARE))
    losses = _centres(cells)[place:]
    return min(float(losses[np.isfinite(losses)][0]), 0.0)


def _deviation(step: Step, cells: Cells) -> float:
    """A rough size of the total loss of equal steps."""
    squares = np.clip(_centres(cells), -50.0, 50.0) ** 2
    return math.sqrt(step.count * float(np.sum(np.exp(cells.log_p) * squares)))


def _log_weights(cells: Cells, tilt: Tilt) -> Floats:
    """``log`` of the tilted mass of each cell, at its mean; only how much delta grows rests on it."""
    return cells.log_p + tilt.height(_centres(cells))


def _edges(step: Step, cells: Cells, where: Sequence[Tilt], allowance: float, delta: float) -> Floats:
    """Edges of cells, as few as keep within the allowance.

    To spread a loss over a width ``w`` raises ``e^{order loss}`` by about ``order (order + 1) w^2 / 12`` of itself.
    With the density ``f`` of the tilted loss the sum of that over cells is least for widths in proportion to
    ``f^{-1/3}``. The rule is one for narrow cells, so no cell is wide. All that rests on it is how much delta grows.
    """
    pair = step.pair
    log_beyond = pair.log_mass(Measure.P, cells.high, np.full(cells.high.size, np.inf))
    rare = math.log(_SHARE_OF_INFINITE * allowance) + math.log(max(delta, 1e-300)) - math.log(step.count)
    kept = int(np.searchsorted(-log_beyond, -rare)) + 1  # what is beyond may become infinite
    high, least, greatest = (x[:kept] for x in (cells.high, cells.least, cells.greatest))
    costs = np.zeros(high.size)
    for tilt in where:
        order, weights = max(tilt.order, 1.0), _log_weights(cells, tilt)[:kept]
        costs = np.maximum(costs, order * (order + 1.0) * np.exp(weights - log_sum_exp(weights)))
    with np.errstate(invalid="ignore"):
        width = np.where(np.isfinite(greatest - least), greatest - least, 0.0)
    density = np.cumsum(np.cbrt(costs * width**2))
    number = math.ceil(math.sqrt(step.count / 12 * density[-1] ** 3 / allowance))
    places = np.linspace(0.0, density[-1], min(max(number, _FEWEST_CELLS), _FINE) + 1)
    inner = np.interp(places, np.concatenate(([0.0], density)), np.concatenate((high[:1], high)))
    inner = inner[np.isfinite(inner)]
    bottom, top = (float(pair.privacy_loss(t)) for t in (inner[0], inner[-1]))
    coarse = [inner, high[-1:], pair.flats.reshape(-1)]
    for tilt in where:
        order, capped = max(tilt.order, 1.0), min(max(tilt.cap, bottom), top)
        # what is moved up from far below stays without weight
        start = min(max(bottom, -1.0 / order), capped)
        wide = ((start, capped, order), (capped, top, 1.0))
        coarse += [pair.point(np.linspace(a, b, min(2 + math.ceil((b - a) * x), _FINE))) for a, b, x in wide]
    edges = np.unique(np.concatenate(coarse))
    return edges[np.isfinite(edges)]
