"""What an attacker can do at most, from proved points of a privacy curve (docs/guarantees_risk.md). Rational numbers
throughout.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from typing import NamedTuple

from flint import arb, ctx
from scipy.special import ndtri

from evr.bounds.strict.masses import power_above, power_below
from evr.laws.exact.law import ball

_BITS = 128  # behind the point: of slopes, and of the exponential function
_NARROW = 1e-9  # by which mu is raised, in parts of itself, until it is proved
_TRIES = 40

Point = tuple[Fraction, Fraction]
"""An epsilon and its delta."""


class Line(NamedTuple):
    """Every test has a true positive rate of at most ``height + slope * false positive rate``."""

    slope: Fraction | int
    height: Fraction | int


@dataclass(frozen=True)
class Tradeoff:
    """The greatest true positive rate at each false positive rate, from above: the lower envelope of lines, steepest
    first (Section K1).
    """

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
        """The bound on the probability, where the record took part, that the likelihood ratio exceeds a positive number
        (Section K2).
        """
        return min(line.height / (1 - line.slope / ratio) for line in self.lines if line.slope < ratio)

    def gdp(self, rest: Fraction) -> float | None:
        """A ``mu`` for which this is ``mu``-GDP up to ``rest``, proved at every corner (Section K4); None where there
        is none.
        """
        if self.at(Fraction(0)) > rest:
            return None
        needed = [(v, true - rest) for v, true in self.corners if v > 0 and true > rest]
        places = [float(ndtri(float(t)) - ndtri(float(v))) for v, t in needed if v < 1]
        found = max([0.0, *places])
        for _ in range(_TRIES):
            if all(v >= t or _reaches(v, t, found) for v, t in needed):
                return found
            found += max(found, 1e-6) * _NARROW
        raise ArithmeticError(f"no mu near {found!r} could be proved")


def _reaches(false_positive: Fraction, wanted: Fraction, mu: float) -> bool:
    """Whether ``Phi(Phi^-1(false_positive) + mu) >= wanted``, certainly."""
    if wanted >= 1:
        return False
    place = float(ndtri(float(false_positive)))
    with ctx.workprec(_BITS):
        start = arb(place) - abs(place) * arb(2) ** -44 - arb(2) ** -50
        if not _normal(start) <= ball(false_positive):
            return False
        return bool(_normal(start + arb(mu)) >= ball(wanted))


def _normal(z: arb) -> arb:
    return (-z / arb(2).sqrt()).erfc() / 2


def _above(exponent: Fraction) -> Fraction:
    """A rational number that is at least ``e^exponent``, and little above."""
    return Fraction(power_above(exponent, _BITS), 1 << _BITS)


def _below(exponent: Fraction) -> Fraction:
    """A rational number that is at most ``e^exponent``, and little below."""
    return Fraction(power_below(exponent, _BITS), 1 << _BITS)


def envelope(lines: Sequence[Line]) -> tuple[Line, ...]:
    """The lines that are least somewhere at or right of 0, steepest first."""
    kept: list[Line] = []
    for line in sorted(lines, key=lambda one: (-one.slope, one.height)):
        if kept and line.slope == kept[-1].slope:
            continue
        while kept and line.height <= kept[-1].height:
            kept.pop()  # flatter and lower: the steeper line is nowhere least
        while len(kept) > 1 and not _least_between(kept[-2], kept[-1], line):
            kept.pop()
        kept.append(line)
    return tuple(kept)


def _least_between(one: Line, middle: Line, other: Line) -> bool:
    """Whether the middle line is the least somewhere between its neighbours."""
    first = (middle.height - one.height) * (middle.slope - other.slope)
    second = (other.height - middle.height) * (one.slope - middle.slope)
    return first < second
