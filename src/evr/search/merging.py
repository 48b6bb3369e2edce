"""Many equal steps on a few outcomes: a pair that dominates, whose sums cost as much as it has outcomes, however many steps.

The losses of a cell are moved to its two ends such that both laws keep their mass there: under ``Q`` the likelihood ratio keeps
its mean and is spread out, so delta can only grow (docs/guarantees.md, Section 3.9). Cells are narrow where a step weighs most, so that
it grows by about an allowance. Multinomial draws then stand for the steps.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from scipy.optimize import minimize_scalar

from evr.bounds.cells import CellTable
from evr.bounds.tilt import Tilt
from evr.laws import DiscretePair, DominatingPair, Floats, Measure, Step, outcomes
from evr.laws.line.gaussian import GaussianPair
from evr.laws.line.pair import log_sum_exp
from evr.laws.line.poisson import SampledAddPair, SampledRemovePair
from evr.sampling.samplers import MixtureSampler
from evr.search.tuning import capped_proposal, floor_of

_FEWEST = 100  # steps, or outcomes that cost as much: fewer are not worth the search
_FEWEST_CELLS = 20  # so that the rule for their number holds
_FINE = 40_000  # cells that edges are placed among
_SHARE_OF_INFINITE = 0.1  # of the allowance, for losses that become infinite
_ROUNDING = 4e-16  # means of cells are rounded up by that much
_CHEAP = 8  # cheap steps that cost as much as an outcome
_DEAR = 4  # outcomes that cost as much as a step that is drawn from cells
_CAPS = (1.0, 0.3, 0.1, 0.03)  # over epsilon: how much of it one step may carry, in turn
_NEXT_TO = 15.0  # of exponents: e^-15 of the rest is not worth cells


def merged_steps(steps: Sequence[Step], epsilon: float, delta: float, allowance: float) -> tuple[Step, ...]:
    """The steps, those that are many and dear replaced by dominating ones on a few outcomes.

    Delta grows by a share of about ``allowance``, for which ``delta``, about its size or less, says what of it may become
    infinite losses. Some finite loss must exceed ``epsilon``.
    """
    steps = tuple(steps)
    many = [step.count >= _FEWEST and not isinstance(outcomes(step.pair), DiscretePair) for step in steps]
    if not any(many):
        return steps
    tilts = capped_proposal(steps, epsilon, quick=True).tilts
    affordable = [_affordable(step, tilt) if x else 0 for step, tilt, x in zip(steps, tilts, many, strict=True)]
    if max(affordable) < _FEWEST:
        return steps
    tables = [CellTable.of(step.pair, 0.0, _FINE, []) for step in steps]
    maps = _maps(steps, tables, epsilon)
    each = allowance / sum(number >= _FEWEST for number in affordable)
    return tuple(
        _merged(step, table, [tilt, *of_step], each, delta, number) if number >= _FEWEST else step
        for step, table, tilt, of_step, number in zip(steps, tables, tilts, maps, affordable, strict=True)
    )


def _affordable(step: Step, tilt: Tilt) -> int:
    """The most outcomes that cost less than the steps: few where a step costs little more than a normal draw."""
    pair = step.pair
    cheap = isinstance(pair, SampledRemovePair | SampledAddPair) and isinstance(pair.base, GaussianPair)
    if isinstance(pair, SampledRemovePair):
        cheap = cheap and MixtureSampler.serves(tilt)  # else it is drawn from cells
    return step.count // _CHEAP if cheap else step.count * _DEAR


def _maps(steps: Sequence[Step], tables: Sequence[CellTable], epsilon: float) -> list[list[Tilt]]:
    """Where delta comes from: for each share of epsilon that one step may carry, the tilts that centre the sum at epsilon; those
    shares whose exponent in Chernoff's bound is next to the greatest, for the others hardly contribute."""
    floors = [min(floor_of(step.pair), 0.0) for step in steps]
    found: list[tuple[float, list[Tilt]]] = []
    for share in _CAPS if epsilon > 0 else ():
        cap = share * epsilon

        def chernoff(log_order: float, cap: float = cap) -> float:
            order = math.exp(log_order)
            tilts = [Tilt(order, cap, floor) for floor in floors]
            logs = (s.count * _log_normaliser(t, h) for s, t, h in zip(steps, tables, tilts, strict=True))
            return math.fsum(logs) - order * epsilon

        least = minimize_scalar(chernoff, bounds=(-5.0, 25.0), method="bounded", options={"xatol": 0.05, "maxiter": 40})
        found.append((float(least.fun), [Tilt(math.exp(float(least.x)), cap, floor) for floor in floors]))
    greatest = max((exponent for exponent, _ in found), default=0.0)
    kept = [tilts for exponent, tilts in found if exponent > greatest - _NEXT_TO]
    return [list(of_step) for of_step in zip(*kept, strict=True)] if kept else [[] for _ in steps]


def _log_weights(table: CellTable, tilt: Tilt) -> Floats:
    """``log`` of the tilted mass of each cell, at its mean; only how much delta grows rests on it."""
    mean = np.clip(table.log_p - table.log_q, table.least, table.greatest)
    return table.log_p + tilt.height(mean)


def _log_normaliser(table: CellTable, tilt: Tilt) -> float:
    return log_sum_exp(_log_weights(table, tilt))


def _merged(step: Step, table: CellTable, maps: list[Tilt], allowance: float, delta: float, affordable: int) -> Step:
    edges = _edges(step, table, maps, allowance, delta)
    return Step(spread_to_edges(step.pair, edges), step.count) if edges.size <= affordable else step


def _edges(step: Step, table: CellTable, maps: list[Tilt], allowance: float, delta: float) -> Floats:
    """Edges of cells, as few as keep within the allowance.

    To spread a loss over a width ``w`` raises ``e^{order loss}`` by about ``order (order + 1) w^2 / 12`` of itself. With the density
    ``f`` of the tilted loss the sum of that over cells is least for widths in proportion to ``f^{-1/3}``. The rule is one for
    narrow cells, so no cell is wide. All that rests on it is how much delta grows.
    """
    pair = step.pair
    log_beyond = pair.log_mass(Measure.P, table.high, np.full(table.high.size, np.inf))
    rare = math.log(_SHARE_OF_INFINITE * allowance) + math.log(max(delta, 1e-300)) - math.log(step.count)
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
        start = min(max(bottom, -1.0 / order), capped)  # what is moved up from far below stays without weight
        wide = ((start, capped, order), (capped, top, 1.0))
        coarse += [pair.point(np.linspace(a, b, min(2 + math.ceil((b - a) * x), _FINE))) for a, b, x in wide]
    edges = np.unique(np.concatenate(coarse))
    return edges[np.isfinite(edges)]


def spread_to_edges(pair: DominatingPair, edges: Floats) -> DiscretePair:
    """The pair whose losses are those at the edges, and the least and the greatest: it dominates, cell by cell."""
    low, high = np.concatenate(([-np.inf], edges)), np.concatenate((edges, [np.inf]))
    log_p, log_q = pair.log_mass(Measure.P, low, high), pair.log_mass(Measure.Q, low, high)
    least, greatest = pair.privacy_loss(low), pair.privacy_loss(high)
    with np.errstate(divide="ignore", invalid="ignore"):
        mean = np.clip(log_p - log_q + _ROUNDING, least, greatest)
        share = np.expm1(least - mean) / np.expm1(least - greatest)  # of P, to the upper end
        share = np.where(np.isfinite(least) & (least < greatest) & (log_p > -np.inf), np.clip(share, 0.0, 1.0), 1.0)
        losses = np.concatenate((least, greatest))
        spread = np.concatenate((log_p + np.log1p(-share), log_p + np.log(share)))
    held = spread > -np.inf
    return DiscretePair.from_logs(spread[held], spread[held] - losses[held], losses[held])
