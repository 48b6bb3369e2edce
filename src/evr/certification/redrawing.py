"""The part of replay that a guarantee rests on: a certificate's plans, drawn and tested again.

It imports neither search nor estimates: what a plan is worth is computed from the plan.
"""

from __future__ import annotations

from evr.certification.certificate import Certificate
from evr.mechanisms import Composition
from evr.sampling import Plan
from evr.verification import Claim, Verification
from evr.verification.attempts import Attempt
from evr.verification.directions import Trial
from evr.verification.settings import Settings


def redrawn(
    certificate: Certificate,
    composition: Composition,
    claim: Claim,
    settings: Settings,
    how: Attempt,
) -> Verification:
    """The verification that the certificate's plans give with its entropy."""
    plans: dict[str, Plan | None] = {
        name: None if section.plan is None else Plan.from_json(section.plan)
        for name, section in certificate.verification.directions.items()
    }

    def planner(trial: Trial) -> Plan | None:
        return plans.get(trial.direction)

    return how.run(composition, claim, settings, planner)
