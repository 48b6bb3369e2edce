"""Strict bounds on delta and epsilon: grids chosen in floats, bounds proved in integers (docs/guarantees_strict.md)."""

import contextlib
import math
import time
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction

from evr._estimate.fft import FftCurve, epsilon_of, rough_delta_of
from evr._estimate.selected import fineness_of, on_lines, outcomes_at, points_of
from evr._kernel.pairs import Direction, Step
from evr._kernel.pairs.exact import ExactBins
from evr._kernel.pairs.nested import NestedLaw
from evr._kernel.pairs.selection import Selection
from evr._kernel.strict import CurvePlan, Plans, Proof, ProofPlan, SelectionPlan, prove, prove_curve, prove_within
from evr._kernel.strict.alone import infinite_delta, stays_within
from evr._kernel.strict.proof import bounds_by, needs_no_plan
from evr._plan.forecast import LEAST_SECONDS, seconds_of
from evr._plan.grids import choose
from evr._plan.nested import LEAST_TOLERANCE, alone, plans_inside, spacing_of_ratios
from evr._plan.outlook import outlook
from evr.errors import AccuracyError

TOLERANCE = 5e-4  # by how much of delta a bound may exceed it, by default
_MOST_PLACES = 3_000_000
ROUNDS = 5
SAFE = 0.6
_AIM = 0.95  # of what is wanted: what the first grids aim at
_FAR_LESS, _A_LITTLE_LESS = 1e-4, 0.5  # of a delta that is enough, for a smaller epsilon
_SOONER = 4  # times that it is sought: each finds a smaller one
_ROOM, _ROUGHLY = 1.15, 1.04  # times a rough delta that a delta has to be for it to be enough; how far off it may be
_NEXT_TO_NOTHING = 1e-280  # of delta: what is left where it is below all floats
_INFINITE_BITS = 1100  # as small as floats are
_FINEST, _AT_ONCE = 16.0, 4.0  # how many times finer: the last grid at most, and a grid that is not refined
_NEAR = 4  # the part of a list of points, one in so many, that a second composition serves
_TOGETHER = 32  # points of a run that is selected, from one composition
_BEYOND = 1e-5  # of delta: what the last of these points may add
_LOOSEST = 0.02  # tolerance of these points


class StrictCurve:
    """Upper bounds on delta in one direction."""

    def __init__(self, steps: tuple[Step, ...]) -> None:
        self.steps = steps
        self.fft = FftCurve(on_lines(steps), rough=True)
        self._infinite = float(infinite_delta(steps, _INFINITE_BITS))
        self._plans: dict[tuple[float, float, float, float], ProofPlan] = {}
        self._slopes: dict[float, float] = {}  # of delta, where it was estimated

    def estimate(self, epsilon: float) -> float:
        """About how large delta is: no bound, a guide to grids and to when they are fine enough."""
        found = rough_delta_of(self.fft.steps, epsilon)
        self._slopes[epsilon] = found.slope
        return found.value

    def estimated_epsilon(self, delta: float) -> float:
        """About the least epsilon for ``delta``: no bound."""
        return epsilon_of(self.fft, delta).value

    def bound(self, epsilon: float, tolerance: float = TOLERANCE, enough: Fraction | None = None) -> Fraction:
        """The bound, refined until it is within the tolerance of the estimate, at most ``enough``, or stops falling."""
        if epsilon == math.inf:
            return infinite_delta(self.steps)
        return prove_within(self.steps, Fraction(epsilon), self.plans(epsilon, tolerance, enough), enough).delta

    def plans(self, epsilon: float, tolerance: float = TOLERANCE, enough: Fraction | None = None) -> Plans:
        """Plans, finer and finer, until a bound is within the tolerance of the estimate or stops falling."""
        if (rough := self._with_room(epsilon, enough)) is not None:
            yield self.plan_for(*rough)
        guess = self.estimate(epsilon)
        if enough is None and guess * (1.0 + tolerance) >= 1:
            return  # without a plan the bound is 1, which is as near as it has to be
        wanted = _wanted(guess, tolerance, enough)
        aim, finer = self._aim(wanted), 1.0
        best, before = Fraction(2), None
        for _ in range(ROUNDS):
            plan = self.plan_for(epsilon, guess, aim, finer)
            if plan == before:
                return
            found = yield plan
            fell = found < best * Fraction(1 - wanted / 4)
            best, before = min(best, found), plan
            excess = _excess(best, guess)
            if excess <= wanted or not fell or plan.places > _MOST_PLACES / 2:
                return
            aim = max(aim * min(0.5, SAFE * wanted / excess), LEAST_TOLERANCE)
            finer = min(finer * _ratio(excess, wanted), _FINEST)

    def rough(self, epsilon: float) -> float:
        """Less than an estimate: about how large delta is, to a few hundredths where sums are nearly normal."""
        if epsilon == math.inf:
            return self.fft.infinite_mass
        if (
            self.is_one_step
            or self.fft.infinite_mass > 0
            or any(isinstance(s.exact_law, Selection) for s in self.steps)
        ):
            return self.estimate(epsilon)
        if stays_within(self.steps, Fraction(epsilon)):
            return 0.0
        return math.exp(min(outlook(self.steps, epsilon).log_delta, 0.0))

    def _with_room(self, epsilon: float, enough: Fraction | None) -> tuple[float, float, float] | None:
        """What to plan for where delta is well below ``enough``, by a rough estimate: epsilon, or where delta is far
        less a smaller one, as a bound does not rise from it; about how large delta is there; and the tolerance.
        """
        if enough is None or self.is_one_step or needs_no_plan(self.steps, Fraction(epsilon)) is not None:
            return None
        guess = self.rough(epsilon)
        for _ in range(_SOONER):
            order = outlook(self.steps, epsilon).order if 0 < guess < _FAR_LESS * enough else 0.0
            sooner = epsilon - math.log(_A_LITTLE_LESS * float(enough) / guess) / order if order > 0 else 0.0
            if sooner <= 0 or (more := self.rough(sooner)) * _ROOM >= enough:
                break
            epsilon, guess = sooner, more
        if not 0 < guess * _ROOM < enough:
            return None
        return epsilon, guess, min(0.8 * _excess(enough, _ROUGHLY * guess), 0.5)

    def points(self, epsilons: Sequence[float], tolerance: float = 0.01) -> list[Proof]:
        """A proof at each epsilon, which rise, from one composition: it is planned at the last of them, where delta is
        least. One that is planned at the first serves those near it better.
        """
        exact = [Fraction(epsilon) for epsilon in epsilons]
        best = [prove_within(self.steps, epsilon, ()) for epsilon in exact]
        open_ = [place for place, proof in enumerate(best) if proof.delta > 0]
        for anchor, asked in ((open_[-1:], open_), (open_[:1], open_[: len(open_) // _NEAR])):
            plan = self._plan_at(epsilons[anchor[0]], tolerance) if asked else None
            if plan is not None:
                found = prove_curve(self.steps, [exact[place] for place in asked], plan)
                for place, proof in zip(asked, found, strict=True):
                    best[place] = min(best[place], proof, key=lambda one: one.delta)
        return best

    def _plan_at(self, epsilon: float, tolerance: float) -> ProofPlan | None:
        """A plan for an epsilon and others near it; None where the bound is next to 1."""
        guess = self.estimate(epsilon)
        if not self.is_one_step and guess * (1.0 + tolerance) >= 1:
            return None
        return self.plan_for(epsilon, guess, tolerance, _AT_ONCE)

    def seconds(self, epsilon: float, tolerance: float = TOLERANCE, enough: Fraction | None = None) -> float:
        """About how long a proof takes. One training of bins is tried on its first grid of ratios."""
        if needs_no_plan(self.steps, Fraction(epsilon)) is not None:
            return LEAST_SECONDS
        if (rough := self._with_room(epsilon, enough)) is not None:
            return LEAST_SECONDS + seconds_of(self.steps, self.plan_for(*rough))
        guess = self.estimate(epsilon)
        wanted = _wanted(guess, tolerance, enough)
        plan = self.plan_for(epsilon, guess, self._aim(wanted))
        seconds = LEAST_SECONDS + seconds_of(self.steps, plan)
        if self.is_one_step and isinstance(self.steps[0].exact_law, ExactBins):
            start = time.thread_time()
            excess = _excess(prove(self.steps, Fraction(epsilon), plan).delta, guess)
            again = min(_ratio(excess, wanted), _FINEST) if excess > wanted else 0.0
            seconds += (time.thread_time() - start) * (1.0 + again)
        return seconds

    def _aim(self, wanted: float) -> float:
        """The tolerance of the first plan."""
        return min(wanted, 0.5) * (0.5 if self.is_one_step else _AIM)

    @property
    def is_one_step(self) -> bool:
        """Whether there is one step only, whose curve is known without a grid."""
        return len(self.steps) == 1 and self.steps[0].count == 1

    def plan_for(self, epsilon: float, guess: float, tolerance: float, finer: float = 1.0) -> ProofPlan:
        """The plan for an epsilon where delta is about ``guess``; ``finer`` is by how much the grid of ratios of one
        training of bins is finer than the first.
        """
        key = (epsilon, guess, tolerance, finer)
        if key not in self._plans:
            made = self._one_step_plan if self.is_one_step else self._composed_plan
            self._plans[key] = made(*key)
        return self._plans[key]

    def _one_step_plan(self, epsilon: float, guess: float, tolerance: float, finer: float) -> ProofPlan:
        """The plan for the curve of one step. The excess of bins goes with the square of the spacing of ratios."""
        law = self.steps[0].exact_law
        spacing = Fraction(1)
        if isinstance(law, ExactBins):
            spacing = spacing_of_ratios(law.bins, epsilon if law.direction is Direction.REMOVE else -epsilon, finer)
        bits = 80 + max(0, math.ceil(-math.log2(guess))) if guess > 0 else 1200  # enough for a number of that size

        def inside(steps: tuple[Step, ...], at: float, least: float) -> ProofPlan:
            return StrictCurve(steps).plan_for(at, least, tolerance, finer)

        nested = (alone(law, epsilon, guess, tolerance, finer, inside),) if isinstance(law, NestedLaw) else ()
        plan = replace(ProofPlan.of_one_step(bits, spacing), nested=nested)
        return replace(plan, selections=self._selections(guess, tolerance, composed=False))

    def _composed_plan(self, epsilon: float, guess: float, tolerance: float, finer: float) -> ProofPlan:
        """Where all but a small part of delta is infinite loss, or delta is below all floats, the plan of a smaller
        epsilon, where that part is small enough: a bound does not rise from it.
        """
        infinite = max(self._infinite, self.fft.infinite_mass)  # a selection on outcomes has more than alone
        small = max(tolerance / 10 * infinite, _NEXT_TO_NOTHING)
        if guess < infinite + small < 1:
            with contextlib.suppress(AccuracyError):  # floats may not tell the two apart
                epsilon = min(epsilon, epsilon_of(self.fft, infinite + small).value)
            guess, tolerance = small, 0.5
        slope = self._slopes.get(epsilon, math.inf) / guess
        view = replace(outlook(self.steps, epsilon), log_delta=math.log(guess), slope=slope)
        plan = choose(view, tolerance)
        while plan.places > _MOST_PLACES and tolerance < 1:
            tolerance *= 4
            plan = choose(view, tolerance)
        plan = replace(plan, nested=plans_inside(self.steps, view, plan, tolerance))
        return replace(plan, selections=self._selections(guess, tolerance / 4, composed=True))

    def _selections(self, guess: float, tolerance: float, *, composed: bool) -> tuple[SelectionPlan, ...]:
        """Which points of both directions of one run the selections among the steps follow from, up to a delta that is
        next to nothing; delta of the selection is about ``guess``.
        """
        found = []
        for law in (step.exact_law for step in self.steps):
            if isinstance(law, Selection):
                least = guess * _BEYOND / float(law.rule.factor)
                ahead, back = (_curves(steps, least, tolerance) for steps in (law.steps, law.reverse))
                found.append(SelectionPlan(fineness_of(law), ahead, back, outcomes_at(law) if composed else ()))
        return tuple(found)

    def epsilon(self, delta: float, tolerance: float = TOLERANCE) -> float:
        """A float, little above the least, at which delta is proved to be at most ``delta``, or infinity."""
        target = Fraction(delta)
        if delta >= 1 or not self.steps:
            return 0.0
        if infinite_delta(self.steps) > target:
            return math.inf
        if delta == 0:  # the sum of the greatest losses, rounded up until it is proved to be one
            found = self.fft.greatest
            for _ in range(60):
                if found == math.inf or stays_within(self.steps, Fraction(found)):
                    return max(found, 0.0)
                found = math.nextafter(found, math.inf)
            return math.inf
        guess = self.estimated_epsilon(delta)
        if guess == math.inf or (guess == 0 and self.bound(0.0, tolerance, target) <= target):
            return guess
        return self._search(guess or 1e-9, target, tolerance)

    def _search(self, guess: float, target: Fraction, tolerance: float) -> float:
        """About the least float from ``guess`` on whose bound is at most the target."""
        fineness = (tolerance / 2, _AT_ONCE) if self.is_one_step else (tolerance,)
        plan = self.plan_for(guess, self.fft.delta(guess).value, *fineness)
        bound, _ = bounds_by(self.steps, plan, *(Fraction(guess) * Fraction(part, 100) for part in (99, 101)))
        low, step = guess * (1 - 1e-9), 1e-3 * tolerance * max(guess, 1e-3)
        high = guess
        while bound(Fraction(high)) > target:
            low, high, step = high, high + step, 2 * step
            if high > 2 * guess + 1:
                return math.inf
        for _ in range(12):
            middle = (low + high) / 2
            low, high = (low, middle) if bound(Fraction(middle)) <= target else (middle, high)
        return high


# --- laws made of compositions --------------------------------------------------------------------


def _curves(steps: tuple[Step, ...], least: float, tolerance: float) -> tuple[CurvePlan, ...]:
    """The points of one direction: each composition serves the points about the one that it is planned for."""
    curve, points = StrictCurve(steps), points_of(steps)
    number = next((k for k, (_, delta) in enumerate(points, start=1) if delta <= least), len(points))
    parts = -(-number // _TOGETHER)
    found = []
    for part in range(parts):
        epsilons = tuple(epsilon for epsilon, _ in points[number * part // parts : number * (part + 1) // parts])
        plan = curve._plan_at(float(epsilons[len(epsilons) // 2]), min(max(tolerance, TOLERANCE), _LOOSEST))
        if plan is not None:
            found.append(CurvePlan(epsilons, plan))
    return tuple(found)


def _ratio(excess: float, wanted: float) -> float:
    """How many times finer a grid has to be, on which the excess goes with the square of the spacing."""
    return max(1.5, math.sqrt(1.02 * excess / wanted))


def _wanted(guess: float, tolerance: float, enough: Fraction | None) -> float:
    """The share of delta by which the bound may exceed it: as much as proves what is wanted, where that can be."""
    gap = 0.0 if enough is None else 0.8 * _excess(enough, guess)
    return max(gap, LEAST_TOLERANCE) if gap > 0 else tolerance


def _excess(number: Fraction, guess: float) -> float:
    """By how much of the guess the number exceeds it, at most 1e9; 0 where the guess is 0."""
    return float(min(number / Fraction(guess), Fraction(10**9))) - 1 if guess > 0 else 0.0
