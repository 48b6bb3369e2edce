"""Checks of arguments. Each takes one keyword, ``positive(noise_multiplier=0)``, and names it, the value and the rule.

The value comes back as a plain ``float`` or ``int``, so that NumPy scalars do not travel into results.
"""

import math
import numbers
import os
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any


def _wrong_type(name: str, value: Any, what: str, remedy: str = "") -> TypeError:
    return TypeError(f"{name}={shown(value)} is not {what} (it is a {type(value).__name__}){remedy}")


def shown(value: Any) -> str:
    """``repr`` of a value, short for what would fill the screen (Python refuses to print the longest integers)."""
    if isinstance(value, int) and value.bit_length() > 512:
        return f"<an integer of {value.bit_length()} bits>"
    text = repr(value)
    return text if len(text) <= 500 else text[:497] + "..."


def printable(text: str) -> str:
    """The text in its lines; every other character that could command a terminal is spelled out.

    >>> print(printable("a\x1b[2J" + chr(0x202E)))
    a\\x1b[2J\\u202e
    """
    return "".join(one if one.isprintable() or one == "\n" else repr(one)[1:-1] for one in text)


def _real(rule: str, holds: Callable[[float], bool]) -> Callable[..., float]:
    def check(**named: Any) -> float:
        ((name, value),) = named.items()
        if isinstance(value, bool) or not isinstance(value, numbers.Real):
            raise _wrong_type(name, value, "a number", ": give an int or a float")
        try:
            number = float(value) + 0.0  # which makes 0.0 of -0.0
        except OverflowError:
            raise ValueError(f"{name}={shown(value)} is too large for a float") from None
        if number == 0 and value != 0:
            raise ValueError(f"{name}={shown(value)} is too small for a float: it would be taken for 0")
        if not holds(number):  # NaN fails every comparison
            raise ValueError(f"{name}={shown(value)} is not {rule}")
        if number != value:  # what is proved of the nearest float need not be true of the number
            raise ValueError(f"{name}={shown(value)} is not a float: give {number!r}, if that is what is meant")
        return number

    check.__doc__ = f"Return the value as a float if it is {rule}, else raise."
    return check


positive = _real("positive and finite", lambda x: 0 < x < math.inf)
non_negative = _real(">= 0 and finite", lambda x: 0 <= x < math.inf)
non_negative_or_infinite = _real(">= 0", lambda x: x >= 0)
level = _real("in [0, 1e100]", lambda x: 0 <= x <= 1e100)
level_or_infinite = _real("in [0, 1e100] or infinite", lambda x: 0 <= x <= 1e100 or x == math.inf)
probability = _real("in [0, 1]", lambda x: 0 <= x <= 1)
open_probability = _real("in (0, 1)", lambda x: 0 < x < 1)
half_open_probability = _real("in (0, 1]", lambda x: 0 < x <= 1)
finite = _real("finite", math.isfinite)
run_count = _real("in (0, 1e9]", lambda x: 0 < x <= 1e9)
run_shape = _real("in [-0.99, 1e6] or infinite", lambda x: -0.99 <= x <= 1e6 or x == math.inf)
noise_scale = _real("0 or in [1e-100, 1e100]", lambda x: x == 0 or 1e-100 <= x <= 1e100)

MAX_COUNT = 2**63 - 1


def _integer(least: int) -> Callable[..., int]:
    rule = f"an integer >= {least}"

    def check(**named: Any) -> int:
        ((name, value),) = named.items()
        if isinstance(value, bool) or not isinstance(value, numbers.Real):
            raise _wrong_type(name, value, rule)
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        if not isinstance(value, numbers.Integral) or int(value) < least:
            raise ValueError(f"{name}={shown(value)} is not {rule}")
        if int(value) > MAX_COUNT:
            raise ValueError(f"{name}={shown(value)} is too large: {rule} and at most 2**63 - 1 is wanted")
        return int(value)

    check.__doc__ = f"Return the value as an int if it is {rule} and below 2**63, else raise."
    return check


positive_integer = _integer(1)
non_negative_integer = _integer(0)


def normal_delta(delta: float) -> float:
    """Return a delta if it is 0, or if floats hold deltas of its size to all their digits; else raise."""
    if 0 < delta < sys.float_info.min:
        wrong = f"delta={delta!r} is below 2.23e-308, where floats lose their digits"
        raise ValueError(f"{wrong}: ask for more, or for 0, or bound epsilon by method='rdp', which takes logarithms")
    return delta


def worker_count(workers: int | None) -> int:
    """The number of threads asked for, or one for each processor that this process may use."""
    if workers is not None:
        return positive_integer(workers=workers)
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def sequence(**named: Any) -> list[Any]:
    """Return the value as a list if it is a sequence of values, else raise."""
    ((name, value),) = named.items()
    if isinstance(value, str | bytes) or not isinstance(value, Iterable):
        raise _wrong_type(name, value, "a list")
    return list(value)


def law(**named: Any) -> list[float]:
    """Return the numbers if they are probabilities that sum to 1, to an ulp for each, else raise."""
    (name,) = named
    chances = [probability(**{name: value}) for value in sequence(**named)]
    if abs(math.fsum(chances) - 1) > len(chances) * sys.float_info.epsilon:
        why = f"{name}={shown(chances)} does not sum to 1, but to {math.fsum(chances)!r}"
        raise ValueError(f"{why}: divide by that sum, if it comes from rounding")
    return chances


def one_of(options: Iterable[str], **named: Any) -> str:
    """Return the value as a plain string if it is one of the options, else raise and list them."""
    ((name, value),) = named.items()
    words = [str(option) for option in options]
    if not isinstance(value, str) or value not in words:
        raise ValueError(f"{name}={shown(value)} is not one of {', '.join(map(repr, words))}")
    return str(value)


def line(**named: Any) -> str:
    """Return the value, stripped, if it is one printable line of text, else raise."""
    ((name, value),) = named.items()
    text = value.strip() if isinstance(value, str) else ""
    if not 0 < len(text) <= 500 or not text.isprintable():
        raise ValueError(f"{name}={shown(value)} is not a line of text: write 1 to 500 printable characters")
    return text


def function(**named: Any) -> Callable[..., Any]:
    """Return the value if it can be called, else raise."""
    ((name, value),) = named.items()
    if not callable(value):
        raise _wrong_type(name, value, "a function", ": give something that can be called")
    return value


def path(**named: Any) -> Path:
    """Return the value as a path if it names a file, else raise."""
    ((name, value),) = named.items()
    if not isinstance(value, str | os.PathLike):
        raise _wrong_type(name, value, "the name of a file", ": give a str or a pathlib.Path")
    return Path(value)
