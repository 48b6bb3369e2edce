"""Where to tilt: the order that centres the sum of losses at epsilon, and the range that holds it."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from evr.laws import DominatingPair, Step
from evr.laws.line.discretise import LossPoints, cell_edges, loss_points
from evr.laws.line.pair import log_sum_exp

_TAIL = 34.0  # log of the tilted mass that may wrap around the grid
_NEGLIGIBLE = -760.0  # log of a bound on delta below which it is 0 as a float


class Plan(NamedTuple):
    """The order of the tilt, the loss beyond which all is joined (right for deltas up to ``epsilon``), and the range that
    holds the tilted sum."""

    epsilon: float
    order: float
    cap: float
    low: float
    high: float
    bottom: float = -math.inf


@lru_cache(maxsize=64)
def points_of(
    pair: DominatingPair, order: float, cap: float, cells: int, width: float, reach: float, keep: float = 120.0
) -> LossPoints:
    """The law of one step, but for ``e^-keep`` of the tilted mass: cells even in ``t``, and in losses up to ``reach``."""
    least, greatest = pair.loss_range
    low, high = max(least, -reach), min(greatest, reach, cap)
    losses = np.linspace(low, high, max(2, math.ceil((high - low) / width) + 1)) if low < high else None
    points = loss_points(pair, cell_edges(pair, order, cells, losses, cap))
    if not points.losses.size:
        return points
    tilted = points.log_weights + order * points.losses
    kept = tilted > tilted.max() - keep
    return LossPoints(points.losses[kept], points.log_weights[kept], points.is_atom[kept])


def rough_points(pair: DominatingPair, order: float, cap: float, keep: float = 120.0) -> LossPoints:
    """As much of the law as a plan needs."""
    reach = max(40.0 / max(order, 0.1), min(cap, 1000.0 / max(order, 1.0)))
    return points_of(pair, order, cap, 2048, 0.1 / max(order, 1.0), reach, keep)


def _cumulant(points: tuple[LossPoints, ...], counts: list[int], order: float) -> float:
    return math.fsum(n * log_sum_exp(p.log_weights + order * p.losses) for p, n in zip(points, counts, strict=True))


def _tilted_mean(points: tuple[LossPoints, ...], counts: list[int], order: float) -> float:
    total = 0.0
    for p, n in zip(points, counts, strict=True):
        exponent = p.log_weights + order * p.losses
        weights = np.exp(exponent - exponent.max())
        total += n * float(np.sum(weights * p.losses) / np.sum(weights))
    return total


def plan_tilt(steps: tuple[Step, ...], epsilon: float, reach: float = 1.02) -> Plan | None:
    """The order at which the mean of the tilted sum is epsilon, or 0 if the mean is beyond it already.

    The plan serves epsilons up to ``reach`` times the given one. None where the moments bound shows that delta is below
    the least positive float.
    """
    counts = [step.count for step in steps]
    plain = tuple(rough_points(step.pair, 0.0, math.inf) for step in steps)
    valid = reach * epsilon + 1e-3
    cap = valid + max(0.0, -_sum_range(plain, counts, 0.0, _TAIL)[0])

    def points_at(order: float) -> tuple[LossPoints, ...]:
        return tuple(rough_points(step.pair, order, cap) for step in steps)

    low, high = 0.0, 1.0
    if _tilted_mean(points_at(0.0), counts, 0.0) >= epsilon:
        high = 0.0
    else:
        while _tilted_mean(points := points_at(high), counts, high) < epsilon and high < 1e6:
            if _cumulant(points, counts, high) - high * epsilon < _NEGLIGIBLE:
                return None
            low, high = high, 2 * high
        while high - low > 1e-3 * high:
            middle = (low + high) / 2
            if _tilted_mean(points, counts, middle) < epsilon:
                low = middle
            else:
                high = middle
    points = points_at(high)
    low, top = _sum_range(points, counts, high, _TAIL)
    bottom = -math.inf
    if high == 0.0:  # a loss that the other steps cannot make up for leaves the sum below 0, however low it is
        bottom = -max(top, 1e-9)
        low, top = _sum_range(tuple(not_below(p, bottom) for p in points), counts, high, _TAIL)
    return Plan(valid, high, cap, min(low, epsilon), max(top, epsilon), bottom)


def not_below(points: LossPoints, bottom: float) -> LossPoints:
    """The points, with lower losses raised to ``bottom``."""
    return points if bottom == -math.inf else points._replace(losses=np.maximum(points.losses, bottom))


def widened(plan: Plan, steps: tuple[Step, ...]) -> Plan:
    """The plan, with room for other counts of its pairs."""
    counts = [step.count for step in steps]
    plain = tuple(rough_points(step.pair, 0.0, math.inf) for step in steps)
    cap = max(plan.cap, plan.epsilon - _sum_range(plain, counts, 0.0, _TAIL)[0])
    points = tuple(not_below(rough_points(step.pair, plan.order, cap), plan.bottom) for step in steps)
    low, high = _sum_range(points, counts, plan.order, _TAIL)
    return plan._replace(cap=cap, low=min(plan.low, low), high=max(plan.high, high))


def _sum_range(points: tuple[LossPoints, ...], counts: list[int], order: float, tail: float) -> tuple[float, float]:
    """A range outside which the tilted sum has mass below ``e^-tail`` at each end, by Chernoff's bound."""
    centre, at_order = _tilted_mean(points, counts, order), _cumulant(points, counts, order)
    variance = 0.0
    for p, n in zip(points, counts, strict=True):
        exponent = p.log_weights + order * p.losses
        weights = np.exp(exponent - log_sum_exp(exponent))
        mean = float(np.sum(weights * p.losses))
        variance += n * float(np.sum(weights * (p.losses - mean) ** 2))
    unit = 1.0 / math.sqrt(variance) if variance > 0 else 1.0
    lows, highs = [], []
    for shift in unit * np.geomspace(1e-3, 30.0, 24):
        highs.append((_cumulant(points, counts, order + shift) - at_order + tail) / shift)
        lows.append((at_order - _cumulant(points, counts, order - shift) - tail) / shift)
    reach = 2e-9 + 1e-6 * abs(centre)
    least = math.fsum(n * float(p.losses.min()) for p, n in zip(points, counts, strict=True))
    greatest = math.fsum(n * float(p.losses.max()) for p, n in zip(points, counts, strict=True))
    return max(max(lows), least) - reach, min(min(highs), greatest) + reach
