"""Strict bounds on a mechanism, from above and from below: the worse of both directions."""

from fractions import Fraction

from evr._basics import validate
from evr._kernel.events import Composition
from evr._kernel.pairs import Direction
from evr._kernel.strict import rounded_up
from evr._plan.lower import Below, delta_below, epsilon_below
from evr._plan.strict import TOLERANCE, StrictCurve


def strict_curves(composition: Composition, direction: str | None = None) -> dict[Direction, StrictCurve]:
    """The curves to bound: of the direction asked for, or of both, or of one where they are the same laws."""
    return {one: StrictCurve(steps) for one, steps in composition.exact_directions(direction).items()}


def strict_delta(
    composition: Composition, epsilon: float, direction: str | None = None, tolerance: float = TOLERANCE
) -> tuple[float, Direction]:
    """A proved upper bound on delta(epsilon), rounded up, and its direction; the other is proved to be no worse."""
    tolerance = validate.open_probability(tolerance=tolerance)
    curves = strict_curves(composition, direction)
    order = sorted(curves, key=lambda one: -curves[one].rough(epsilon)) if len(curves) > 1 else list(curves)
    best, winner = Fraction(-1), order[0]
    for one in order:
        bound = curves[one].bound(epsilon, tolerance, best if best >= 0 else None)
        if bound > best:
            best, winner = bound, one
    return rounded_up(best), winner


def strict_epsilon(
    composition: Composition, delta: float, direction: str | None = None, tolerance: float = TOLERANCE
) -> tuple[float, Direction]:
    """A float at which delta is proved to be at most ``delta``, and the direction that needs it."""
    tolerance = validate.open_probability(tolerance=tolerance)
    curves = strict_curves(composition, direction)
    best, winner = -1.0, next(iter(curves))
    for one, curve in curves.items():
        if best >= 0 and 0 < delta < 1 and curve.bound(best, tolerance, Fraction(delta)) <= Fraction(delta):
            continue  # the other direction needs no more
        value = curve.epsilon(delta, tolerance)
        if value > best:
            best, winner = value, one
    return best, winner


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
