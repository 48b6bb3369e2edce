"""One attempt at a claim: directions in turn, each decided without a sample, by a proof, or by the driver.
Plans are made elsewhere, by a search or in a certificate: what they are worth is computed here.
"""

import math
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Executor
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np

from evr._basics import validate
from evr._basics.randomness import Stream, entropy_of, seed_of
from evr._kernel.events import Composition
from evr._kernel.pairs import Direction, Step, finite_losses, greatest_loss, infinite_mass, is_cut, loss_range
from evr._kernel.pairs.law import UNIT
from evr._kernel.sampled.deciding import Ending, sequential_test
from evr._kernel.sampled.driver import Driver, Lazily, OnBlock
from evr._kernel.sampled.fixed import Test, plan_fixed
from evr._kernel.sampled.line import TiltedProposal, on_outcomes
from evr._kernel.sampled.moments import Rounding, greatest_error
from evr._kernel.sampled.plan import CappedPlan, DrawPlan
from evr._kernel.sampled.proposals import Drawing, built, drawing_of
from evr._kernel.sampled.summary import BACKENDS, Work
from evr._kernel.strict import Plans, Proof, ProofPlan, prove_within
from evr._kernel.verdict.concluding import Asked, conclude, join
from evr._kernel.verdict.results import DirectionReport, Verification
from evr._kernel.verdict.settings import Claim, Settings, threshold_of

PURPOSE = "verify"
LEFT_OUT = 1e-300  # what losses that no float reaches contribute to delta at the most, in all steps

Planner = Callable[["Trial"], DrawPlan | None]
"""Makes the plan of one direction of an attempt; None where it needs no sample."""

StrictPlanner = Callable[[Direction, tuple[Step, ...]], Plans | Iterable[ProofPlan]]
"""Makes plans for the exact laws of one direction, finer and finer."""


@dataclass(frozen=True)
class Attempt:
    """How an attempt is carried out. The answer does not depend on who works."""

    # at its release; None for the paper's single attempt, which the fixed verifier knows
    number: int | None = None
    seed: int | None = None  # the entropy, or None for fresh one
    direction: str | None = None  # one to be tested alone: then there is no guarantee
    executor: Executor | None = None  # who draws; None for this thread
    on_block: OnBlock | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "seed", seed_of(self.seed))
        if self.direction is not None:
            validate.one_of(Direction, direction=self.direction)
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
        """Decide the claim by the method that the settings name: by samples of the first planner's plans, by
        proofs of the second one's, or by both. ``proofs`` are those in hand.
        """
        if settings.method not in ("strict", "both"):
            return self._drawn(composition, claim, settings, planner)
        laws, in_hand = composition.exact_directions(self.direction), proofs or {}

        def decide(one: Direction) -> DirectionReport:
            return decide_strictly(one, laws[one], claim, strictly, in_hand.get(one))

        asked = Asked(claim, "strict", self.number, 0.0, self.direction, entropy_of(self.seed), self.seed)
        found = conclude(asked, laws, decide)
        if settings.method == "strict":
            return found

        def uncomposed(trial: Trial) -> DrawPlan | None:
            plan = planner(trial)
            if plan is not None and isinstance(plan.proposal, CappedPlan) and plan.proposal.places:
                why = "under method 'both' the two proofs share no composed law"
                raise ValueError(f"a plan composes steps: {why}")
            return plan

        alone = replace(settings, method="sequential")
        return join(found, self._drawn(composition, claim, alone, uncomposed))

    def _drawn(
        self, composition: Composition, claim: Claim, settings: Settings, planner: Planner
    ) -> Verification:
        """Decide the claim by samples of the planner's plans."""
        composition.check_drawn()
        entropy = entropy_of(self.seed)
        number = 1 if self.number is None and settings.method == "sequential" else self.number
        budget = claim.log_budget(number)

        def decide(one: Direction) -> DirectionReport:
            stream = Stream(entropy, PURPOSE, number or 1, one.value)
            trial = Trial(one.value, composition.simplified(one), claim, settings, number, budget, stream)
            found = trial.prepared(planner(trial))
            if isinstance(found, DirectionReport):
                return found
            return found.play(self.executor or Lazily(), self.on_block)

        asked = Asked(claim, settings.method, number, math.exp(budget), self.direction, entropy, self.seed)
        return conclude(asked, composition.directions(self.direction), decide)


def decide_strictly(
    direction: Direction,
    steps: tuple[Step, ...],
    claim: Claim,
    planner: StrictPlanner,
    in_hand: Proof | None = None,
) -> DirectionReport:
    """Accepted iff a proof shows the claim, in rational numbers (docs/guarantees_strict.md, S7): the one in
    hand, if it is about these steps and this epsilon and shows enough; else one made from the plans.
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


@dataclass(frozen=True)
class Trial:
    """One direction of one attempt: what is claimed of which steps, and what may be spent on it."""

    direction: str
    steps: tuple[Step, ...]  # of that direction, simplified
    claim: Claim
    settings: Settings
    attempt: int | None  # its number; None for the paper's single attempt
    log_budget: float  # ``log`` of the false-positive probability that it may have
    stream: Stream  # the random numbers

    def prepared(self, plan: DrawPlan | None) -> DirectionReport | Driver:
        """The report of a claim that needs no sample, and no plan; else the driver of its test."""
        claim = self.claim
        if found := shortcut(self.steps, claim):
            return self._decided(found, None)
        if plan is None:
            raise ValueError(f"direction {self.direction!r} needs samples, and has no plan")
        validate.one_of(tuple(BACKENDS), device=plan.device)
        drawing = drawing_of(built(plan.proposal, self.steps), claim.epsilon)
        proposal, rounding = drawing.proposal, drawing.rounding
        composed = rounding if proposal.composed else None
        if proposal.steps != self.steps and (found := shortcut(proposal.steps, claim, composed)):
            return self._decided(found, plan)
        log_bound = drawing.log_greatest + rounding.weight
        if not log_bound > -math.inf:
            why = "no sample of this plan is above 0: it is out of the range of floats"
            raise ValueError(f"direction {self.direction!r}: {why}")
        if log_bound <= math.log(claim.threshold):
            found = Ending(True, "a proved bound on delta is below the claim")
            return self._decided(found, plan, bound=math.exp(log_bound))
        check_rounding(drawing, claim, self.steps)
        return self.of_drawing(drawing, plan)

    def _decided(self, found: Ending, plan: DrawPlan | None, bound: float | None = None) -> DirectionReport:
        trivial = self.claim.delta if found.accepted else 1.0
        return DirectionReport(
            direction=self.direction,
            accepted=found.accepted,
            reason=found.reason,
            threshold=self.claim.threshold,
            bound=trivial if bound is None else bound,
            plan=None if plan is None else replace(plan, clip=None, variance=1.0, block_size=1),
        )

    def of_drawing(self, drawing: Drawing, plan: DrawPlan) -> Driver:
        """The test of what is drawn. A sample more than ``10 weight`` above its bound stops the run."""
        claim, most, weight = self.claim, self.settings.max_samples, drawing.rounding.weight
        if self.settings.method == "fixed":
            log_second_moment = drawing.log_moment(2.0) + 2.0 * weight
            fixed = plan_fixed(claim, log_second_moment, attempt=self.attempt, rounding=weight)
            if most is not None and fixed.samples > most:
                needed = f"{fixed.samples:.6g} samples that the false-positive bound needs"
                by = f"nu = {fixed.second_moment:.4g}, Delta = {fixed.offset:.4g}"
                what = f"max_samples={most!r} is below the {needed} in direction {self.direction!r} ({by})"
                raise ValueError(f"{what}: raise it, lower tau, or use method='sequential'")
            test: Test = fixed
            unit, most = fixed.threshold, fixed.samples
        else:
            test, unit = sequential_test(drawing, claim, self.log_budget, plan), claim.threshold
        log_greatest = drawing.log_greatest - math.log(unit) + 10.0 * weight
        work = Work(
            proposal=drawing.proposal,
            stream=self.stream,
            block_size=plan.block_size,
            epsilon=drawing.epsilon_for_samples,
            log_unit=math.log(unit),
            greatest=math.exp(min(log_greatest, 700.0)),
            clip=test.clip,
            mean=test.mean,
            backend=BACKENDS[plan.device],
        )
        return Driver(self.direction, plan, drawing, work, test, unit, most)


def shortcut(steps: tuple[Step, ...], claim: Claim, rounding: Rounding | None = None) -> Ending | None:
    """Whether the claim is accepted, and why, where no sample is needed: delta is known, or the claim is
    trivial or hopeless. What floats cannot tell is refused by a ``ValueError``. ``rounding`` is that of the
    single steps which composed ones stand for (docs/guarantees.md, Sections 4.4 and 6.10).
    """
    if claim.delta >= 1.0:
        return Ending(True, "every delta is at most 1")
    if not steps:
        return Ending(True, "nothing costs privacy")
    # greatest finite losses; chance of infinite ones
    finite, infinite = finite_losses(steps), infinite_mass(steps)
    greatest = math.fsum(count * loss for _, count, loss in finite)
    doubt = math.fsum(count * (greatest_error(law) + 4.0 * UNIT * abs(loss)) for law, count, loss in finite)
    endless = any(is_cut(step.floats) or loss_range(step.floats)[1] == math.inf for step in steps)
    at = claim.epsilon if rounding is None else rounding.bounded(claim.epsilon)
    # what finite losses contribute to delta at the most: by how much their rounded sum may exceed epsilon
    excess = max(LEFT_OUT if endless else 0.0, greatest + doubt - at)
    if not endless and excess == 0.0:
        return Ending(True, "no privacy loss exceeds epsilon")
    if claim.delta == 0.0 and (endless or greatest > claim.epsilon):
        return Ending(False, "delta is positive: no sample could show it to be 0")
    if infinite >= 1.0:
        return Ending(False, "a mechanism without privacy")
    raised = infinite * (1.0 + (rounding or Rounding.of(steps, claim.epsilon)).weight)
    if raised > claim.threshold:
        return Ending(False, f"infinite losses alone have a probability of {infinite:.6g}")
    if greatest > claim.epsilon:
        return None
    if raised + excess > claim.threshold:
        what = f"epsilon={claim.epsilon!r}: to within rounding, the greatest loss is epsilon"
        remedy = f"claim epsilon={claim.epsilon + 2 * doubt!r} or more"
        why = "floats cannot tell whether a loss exceeds it"
        raise ValueError(f"{what}, and {why}: {remedy}, or use method='strict', which compares exactly")
    rest = f", and infinite ones have a probability of {infinite:.6g}" if raised else ""
    return Ending(True, f"no finite loss exceeds epsilon{rest}")


def check_rounding(drawing: Drawing, claim: Claim, steps: tuple[Step, ...]) -> None:
    """Refuse where floats are too coarse for the slack, so that a true claim would be rejected."""
    proposal, rounding = drawing.proposal, drawing.rounding
    sensitivity = 1.0 + rounding.order if rounding.order else 1.0 / claim.threshold
    # all losses may exceed it by little
    beyond = min(greatest_loss(steps), greatest_loss(proposal.steps)) - claim.epsilon
    sensitivity = max(sensitivity, 1.0 / beyond if beyond > 0.0 else 0.0)
    if isinstance(proposal, TiltedProposal) and proposal.composed:
        # the law of all steps is known: delta falls with epsilon at the rate P(loss > epsilon)
        whole = on_outcomes(proposal.steps[0])
        above = whole.losses > drawing.epsilon_for_bounds
        masses = np.exp(np.array(whole.log_p)[above])
        delta = float(masses @ -np.expm1(drawing.epsilon_for_bounds - whole.losses[above]))
        sensitivity = max(sensitivity, float(masses.sum()) / max(claim.threshold, delta))
    slack = 1.0 - claim.tau
    if not min(2.0 * rounding.loss * sensitivity, 1.0) < slack / 2.0:
        what = f"floats know total losses of this composition to within {rounding.loss:.2g} only"
        why = f"delta may change by more than the slack 1 - tau = {slack:.2g} within that"
        remedy = "lower tau, or use method='strict'"
        raise ValueError(f"epsilon={claim.epsilon!r}: {what}, and {why}: {remedy}")
    if not rounding.weight < slack:
        count = sum(step.count for step in proposal.steps)
        what = f"rounding over {count} steps may be as large as {rounding.weight:.2g} of delta"
        remedy = "lower tau, or account for fewer steps"
        raise ValueError(f"{what}, and tau = {claim.tau!r} leaves less than that: {remedy}")
