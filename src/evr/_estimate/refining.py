"""Grids of twice the size, until the error of delta that they show is small enough."""

from __future__ import annotations

from typing import NamedTuple

from evr._estimate.atoms import Atoms, Delta
from evr._estimate.grid import TiltedLaw, law_on_grid
from evr._estimate.tilting import GridPlan
from evr._kernel.pairs import Step

RELATIVE = 1e-8  # wanted of the change from a grid of twice the width, relative to delta
# what that change may miss, relative to delta: the cells' edges move with the grid, errors do not fall evenly
_IRREGULAR = 4e-8
UNSETTLED = 1e-6  # a change, relative to delta, after which a grid is not trusted
_RAGGED = 1e-6  # relative to delta, what a ragged law may add to the error
ROUNDED = 1e-11  # relative error of closed forms
SIZES = tuple(2**n for n in range(12, 22))
IN_DOUBT = 4.0  # times the change from half as many groups: what their number may matter


def compare(fine: TiltedLaw, coarse: TiltedLaw, atoms: Atoms | None, epsilon: float) -> tuple[Delta, float]:
    """Delta on the finer grid, with an error from the coarser one and from rounding; and by how much both differ."""
    result, smooth = read(fine, atoms, epsilon)
    change = abs(smooth - coarse.delta(epsilon))
    # grids that disagree may both be wrong by more than they differ
    doubt = 8.0 * change if change > UNSETTLED * result.value else change
    return result.worse(doubt), change


def read(law: TiltedLaw, atoms: Atoms | None, epsilon: float) -> tuple[Delta, float]:
    """Delta on one grid, with an error that takes the grid for fine enough; and what of delta is on the grid."""
    scale, (share, slope) = law.scale(epsilon), law.above(epsilon)
    smooth, apart = max(0.0, scale * share), law.jumps.delta(epsilon)
    value, slope = smooth + apart, max(0.0, scale * slope) + law.jumps.slope(epsilon)
    numerical = (
        law.rounding(epsilon)
        + law.blur(epsilon)
        + law.ragged(epsilon)
        + law.wrapped(epsilon)
        + _IRREGULAR * smooth
        + ROUNDED * apart
        + law.jumps.error
        + law.table_error.of(value)
    )
    moved = slope * law.loss_error
    if atoms is not None:
        exact = atoms.tail(epsilon)
        value, slope = value + exact.value, slope + exact.slope
        numerical, moved = numerical + exact.numerical, moved + (exact.error - exact.numerical)
    found = Delta(min(1.0, value), numerical + moved, numerical, slope, law.loss_error)
    return found, scale * share


def refine(
    plan: GridPlan,
    steps: tuple[Step, ...],
    atoms: Atoms | None,
    epsilon: float,
    sizes: tuple[int, ...] = SIZES,
    wanted: float = RELATIVE,
) -> tuple[TiltedLaw, TiltedLaw, Delta]:
    """Grids of twice the size until the error estimate is small enough, or rounding rules."""
    coarse = law_on_grid(plan, steps, sizes[0], with_atoms=atoms is not None)
    best: tuple[TiltedLaw, TiltedLaw, Delta] | None = None
    before = 0.0
    for size in sizes[1:]:
        fine = law_on_grid(plan, steps, size, with_atoms=atoms is not None)
        result, change = compare(fine, coarse, atoms, epsilon)
        lucky = before / 16.0  # of fourth order; a smaller change is luck
        result, before = result.worse(lucky), change
        if best is not None and result.error > best[2].error and size > 8 * sizes[0]:
            break
        if best is None or result.error < best[2].error:
            best = (fine, coarse, result)
        ragged = fine.ragged(epsilon)
        # no grid mends a table
        of_grid = result.error - ragged - fine.table_error.of(result.value)
        settled = of_grid <= (wanted + _IRREGULAR) * result.value
        if settled and ragged <= _RAGGED * result.value:
            break
        if result.error <= 2.0 * fine.rounding(epsilon):
            break
        coarse = fine
    assert best is not None
    return best


class Laws(NamedTuple):
    """Laws made for one epsilon, that of fewer groups among them where steps are grouped, and the relative error that
    was reached.
    """

    fine: TiltedLaw
    coarse: TiltedLaw
    fewer: TiltedLaw | None
    atoms: Atoms | None
    reached: float

    def in_doubt(self, result: Delta, epsilon: float) -> Delta:
        """With the error of grouping."""
        if self.fewer is None:
            return result
        other = self.fewer.delta(epsilon) + self.fewer.jumps.delta(epsilon)
        return result.worse(IN_DOUBT * abs(result.value - other))
