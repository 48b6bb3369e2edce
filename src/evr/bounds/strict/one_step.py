"""One step on its grid: from balls to integers (docs/guarantees_strict.md, Sections S3 and S4.1)."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from fractions import Fraction
from functools import partial

from flint import arb, ctx, fmpz, fmpz_poly

from evr.bounds.strict.balls import GUARD, ceiling, integer_above
from evr.bounds.strict.grid_law import GridLaw
from evr.bounds.strict.masses import NOTHING, Masses
from evr.bounds.strict.plan import Grid
from evr.laws.exact import ExactCurve, ExactLaw, ExactOutcomes
from evr.laws.exact.law import ball


def one_step(law: ExactLaw, grid: Grid, spacing: Fraction, bits: int) -> GridLaw:
    """A grid law that covers one step."""
    places = _places(grid)
    losses = [grid.offset + place * spacing for place in places]
    if isinstance(law, ExactOutcomes):
        masses, infinite = _spread_outcomes(law, losses, bits)
    elif isinstance(law, ExactCurve):
        masses, infinite = _spread_curve(law, losses, bits)
    else:
        raise TypeError(f"{law!r} is neither an ExactCurve nor an ExactOutcomes: it cannot be enclosed")
    return _arranged(masses, min(infinite, 1 << bits), grid, spacing, bits)


def _places(grid: Grid) -> list[Fraction]:
    """The places in units of the coarse spacing, rising."""
    if not grid.halvings:
        return [Fraction(i) for i in range(grid.floor, grid.top + 1)]
    size = 1 << grid.halvings
    fine = [Fraction(i, size) for i in range(grid.low * size, grid.high * size + 1)]
    below = [Fraction(i) for i in range(grid.floor, grid.low)]
    return below + fine + [Fraction(i) for i in range(grid.high + 1, grid.top + 1)]


def _arranged(masses: list[int], infinite: int, grid: Grid, spacing: Fraction, bits: int) -> GridLaw:
    if not grid.halvings:
        return GridLaw(1, 0, NOTHING, Masses(grid.floor, fmpz_poly(masses)), infinite, spacing, bits)
    below = grid.low - grid.floor
    number = ((grid.high - grid.low) << grid.halvings) + 1
    fine = Masses(grid.low << grid.halvings, fmpz_poly(masses[below : below + number]))
    low = Masses(grid.floor, fmpz_poly(masses[:below]))
    high = Masses(grid.high + 1, fmpz_poly(masses[below + number :]))
    return GridLaw(1, grid.halvings, fine, low + high, infinite, spacing, bits)


# --- by the curve ---------------------------------------------------------------------------------------------------


class _Tails:
    """``G_j`` of Section S3 at the places ``y_0 .. y_J``: how much of ``P`` is put beyond ``y_j``."""

    def __init__(self, law: ExactCurve, losses: Sequence[Fraction]) -> None:
        self._losses, self._value = losses, law.curve()
        least, greatest = law.least(), law.greatest()
        self._greatest = ball(greatest) if isinstance(greatest, Fraction) else greatest
        # Below `first` all losses are certainly at the next place or beyond it; from `end` on none is beyond.
        self.first = max(0, bisect_left(losses, True, key=lambda y: not ball(y) <= least) - 1)
        self.end = bisect_left(losses, True, key=lambda y: bool(ball(y) >= self._greatest))
        self._gaps: dict[Fraction, tuple[arb, arb]] = {}
        self._known: dict[int, arb] = {}

    def _curve(self, j: int) -> arb:
        if j not in self._known:
            self._known[j] = arb(0) if j >= self.end else self._value(ball(self._losses[j]).exp())
        return self._known[j]

    def _gap(self, j: int) -> tuple[arb, arb]:
        """``s_j`` and ``1 / (1 - s_j)``."""
        width = self._losses[j + 1] - self._losses[j]
        if width not in self._gaps:
            ratio = ball(-width).exp()
            self._gaps[width] = ratio, 1 / (1 - ratio)
        return self._gaps[width]

    def __call__(self, j: int) -> arb:
        if j < self.first:
            return arb(1)
        if j >= self.end:
            return arb(0)
        if j == len(self._losses) - 1:
            return self._curve(j)
        ratio, inverse = self._gap(j)
        value = (self._curve(j) - ratio * self._curve(j + 1)) * inverse
        self._known.pop(j - 1, None)
        return value


def _spread_curve(law: ExactCurve, losses: Sequence[Fraction], bits: int) -> tuple[list[int], int]:
    """The masses at the places and at infinity, rounded up."""
    unit, last = fmpz(1) << bits, len(losses) - 1
    masses = [0] * len(losses)
    with ctx.workprec(bits + GUARD):
        tails = _Tails(law, losses)
        before, undecided = arb(1), []
        for j in range(min(tails.first, last), min(tails.end, last) + 1):
            after = tails(j)
            found = ceiling((before - after) * unit)
            if found is None:
                undecided.append(j)
            else:
                masses[j] = found
            before = after
    for j in undecided:
        masses[j] = integer_above(partial(_fresh_mass, law, losses, j), bits)
    if tails.end <= last:
        return masses, 0
    return masses, integer_above(lambda: _Tails(law, losses)(last), bits)


def _fresh_mass(law: ExactCurve, losses: Sequence[Fraction], j: int) -> arb:
    """With tails that are computed anew, for another precision."""
    return _mass(_Tails(law, losses), j)


def _certainly_at_most(loss: arb, place: arb) -> bool:
    return bool(loss <= place)


def _mass(tails: _Tails, j: int) -> arb:
    return (tails(j - 1) if j else arb(1)) - tails(j)


# --- by outcomes ----------------------------------------------------------------------------------------------------


def _spread_outcomes(law: ExactOutcomes, losses: Sequence[Fraction], bits: int) -> tuple[list[int], int]:
    """The masses at the places and at infinity, rounded up."""
    unit, precision = fmpz(1) << bits, bits + GUARD
    masses = [0] * (len(losses) + 1)
    with ctx.workprec(precision):
        placed = _placed(law, losses)
        found = {j: ceiling(mass * unit) for j, mass in placed.items()}
    if None in found.values():
        with ctx.workprec(2 * precision):
            placed = _placed(law, losses)
            found = {j: ceiling(mass * unit) for j, mass in placed.items()}
            above = {j: ceiling((mass * unit).upper()) for j, mass in placed.items()}
    for j, number in found.items():
        number = above[j] if number is None else number
        if number is None:
            raise ArithmeticError(f"a mass of {law!r} has no finite enclosure")
        masses[j] = number
    return masses[:-1], masses[-1]


def _placed(law: ExactOutcomes, losses: Sequence[Fraction]) -> dict[int, arb]:
    """Each set split between the ends of a cell that holds its loss; infinity is the place after the last."""
    edges = [ball(y) for y in losses]
    infinity, one, zero = len(losses), arb(1), arb(0)
    masses: dict[int, arb] = {}

    def put(j: int, mass: arb) -> None:
        masses[j] = masses.get(j, zero) + mass

    for p, _, loss in law.sets():
        if p.is_zero():
            continue
        # The first place that is not below the loss, certainly.
        upper = bisect_left(edges, True, key=partial(_certainly_at_most, loss))
        if upper == 0:
            put(0, p)
            continue
        if loss == arb.pos_inf():
            put(infinity, p)
            continue
        below = (edges[upper - 1] - loss).exp()
        share = one - below
        if upper < infinity:
            share = share / (one - ball(losses[upper - 1] - losses[upper]).exp())
        share = zero.max(share)
        put(upper, p * share)
        put(upper - 1, p * zero.max(one - share))
    return masses
