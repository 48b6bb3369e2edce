"""Many equal steps on a few outcomes: a pair that dominates, whose sums cost as much as it has
outcomes, however many steps.

The losses of a cell are moved to its two ends such that both laws keep their mass there: under
``Q`` the likelihood ratio keeps its mean and is spread out, so delta can only grow
(docs/guarantees.md, Section 3.9). Cells are narrow where a step weighs most, so that it grows by
about an allowance. Multinomial draws then stand for the steps.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache

import numpy as np
from scipy.optimize import minimize_scalar

from evr.bounds.cells import CellTable
from evr.bounds.spreading import spreading_drift
from evr.bounds.tilt import Tilt
from evr.laws import DiscretePair, DominatingPair, Floats, Measure, Step, outcomes
from evr.laws.line.pair import log_sum_exp
from evr.sampling.proposals import spread_steps
from evr.sampling.samplers import sampler_class
from evr.search.tuning import capped_proposal, floor_of

_FEWEST = 100  # steps, or outcomes that cost as much: fewer are not worth the search
_FEWEST_CELLS = 20  # so that the rule for their number holds
_FINE = 40_000  # cells that edges are placed among
_SHARE_OF_INFINITE = 0.1  # of the allowance, for losses that become infinite
_CAPS = (1.0, 0.3, 0.1, 0.03)  # over epsilon: how much of it one step may carry, in turn
_NEXT_TO = 15.0  # of exponents: e^-15 of the rest is not worth cells


Edges = tuple[float, ...] | None


def merging_edges(
    steps: Sequence[Step],
    epsilon: float,
    delta: float,
    allowance: float,
    *,
    most: int | None = None,
) -> tuple[Edges, ...]:
    """Where to cut the losses of steps that are many and dear, to draw them as a few outcomes; None
    for the others.

    Delta grows by a share of about ``allowance``, for which ``delta``, about its size or less, says
    what of it may become infinite losses. Some finite loss must exceed ``epsilon``. There are as
    many edges as cost less than the steps, at the most; or ``most``, and then steps need not be
    many.
    """
    steps = tuple(steps)
    nowhere: tuple[Edges, ...] = (None,) * len(steps)
    fewest = _FEWEST if most is None else 1
    many = [
        step.count >= fewest and not isinstance(outcomes(step.pair), DiscretePair) for step in steps
    ]
    if not any(many):
        return nowhere
    tilts = capped_proposal(steps, epsilon, quick=True).tilts
    affordable = [
        (_affordable(step, tilt) if most is None else most) if x else 0
        for step, tilt, x in zip(steps, tilts, many, strict=True)
    ]
    if max(affordable) < _FEWEST:
        return nowhere
    each = allowance / sum(number >= _FEWEST for number in affordable)
    found: list[Edges] = []
    for step, where, number in zip(
        steps, where_it_counts(steps, tilts, epsilon), affordable, strict=True
    ):
        edges = edges_of(step, where, each, delta) if number >= _FEWEST else None
        found.append(edges if edges is not None and len(edges) <= number else None)
    return tuple(found)


def where_it_counts(
    steps: Sequence[Step], tilts: Sequence[Tilt], epsilon: float
) -> list[list[Tilt]]:
    """For each kind of step, tilts that lead to where delta comes from, its own among them."""
    tables = [_fine_table(step.pair) for step in steps]
    maps = _maps(steps, tables, epsilon)
    return [[tilt, *of_step] for tilt, of_step in zip(tilts, maps, strict=True)]


def edges_of(step: Step, where: list[Tilt], allowance: float, delta: float) -> Edges:
    """Where to cut the losses of a kind of step; None where they are so small that their rounding,
    raised to be safe, would cost more than the allowance.
    """
    edges = _edges(step, _fine_table(step.pair), where, allowance, delta)
    return None if _drifts(step, edges, where, allowance) else tuple(edges.tolist())


@lru_cache(maxsize=16)
def _fine_table(pair: DominatingPair) -> CellTable:
    return CellTable.of(pair, 0.0, _FINE, [])


def _drifts(step: Step, edges: Floats, maps: list[Tilt], allowance: float) -> bool:
    """Whether what rounding may take from means of cells, and is added to be safe, is more than the
    allowance.
    """
    order = max(tilt.jump_order or tilt.order for tilt in maps)
    return step.count * spreading_drift(step.pair, edges) * (1.0 + order) > allowance


def merged_steps(
    steps: Sequence[Step], epsilon: float, delta: float, allowance: float
) -> tuple[Step, ...]:
    """The steps, those with ``merging_edges`` replaced by dominating ones on a few outcomes."""
    return spread_steps(steps, merging_edges(steps, epsilon, delta, allowance))


def _affordable(step: Step, tilt: Tilt) -> int:
    """The most outcomes that cost less than the steps: few where a step costs little more than a
    normal draw.
    """
    return int(step.count * sampler_class(step.pair, tilt).outcomes_per_step)


def _maps(steps: Sequence[Step], tables: Sequence[CellTable], epsilon: float) -> list[list[Tilt]]:
    """Where delta comes from: for each share of epsilon that one step may carry, the tilts that
    centre the sum at epsilon; those shares whose exponent in Chernoff's bound is next to the
    greatest, for the others hardly contribute.
    """
    floors = [min(floor_of(step.pair), 0.0) for step in steps]
    found: list[tuple[float, list[Tilt]]] = []
    for share in _CAPS if epsilon > 0 else ():
        cap = share * epsilon

        def chernoff(log_order: float, cap: float = cap) -> float:
            order = math.exp(log_order)
            tilts = [Tilt(order, cap, floor) for floor in floors]
            logs = (
                s.count * _log_normaliser(t, h)
                for s, t, h in zip(steps, tables, tilts, strict=True)
            )
            return math.fsum(logs) - order * epsilon

        least = minimize_scalar(
            chernoff, bounds=(-5.0, 25.0), method="bounded", options={"xatol": 0.05, "maxiter": 40}
        )
        found.append(
            (float(least.fun), [Tilt(math.exp(float(least.x)), cap, floor) for floor in floors])
        )
    greatest = max((exponent for exponent, _ in found), default=0.0)
    kept = [tilts for exponent, tilts in found if exponent > greatest - _NEXT_TO]
    return [list(of_step) for of_step in zip(*kept, strict=True)] if kept else [[] for _ in steps]


def _log_weights(table: CellTable, tilt: Tilt) -> Floats:
    """``log`` of the tilted mass of each cell, at its mean; only how much
    delta grows rests on it.
    """
    mean = np.clip(table.log_p - table.log_q, table.least, table.greatest)
    return table.log_p + tilt.height(mean)


def _log_normaliser(table: CellTable, tilt: Tilt) -> float:
    return log_sum_exp(_log_weights(table, tilt))


def _edges(
    step: Step, table: CellTable, maps: list[Tilt], allowance: float, delta: float
) -> Floats:
    """Edges of cells, as few as keep within the allowance.

    To spread a loss over a width ``w`` raises ``e^{order loss}`` by about ``order (order + 1) w^2 /
    12`` of itself. With the density ``f`` of the tilted loss the sum of that over cells is least
    for widths in proportion to ``f^{-1/3}``. The rule is one for narrow cells, so no cell is wide.
    All that rests on it is how much delta grows.
    """
    pair = step.pair
    log_beyond = pair.log_mass(Measure.P, table.high, np.full(table.high.size, np.inf))
    rare = (
        math.log(_SHARE_OF_INFINITE * allowance)
        + math.log(max(delta, 1e-300))
        - math.log(step.count)
    )
    kept = int(np.searchsorted(-log_beyond, -rare)) + 1  # what is beyond may become infinite
    high, least, greatest = (x[:kept] for x in (table.high, table.least, table.greatest))
    costs = np.zeros(high.size)
    for tilt in maps:
        order, weights = max(tilt.jump_order or tilt.order, 1.0), _log_weights(table, tilt)[:kept]
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
    for tilt in maps:
        order, capped = max(tilt.jump_order or tilt.order, 1.0), min(max(tilt.cap, bottom), top)
        # what is moved up from far below stays without weight
        start = min(max(bottom, -1.0 / order), capped)
        wide = ((start, capped, order), (capped, top, 1.0))
        coarse += [
            pair.point(np.linspace(a, b, min(2 + math.ceil((b - a) * x), _FINE)))
            for a, b, x in wide
        ]
    edges = np.unique(np.concatenate(coarse))
    return edges[np.isfinite(edges)]
