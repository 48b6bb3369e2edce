"""Proved bounds on delta without a sample: what a fallback has to show.

For any order ``s > 0`` and cap ``c``, with ``Y`` the sum of the losses ``y_i`` and ``(1 -
e^{epsilon - Y})_+ <= C_s e^{s (Y - epsilon)}``,

    delta <= C_s e^{-s epsilon} prod_i E[e^{s y_i}; y_i <= c] + sum_i P(y_i > c),   C_s = s^s / (1 +
    s)^{1 + s}

the moments bound with jumps apart: docs/guarantees.md, Section 3, with one sample's first moment
and no tilt, for steps on outcomes that dominate (Section 3.9). Of a single step delta is known in
closed form.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from evr.bounds import Tilt
from evr.bounds.moments import MomentBound, TiltedOutcomes
from evr.bounds.reach import reach
from evr.bounds.rounding import Rounding
from evr.bounds.spreading import spread_to_edges
from evr.laws import Direction, DiscretePair, Step, outcomes
from evr.laws.line.discretise import cell_edges
from evr.mechanisms import Composition

_ORDERS = np.geomspace(0.25, 256.0, 41)
_REACHES = (0.3, 1.0, 4.0, 16.0, 60.0)
_ABSOLUTE = 1e-15  # of a difference of two probabilities


def proved_delta(event: Any, epsilon: float) -> dict[str, float]:
    """An upper bound on delta(epsilon) in each direction; proved, never an estimate.

    Examples
    --------
    >>> from dp_accounting import dp_event
    >>> bound = proved_delta(dp_event.SelfComposedDpEvent(dp_event.LaplaceDpEvent(10.0), 8), 1.0)
    >>> bound
    {'remove': 0.0, 'add': 0.0}
    """
    composition = Composition.of(event)
    return {one.value: _bound(composition.simplified(one), epsilon) for one in Direction}


def _bound(steps: tuple[Step, ...], epsilon: float) -> float:
    found = reach(steps, epsilon)
    if found.finite <= epsilon:
        return min(1.0, found.infinite * (1.0 + Rounding.of(steps, epsilon).weight) + found.excess)
    if len(steps) == 1 and steps[0].count == 1:
        rounding = Rounding.of(steps, epsilon)
        return min(
            1.0, steps[0].pair.delta(rounding.bounded(epsilon)) * (1 + rounding.weight) + _ABSOLUTE
        )
    scale = max(epsilon, 0.1)
    choices = [(float(order), scale * (1 + times)) for order in _ORDERS for times in _REACHES]
    order, cap = min(
        choices, key=lambda choice: _log_bound(steps, epsilon, choice[0], choice[1], 512)
    )
    rounding = Rounding.of(steps, epsilon, order=order)
    log_bound = _log_bound(steps, rounding.bounded(epsilon), order, cap, 16_384) + rounding.weight
    return math.exp(min(log_bound, 0.0))


def _log_bound(
    steps: tuple[Step, ...], epsilon: float, order: float, cap: float, cells: int
) -> float:
    bounds = []
    for step in steps:
        pair = outcomes(step.pair)
        if not isinstance(pair, DiscretePair):
            low, high = pair.loss_range
            losses = np.linspace(max(low, -cap), min(high, cap), cells // 2)
            pair = spread_to_edges(pair, cell_edges(pair, order, cells, losses))
        bounds.append(TiltedOutcomes(pair, Tilt(0.0, cap)))
    return MomentBound([step.count for step in steps], bounds, 0.0, epsilon, 1.0)(order)
