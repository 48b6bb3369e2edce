"""Strict proofs of a claim: grids are refined until a bound shows it, or until they cannot help."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from evr.bounds.strict import Proof
from evr.estimation.strict import StrictCurve
from evr.laws import Direction
from evr.laws.exact import ExactStep
from evr.mechanisms import Composition
from evr.verification.attempts import Attempt
from evr.verification.claims import Claim
from evr.verification.results import Verification
from evr.verification.strict import threshold_of, verify_strictly

QUICK = 10.0
"""Seconds that a strict proof may take where nobody asked for one; it is made twice then."""


def prove_strictly(composition: Composition, claim: Claim, how: Attempt) -> Verification:
    """Accept iff a strict bound shows the claim in each direction."""
    enough = threshold_of(claim)

    def prover(direction: Direction, steps: tuple[ExactStep, ...]) -> Proof:
        return StrictCurve(steps).prove(claim.epsilon, enough=enough)

    return verify_strictly(
        composition, claim, prover, attempt=how.number, direction=how.direction, seed=how.seed
    )


def proof_for(event: Any, claim: Claim) -> str:
    """``"strict"`` where every law is on a line, has an exact one, and a strict proof takes seconds
    and shows the claim, as an attempt of a release too; else ``"sequential"``.
    """
    composition = Composition.of(event)
    enough = threshold_of(claim)
    if claim.terms is None:
        enough *= 1 - Fraction(claim.kappa)
    try:
        curves = [StrictCurve(steps) for steps in composition.exact_directions().values()]
        seconds = sum(curve.seconds(claim.epsilon, enough=enough) for curve in curves)
        shown = seconds <= QUICK and all(
            curve.prove(claim.epsilon, enough=enough).delta <= enough for curve in curves
        )
    except ValueError:  # a mechanism without an exact law, or numbers too large for one
        return "sequential"
    return "strict" if shown else "sequential"
