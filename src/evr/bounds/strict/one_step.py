"""One step on its grid: from balls to integers (docs/guarantees_strict.md, Sections S3 and S4.1)."""

from __future__ import annotations

import math
from bisect import bisect_left
from dataclasses import dataclass
from fractions import Fraction
from functools import cache, lru_cache, partial

from flint import arb, ctx, fmpq, fmpz, fmpz_poly

from evr.bounds.strict.balls import GUARD, ceiling, integer_above
from evr.bounds.strict.bins import outcomes_of, spacing_for
from evr.bounds.strict.masses import NOTHING, GridLaw, Masses
from evr.bounds.strict.plan import Grid
from evr.laws.exact import ExactBins, ExactCurve, ExactLaw, ExactOutcomes
from evr.laws.exact.law import ball
from evr.laws.law import Direction


def one_step(law: ExactLaw, grid: Grid, spacing: Fraction, bits: int) -> GridLaw:
    """A grid law that covers one step."""
    losses = Losses.of(grid, spacing)
    if isinstance(law, ExactBins):
        low, high = (grid.offset + place * spacing for place in (grid.floor, grid.top))
        _, of_ratios = ratios_of(law, grid, spacing)
        law = outcomes_of(law, low, high, of_ratios, bits)
    if isinstance(law, ExactOutcomes):
        masses, infinite = _spread_outcomes(law, losses, bits)
    elif isinstance(law, ExactCurve):
        masses, infinite = _spread_curve(law, losses, bits)
    else:
        raise TypeError(f"{law!r} is neither an ExactCurve nor an ExactOutcomes: it cannot be enclosed")
    return _arranged(masses, min(infinite, 1 << bits), grid, spacing, bits)


def ratios_of(law: ExactBins, grid: Grid, spacing: Fraction) -> tuple[Fraction, Fraction]:
    """Of the grid of ratios that one step of bins is put on: the loss that it reaches up to, and its spacing."""
    place = grid.top if law.direction is Direction.REMOVE else grid.floor
    loss = grid.offset + place * spacing
    top = loss if law.direction is Direction.REMOVE else -loss
    return top, spacing_for(law, spacing / (1 << grid.halvings), top)


@dataclass(frozen=True)
class Losses:
    """The losses of a grid's places, rising: integers over one denominator."""

    numerators: list[int]
    denominator: int

    @classmethod
    def of(cls, grid: Grid, spacing: Fraction) -> Losses:
        """Coarse places below the fine ones, these, and coarse places above them."""
        size = 1 << grid.halvings
        fine = spacing / size
        denominator = math.lcm(fine.denominator, grid.offset.denominator)
        unit, start = int(fine * denominator), int(grid.offset * denominator)
        places = [i * size for i in range(grid.floor, grid.top + 1)]
        if grid.halvings:
            below, above = grid.low - grid.floor, grid.high + 1 - grid.floor
            places[below:above] = range(grid.low * size, grid.high * size + 1)
        return cls([start + unit * place for place in places], denominator)

    def __len__(self) -> int:
        return len(self.numerators)

    def ball(self, j: int) -> arb:
        return arb(fmpq(self.numerators[j], self.denominator))

    def width(self, j: int) -> int:
        """From place ``j`` to the next, over the denominator."""
        return self.numerators[j + 1] - self.numerators[j]


def _arranged(masses: list[int], infinite: int, grid: Grid, spacing: Fraction, bits: int) -> GridLaw:
    if not grid.halvings:
        return GridLaw(0, NOTHING, Masses(grid.floor, fmpz_poly(masses)), infinite, spacing, bits)
    below = grid.low - grid.floor
    number = ((grid.high - grid.low) << grid.halvings) + 1
    fine = Masses(grid.low << grid.halvings, fmpz_poly(masses[below : below + number]))
    low = Masses(grid.floor, fmpz_poly(masses[:below]))
    high = Masses(grid.high + 1, fmpz_poly(masses[below + number :]))
    return GridLaw(grid.halvings, fine, low + high, infinite, spacing, bits)


# --- by the curve ---------------------------------------------------------------------------------


class _Tails:
    """``G_j`` of Section S3 at the places ``y_0 .. y_J``: how much of ``P`` is put beyond ``y_j``."""

    def __init__(self, law: ExactCurve, losses: Losses) -> None:
        value, least, greatest = law.curve(), law.least(), law.greatest()
        most = ball(greatest) if isinstance(greatest, Fraction) else greatest
        places = range(len(losses))
        # Below `first` all losses are certainly at the next place or beyond it; from `end` on none is beyond.
        self.first = max(0, bisect_left(places, True, key=lambda j: not losses.ball(j) <= least) - 1)
        self.end = bisect_left(places, True, key=lambda j: bool(losses.ball(j) >= most))
        self._losses = losses

        @lru_cache(maxsize=2)  # the curve at one place, which the next mass needs too
        def curve(j: int) -> arb:
            return arb(0) if j >= self.end else value(losses.ball(j).exp())

        @cache
        def gap(width: int) -> tuple[arb, arb]:
            """``s_j`` and ``1 / (1 - s_j)``."""
            ratio = arb(fmpq(-width, losses.denominator)).exp()
            return ratio, 1 / (1 - ratio)

        self._curve, self._gap = curve, gap

    def __call__(self, j: int) -> arb:
        if j < self.first or j >= self.end:
            return arb(int(j < self.first))
        if j == len(self._losses) - 1:
            return self._curve(j)
        ratio, inverse = self._gap(self._losses.width(j))
        return (self._curve(j) - ratio * self._curve(j + 1)) * inverse


def _spread_curve(law: ExactCurve, losses: Losses, bits: int) -> tuple[list[int], int]:
    """The masses at the places and at infinity, rounded up."""
    unit, last = fmpz(1) << bits, len(losses) - 1
    masses = [0] * len(losses)
    undecided = []
    with ctx.workprec(bits + GUARD):
        tails = _Tails(law, losses)
        before = arb(1)
        for j in range(min(tails.first, last), min(tails.end, last) + 1):
            after = tails(j)
            found = ceiling((before - after) * unit)
            if found is None:
                undecided.append(j)
            else:
                masses[j] = found
            before = after
    for j in undecided:
        masses[j] = integer_above(partial(_mass, law, losses, j), bits)
    return masses, 0 if tails.end <= last else integer_above(lambda: _Tails(law, losses)(last), bits)


def _mass(law: ExactCurve, losses: Losses, j: int) -> arb:
    tails = _Tails(law, losses)
    return (tails(j - 1) if j else arb(1)) - tails(j)


# --- by outcomes ----------------------------------------------------------------------------------


def _spread_outcomes(law: ExactOutcomes, losses: Losses, bits: int) -> tuple[list[int], int]:
    """The masses at the places and at infinity, rounded up."""
    unit = fmpz(1) << bits
    masses = [0] * (len(losses) + 1)
    for precision in (bits + GUARD, 2 * bits + 4 * GUARD):
        with ctx.workprec(precision):
            placed = {j: mass * unit for j, mass in _placed(law, losses).items()}
            found = {j: ceiling(mass) for j, mass in placed.items()}
            if None not in found.values():
                break
            above = {j: ceiling(mass.upper()) for j, mass in placed.items()}
    for j, number in found.items():
        whole = above[j] if number is None else number
        if whole is None:
            raise ArithmeticError(f"a mass of {law!r} has no finite enclosure")
        masses[j] = whole
    return masses[:-1], masses[-1]


def _placed(law: ExactOutcomes, losses: Losses) -> dict[int, arb]:
    """Each set split between the ends of a cell that holds its loss; infinity is the place after the last."""
    edges = [losses.ball(j) for j in range(len(losses))]
    infinity, one, zero = len(losses), arb(1), arb(0)
    masses: dict[int, arb] = {}

    def put(j: int, mass: arb) -> None:
        masses[j] = masses.get(j, zero) + mass

    def not_below(loss: arb, edge: arb) -> bool:
        return bool(loss <= edge)

    for p, _, loss in law.sets():
        if p.is_zero():
            continue
        # the first place that is certainly not below
        upper = bisect_left(edges, True, key=partial(not_below, loss))
        if upper == 0:
            put(0, p)
            continue
        if loss == arb.pos_inf():
            put(infinity, p)
            continue
        share = one - (edges[upper - 1] - loss).exp()
        if upper < infinity:
            share = share / (one - arb(fmpq(-losses.width(upper - 1), losses.denominator)).exp())
        share = zero.max(share)
        put(upper, p * share)
        put(upper - 1, p * zero.max(one - share))
    return masses
