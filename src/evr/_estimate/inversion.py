"""From delta to epsilon: the least epsilon at which a falling privacy curve is at most a target."""

import math
from collections.abc import Callable

import scipy

_FLOOR, _SMALLEST, _MOST = 1e-320, 1e-300, 1000
Place = tuple[float, float]  # a number, and the value of a function there


def root(function: Callable[[float], float], first: Place, last: Place, close: float) -> float:
    """The root of a function between two places where it has been asked, to ``close`` relative."""
    known = dict((first, last))

    def value(at: float) -> float:
        return known[at] if at in known else function(at)

    found: float = scipy.optimize.brentq(value, first[0], last[0], xtol=_SMALLEST, rtol=close, maxiter=_MOST)
    return found


def solve_epsilon(
    delta: Callable[[float], float],
    target: float,
    *,
    guess: float = 1.0,
    greatest: float = math.inf,
    spread: float = 0.1,
) -> float:
    """The least ``epsilon >= 0`` with ``delta(epsilon) <= target``, in (0, 1); ``inf`` if there is none. The root is
    thought to be within ``spread`` of the guess, relatively. Beyond ``greatest``, delta is constant.
    """

    def gap(epsilon: float) -> float:
        return math.log(max(delta(epsilon), _FLOOR)) - math.log(target)

    low, high, before = 0.0, min(guess, greatest), math.inf
    above = gap(high)
    if above > 0:
        factor = 1.0 + spread
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
            if (before := gap(low)) > 0:
                break
            high, above = low, before
    return root(gap, (low, before), (high, above), 1e-13)
