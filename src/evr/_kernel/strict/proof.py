"""Proofs: a plan goes in as data, a proof comes out of one function. Anybody can follow the plan again
(docs/guarantees_strict.md, Section S5).
"""

import math
from collections.abc import Callable, Generator, Iterable, Sequence
from dataclasses import InitVar, dataclass, field, replace
from fractions import Fraction
from functools import lru_cache, partial

from evr._kernel.pairs.exact import ExactBins, ExactOutcomes, exact_sampled, exact_without_replacement
from evr._kernel.pairs.nested import NestedLaw, OneOf, SampledSteps
from evr._kernel.pairs.selection import Selection
from evr._kernel.pairs.steps import Step
from evr._kernel.strict.alone import infinite_delta, one_step_delta, sampled_delta, stays_within
from evr._kernel.strict.last_sum import halves
from evr._kernel.strict.nested import GridOutcomes, mean_of
from evr._kernel.strict.plan import CurvePlan, NestedPlan, ProofPlan, SelectionPlan
from evr._kernel.strict.ratios import outcomes_of
from evr._kernel.strict.tradeoff import Selected, outcomes_above
from evr.types import Direction

_SEAL = object()

Plans = Generator[ProofPlan, Fraction, None]
"""Plans, finer and finer. Each is answered with the bound that follows from it."""
Composed = Callable[[Sequence[Step], ProofPlan], ExactOutcomes]
"""From the steps of a composition, and a plan with grids, to outcomes that stand for it."""


@dataclass(frozen=True)
class Proof:
    """That delta of ``steps`` at ``epsilon`` is at most ``delta``, in one direction.

    Only ``prove`` and ``prove_within`` make one: a proof in hand was computed by this module. It has no plan
    where none is needed: no loss exceeds epsilon, or all losses are infinite, or the bound is 1.
    """

    steps: tuple[Step, ...] = field(repr=False)
    epsilon: Fraction
    delta: Fraction
    plan: ProofPlan | None = None  # what the bound follows from
    digest: str | None = None  # SHA-256 of the plan and of the integers that it leads to, where it has grids
    seal: InitVar[object] = None

    def __post_init__(self, seal: object) -> None:
        if seal is not _SEAL:
            raise TypeError("a Proof comes out of evr._kernel.strict.prove: give it a plan")

    def is_about(self, steps: Sequence[Step], epsilon: Fraction) -> bool:
        return self.steps == tuple(steps) and self.epsilon == epsilon

    @property
    def shown(self) -> float:
        """The bound as a float, rounded up."""
        return rounded_up(self.delta)

    def to_json(self) -> dict[str, object]:
        """The words of the proof, for a certificate."""
        plan = None if self.plan is None else self.plan.to_json()
        return {"bound": str(self.delta), "plan": plan, "digest": self.digest}


def needs_no_plan(steps: Sequence[Step], epsilon: Fraction) -> Proof | None:
    """The proof without a plan, where there is one: no loss exceeds epsilon, or all losses are infinite."""
    about = (tuple(steps), epsilon)
    if stays_within(steps, epsilon):
        return Proof(*about, Fraction(0), seal=_SEAL)
    return Proof(*about, Fraction(1), seal=_SEAL) if infinite_delta(steps) == 1 else None


def prove(steps: Sequence[Step], epsilon: Fraction, plan: ProofPlan) -> Proof:
    """The bound that follows from a plan at an epsilon.

    Preconditions: ``steps`` are exact laws of pairs that dominate what ran, in one direction. Then
    delta(epsilon) is at most the proof's ``delta``, whatever the plan: docs/guarantees_strict.md.
    """
    return prove_curve(steps, [epsilon], plan)[0]


def prove_curve(steps: Sequence[Step], epsilons: Sequence[Fraction], plan: ProofPlan) -> list[Proof]:
    """What ``prove`` gives at each epsilon, from one composition."""
    bound, digest = bounds_by(steps, plan, min(epsilons), max(epsilons))
    return [Proof(tuple(steps), epsilon, bound(epsilon), plan, digest, seal=_SEAL) for epsilon in epsilons]


def bounds_by(
    steps: Sequence[Step], plan: ProofPlan, low: Fraction, high: Fraction
) -> tuple[Callable[[Fraction], Fraction], str | None]:
    """The bound that follows from a plan at each epsilon from ``low`` to ``high``, and the digest of its
    integers, where it has grids. Preconditions are those of ``prove``.
    """
    if plan.grids:
        found = halves(with_outcomes(steps, plan), plan)
        return found.delta, found.digest(plan)
    law = plan.of_law(steps)
    _check_nested(steps, plan)
    if isinstance(law, Selection):
        return selection_bounds(law, plan.selections[0]).delta, None
    if isinstance(law, SampledSteps):
        inside, digest = bounds_by(law.steps, _plans_of(law, plan.nested[0])[0], low, high)
        return partial(sampled_delta, law, inside, bits=plan.bits), digest
    if isinstance(law, OneOf):
        law = outcomes_from(law, plan.nested[0], plan.bits)
    if isinstance(law, ExactBins):
        law = outcomes_of(law, high if law.direction is Direction.REMOVE else -low, plan.spacing, plan.bits)
    return partial(one_step_delta, law, bits=plan.bits), None


def selection_bounds(law: Selection, plan: SelectionPlan, *, reverse: bool = False) -> Selected:
    """The bounds on a selection that follow from a plan, in its direction or in the other: whatever the plan,
    they hold (docs/guarantees_selection.md). Preconditions are those of ``prove``, for one run.
    """
    ahead, back = _points(law.steps, plan.ahead), _points(law.reverse, plan.back)
    return Selected.of(law.rule, *((back, ahead) if reverse else (ahead, back)), plan.fineness)


def _check_nested(steps: Sequence[Step], plan: ProofPlan) -> None:
    held = (Selection, plan.selections, "selections"), (NestedLaw, plan.nested, "nested laws")
    for family, plans, what in held:
        number = sum(isinstance(step.exact_law, family) for step in steps)
        if len(plans) != number:
            raise ValueError(f"the plan has {len(plans)} {what}, and the steps have {number}")


def _covered(steps: Sequence[Step], plan: ProofPlan) -> ExactOutcomes:
    """A composition on the grids of its plan, as outcomes that dominate it."""
    two = halves(steps, plan)
    whole = (two.first * two.second).rounded_up(two.bits)
    return GridOutcomes(whole, two.infinite, two.offset, two.spacing, two.bits)


def with_outcomes(steps: Sequence[Step], plan: ProofPlan, composed: Composed = _covered) -> tuple[Step, ...]:
    """The steps, with selections and laws of compositions as laws on outcomes that dominate them; without
    selections and groups, below them if ``composed`` makes outcomes that its composition dominates.
    """
    _check_nested(steps, plan)
    selections, nested, found = iter(plan.selections), iter(plan.nested), []
    for step in steps:
        if isinstance(law := step.exact_law, Selection):
            how = next(selections)
            sides = (selection_bounds(law, how), selection_bounds(law, how, reverse=True))
            ahead, back = ([(epsilon, side.delta(epsilon)) for epsilon in how.at] for side in sides)
            step = replace(step, law=outcomes_above(ahead, back))
        elif isinstance(law, NestedLaw):
            step = replace(step, law=outcomes_from(law, next(nested), plan.bits, composed))
        found.append(step)
    return tuple(found)


def outcomes_from(
    law: NestedLaw, plan: NestedPlan, bits: int, composed: Composed = _covered
) -> ExactOutcomes:
    """A law on finitely many outcomes that dominates one of compositions, whatever the plan (G1.5, G2.4)."""
    plans = zip(law.compositions, _plans_of(law, plan), strict=True)
    inside = [_outcomes(steps, one, composed) for steps, one in plans]
    if isinstance(law, OneOf):
        laws = [(own, number) for own, (_, number) in zip(inside, law.alike, strict=True)]
        return mean_of(laws, law.direction, plan.top, plan.spacing, bits)
    assert isinstance(law, SampledSteps)
    (base,), way = inside, law.direction
    found = exact_sampled(base, law.share, way) if way else exact_without_replacement(base, law.share)
    assert isinstance(found, ExactOutcomes)
    return found


def _plans_of(law: NestedLaw, plan: NestedPlan) -> tuple[ProofPlan, ...]:
    if len(plan.plans) != len(law.compositions):
        raise ValueError(f"the plan has {len(plan.plans)} compositions, and the law {len(law.compositions)}")
    return plan.plans


def _outcomes(steps: Sequence[Step], plan: ProofPlan, composed: Composed) -> ExactOutcomes:
    """A composition as outcomes, by its plan; without grids, its one step, which has outcomes."""
    known = with_outcomes(steps, plan, composed)
    if plan.grids:
        return composed(known, plan)
    if not isinstance(law := plan.of_law(known), ExactOutcomes):
        raise ValueError(f"a plan without grids serves a step of outcomes, and {type(law).__name__} has none")
    return law


@lru_cache(maxsize=16)
def _points(steps: tuple[Step, ...], curves: tuple[CurvePlan, ...]) -> tuple[tuple[Fraction, Fraction], ...]:
    """Epsilons with their deltas, each proved here."""
    found: dict[Fraction, Fraction] = {}
    for curve in curves:
        for proof in prove_curve(steps, curve.epsilons, curve.plan) if curve.epsilons else ():
            known = needs_no_plan(steps, proof.epsilon) or proof
            found[proof.epsilon] = min(known.delta, proof.delta, found.get(proof.epsilon, Fraction(1)))
    return tuple(found.items())


def prove_within(
    steps: Sequence[Step],
    epsilon: Fraction,
    plans: Plans | Iterable[ProofPlan],
    enough: Fraction | None = None,
) -> Proof:
    """The best proof of the plans, up to the first whose bound is at most ``enough``.

    A generator of plans is sent the bound of each before it is asked for the next. No plan is asked for where
    none is needed, and without a plan the bound is 1. Preconditions and statement are those of ``prove``.
    """
    if (known := needs_no_plan(steps, epsilon)) is not None:
        return known
    best = Proof(tuple(steps), epsilon, Fraction(1), seal=_SEAL)  # delta is a probability
    one_by_one, answer = iter(plans), None
    while enough is None or best.delta > enough:
        try:
            plan = one_by_one.send(answer) if isinstance(one_by_one, Generator) else next(one_by_one)
        except StopIteration:
            break
        proof = prove(steps, epsilon, plan)
        best, answer = min(best, proof, key=lambda one: one.delta), proof.delta
    return best


def rounded_up(number: Fraction) -> float:
    """The least float that is not below a number in [0, 1]; for showing it, after everything is decided."""
    found = number.numerator / number.denominator  # to nearest
    return found if Fraction(found) >= number else math.nextafter(found, math.inf)
