"""From balls to integers that are the same on every machine (docs/guarantees_strict.md, Section S4.1)."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

from flint import arb, ctx, fmpz

from evr.laws.exact.law import ball

GUARD = 48
"""Bits of a ball beyond those of the integers that come from it."""
_RAISES = 5
_MOST_EXPONENT = 10**7
_LARGEST = arb((1, 1 << 25))  # 2^(2^25): beyond any power of e that is admitted


def ceiling(number: arb) -> int | None:
    """The number rounded up, if the ball decides it and memory has room: FLINT ends the process if it has none."""
    if not abs(number) < _LARGEST:
        return None
    found = number.ceil().unique_fmpz()
    return None if found is None else int(found)


def integer_above(number: Callable[[], arb], bits: int) -> int:
    """``2^bits`` times the number, rounded up, at a precision that decides it; after some raises, its upper end."""
    above, precision = None, bits + GUARD
    for _ in range(_RAISES):
        with ctx.workprec(precision):
            scaled = number() * (fmpz(1) << bits)
            found = ceiling(scaled)
            if found is not None:
                return found
            above = ceiling(scaled.upper())
        precision *= 2
    if above is None:
        raise ValueError("a number has no finite enclosure: it is too large for exact arithmetic; use samples instead")
    return above


def power_above(exponent: Fraction, bits: int) -> int:
    """``2^bits e^exponent``, rounded up.

    Examples
    --------
    >>> power_above(Fraction(1), 10), power_below(Fraction(1), 10)
    (2784, 2783)
    """
    _check(exponent)
    return integer_above(lambda: ball(exponent).exp(), bits)


def power_below(exponent: Fraction, bits: int) -> int:
    """``2^bits e^exponent``, rounded down."""
    _check(exponent)
    return -integer_above(lambda: -ball(exponent).exp(), bits)


def _check(exponent: Fraction) -> None:
    if exponent > _MOST_EXPONENT:
        raise ValueError(
            f"e to the power of {ball(exponent).str(6, radius=False)} is too large for exact arithmetic, which takes "
            f"exponents of at most {_MOST_EXPONENT:.0e}: use samples instead"
        )
