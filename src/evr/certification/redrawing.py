"""The part of replay that a guarantee rests on: a certificate's plans, drawn and tested again.

It imports neither search nor estimates: what a plan is worth is computed from the plan.
"""

from __future__ import annotations

from dataclasses import replace

from evr.bounds.strict import ProofPlan, StatedProof
from evr.certification.certificate import Certificate
from evr.laws import Direction, Step
from evr.mechanisms import Composition
from evr.sampling import DrawPlan
from evr.verification import Claim, Verification
from evr.verification.attempts import Attempt
from evr.verification.directions import Trial
from evr.verification.settings import Settings
from evr.verification.strict import joined, verify_strictly


def redrawn(
    certificate: Certificate,
    composition: Composition,
    claim: Claim,
    settings: Settings,
    how: Attempt,
) -> Verification:
    """The verification that the certificate's plans give: of samples with its entropy, of integers
    anywhere.
    """
    if settings.method == "strict":
        return _proved_again(certificate, composition, claim, how)
    plans: dict[str, DrawPlan | None] = {
        name: None if section.plan is None else DrawPlan.from_json(section.plan)
        for name, section in certificate.verification.directions.items()
    }

    def planner(trial: Trial) -> DrawPlan | None:
        return plans.get(trial.direction)

    if settings.method == "both":
        if any(getattr(plan.proposal, "places", ()) for plan in plans.values() if plan):
            raise ValueError(
                "a plan composes steps before they are drawn: under method 'both' the sampled "
                "proof may not, for it shares no composed law with the strict one"
            )
        sampled = how.run(composition, claim, replace(settings, method="sequential"), planner)
        return joined(claim, _proved_again(certificate, composition, claim, how), sampled)
    return how.run(composition, claim, settings, planner)


def _proved_again(
    certificate: Certificate, composition: Composition, claim: Claim, how: Attempt
) -> Verification:
    """What follows from the plans of the certificate's proofs in exact arithmetic."""
    plans = {
        name: []
        if (stated := StatedProof.from_json(section.strict)).plan is None
        else [stated.plan]
        for name, section in certificate.verification.directions.items()
        if section.strict is not None
    }

    def planner(direction: Direction, steps: tuple[Step, ...]) -> list[ProofPlan]:
        if direction.value not in plans:
            raise ValueError(f"there is no proof for direction {direction.value!r}")
        return plans[direction.value]

    return verify_strictly(composition, claim, planner, attempt=how.number, seed=how.seed)
