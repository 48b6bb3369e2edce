"""One attempt: both directions of a claim, one after the other, from plans that somebody else made, a search or a
certificate. What a plan is worth is computed from the plan.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from concurrent.futures import Executor
from dataclasses import dataclass, field, replace
from typing import Any

from evr import validate
from evr.bounds.strict import Proof
from evr.laws import Direction
from evr.mechanisms import Composition
from evr.randomness import Stream, entropy_of, seed_of
from evr.sampling import DrawPlan
from evr.sampling.plan import CappedPlan
from evr.verification.claims import Claim
from evr.verification.concluding import Asked, tested
from evr.verification.directions import Trial
from evr.verification.driver import Checkpoint, ProgressHook
from evr.verification.executors import check_executor
from evr.verification.results import DirectionReport, Verification
from evr.verification.settings import Settings
from evr.verification.strict import StrictPlanner, joined, verify_strictly

PURPOSE = "verify"

Planner = Callable[[Trial], DrawPlan | None]
"""From one direction of an attempt to its plan; None where it needs no sample."""


@dataclass(frozen=True)
class Attempt:
    """How an attempt is carried out.

    Attributes
    ----------
    number
        Of the attempt at its release; None for the paper's single attempt, which the fixed verifier knows.
    seed
        The entropy, or None for fresh one.
    direction
        One to be tested alone: then there is no guarantee.
    executor, workers
        Who works; the answer does not depend on it.
    progress, checkpoint, resume
        What is called along the way (``proving.prove`` shows a line where there is no ``progress``), and the snapshots
        by direction to continue from. A snapshot holds the wealth of the test and is believed: only ``evr.gate`` gives
        one, from a ledger that seals its rows.
    """

    number: int | None = None
    seed: int | None = None
    direction: str | None = None
    executor: Executor | None = None
    workers: int | None = None
    progress: ProgressHook | None = None
    checkpoint: Checkpoint | None = None
    resume: Mapping[str, dict[str, Any]] = field(default_factory=dict)

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

        def alone(trial: Trial) -> DrawPlan | None:
            plan = planner(trial)
            if plan is not None and isinstance(plan.proposal, CappedPlan) and plan.proposal.places:
                raise ValueError(
                    "a plan composes steps before they are drawn: under method 'both' the sampled "
                    "proof may not, for it shares no composed law with the strict one"
                )
            return plan

        if settings.method not in ("strict", "both"):
            return self._drawn(composition, claim, settings, planner)
        found = verify_strictly(
            composition, claim, strictly, attempt=self.number, direction=self.direction, seed=self.seed, proofs=proofs
        )
        if settings.method == "strict":
            return found
        sampled = self._drawn(composition, claim, replace(settings, method="sequential"), alone)
        return joined(claim, found, sampled)

    def _drawn(self, composition: Composition, claim: Claim, settings: Settings, planner: Planner) -> Verification:
        """Test one direction after the other, until one fails."""
        entropy = entropy_of(self.seed)
        number = 1 if self.number is None and settings.method == "sequential" else self.number
        chosen = tested_directions(composition, self.direction)
        budget = claim.log_budget(number)

        def decide(one: Direction) -> DirectionReport:
            stream = Stream(entropy, PURPOSE, number or 1, one.value)
            steps = composition.simplified(one)
            trial = Trial(one.value, steps, claim, settings, number, budget, stream)
            told = self.progress if callable(self.progress) else None
            return trial.run(
                planner(trial),
                executor=self.executor,
                workers=self.workers,
                progress=told,
                checkpoint=self.checkpoint,
                resume=self.resume.get(one.value),
            )

        rate = math.exp(budget)
        asked = Asked(settings.method, number, rate, self.direction, entropy, self.seed)
        return tested(claim, asked, chosen, decide)


def tested_directions(composition: Composition, direction: str | None) -> list[Direction]:
    """The directions to test: the one asked for, or both, or one where they are the same."""
    if direction is not None:
        return [Direction(direction)]
    return [Direction.REMOVE] if composition.is_symmetric else [Direction.REMOVE, Direction.ADD]
