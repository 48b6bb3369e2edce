"""From delta to epsilon: the least epsilon at which a falling privacy curve is at most a target."""

from __future__ import annotations

import math
from collections.abc import Callable

from scipy.optimize import brentq

_FLOOR = 1e-320


def solve_epsilon(
    delta: Callable[[float], float], target: float, *, guess: float = 1.0, greatest: float = math.inf
) -> float:
    """The least ``epsilon >= 0`` with ``delta(epsilon) <= target``, to 1e-10 relative; ``inf`` if there is none.

    Parameters
    ----------
    delta
        A non-increasing curve.
    target
        In (0, 1).
    guess
        Where to look first; the bracket grows from there.
    greatest
        An epsilon beyond which delta is constant, where one is known.
    """

    def gap(epsilon: float) -> float:
        return math.log(max(delta(epsilon), _FLOOR)) - math.log(target)

    low, high = 0.0, min(guess, greatest)
    if gap(high) > 0:
        factor = 1.1
        while gap(high) > 0:
            if high >= greatest or high > 1e15:
                return math.inf
            low, high, factor = high, min(factor * high + 1e-9, greatest), min(2.0, factor**2)
    else:
        factor = 0.9
        while True:
            low, factor = factor * high, max(0.01, factor**2)
            if factor < 0.5 and gap(0.0) <= 0:
                return 0.0
            if low < 1e-12:
                low = 0.0
            if gap(low) > 0:
                break
            if low == 0.0:
                return 0.0
            high = low
    return float(brentq(gap, low, high, xtol=1e-14, rtol=1e-11, maxiter=200))
