"""Mechanisms of bounded range by their exact parameters: one step, and a run of equal steps (docs/guarantees_state.md,
G4 and G5).
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise

from flint import ctx

from evr.laws.exact.law import Ball, ExactCurve, ball, integer_above
from evr.laws.exact.points import ExactPoints, Point, above

_WORK = 1600  # cells of a run: the time goes with the square
_FEWEST, _MOST = 8, 48  # cells of one step's range
_DENSE, _SPARSE = 320, 30  # points of a run where delta is above 2^-50, and in each of the other parts
_USUAL = 50
MOST_STEPS = _WORK // _FEWEST
"""Of one run: longer ones are composed of runs."""


@dataclass(frozen=True)
class ExactBoundedRange(ExactCurve):
    """One step whose losses lie in an interval of length ``epsilon``, wherever that is.

    Examples
    --------
    >>> print(ExactBoundedRange(Fraction(1, 2)).curve()(Ball(1)).str(10))
    [0.1243530018 +/- ...]
    """

    epsilon: Fraction

    def curve(self) -> Callable[[Ball], Ball]:
        zero, one = Ball(0), Ball(1)
        half, whole = ball(self.epsilon / 2).exp(), ball(self.epsilon).exp()

        def value(ratio: Ball) -> Ball:
            if ratio >= whole:
                return zero
            if ratio * whole <= one:
                return one - ratio
            inside = zero.max(half - ratio.sqrt()) ** 2 / (whole - 1)
            return inside if whole > ratio and ratio * whole > one else inside.union(zero.max(one - ratio))

        return value

    def least(self) -> Ball:
        return ball(-self.epsilon)

    def greatest(self) -> Fraction:
        return self.epsilon


@dataclass(frozen=True)
class ExactRun(ExactPoints):
    """``steps`` mechanisms of range ``epsilon`` one after the other, each chosen from the outputs of those before."""

    epsilon: Fraction
    steps: int

    def greatest(self) -> Fraction:
        return self.steps * self.epsilon

    def points(self) -> list[Point]:
        cells = max(_FEWEST, min(_MOST, _WORK // self.steps))
        run = _Run(self.epsilon, cells)
        for _ in range(self.steps):
            run.step()
        return run.points()


class _Run:
    """The recursion on the places ``j epsilon / cells``: integers in units of ``2^-bits`` that are not below
    ``V_k`` there.
    """

    def __init__(self, epsilon: Fraction, cells: int) -> None:
        self.epsilon, self.cells, self.steps = epsilon, cells, 0
        small = max(0, epsilon.denominator.bit_length() - epsilon.numerator.bit_length())
        self.bits = 160 + 3 * small
        self.unit = 1 << self.bits
        self.wide = epsilon / cells
        with ctx.workprec(self.bits + 64 + int(4 * epsilon)):
            whole, unit = ball(epsilon).exp(), ball(self.unit)
            powers = [ball(i * self.wide).exp() for i in range(cells + 1)]
            self.stay = [integer_above((whole - p) / (whole - 1) * unit) for p in powers]
            self.move = [integer_above((p - 1) / (whole - 1) * unit) for p in powers]
            width = powers[1] - 1
            # the bend of a cell is E dV - dW times this: kap w^2 / (E - 1), kap = 1 / (1 - e^-h) = e^h / w
            self.bend = integer_above(powers[1] * width / (whole - 1) * unit)
            self.whole = integer_above(whole * unit)
        self.values = [0]  # at the places 0 .. steps * cells, the last one 0

    def _lowered(self, place: int, value: int) -> int:
        """``unit - e^{-place h} (unit - value)``, rounded up: what the value at a place says about its mirror
        image.
        """
        with ctx.workprec(self.bits + 64):
            return self.unit + min(0, integer_above(ball(-place * self.wide).exp() * (value - self.unit)))

    def _mirror(self, places: int) -> list[int]:
        """The values at ``-places .. -1``."""
        held = self.values + [0] * max(0, places + 1 - len(self.values))
        return [self._lowered(place, held[place]) for place in range(places, 0, -1)]

    def step(self) -> None:
        """From ``V_{k-1}`` to ``V_k``."""
        n, bits = self.cells, self.bits
        self.steps += 1
        last = self.steps * n
        # at the places -n-1 .. last + n
        held = [*self._mirror(n + 1), *self.values, *[0] * (last + n + 1 - len(self.values))]
        fall = [0, *(a - b for a, b in pairwise(held))]  # from the place before
        curved = [
            (max(0, self.whole * a - (b << bits)) * self.bend >> 2 * bits) + 2
            for a, b in zip(fall, fall[n:], strict=False)
        ]
        coefficients = list(zip(self.stay, self.move, strict=True))
        fresh = []
        for place in range(last):
            here = place + n + 1  # its index in `held`
            ends = [
                (a * x + b * y >> bits) + 1
                for (a, b), x, y in zip(
                    coefficients, held[here : here - n - 1 : -1], held[here + n : here - 1 : -1], strict=True
                )
            ]
            best = max(ends)
            for low, high, bend in zip(ends, ends[1:], curved[here : here - n : -1], strict=False):
                if -bend < high - low < bend:
                    best = max(best, low - -((bend + high - low) ** 2) // (4 * bend) + 1)
            fresh.append(min(best, self.unit))
        self.values = [*fresh, 0]

    def points(self) -> list[Point]:
        """The values with their ratios, both rounded up: most of them where the usual deltas are, few elsewhere."""
        last = self.steps * self.cells
        usual = bisect_left(self.values, -(self.unit >> _USUAL), key=lambda value: -value)
        kept = {*range(0, usual, -(-usual // _DENSE)), *range(usual, last, -(-last // _SPARSE)), last}
        mirrored = self._mirror(last)
        points = {place: self.values[place] for place in kept}
        points |= {-place: mirrored[-place] for place in range(last, 0, min(-1, -last // _SPARSE))}
        return [
            (above(place * self.wide, self.bits), Fraction(value, self.unit)) for place, value in sorted(points.items())
        ]
