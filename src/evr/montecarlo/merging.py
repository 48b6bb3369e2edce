"""Many equal steps on a few outcomes: a pair that dominates, whose sums cost as much as it has outcomes, however many steps.

The losses of a cell are moved to its two ends such that both laws keep their mass there: under ``Q`` the likelihood ratio keeps
its mean and is spread out, so delta can only grow (docs/guarantees.md, Section 3.9). Cells are narrow where a step weighs most, so that
it grows by no more than an allowance. Multinomial draws then stand for the steps.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from evr.mechanisms import DiscretePair, DominatingPair, Floats, Measure, Step, outcomes
from evr.mechanisms.gaussian import GaussianPair
from evr.mechanisms.poisson import SampledAddPair, SampledRemovePair
from evr.montecarlo.cells import CellTable
from evr.montecarlo.tilt import Tilt
from evr.montecarlo.tuning import capped_proposal

_FEWEST = 100  # steps, or outcomes that cost as much: fewer are not worth the search
_FINE = 40_000  # cells that edges are placed among
_SHARE_OF_INFINITE = 0.1  # of the allowance, for losses that become infinite
_ROUNDING = 1e-14  # of a loss: means of cells are rounded up by that much
_CHEAP, _DEAR = 8, 4  # an outcome costs as much as so many cheap steps, a step from cells as much as so many outcomes


def merged_steps(steps: Sequence[Step], epsilon: float, delta: float, allowance: float) -> tuple[Step, ...]:
    """The steps, those that are many and dear replaced by dominating ones on a few outcomes.

    ``delta``, about the size of the truth, grows by a share of about ``allowance``. Some finite loss must exceed ``epsilon``.
    """
    steps = tuple(steps)
    many = [step.count >= _FEWEST and not isinstance(outcomes(step.pair), DiscretePair) for step in steps]
    if not any(many):
        return steps
    tilts = capped_proposal(steps, epsilon, quick=True).tilts
    each = allowance / sum(many)
    return tuple(
        _merged(step, tilt, each, delta) if worthy else step
        for step, tilt, worthy in zip(steps, tilts, many, strict=True)
    )


def _merged(step: Step, tilt: Tilt, allowance: float, delta: float) -> Step:
    affordable = step.count // _CHEAP if _is_cheap(step.pair, tilt) else step.count * _DEAR
    edges = _edges(step, tilt, allowance, delta) if affordable >= _FEWEST else None
    return step if edges is None or edges.size > affordable else Step(spread_to_edges(step.pair, edges), step.count)


def _is_cheap(pair: DominatingPair, tilt: Tilt) -> bool:
    """Whether a step costs little more than a normal draw: not if it is drawn from cells."""
    if not isinstance(pair, SampledRemovePair | SampledAddPair) or not isinstance(pair.base, GaussianPair):
        return False
    return tilt.is_whole if isinstance(pair, SampledRemovePair) else True


def _edges(step: Step, tilt: Tilt, allowance: float, delta: float) -> Floats:
    """Edges of cells, as few as keep within the allowance.

    To spread a loss over a width ``w`` raises ``e^{order loss}`` by about ``order (order + 1) w^2 / 12`` of itself. With the density
    ``f`` of the tilted loss the sum of that over cells is least for widths in proportion to ``f^{-1/3}``. All that rests on
    this is how much delta grows.
    """
    pair, order = step.pair, max(tilt.jump_order or tilt.order, 1.0)
    table = CellTable.of(pair, order, _FINE, [x for x in (tilt.knee, tilt.cap) if x is not None and math.isfinite(x)])
    log_beyond = pair.log_mass(Measure.P, table.high, np.full(table.high.size, np.inf))
    rare = math.log(_SHARE_OF_INFINITE * allowance * delta / step.count)
    kept = max(1, int(np.searchsorted(-log_beyond, -rare)))  # what is beyond may become infinite
    high, log_p, log_q, least, greatest = (
        x[:kept] for x in (table.high, table.log_p, table.log_q, table.least, table.greatest)
    )
    weight = log_p + tilt.height(np.clip(log_p - log_q, least, greatest))
    share = np.exp(weight - weight.max())
    with np.errstate(invalid="ignore"):
        width = np.where(np.isfinite(greatest - least), greatest - least, 0.0)
    density = np.cumsum(np.cbrt(share / share.sum() * width**2))
    number = math.ceil(math.sqrt(step.count * order * (order + 1) / 12 * density[-1] ** 3 / allowance))
    places = np.linspace(0.0, density[-1], min(number, _FINE) + 1)[1:]
    inner = np.interp(places, np.concatenate(([0.0], density)), np.concatenate((high[:1], high)))
    edges = np.unique(np.concatenate((inner, high[-1:], pair.flats.reshape(-1))))
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
