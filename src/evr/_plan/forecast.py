"""About how long it takes to follow a plan: processor seconds of a usual machine (2026), measured by
``benchmarks/strict.py --forecasts``.
"""

from collections.abc import Sequence

from evr._kernel.pairs import Step
from evr._kernel.pairs.exact import ExactBins, ExactCurve, ExactLaw
from evr._kernel.pairs.nested import NestedLaw, OneOf, SampledSteps
from evr._kernel.pairs.selection import Selection
from evr._kernel.strict import Grid, NestedPlan, ProofPlan, SelectionPlan
from evr._kernel.strict.ratios import places_for, ratios_of

LEAST_SECONDS = 0.02
_BY_SERIES, _BY_POINTS = 5e-6, 3e-5  # the mass of a place of a step
_RATIO = 2e-5  # the mass of a place of a grid of ratios
_OUTCOME = 1.2e-5  # to place an outcome
_PRODUCT, _PLACE = 2.5e-4, 6e-9  # a product of two laws; and for each place and bit
_POINT = 1e-6  # for each place, to ask a composition for one more point
_MOST_RATIOS = 1 << 17


def seconds_of(steps: Sequence[Step], plan: ProofPlan) -> float:
    """About how long the bound that follows from the plan takes."""
    products = _PRODUCT * len(plan.windows) + _PLACE * plan.bits * sum(window.places for window in plan.windows)
    laws = [step.exact_law for step in steps]
    grids = sum(_step(law, grid, plan) for law, grid in zip(laws, plan.grids, strict=False))
    nested = [law for law in laws if isinstance(law, NestedLaw)]
    selections = [law for law in laws if isinstance(law, Selection)]
    return (
        products
        + grids
        + sum(_nested(law, how, alone=not plan.grids) for law, how in zip(nested, plan.nested, strict=True))
        + sum(_selection(law, how) for law, how in zip(selections, plan.selections, strict=True))
    )


def _step(law: ExactLaw, grid: Grid, plan: ProofPlan) -> float:
    if isinstance(law, ExactBins):
        return _RATIO * min(places_for(law.bins, *ratios_of(law, grid, plan.spacing)), _MOST_RATIOS)
    return grid.places * (_BY_SERIES if isinstance(law, ExactCurve) and law.is_analytic else _BY_POINTS)


def _nested(law: NestedLaw, how: NestedPlan, *, alone: bool) -> float:
    """Compositions inside; as outcomes, unless one sample of a composition is bounded by its curve."""
    seconds = 0.0
    for steps, plan in zip(law.compositions, how.plans, strict=True):
        seconds += seconds_of(steps, plan)
        if plan.windows and not (alone and isinstance(law, SampledSteps)):
            seconds += 2 * _OUTCOME * plan.windows[-1].places
    if isinstance(law, OneOf):
        seconds += _RATIO * min(places_for(law.groups, how.top, how.spacing), _MOST_RATIOS)
    return seconds


def _selection(law: Selection, how: SelectionPlan) -> float:
    sides = ((law.steps, how.ahead), (law.reverse, how.back))
    return sum(
        seconds_of(steps, curve.plan) + (_POINT * curve.plan.places + 1e-3) * len(curve.epsilons)
        for steps, curves in sides
        for curve in curves
    )
