"""Masses of neighbouring places from one power series of the curve, in integers side by side
(docs/guarantees_strict.md, Section S3.1).
"""

from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from functools import lru_cache
from typing import Any, NamedTuple

from flint import arb, arb_poly, arb_series, ctx, fmpq, fmpz

from evr._kernel.order import ceil_div
from evr._kernel.pairs.exact.law import ball
from evr._kernel.strict.masses import WORD, at_each, unpacked
from evr._kernel.strict.rounding import end_above

_BLOCK, _LEAST_BLOCK, _MOST_BLOCK = 32, 24, 1024  # places that share a series: at first, at least, at most
_POINT = 24  # bits of a mass behind the point, before it is rounded up
_MOST_ERROR = 12  # bits of its error, of those behind the point
_UNIT = arb(0).union(arb(1))
_SEEN = 64  # more bits of that error, so that the next block is as long as it can be
_FINER = 32  # more bits of the powers of a place than of the masses


class StencilTerm(NamedTuple):
    """Of a mass: so many times the value and the slope of the curve in the loss, ``shift`` places away."""

    shift: Fraction
    value: arb
    slope: arb = arb(0)


Stencil = Sequence[StencilTerm]
"""A mass as a sum of values and slopes of the curve near its place."""
Stencils = Callable[[arb], Sequence[Stencil]]
"""From the gap between places to the stencils of several lists of masses at one time."""
Ceilings = tuple[list[int], list[int]]
"""Masses less an error, and with it, both rounded up: the same list where the error makes no difference."""


class Series(NamedTuple):
    """``2^(bits + _POINT)`` times the masses at the places ``n`` of a block, from 0 on: ``sum_i terms_i (n /
    size)^i``, up to an error. The size is a power of 2.
    """

    terms: list[int]
    size: int
    error: int


class Expansion(NamedTuple):
    """The series of a block by each stencil, none where a rest is too large; how long it should have been."""

    series: list[Series]
    length: int


def masses_by_series(
    curve: Callable[[Any], Any], losses: Sequence[fmpq], run: range, bits: int, stencils: Stencils
) -> Iterator[tuple[int, list[Ceilings]]]:
    """Blocks of a run of places whose gaps to their neighbours are the same: the first place of each, and
    ``2^bits`` times its masses by each stencil. Places that no series serves are left out.
    """
    start, length = run.start, _BLOCK
    while (left := run.stop - start) >= _LEAST_BLOCK:
        number = ceil_div(left, ceil_div(left, length))
        width = losses[start + 1] - losses[start]
        try:
            series, length = _expanded(curve, losses[start], width, number, bits, stencils(arb(width)))
        except (ArithmeticError, ValueError):  # no formula holds throughout, or a ball has no bound
            series, length = [], number * 2 // 3
        length = min(max(length, _LEAST_BLOCK), _MOST_BLOCK)
        if not series and length < number:
            continue
        found = [_ceilings(one, number, bits) for one in series]
        if found and None not in found:
            yield start, [one for one in found if one is not None]
        start += number


def _expanded(
    curve: Callable[[Any], Any], loss: fmpq, width: fmpq, number: int, bits: int, stencils: Sequence[Stencil]
) -> Expansion:
    """The series of so many places from ``loss`` on; the rest of the series of the curve is their error."""
    step, middle, order = arb(width), number // 2, ctx.cap - 1
    centre, reach = arb(loss + width * middle), arb(width * (middle + 1))
    unit = arb(fmpz(1) << bits + _POINT)
    rest = abs(curve(arb_series([(centre - reach).union(centre + reach), 1]).exp())[order]) * reach**order
    terms = [term for stencil in stencils for term in stencil]
    most = sum(rest * (abs(term.value) + abs(term.slope) * order / reach) for term in terms)
    error = end_above(unit * most, _SEEN)
    # an error of 2^-order as much allows for a block of about twice the length
    length = number + number * 7 * (_MOST_ERROR + _SEEN - error.bit_length()) // (10 * order)
    error = ceil_div(error, 1 << _SEEN)
    if error >> _MOST_ERROR:
        return Expansion([], max(length, number // 3))
    value = arb_poly(curve(arb_series([centre, 1]).exp()).coeffs()[:order])(arb_poly([0, step]))
    size = 1 << (number - 1).bit_length()
    near = {term.shift: value(arb_poly([ball(term.shift - middle), size])) for term in terms}
    series = []
    for stencil in stencils:
        mass = sum((near[term.shift] * (term.value * unit) for term in stencil), arb_poly())
        for term in stencil:
            if not term.slope.is_zero():
                mass += near[term.shift].derivative() * (term.slope * unit / (size * step))
        series.append(_series_of(mass, size, error, bits))
    return Expansion([] if any(one.error >> _MOST_ERROR + 1 for one in series) else series, length)


def _series_of(mass: arb_poly, size: int, error: int, bits: int) -> Series:
    """A polynomial in ``n / size`` with integer coefficients: what is rounded is added to the error."""
    end_above(abs(mass(_UNIT)))  # memory has room for each term
    terms = [_near(term) for term in mass.coeffs()]
    error += end_above(abs((mass - arb_poly(terms))(_UNIT)))
    error += ceil_div(sum(power * abs(term) for power, term in enumerate(terms)), 1 << bits + _FINER)
    return Series(terms, size, error)


def _near(term: arb) -> int:
    whole = term.mid().ceil().unique_fmpz()
    assert whole is not None  # a midpoint is one number
    return int(whole)


@lru_cache(maxsize=16)
def _powers(size: int, number: int, bits: int, width: int) -> list[fmpz]:
    """``2^bits (n / size)^i`` at the places ``n < size`` side by side, for each ``i < number``; each time
    rounded down, so that the ``i``-th is less by at most ``i``.
    """
    doublings, slot = size.bit_length() - 1, 8 * width
    places, full = at_each(size, width, 1), (1 << slot) - 1
    # the places whose number has the bit 2^k: every second run of 2^k of them
    with_bit = [
        at_each(size >> k + 1, width << k + 1, 1) * at_each(1 << k, width, full) << (slot << k)
        for k in range(doublings)
    ]
    kept, powers = places * (full >> doublings), [places << bits]
    for _ in range(number - 1):
        # each by its number
        times = sum(((powers[-1] & those) << k for k, those in enumerate(with_bit)), fmpz(0))
        powers.append(times >> doublings & kept)
    return powers


def _ceilings(series: Series, number: int, bits: int) -> Ceilings | None:
    """The masses at so many places; None where one is negative, as in no law."""
    finer = bits + _FINER
    point, error = _POINT + finer, series.error << finer
    most = sum(map(abs, series.terms)).bit_length()
    width = WORD * ceil_div(max(bits + _POINT, most) + finer + 2, 8 * WORD)
    powers = _powers(series.size, len(series.terms), finer, width)
    values = sum((power * term for term, power in zip(series.terms, powers, strict=True)), fmpz(0))
    places, slot = at_each(number, width, 1), 8 * width
    kept = places * ((1 << slot - point) - 1) & ((fmpz(1) << slot * number) - 1)
    low, high = (values + places * ((1 << point) - 1 + shift) >> point & kept for shift in (-error, error))
    sign = slot - point - 1
    above = unpacked(high, width, number, (1 << sign + 1) - 1)
    below = above if low == high else unpacked(low, width, number, (1 << sign + 1) - 1)
    return None if max(max(above), max(below)) >> sign else (below, above)
