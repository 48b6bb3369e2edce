"""Checks of arguments. Each takes one keyword, ``positive(noise_multiplier=0)``, and names it, the value and the rule.

The value comes back as a plain ``float`` or ``int``, so that NumPy scalars do not travel into results.
"""

from __future__ import annotations

import math
import numbers
import operator
from collections.abc import Callable
from typing import Any


def _only(named: dict[str, Any]) -> tuple[str, Any]:
    ((name, value),) = named.items()
    return name, value


def _number(name: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        raise TypeError(f"{name}={value!r} is not a number (it is a {type(value).__name__}): give an int or a float")
    try:
        return float(value)
    except OverflowError:
        raise ValueError(f"{name}={value!r} is too large for a float") from None


def _real(rule: str, holds: Callable[[float], bool]) -> Callable[..., float]:
    def check(**named: Any) -> float:
        name, value = _only(named)
        number = _number(name, value)
        if not holds(number):  # NaN fails every comparison
            raise ValueError(f"{name}={value!r} is not {rule}")
        return number

    check.__doc__ = f"Return the value as a float if it is {rule}, else raise."
    return check


positive = _real("positive and finite", lambda x: 0 < x < math.inf)
non_negative = _real(">= 0 and finite", lambda x: 0 <= x < math.inf)
non_negative_or_infinite = _real(">= 0", lambda x: x >= 0)
probability = _real("in [0, 1]", lambda x: 0 <= x <= 1)
open_probability = _real("in (0, 1)", lambda x: 0 < x < 1)
half_open_probability = _real("in (0, 1]", lambda x: 0 < x <= 1)
finite = _real("finite", math.isfinite)


def positive_integer(**named: Any) -> int:
    """Return the value as an int if it is a whole number of at least 1, else raise.

    >>> positive_integer(steps=0)
    Traceback (most recent call last):
    ...
    ValueError: steps=0 is not an integer >= 1
    """
    name, value = _only(named)
    if isinstance(value, bool):
        raise TypeError(f"{name}={value!r} is not an integer >= 1 (it is a bool)")
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    try:
        number = operator.index(value)
    except TypeError:
        if isinstance(value, numbers.Real):
            raise ValueError(f"{name}={value!r} is not an integer >= 1") from None
        raise TypeError(f"{name}={value!r} is not an integer >= 1 (it is a {type(value).__name__})") from None
    if number < 1:
        raise ValueError(f"{name}={value!r} is not an integer >= 1")
    return number


def one_of(options: tuple[str, ...], **named: Any) -> str:
    """Return the value if it is one of the options, else raise and list them."""
    name, value = _only(named)
    if value not in options:
        raise ValueError(f"{name}={value!r} is not one of {', '.join(map(repr, options))}")
    return str(value)
