"""Strict lower bounds on delta and epsilon: grids chosen in floats, bounds proved in integers
(docs/guarantees_lower.md). The plans are those of upper bounds, which are twice as far from the truth on one plan.
"""

import math
from dataclasses import replace
from fractions import Fraction
from typing import NamedTuple

import numpy as np

from evr._kernel.strict import Grid, ProofPlan
from evr._kernel.strict.lower import bounds_below
from evr._kernel.strict.plan import compose
from evr._plan.nested import LEAST_TOLERANCE
from evr._plan.outlook import Kind, Outlook, outlook
from evr._plan.strict import ROUNDS, TOLERANCE, StrictCurve

_ENOUGH = 0.8  # of the gap between a claim and the estimate: how near a bound has to be
_FINEST, _AT_ONCE = 16.0, 4.0  # as in upper bounds
_FAR = 100.0  # an epsilon that is little protection
_LESS = 1.75  # on one plan lower bounds are about half as far from the truth as upper ones, and seldom much more
_MORE_BITS = 1  # than upper bounds have, since two lists are rounded
_NEARER = 0.8  # the share of the aim that a second plan has, where the first was a little short
_POINT = 1e-9  # of a place: a narrower stretch of losses is one point


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
        plan = _plan(curve, epsilon, guess, aim, finer)
        found = bounds_below(curve.steps, plan, exact, exact)(exact)
        rose = found > best.delta * Fraction(1 + wanted / 4)
        best = Below(found, plan) if found > best.delta else best
        short = float(1 - best.delta / Fraction(guess))
        if short <= wanted or not rose or (enough is not None and best.delta > enough):
            break
        aim = max(aim * _NEARER * min(1.0, wanted / short), LEAST_TOLERANCE)
        finer = min(2 * finer, _FINEST)
    return best


def _plan(curve: StrictCurve, epsilon: float, guess: float, tolerance: float, finer: float) -> ProofPlan:
    """The plan of an upper bound with windows that follow the places of sums: rounding to the nearest place moves the
    bulk, a little in each step.
    """
    plan = curve.plan_for(epsilon, guess, tolerance, finer)
    if not plan.grids:
        return plan
    windows = []
    for window, drift in zip(plan.windows, _drifts(outlook(curve.steps, epsilon), plan), strict=True):
        coarse, fine = (drift / float(plan.spacing) * size for size in (1, 1 << window.halvings))
        windows.append(
            window._replace(
                low=math.floor(window.low + min(fine, 0)),
                high=math.ceil(window.high + max(fine, 0)),
                floor=math.floor(window.floor + min(coarse, 0)),
                top=math.ceil(window.top + max(coarse, 0)),
            )
        )
    return replace(plan, bits=plan.bits + _MORE_BITS, windows=tuple(windows))


def _drifts(view: Outlook, plan: ProofPlan) -> list[float]:
    """For each product of the plan, by how much its places are above the losses of the bulk, about."""
    spacing, windows, found = float(plan.spacing), iter(plan.windows), list[float]()

    def at(drift: float, halvings: int, fewer: int) -> float:
        """Coarsened: the middle goes up, which is half a fine place on average."""
        return drift + spacing / 2**halvings / 2 if fewer < halvings else drift

    def times(x: tuple[float, int], y: tuple[float, int]) -> tuple[float, int]:
        shared, window = min(x[1], y[1]), next(windows)
        drift = at(at(*x, shared) + at(*y, shared), shared, window.halvings)
        found.append(drift)
        return drift, min(shared, window.halvings)

    compose(view.counts, lambda i: (_drift(view.kinds[i], plan.grids[i], spacing), plan.grids[i].halvings), times)
    return found


def _drift(kind: Kind, grid: Grid, spacing: float) -> float:
    """By how much the nearest places are above the losses of one step, on average under the tilt. A point stands for
    the losses nearest to it.
    """
    losses, total = kind.losses - float(grid.offset), 0.0
    ends = np.concatenate([losses[:1], (losses[1:] + losses[:-1]) / 2, losses[-1:]])
    is_fine = (losses >= grid.low * spacing) & (losses <= grid.high * spacing) & (grid.halvings > 0)
    for gap, where in ((spacing / 2**grid.halvings, is_fine), (spacing, ~is_fine)):
        beside, places = ends / gap - np.round(ends / gap), losses / gap
        width = np.diff(ends / gap)
        with np.errstate(divide="ignore", invalid="ignore"):
            up = np.where(width > _POINT, np.diff(-(beside**2) / 2) / width, np.round(places) - places)
        total += gap * float(np.sum((kind.tilted * up)[where]))
    return total


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
    plan = _plan(curve, guess, delta, min(_LESS * tolerance, 0.5), _AT_ONCE)
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
