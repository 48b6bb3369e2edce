"""Strict lower bounds on delta and epsilon: grids chosen in floats, bounds proved in integers
(docs/guarantees_lower.md). The plans are those of upper bounds, which are twice as far from the truth on one plan.
"""

import math
from dataclasses import replace
from fractions import Fraction
from typing import NamedTuple

from evr._basics import validate
from evr._kernel.events import Composition
from evr._kernel.pairs import Direction, Step
from evr._kernel.strict import ProofPlan, schedule
from evr._kernel.strict.lower import bounds_below
from evr._plan.nested import LEAST_TOLERANCE
from evr._plan.strict import ROUNDS, TOLERANCE, StrictCurve, strict_curves

_ENOUGH = 0.8  # of the gap between a claim and the estimate: how near a bound has to be
_FINEST, _AT_ONCE = 16.0, 4.0  # as in upper bounds
_FAR = 100.0  # an epsilon that is little protection
_LESS = 1.6  # on one plan lower bounds are about half as far from the truth as upper ones, and seldom much more
_NEARER = 0.8  # the share of the aim that a second plan has, where the first was a little short
_RAISED = 1  # times the distance from epsilon to the top of a window


class Below(NamedTuple):
    """A number that is at most delta, and the plan that shows it; None shows 0."""

    delta: Fraction
    plan: ProofPlan | None


def delta_below(
    curve: StrictCurve, epsilon: float, tolerance: float = TOLERANCE, enough: Fraction | None = None
) -> Below:
    """A number that is at most delta(epsilon), refined until it is within the tolerance of the estimate or above
    ``enough``, or stops rising.
    """
    guess, exact, best = curve.estimate(epsilon), Fraction(epsilon), Below(Fraction(0), None)
    if not guess > 0:
        return best
    gap = 0.0 if enough is None else _ENOUGH * float(1 - enough / Fraction(guess))
    wanted = max(min(tolerance, gap), LEAST_TOLERANCE) if gap > 0 else tolerance
    aim, finer = min(_LESS * wanted, 0.5), 1.0
    for _ in range(ROUNDS):
        plan = _raised(curve.steps, curve.plan_for(epsilon, guess, aim, finer), exact)
        found = bounds_below(curve.steps, plan, exact, exact)(exact)
        rose = found > best.delta * Fraction(1 + wanted / 4)
        best = Below(found, plan) if found > best.delta else best
        short = float(1 - best.delta / Fraction(guess))
        if short <= wanted or not rose or (enough is not None and best.delta > enough):
            break
        aim = max(aim * _NEARER * min(1.0, wanted / short), LEAST_TOLERANCE)
        finer = min(2 * finer, _FINEST)
    return best


def _raised(steps: tuple[Step, ...], plan: ProofPlan, epsilon: Fraction) -> ProofPlan:
    """The plan with higher tops: what is merged there falls with the steps that follow, and never rises again."""
    if not plan.grids:
        return plan

    def top(place: int, offset: Fraction) -> int:
        return place + max(0, math.ceil(_RAISED * (place - (epsilon - offset) / plan.spacing)))

    starts = [grid.offset for grid in plan.grids]
    parts = schedule(tuple(step.count for step in steps))
    offsets = [sum((n * x for n, x in zip(part, starts, strict=True)), Fraction(0)) for part in parts]
    return replace(
        plan,
        grids=tuple(grid._replace(top=top(grid.top, grid.offset)) for grid in plan.grids),
        windows=tuple(w._replace(top=top(w.top, offset)) for w, offset in zip(plan.windows, offsets, strict=True)),
    )


def epsilon_below(curve: StrictCurve, delta: float, tolerance: float = TOLERANCE) -> float:
    """A float, little below the least epsilon for ``delta``, at which delta is proved to exceed it; 0 if there is none.
    Every epsilon up to there has a greater delta.
    """
    if not 0 < delta < 1 or not curve.steps:
        return 0.0
    guess, target = curve.estimated_epsilon(delta), Fraction(delta)
    if guess == math.inf:  # some loss is infinite with a greater chance
        return _FAR if delta_below(curve, _FAR, tolerance, target).delta > target else 0.0
    if guess == 0:
        return 0.0
    plan = _raised(curve.steps, curve.plan_for(guess, delta, min(_LESS * tolerance, 0.5), _AT_ONCE), Fraction(guess))
    bound = bounds_below(curve.steps, plan, Fraction(guess) / 2, Fraction(guess))
    high, low, step = guess, guess, 1e-3 * tolerance * guess
    while bound(Fraction(low)) <= target:
        high, low, step = low, low - step, 2 * step
        if low < guess / 2:
            return 0.0
    for _ in range(12):
        middle = (low + high) / 2
        low, high = (middle, high) if bound(Fraction(middle)) > target else (low, middle)
    return low


def strict_delta_below(
    composition: Composition, epsilon: float, direction: str | None, tolerance: float, enough: Fraction | None = None
) -> tuple[Below, Direction]:
    """A proved lower bound on delta(epsilon), and its direction: one is enough, and another is left out where it would
    add less than the tolerance, or the bound is above ``enough``.
    """
    tolerance = validate.open_probability(tolerance=tolerance)
    curves = strict_curves(composition, direction)
    best, winner = Below(Fraction(-1), None), next(iter(curves))
    for one in sorted(curves, key=lambda one: -curves[one].estimate(epsilon)):
        if curves[one].estimate(epsilon) * (1 - tolerance) > best.delta and (enough is None or best.delta <= enough):
            bound = delta_below(curves[one], epsilon, tolerance, enough)
            best, winner = (bound, one) if bound.delta > best.delta else (best, winner)
    return best, winner


def strict_epsilon_below(
    composition: Composition, delta: float, direction: str | None, tolerance: float
) -> tuple[float, Direction]:
    """A float at which delta is proved to exceed ``delta``, and the direction that proves it; 0 if there is none."""
    tolerance = validate.open_probability(tolerance=tolerance)
    curves = strict_curves(composition, direction)
    best, winner = -1.0, next(iter(curves))
    for one, curve in curves.items():
        if best <= 0 or curve.estimate(best) * (1 - tolerance) > delta:
            bound = epsilon_below(curve, delta, tolerance)
            best, winner = (bound, one) if bound > best else (best, winner)
    return best, winner
