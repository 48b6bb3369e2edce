"""Integers from balls (docs/guarantees_strict.md, S4.1), rounded up or down: the same on every machine."""

from collections.abc import Callable, Sequence
from fractions import Fraction

from flint import arb, fmpz

from evr._kernel.pairs.exact.law import at_precision, ball

GUARD = 48  # bits of a ball beyond those of the integers that come from it
RAISES = 5  # of the precision, each to twice as many bits, until a ball decides a ceiling
_MOST_EXPONENT = 10**7
_LARGEST = arb((1, 1 << 25))  # 2^(2^25): beyond any power of e that is admitted


def ceiling(number: arb) -> int | None:
    """The number rounded up, if the ball decides it and memory has room: FLINT ends a process without."""
    if not abs(number) < _LARGEST:
        return None
    rounded = number.ceil().unique_fmpz()
    return None if rounded is None else int(rounded)


def end_above(number: arb, bits: int = 0) -> int:
    """``2^bits`` times the upper end of a ball, rounded up: what ``ceiling`` gives where it decides."""
    rounded = ceiling((number * (fmpz(1) << bits)).upper())
    if rounded is None:
        raise ValueError(
            "a number has no finite enclosure: it is too large for exact arithmetic; use samples instead"
        )
    return rounded


def units_above(number: Callable[[], arb], bits: int) -> int:
    """``2^bits`` times the number, rounded up at a precision that decides it, or its upper end after some."""
    with at_precision(bits + GUARD):
        rounded = ceiling(number() * (fmpz(1) << bits))
    return decide_each([rounded], lambda: lambda _: number(), bits)[0]


def decide_each(
    integers: Sequence[int | None], numbers: Callable[[], Callable[[int], arb]], bits: int
) -> list[int]:
    """The integers; those that one precision left open by more of it, as ``units_above`` does."""
    rounded, unit = list(integers), fmpz(1) << bits
    left = [j for j, integer in enumerate(rounded) if integer is None]
    for raises in range(1, RAISES):
        if left:
            with at_precision((bits + GUARD) << raises):
                number, round_up = numbers(), ceiling if raises < RAISES - 1 else end_above
                for j in left:
                    rounded[j] = round_up(number(j) * unit)
            left = [j for j in left if rounded[j] is None]
    return [integer for integer in rounded if integer is not None]


def power_above(exponent: Fraction, bits: int) -> int:
    """``2^bits e^exponent``, rounded up.

    >>> power_above(Fraction(1), 10), power_below(Fraction(1), 10)
    (2784, 2783)
    """
    return units_above(lambda: _exponential(exponent), bits)


def power_below(exponent: Fraction, bits: int) -> int:
    """``2^bits e^exponent``, rounded down."""
    return -units_above(lambda: -_exponential(exponent), bits)


def _exponential(exponent: Fraction) -> arb:
    if exponent > _MOST_EXPONENT:
        raise ValueError(
            f"e to the power of {ball(exponent).str(6, radius=False)} is too large for exact arithmetic,"
            f" which takes exponents of at most {_MOST_EXPONENT:.0e}: use samples instead"
        )
    return ball(exponent).exp()
