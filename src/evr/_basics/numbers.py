"""Numbers as people read them. What is promised is never written smaller than it is."""

import math
import re
from collections.abc import Callable
from decimal import ROUND_CEILING, Context, Decimal
from fractions import Fraction
from typing import Any

_SUPERSCRIPT = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
_LONG = 10  # characters: longer decimal numbers are written as a fraction, where one is exact
_GREATEST_DENOMINATOR = 1_000_000


def round_up(value: float, digits: int) -> float:
    """The least number of so many digits that is not below the value.

    >>> round_up(0.41, 3), round_up(0.4101, 3), round_up(0.0, 3)
    (0.41, 0.411, 0.0)
    """
    nearest = float(f"{value:.{digits}g}")
    if nearest >= value or value != value:
        return nearest
    return float(Decimal(value).normalize(Context(digits, ROUND_CEILING)))


def above(value: float, digits: int) -> str:
    """A number in so many digits, never smaller than the number: for what is promised.

    >>> above(0.41, 6), above(0.41000049, 6), above(1e-09, 6)
    ('0.41', '0.410001', '1e-09')
    """
    return f"{round_up(value, digits):.{digits}g}"


def below(value: float, digits: int) -> str:
    """A number >= 0 in so many digits, never greater than the number: for lower bounds.

    >>> below(0.41, 6), below(0.4100009, 6), below(1e-09, 6)
    ('0.41', '0.41', '1e-09')
    """
    return f"{abs(round_up(-value, digits)):.{digits}g}"


def stated(value: float, digits: int = 9) -> str:
    """As ``above``, in the spelling of a sentence.

    >>> stated(1e-09), stated(1.0000000000000002e-09), stated(1.21e-12, 2), stated(1.0)
    ('1e-9', '1.00000001e-9', '1.3e-12', '1')
    """
    return short_exponent(above(value, digits))


def percent(value: float) -> str:
    """A share in percent, never smaller than the share.

    >>> percent(0.001), percent(0.0026196), percent(1.0), percent(3.16e-8)
    ('0.1%', '0.262%', '100%', '0.00000316%')
    """
    return f"{Decimal(above(value, 3)).scaleb(2).normalize():f}%"


def typed(value: Any) -> str:
    """A number as people type it: the shortest text that is the number, a fraction where that is shorter.

    >>> typed(0.25), typed(1e-9), typed(60000), typed(256 / 60000), typed(0.1 + 0.2)
    ('0.25', '1e-9', '60,000', '8/1875', '0.30000000000000004')
    """
    if isinstance(value, bool) or not isinstance(value, int | float):
        return str(value)
    if isinstance(value, int):
        return f"{value:,}"
    short = f"{value:g}"
    text = short_exponent(short if float(short) == value else repr(value))
    if len(text) > _LONG and 0 < value < 1:
        ratio = Fraction(value).limit_denominator(_GREATEST_DENOMINATOR)
        if ratio.numerator / ratio.denominator == value:
            return f"{ratio.numerator}/{ratio.denominator}"
    return text


def scientific(value: float, digits: int = 3) -> str:
    """A number as print has it: ``2.06 × 10⁻¹⁰``, with spaces that do not break.

    >>> scientific(1e-9), scientific(0.25)
    ('10⁻⁹', '0.25')
    """
    return _as_power(f"{value:.{digits}g}", "\u00a0×\u00a0", ten_to)


def scientific_above(value: float, digits: int = 3) -> str:
    """As ``scientific``, never smaller than the value.

    >>> scientific_above(1e-9), scientific_above(0.25000001)
    ('10⁻⁹', '0.251')
    """
    return scientific(round_up(value, digits), digits)


def ten_to(exponent: float) -> str:
    """A power of ten, such as ``10⁻⁹``."""
    return "10" + str(round(exponent)).translate(_SUPERSCRIPT)


def duration(seconds: float) -> str:
    """A time in words.

    >>> duration(0.5), duration(90), duration(8e4), duration(1e10)
    ('1 s', '90 s', '22 hours', '317 years')
    """
    units = (("years", 365.25 * 86400), ("days", 86400.0), ("hours", 3600.0), ("minutes", 60.0))
    for unit, size in units:
        if seconds >= 2 * size:
            return f"{seconds / size:.{3 if seconds >= 100 * size else 2}g} {unit}"
    return f"{max(1, math.ceil(seconds))} s"


def latex(text: str) -> str:
    r"""The text of a number for LaTeX's mathematics.

    >>> print(latex("2.5e-9"), latex("1e-5"), latex("0.25"))
    2.5 \times 10^{-9} 10^{-5} 0.25
    """
    return _as_power(text, r" \times ", "10^{{{}}}".format)


def _as_power(text: str, times: str, ten_to: Callable[[int], str]) -> str:
    mantissa, _, exponent = text.partition("e")
    power = [ten_to(int(exponent))] if exponent else []
    return times.join(power if power and mantissa == "1" else [mantissa, *power])


def is_beyond_floats(value: float, text: str) -> bool:
    """Whether a float is 0 or infinite, and the number in decimals that it was read from is not.

    >>> is_beyond_floats(0.0, "1e-400"), is_beyond_floats(math.inf, "1e400"), is_beyond_floats(0.0, "0e5")
    (True, True, False)
    """
    digits = text.lower().partition("e")[0]
    return (value == 0 and re.search("[1-9]", digits) is not None) or (math.isinf(value) and "inf" not in digits)


def short_exponent(text: str) -> str:
    """The text of a number without the zeros and the plus of its exponent: ``1e-5``."""
    return text.replace("e-0", "e-").replace("e+0", "e").replace("e+", "e")
