"""What follows from proved points of a privacy curve: what an attacker can do at most
(docs/guarantees_risk.md), and delta of a selected run (docs/guarantees_selection.md).

Everything is an integer or a rational number.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import pairwise
from typing import NamedTuple

from flint import arb

from evr._kernel.order import ceil_div
from evr._kernel.pairs.exact import RationalOutcomes
from evr._kernel.pairs.exact.law import at_precision, ball
from evr._kernel.pairs.exact.points import falling_hull, hull
from evr._kernel.pairs.selection import Rule, UntilGood
from evr._kernel.strict.rounding import GUARD, end_above, power_above, power_below

MOST_CELLS = 1 << 17
_BITS = 128  # behind the point: of slopes, of the exponential function, of terms

Point = tuple[Fraction, Fraction]  # an epsilon and its delta


class Line(NamedTuple):
    """Every test has a true positive rate of at most ``height + slope * false positive rate``."""

    slope: Fraction | int
    height: Fraction | int


@dataclass(frozen=True)
class Tradeoff:
    """The greatest true positive rate at each false positive rate, from above: an envelope of lines (K1)."""

    lines: tuple[Line, ...]

    @classmethod
    def of_points(cls, forward: Iterable[Point], backward: Iterable[Point]) -> Tradeoff:
        """From pairs ``(epsilon, delta)`` for ``(P, Q)`` and for ``(Q, P)``: as true as they are.

        >>> Tradeoff.of_points([], []).at(Fraction(1, 100))
        Fraction(1, 1)
        """
        lines = [Line(_above(epsilon), delta) for epsilon, delta in forward]
        lines += [Line(_above(-epsilon), 1 - _below(-epsilon) * (1 - delta)) for epsilon, delta in backward]
        return cls(envelope([*lines, Line(Fraction(0), Fraction(1))]))

    @classmethod
    def of_point(cls, epsilon: Fraction, delta: Fraction) -> Tradeoff:
        return cls.of_points([(epsilon, delta)], [(epsilon, delta)])

    def at(self, false_positive_rate: Fraction) -> Fraction:
        """The bound on the true positive rate."""
        return min(line.height + line.slope * false_positive_rate for line in self.lines)

    @property
    def corners(self) -> list[tuple[Fraction, Fraction]]:
        """False positive rates at which the lines meet, with 0 and 1, and the bound at each."""
        found = [(Fraction(0), self.at(Fraction(0)))]
        for one, other in pairwise(self.lines):
            rate = Fraction(other.height - one.height) / (one.slope - other.slope)
            if 0 < rate < 1:
                found.append((rate, one.height + one.slope * rate))
        return [*found, (Fraction(1), self.at(Fraction(1)))]

    @property
    def advantage(self) -> Fraction:
        """The bound on true minus false positive rate (Section K2)."""
        return max(true - false for false, true in self.corners)

    def accuracy(self, prior: Fraction) -> Fraction:
        """The bound on the chance of a right answer (Section K2)."""
        return max(prior * true + (1 - prior) * (1 - false) for false, true in self.corners)

    def exceeding(self, ratio: Fraction) -> Fraction:
        """The bound on the chance that, with the record, the likelihood ratio exceeds ``ratio > 0`` (K2)."""
        return min(line.height / (1 - line.slope / ratio) for line in self.lines if line.slope < ratio)


def _above(exponent: Fraction) -> Fraction:
    """A rational number that is at least ``e^exponent``, and little above."""
    return Fraction(power_above(exponent, _BITS), 1 << _BITS)


def _below(exponent: Fraction) -> Fraction:
    """A rational number that is at most ``e^exponent``, and little below."""
    return Fraction(power_below(exponent, _BITS), 1 << _BITS)


def envelope(lines: Iterable[Line]) -> tuple[Line, ...]:
    """The lines that are least somewhere at or right of 0, steepest first."""
    return tuple(falling_hull(sorted(lines))[::-1])


# --- the best of several runs ---------------------------------------------------------------------


class Term(NamedTuple):
    """``weight`` times the curve of one run at ``ratio e^epsilon``, both in units of ``2^-bits``."""

    weight: int
    ratio: int


class Mark(NamedTuple):
    """Where a cell begins: ``x``, the bound ``T(x)`` on it in the other world, and ``log g`` of both."""

    x: Fraction
    most: Fraction
    here: arb
    there: arb


@dataclass(frozen=True)
class Selected:
    """Upper bounds on delta of what is selected, in one direction: at every epsilon the least of 1, the
    greatest of some terms (Sections T2 and T4) and the sum of others (Section T3). Ratios rise.
    """

    curve: tuple[Line, ...]  # points of the curve of one run, a convex hull, from ``(0, 1)`` on
    bits: int  # of the units of terms
    greatest: tuple[Term, ...]
    summands: tuple[Term, ...] = ()  # without any there is no sum

    @classmethod
    def of(cls, rule: Rule, ahead: Sequence[Point], back: Sequence[Point], fineness: int) -> Selected:
        """From pairs ``(epsilon, delta)``, ``epsilon >= 0``, of one run in this direction, and in the other:
        as true as they are. The greater the fineness, the narrower the cells and the tighter the bounds.
        """
        curve = Tradeoff.of_points(ahead, back).lines[::-1]
        corners = Tradeoff.of_points(back, ahead).corners
        with at_precision(_BITS):
            density = rule.log_density()
            bits = _BITS + end_above(2 * (density(arb(0)) - density(arb(1))))
        with at_precision(bits + GUARD):
            density = rule.log_density()
            marks = [Mark(x, most, density(ball(x)), density(ball(most))) for x, most in corners]
            cells = pairwise(_narrowed(marks, density, fineness))
            # of each cell g(x) where it begins, rounded up, and g(T(x)) where it ends, rounded down
            lines = [
                (end_above(low.here.exp(), bits), -end_above(-high.there.exp(), bits)) for low, high in cells
            ]
            if isinstance(rule, UntilGood):
                terms = [Term(a, (b << bits) // a) for a, b in lines]
                return cls(curve, bits, tuple(sorted(terms, key=lambda term: term.ratio)))
            fall = max(end_above((mark.here - mark.there).exp(), bits) for mark in marks)
            simple = Term(end_above(ball(rule.factor), bits), (1 << 2 * bits) // fall)
        return cls(curve, bits, (simple,), tuple(_summands(lines, bits)))

    def delta(self, epsilon: Fraction) -> Fraction:
        """A rational number that is at least delta(epsilon), for ``epsilon >= 0``."""
        if epsilon < 0:
            raise ValueError(f"epsilon={epsilon}: a selection is bounded at epsilons >= 0")
        beyond = self.bits + self._whole_curve[-1][0].bit_length()  # where the curve falls no more
        scale = power_below(min(epsilon, Fraction(beyond)), self.bits)
        found = max(self._values(self.greatest, scale))
        found = min(found, sum(self._values(self.summands, scale))) if self.summands else found
        return min(Fraction(found, 1 << (self.bits + self._wide)), Fraction(1))

    @cached_property
    def _wide(self) -> int:
        """Bits of heights: enough for the least."""
        least = min(line.height for line in self.curve if line.height)
        return _BITS + max(0, least.denominator.bit_length() - least.numerator.bit_length())

    @cached_property
    def _whole_curve(self) -> list[tuple[int, int, int]]:
        """Its points in integers: where, how high, and how steeply it falls from there on."""
        ratios = [ceil_div(line.slope * (1 << self.bits)) for line in self.curve]
        heights = [ceil_div(line.height * (1 << self._wide)) for line in self.curve]
        falls = [
            ((a - b) << self.bits) // (y - x) if y > x else 0
            for (x, y), (a, b) in zip(pairwise(ratios), pairwise(heights), strict=True)
        ]
        return list(zip(ratios, heights, [*falls, 0], strict=True))

    def _values(self, terms: Sequence[Term], scale: int) -> Iterator[int]:
        """Each term, rounded up, in units of ``2^-(bits + _wide)``."""
        curve, index = self._whole_curve, 0
        for weight, ratio in terms:
            at = ratio * scale >> self.bits
            while index + 1 < len(curve) and curve[index + 1][0] <= at:
                index += 1
            start, height, fall = curve[index]
            yield weight * (height - ((at - start) * fall >> self.bits))


def outcomes_above(ahead: Sequence[Point], back: Sequence[Point]) -> RationalOutcomes:
    """A pair of laws on finitely many outcomes that dominates everything of which the points are true
    (Section T6).

    >>> law = outcomes_above([(Fraction(1), Fraction(0))], [(Fraction(1), Fraction(0))])
    >>> [f"{float(p):.4f}" for p in law.p], [f"{float(q):.4f}" for q in law.q]
    (['0.0000', '0.2689', '0.7311', '0.0000'], ['0.0000', '0.7311', '0.2689', '0.0000'])
    """
    _, *lines = Tradeoff.of_points(ahead, back).lines[::-1]
    return RationalOutcomes.of(*zip(*hull([(Fraction(a), Fraction(b)) for a, b in lines]), strict=True))


def _narrowed(corners: list[Mark], density: Callable[[arb], arb], fineness: int) -> list[Mark]:
    """The corners of ``T``, and marks between them, by halves, until ``g`` falls by less than
    ``e^{1/fineness}`` from one to the next in both worlds.
    """
    width, found, ahead = ball(Fraction(1, fineness)), corners[:1], corners[:0:-1]
    while ahead:
        low, high = found[-1], ahead[-1]
        if low.here - high.here < width and low.there - high.there < width:
            found.append(ahead.pop())
            continue
        x, most = (low.x + high.x) / 2, (low.most + high.most) / 2  # T is linear between corners
        ahead.append(Mark(x, most, density(ball(x)), density(ball(most))))
        if len(found) + len(ahead) > MOST_CELLS:
            raise ValueError(f"fineness={fineness!r} asks for more than {MOST_CELLS:,} cells: give less")
    return found


def _summands(lines: list[tuple[int, int]], bits: int) -> Iterator[Term]:
    """The upper envelope, for ``l >= 0``, of lines ``a l - b`` and 0 as a sum of ``weight (l - ratio)_+``."""
    nothing = Line(0, 0)
    below = envelope([nothing, *(Line(-a, b) for a, b in lines)])
    for one, other in pairwise([nothing, *(line for line in below if line.slope)]):
        weight = int(one.slope - other.slope)
        yield Term(weight, (int(other.height - one.height) << bits) // weight)
