"""One attempt: both directions of a claim, one after the other, from plans that somebody else made, a search or a
certificate. What a plan is worth is computed from the plan.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Executor
from dataclasses import dataclass, replace
from fractions import Fraction

from evr import validate
from evr.bounds.strict import Plans, Proof, ProofPlan, prove_within
from evr.laws import Direction, Step
from evr.mechanisms import Composition
from evr.randomness import Stream, entropy_of, seed_of
from evr.sampling import DrawPlan
from evr.sampling.plan import CappedPlan
from evr.verification.concluding import joined, tested
from evr.verification.directions import Trial
from evr.verification.driver import ProgressHook, check_executor, working
from evr.verification.results import DirectionReport, Verification
from evr.verification.settings import Claim, Settings, threshold_of

PURPOSE = "verify"

Planner = Callable[[Trial], DrawPlan | None]
"""From one direction of an attempt to its plan; None where it needs no sample."""

StrictPlanner = Callable[[Direction, tuple[Step, ...]], Plans | Iterable[ProofPlan]]
"""From the exact laws of one direction to plans, finer and finer."""


@dataclass(frozen=True)
class Attempt:
    """How an attempt is carried out. The answer does not depend on who works."""

    number: int | None = None  # at its release; None for the paper's single attempt, which the fixed verifier knows
    seed: int | None = None  # the entropy, or None for fresh one
    direction: str | None = None  # one to be tested alone: then there is no guarantee
    executor: Executor | None = None
    workers: int | None = None
    progress: ProgressHook | None = None
    alive: Callable[[], None] | None = None  # called every few seconds while samples are drawn

    def __post_init__(self) -> None:
        check_executor(self.executor)
        object.__setattr__(self, "seed", seed_of(self.seed))
        if self.direction is not None:
            validate.one_of(("remove", "add"), direction=self.direction)
        if self.workers is not None:
            validate.positive_integer(workers=self.workers)
        if self.number is not None:
            validate.positive_integer(attempt=self.number)

    def run(
        self,
        composition: Composition,
        claim: Claim,
        settings: Settings,
        planner: Planner = lambda trial: None,
        strictly: StrictPlanner = lambda direction, steps: (),
        proofs: Mapping[Direction, Proof] | None = None,
    ) -> Verification:
        """Decide the claim by the method that the settings name: by samples of the first planner's plans, by proofs of
        the second one's, or by both. ``proofs`` are those in hand.
        """
        if settings.method not in ("strict", "both"):
            return self._drawn(composition, claim, settings, planner)
        laws, in_hand = composition.exact_directions(self.direction), proofs or {}

        def decide(one: Direction) -> DirectionReport:
            return decided(one, laws[one], claim, strictly, in_hand.get(one))

        given = (self.direction, entropy_of(self.seed), self.seed)
        found = tested(claim, laws, decide, "strict", self.number, 0.0, *given)
        if settings.method == "strict":
            return found

        def uncomposed(trial: Trial) -> DrawPlan | None:
            plan = planner(trial)
            if plan is not None and isinstance(plan.proposal, CappedPlan) and plan.proposal.places:
                raise ValueError("a plan composes steps: under method 'both' the two proofs share no composed law")
            return plan

        return joined(found, self._drawn(composition, claim, replace(settings, method="sequential"), uncomposed))

    def _drawn(self, composition: Composition, claim: Claim, settings: Settings, planner: Planner) -> Verification:
        """By samples of the planner's plans."""
        composition.check_drawn()
        entropy = entropy_of(self.seed)
        number = 1 if self.number is None and settings.method == "sequential" else self.number
        budget = claim.log_budget(number)
        progress = self.progress if callable(self.progress) else None

        def decide(one: Direction) -> DirectionReport:
            stream = Stream(entropy, PURPOSE, number or 1, one.value)
            trial = Trial(one.value, composition.simplified(one), claim, settings, number, budget, stream)
            found = trial.prepared(planner(trial))
            if isinstance(found, DirectionReport):
                return found
            with working(self.executor, self.workers) as pool:
                return found.play(pool, progress=progress, alive=self.alive)

        directions, rate = tested_directions(composition, self.direction), math.exp(budget)
        return tested(claim, directions, decide, settings.method, number, rate, self.direction, entropy, self.seed)


def decided(
    direction: Direction, steps: tuple[Step, ...], claim: Claim, planner: StrictPlanner, in_hand: Proof | None = None
) -> DirectionReport:
    """Accepted iff a proof shows the claim, in rational numbers (docs/guarantees_strict.md, S7): the one in hand, if it
    is about these steps and this epsilon and shows enough; else one made from the plans.
    """
    enough, at, proof = threshold_of(claim), Fraction(claim.epsilon), in_hand
    if proof is None or proof.delta > enough or not proof.is_about(steps, at):
        proof = prove_within(steps, at, planner(direction, steps), enough)
    accepted, bound = proof.delta <= enough, proof.shown
    rest = "" if accepted else ", which is above the claim: claim more"
    return DirectionReport(
        direction=direction.value,
        accepted=accepted,
        reason=f"{'proved: ' if accepted else ''}delta is at most {bound!r}{rest}",
        estimate=bound,
        standard_error=0.0,
        threshold=enough.numerator / enough.denominator,
        bound=bound,
        strict=proof,
    )


def tested_directions(composition: Composition, direction: str | None) -> list[Direction]:
    """The directions to test: the one asked for, or both, or one where they are the same."""
    if direction is not None:
        return [Direction(direction)]
    return [Direction.REMOVE] if composition.is_symmetric else [Direction.REMOVE, Direction.ADD]
