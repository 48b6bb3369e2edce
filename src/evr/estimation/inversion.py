"""From delta to epsilon: the least epsilon at which a falling privacy curve is at most a target."""

from __future__ import annotations

import math
from collections.abc import Callable

from scipy.optimize import brentq

_FLOOR = 1e-320


def solve_epsilon(
    delta: Callable[[float], float],
    target: float,
    *,
    guess: float = 1.0,
    greatest: float = math.inf,
    spread: float = 0.1,
) -> float:
    """The least ``epsilon >= 0`` with ``delta(epsilon) <= target``, to 1e-10 relative; ``inf`` if there is none.

    ``delta`` does not rise, and the target is in (0, 1). The search starts at the guess; the root is thought to be
    within ``spread`` of it, relatively. Beyond ``greatest``, delta is constant.
    """

    def gap(epsilon: float) -> float:
        return math.log(max(delta(epsilon), _FLOOR)) - math.log(target)

    low, high = 0.0, min(guess, greatest)
    if (above := gap(high)) > 0:
        factor, before = 1.0 + spread, math.inf
        while above > 0:
            if high >= greatest or high > 1e300:
                return math.inf
            # Curves are concave on this scale, or nearly so: the line through the last two points is beyond the root,
            # not far.
            line = high + 1.05 * above * (high - low) / (before - above) if above < before < math.inf else math.inf
            step = min(max(line, (1.0 + 0.2 * spread) * high), factor * high)
            low, high, factor, before = high, min(step, greatest), min(2.0, factor**4), above
            above = gap(high)
    else:
        factor = 1.0 - spread
        while True:
            low, factor = factor * high, max(0.01, factor**4)
            if factor < 0.5 and gap(0.0) <= 0:
                return 0.0
            if low < 1e-300:
                low = 0.0
            if gap(low) > 0:
                break
            if low == 0.0:
                return 0.0
            high = low
    return float(brentq(gap, low, high, xtol=1e-300, rtol=1e-13, maxiter=200))
