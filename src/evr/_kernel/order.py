"""The order that both roads rest on (docs/guarantees_strict.md, S2): one law of losses is *above* another if
its delta is nowhere less, and stays so in compositions. A law is above what it was after each of three moves:

(a) the mass of a cell goes to its two ends, and both ``P`` and ``Q`` keep their amount (``share_up``): it is
    *spread*. Strict: a step (``one_step``, ``ratios``), fewer places (``grid_law.coarsened``), what is above
    a window (``windowed``). Sampled: ``Cells.spread``, and sums of losses (``_split``), of ``composing``;
(b) mass goes to a greater loss. Strict: what is below a window, and what is put at infinity. Sampled: what is
    below the first place;
(c) mass is added. Strict: all integers are rounded up (``rounding``, ``Masses.rounded_up``, ``either``).
    Sampled: the room for rounding in ``LossMasses.times``.
"""

from collections.abc import Callable
from fractions import Fraction
from typing import Any, TypeVar

T = TypeVar("T")


def share_up(low: Any, loss: Any, high: Any, fall: Callable[[Any], Any]) -> Any:
    """The share of a mass at ``loss`` that goes up to ``high``, the rest going down to ``low``: ``P`` and
    ``Q`` both keep their mass if it is ``(1 - e^{low - loss}) / (1 - e^{low - high})``. Given ``low <= loss
    <= high``, ``low < high``, ensures a law above (move (a)); so does any greater share (move (b)).

    ``fall(x)`` is ``1 - e^x`` in the numbers at hand: floats, or balls.

    >>> import math
    >>> share_up(0.0, math.log(1.5), math.log(3.0), lambda x: -math.expm1(x))
    0.5
    """
    return fall(low - loss) / fall(low - high)


def power(base: T, count: int, times: Callable[[T, T], T]) -> T:
    """The product of ``count >= 1`` copies, by squares, from the leading bit of the count down."""
    product = base
    for bit in bin(count)[3:]:
        product = times(product, product)
        if bit == "1":
            product = times(product, base)
    return product


def ceil_div(number: int | Fraction, by: int | Fraction = 1) -> int:
    """The least integer that is not below ``number / by``.

    >>> ceil_div(7, 2), ceil_div(-7, 2)
    (4, -3)
    """
    return -(-number // by)
