"""The numbers that a proof file lists, at the places of its grids: curves and outcomes, packed."""

import math
from bisect import bisect_left
from collections.abc import Sequence
from fractions import Fraction
from itertools import pairwise
from typing import NamedTuple, Self

from flint import arb, fmpz

from evr._kernel.pairs.exact import ExactCurve, ExactOutcomes
from evr._kernel.pairs.exact.law import at_precision, ball
from evr._kernel.strict import Grid
from evr._kernel.strict.rounding import GUARD, end_above

_RAISES = 5  # of the precision, until a ball decides a floor
_MOST_ORDER = 48


class Places(NamedTuple):
    """Where a kind of step is listed: runs of coarse, of fine and of coarse places, in units of their grids."""

    offset: Fraction
    spacing: Fraction
    den: int
    halvings: int
    runs: list[range]

    @classmethod
    def of(cls, grid: Grid, spacing: Fraction, den: int) -> Self:
        """The places of a plan's grid."""
        h, runs = grid.halvings, [range(grid.floor, grid.top + 1), range(0), range(0)]
        if h:
            fine = range(grid.low << h, (grid.high << h) + 1)
            runs = [range(grid.floor, grid.low), fine, range(grid.high + 1, grid.top + 1)]
        return cls(grid.offset, spacing, den, h, runs)

    def losses(self) -> list[Fraction]:
        unit, halvings = self.spacing / (1 << self.halvings), (self.halvings, 0, self.halvings)
        return [self.offset + (x << h) * unit for run, h in zip(self.runs, halvings, strict=True) for x in run]

    def between(self, start: int, end: int) -> Self:
        """The places from ``start`` to ``end``, counted from 0."""
        runs, before = [], 0
        for run in self.runs:
            runs.append(run[max(0, start - before) : max(0, end + 1 - before)])
            before += len(run)
        return self._replace(runs=runs)

    def words(self, vbits: int) -> str:
        """The grid of a kind, as the file has it."""
        ends = (f"{run.start if run else 0} {len(run)}" for run in self.runs)
        return f"{int(self.offset * self.den)} {self.halvings} {' '.join(ends)} {vbits}"


def reach(law: ExactCurve, losses: Sequence[Fraction], bits: int) -> tuple[int, int]:
    """The places outside of which the curve need not be known: below all losses, and above them, where it is 0."""
    with at_precision(bits + GUARD):
        least, greatest = law.least(), law.greatest()
        most = ball(greatest) if isinstance(greatest, Fraction) else greatest
        start = bisect_left(losses, True, key=lambda loss: not ball(loss) <= least)
        end = bisect_left(losses, True, key=lambda loss: bool(ball(loss) >= most))
    return min(max(0, start - 1), end), end


def curve_lines(law: ExactCurve, places: Places, start: int, end: int, vbits: int) -> str:
    """The curve at the places from ``start`` up to ``end``, where it is 0."""
    losses, found = places.losses(), places.between(start, end)
    values, width = _floors(law, losses[start:end], vbits)
    exact = int(end < len(losses))
    rest = iter(values + [0] * exact)
    lines = [line for run in found.runs for line in packed([next(rest) for _ in run])]
    return "\n".join([f"curve {found.words(vbits)} {width} {exact}", *lines])


def _floors(law: ExactCurve, losses: Sequence[Fraction], vbits: int) -> tuple[list[int], int]:
    """The curve in units of ``2^-vbits``, rounded down, and by how much it may be more."""
    found: dict[int, int] = {}
    width, precision, unit = 1, vbits + GUARD, fmpz(1) << vbits
    for attempt in range(_RAISES):
        with at_precision(precision << attempt):
            curve = law.curve()
            for j in [j for j in range(len(losses)) if j not in found]:
                value = curve(ball(losses[j]).exp()) * unit
                below = value.floor().unique_fmpz()
                if below is None and attempt == _RAISES - 1:
                    below, width = value.lower().floor().unique_fmpz(), 2
                if below is not None:
                    found[j] = max(0, int(below))
    return [found[j] for j in range(len(losses))], width


def outcome_lines(law: ExactOutcomes, places: Places, precision: int) -> str:
    """The sets of outcomes, each with the cell in which it is split."""
    vbits = precision + GUARD
    losses, unit = places.losses(), 1 << vbits
    d = places.den << places.halvings + vbits
    edges = [int(loss * d) for loss in losses]
    found, infinite = [], 0
    with at_precision(precision):
        balls = [ball(loss) for loss in losses]
        for p, _, loss in law.sets():
            mass = end_above(p.upper() * unit)
            if loss == arb.pos_inf():
                infinite += mass
            elif mass > 0:
                above = bisect_left(balls, True, key=lambda edge: bool(loss <= edge))
                cell = max(0, above - 1)
                bound = end_above(loss * d) if loss.is_finite() else edges[0]
                if above and not loss > balls[cell]:
                    bound = max(bound, edges[cell] + 1)  # as evr: perhaps above the place
                if above < len(edges):
                    bound = min(bound, edges[above])
                found.append((cell, mass, bound))
    found.sort()
    runs = [line for column in zip(*found, strict=True) for line in packed(column)] or ["0", "-"] * 3
    head = f"outcomes {places.words(vbits)} {infinite} {len(found)}"
    return "\n".join([head, *runs])


def packed(values: Sequence[int]) -> tuple[str, str]:
    """Integers by their differences of the order that makes them short."""
    best, now = (math.inf, 0, [0]), list(values)
    if not now:
        return "0", "-"
    for order in range(_MOST_ORDER):
        size = sum(value.bit_length() // 5 + 1 for value in now)
        if size < best[0]:
            best = size, order, now
        elif order > best[1] + 4:
            break
        now = now[:1] + [b - a for a, b in pairwise(now)]
    digits = bytearray()
    for value in best[2]:
        number = 2 * value if value >= 0 else -2 * value - 1
        while number > 31:
            digits.append(80 + (number & 31))
            number >>= 5
        digits.append(48 + number)
    return str(best[1]), digits.decode()
