"""Plans of laws that are made of compositions (docs/guarantees_nested.md): each composition inside may add a part of
the tolerance.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np

from evr._estimate.composed import composed
from evr._estimate.fft import rough_delta_of
from evr._estimate.nested import inner_epsilon
from evr._estimate.selected import on_lines
from evr._kernel.pairs import Direction, Floats, Step
from evr._kernel.pairs.exact import ExactOutcomes
from evr._kernel.pairs.line.pair import unmix
from evr._kernel.pairs.nested import NestedLaw, OneOf, SampledSteps
from evr._kernel.strict import NestedPlan, ProofPlan, schedule
from evr._kernel.strict.ratios import places_for
from evr._plan.grids import choose
from evr._plan.outlook import Outlook, outlook

LEAST_TOLERANCE = 2e-6
_INSIDE = 0.3  # of the tolerance: what the grids of compositions inside of a law may add
FAR = 14.0  # losses of a group that hardly matter
_LEAST_DELTA = 1e-10  # where a composition inside is planned
_BITS = 96  # of compositions inside
_MOST_PLACES = 1 << 17  # of a grid of ratios
_RATIO_PLACES, _NARROWEST = 8000, -60  # of the first grid of a law by itself


def plans_inside(steps: Sequence[Step], view: Outlook, plan: ProofPlan, tolerance: float) -> tuple[NestedPlan, ...]:
    """The plans of the laws of compositions among the steps."""
    plans = []
    for step, kind, grid in zip(steps, view.kinds, plan.grids, strict=True):
        if isinstance(law := step.exact_law, NestedLaw):
            low, high = (float(grid.offset + place * plan.spacing) for place in (grid.floor, grid.top))
            steep = kind.tilted * _steepness(law, kind.losses) ** 2
            at = float(np.sum(steep * kind.losses) / max(float(np.sum(steep)), 1e-300))
            share = _INSIDE * tolerance / (view.kappa * step.count * max(float(np.sum(steep)), 1e-12))
            plans.append(nested_plan(law, at, share * float(_steepness(law, np.array([at]))[0]) ** 2, low, high))
    return tuple(plans)


def _steepness(law: NestedLaw, losses: Floats) -> Floats:
    """How fast the loss of a law changes with that of a composition inside, about."""
    if not isinstance(law, SampledSteps):
        return np.ones(losses.size)
    with np.errstate(over="ignore"):
        return np.clip(1.0 - (1.0 - float(law.share)) * np.exp(-_sign(law, losses) * losses), 1e-6, 1.0)


def _sign(law: SampledSteps, losses: Any) -> Any:
    """1 where the sample mixes the law under ``P``, as for remove, and -1 where it mixes that under ``Q``."""
    if law.direction is None:
        return np.where(losses < 0, -1.0, 1.0)
    return 1.0 if law.direction is Direction.REMOVE else -1.0


def nested_plan(law: NestedLaw, at: float, variance: float, low: float, high: float) -> NestedPlan:
    """A plan for a law from the loss ``low`` to ``high``, which may add a variance to its losses about ``at``."""
    if isinstance(law, SampledSteps):

        def inner(loss: float) -> float:
            sign = float(_sign(law, loss))
            return sign * float(unmix(sign * loss, float(law.share)))

        steep = float(_steepness(law, np.array([at]))[0])
        return NestedPlan((_whole(law.steps, inner(at), variance / steep**2, inner(low), inner(high)),))
    assert isinstance(law, OneOf)
    remove, reach = law.direction is Direction.REMOVE, math.log(law.groups)
    ends = (min(low, 0.0) - FAR, high + reach + 1.0) if remove else (low - reach - 1.0, max(high, 0.0) + FAR)
    centre = at if remove else -at
    plans = tuple(_whole(steps, centre, variance, *ends) for steps in law.compositions)
    top = high if remove else -low
    near = math.exp(min(centre, 0.0))  # the ratio there, whose relative error is that of the loss
    halvings = max(0, math.ceil(-math.log2(near * math.sqrt(law.groups * variance))))
    while halvings and places_for(law.groups, Fraction(top), Fraction(1, 1 << halvings)) > _MOST_PLACES:
        halvings -= 1
    return NestedPlan(plans, Fraction(1, 1 << halvings), short_above(top))


def alone(
    law: NestedLaw,
    epsilon: float,
    guess: float,
    tolerance: float,
    finer: float,
    inside: Callable[[tuple[Step, ...], float, float], ProofPlan],
) -> NestedPlan:
    """The plan of a law by itself, at an epsilon where delta is about ``guess``; ``inside`` plans a composition, at an
    epsilon and about delta there.
    """
    if isinstance(law, SampledSteps):
        factor, at = inner_epsilon(law, epsilon)
        least = guess / factor if factor > 0 else 0.0
        if not least > 0:  # no loss is beyond epsilon: any plan will do
            at, least = where_planned(law.steps, at)
        return NestedPlan((inside(law.steps, at, least),))
    assert isinstance(law, OneOf)
    remove, kappa = law.direction is Direction.REMOVE, max(epsilon, 1.0) ** 2
    top = 1.02 * epsilon + 1e-3 if remove else 1e-3 - 0.98 * epsilon
    spacing = spacing_of_ratios(law.groups, top, min(finer, 2.0))
    plan = nested_plan(law, epsilon, tolerance / kappa, *((-FAR, epsilon) if remove else (epsilon, FAR)))
    return replace(plan, spacing=spacing, top=short_above(top))


def spacing_of_ratios(number: int, top: float, finer: float) -> Fraction:
    """For the mean of so many ratios, of losses up to ``top``; ``finer`` times finer than the first grid."""
    reach = number * math.exp(min(top, 600.0))
    widest = max(math.ceil(math.log2(reach / _RATIO_PLACES)), _NARROWEST)
    return Fraction(2) ** widest * Fraction(8, math.ceil(8 * finer))


def short_above(number: float) -> Fraction:
    """The number with few bits, rounded up."""
    return Fraction(math.ceil(number * 1024), 1024)


def where_planned(steps: tuple[Step, ...], epsilon: float) -> tuple[float, float]:
    """An epsilon up to the given one, at which delta is not next to nothing, and about delta there."""
    at, law = min(max(epsilon, 1e-3), FAR), on_lines(steps)
    while not (delta := rough_delta_of(law, at).value) > _LEAST_DELTA and at > 1e-3:
        at *= 0.8
    return at, max(delta, _LEAST_DELTA)


def _whole(steps: tuple[Step, ...], at: float, variance: float, low: float, high: float) -> ProofPlan:
    """A plan for all of a composition from the loss ``low`` to ``high``, as far as its law reaches, which may add a
    variance to the losses about ``at``.
    """
    law = steps[0].exact_law
    if len(steps) == 1 and steps[0].count == 1 and isinstance(law, ExactOutcomes | NestedLaw):
        inside = (nested_plan(law, at, variance, low, high),) if isinstance(law, NestedLaw) else ()
        return replace(ProofPlan.of_one_step(_BITS), nested=inside)
    losses = composed(on_lines(steps)).losses
    losses = losses[np.isfinite(losses)]
    epsilon, delta = where_planned(steps, at)
    view = replace(outlook(steps, epsilon), log_delta=math.log(delta))
    tolerance = min(max(view.kappa * variance, LEAST_TOLERANCE), 0.5)
    plan = choose(view, tolerance)
    plan = replace(plan, bits=max(plan.bits, _BITS), nested=plans_inside(steps, view, plan, tolerance))
    return _widened(plan, steps, max(low, float(losses[0])), min(high, float(losses[-1])))


def _widened(plan: ProofPlan, steps: Sequence[Step], low: float, high: float) -> ProofPlan:
    """The plan with grids and windows that reach from the loss ``low`` to ``high``."""

    def ends(offset: Fraction, floor: int, top: int) -> dict[str, Any]:
        lowest, highest = ((loss - float(offset)) / float(plan.spacing) for loss in (low, high))
        return {"floor": min(floor, math.floor(lowest)), "top": max(top, math.ceil(highest) + 1)}

    starts = [grid.offset for grid in plan.grids]
    parts = schedule(tuple(step.count for step in steps))
    offsets = [sum((n * x for n, x in zip(part, starts, strict=True)), Fraction(0)) for part in parts]
    return replace(
        plan,
        grids=tuple(grid._replace(**ends(grid.offset, grid.floor, grid.top)) for grid in plan.grids),
        windows=tuple(w._replace(**ends(o, w.floor, w.top)) for w, o in zip(plan.windows, offsets, strict=True)),
    )
