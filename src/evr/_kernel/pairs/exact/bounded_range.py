"""Losses in an interval of known length, as of the exponential mechanism (docs/guarantees_state.md, G4), and
runs of such steps, each chosen by those before (G5).
"""

from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise

from evr._kernel.order import ceil_div
from evr._kernel.pairs.exact.law import Ball, ExactCurve, at_precision, ball, integer_above
from evr._kernel.pairs.exact.points import CurvePoint, ExactPoints, above

_WORK = 1600  # cells of a run: the time goes with the square
_FEWEST, _MOST = 8, 48  # cells of one step's range
_USUAL = 50  # bits: delta above 2^-50 is usual
_DENSE, _SPARSE = 320, 30  # points of a run where delta is usual, and in each other region
MOST_STEPS = _WORK // _FEWEST  # of one run: longer ones are composed of runs


@dataclass(frozen=True)
class ExactBoundedRange(ExactCurve):
    """One step whose losses lie in an interval of length ``epsilon``, wherever that is.

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
            is_inside = whole > ratio and ratio * whole > one
            return inside if is_inside else inside.union(zero.max(one - ratio))

        return value

    def least(self) -> Ball:
        return ball(-self.epsilon)

    def greatest(self) -> Fraction:
        return self.epsilon


@dataclass(frozen=True)
class ExactRun(ExactPoints):
    """As many steps of range ``epsilon``, each chosen from the outputs of those before."""

    epsilon: Fraction
    steps: int

    def greatest(self) -> Fraction:
        return self.steps * self.epsilon

    def points(self) -> list[CurvePoint]:
        """Values and their ratios, rounded up: most of them where the usual deltas are, few elsewhere."""
        cells = max(_FEWEST, min(_MOST, _WORK // self.steps))
        run, last = _Run(self.epsilon, cells), self.steps * cells
        for size in range(cells, last + 1, cells):
            run.step(size)
        usual = bisect_left(run.values, -(run.unit >> _USUAL), key=lambda value: -value)  # values fall
        sparse = ceil_div(last, _SPARSE)
        kept = {*range(0, usual, ceil_div(usual, _DENSE)), *range(usual, last, sparse), last}
        mirrored = run.mirror(last)
        points = {j: run.values[j] for j in kept} | {-j: mirrored[-j] for j in range(last, 0, -sparse)}
        rows = sorted(points.items())
        return [(above(j * run.width, run.bits), Fraction(value, run.unit)) for j, value in rows]


class _Run:
    """The recursion of G5: integers not below ``2^bits V_k`` at the places ``j epsilon / cells``."""

    def __init__(self, epsilon: Fraction, cells: int) -> None:
        self.cells, self.width = cells, epsilon / cells
        self.bits = 160 + 3 * max(0, epsilon.denominator.bit_length() - epsilon.numerator.bit_length())
        self.unit = 1 << self.bits
        with at_precision(self.bits + 64 + int(4 * epsilon)):
            whole, unit = ball(epsilon).exp(), ball(self.unit)
            powers = [ball(i * self.width).exp() for i in range(cells + 1)]
            self.stay = [integer_above((whole - p) / (whole - 1) * unit) for p in powers]
            self.move = [integer_above((p - 1) / (whole - 1) * unit) for p in powers]
            # the bend of a cell is E dV - dW times this: kap w^2 / (E - 1), kap = 1 / (1 - e^-h) = e^h / w
            self.bend = integer_above(powers[1] * (powers[1] - 1) / (whole - 1) * unit)
            self.whole = integer_above(whole * unit)
        self.values = [0]  # at the places from 0 on, the last one 0

    def mirror(self, places: int) -> list[int]:
        """The values at ``-places .. -1``: ``unit - e^{-place h} (unit - value)`` of its mirror image."""
        held = self.values + [0] * max(0, places + 1 - len(self.values))
        with at_precision(self.bits + 64):
            lowered = [ball(-j * self.width).exp() * (held[j] - self.unit) for j in range(places, 0, -1)]
            return [self.unit + min(0, integer_above(number)) for number in lowered]

    def step(self, last: int) -> None:
        """From ``V_{k-1}`` to ``V_k``, which is 0 from the place ``last`` on: at each place the greatest
        value over where the step's range lies, at the ends of cells and, by a parabola, between them.
        """
        n, bits = self.cells, self.bits
        beyond = [0] * (last + n + 1 - len(self.values))
        earlier = [*self.mirror(n + 1), *self.values, *beyond]  # from place -n-1 on
        bends, values = self._bends(earlier), []
        for here in range(n + 1, last + n + 1):  # places 0 to last - 1
            stays, moves = earlier[here : here - n - 1 : -1], earlier[here + n : here - 1 : -1]
            weighted = zip(self.stay, stays, self.move, moves, strict=True)
            ends = [(a * x + b * y >> bits) + 1 for a, x, b, y in weighted]
            best = max(ends)
            for low, high, bend in zip(ends, ends[1:], bends[here : here - n : -1], strict=False):
                rise = high - low
                if -bend < rise < bend:  # the parabola's top is inside of the cell
                    best = max(best, low + ceil_div((bend + rise) ** 2, 4 * bend) + 1)
            values.append(min(best, self.unit))
        self.values = [*values, 0]

    def _bends(self, earlier: list[int]) -> list[int]:
        """How far each cell bends, at most: ``E dV - dW`` times ``bend``, of the falls ``n`` places apart."""
        falls = [0, *(a - b for a, b in pairwise(earlier))]
        apart = zip(falls, falls[self.cells :], strict=False)
        shift = self.bits
        return [(max(0, self.whole * a - (b << shift)) * self.bend >> 2 * shift) + 2 for a, b in apart]
