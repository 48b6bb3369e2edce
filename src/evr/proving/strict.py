"""Strict proofs of a claim: grids are refined until a bound shows it, or until they cannot help."""

from __future__ import annotations

from fractions import Fraction
from functools import lru_cache
from typing import Any

from evr.bounds.strict import Proof
from evr.errors import UnsupportedEventError
from evr.estimation.strict import StrictCurve
from evr.laws import Direction
from evr.laws.exact import ExactStep
from evr.mechanisms import Composition
from evr.verification.attempts import Attempt
from evr.verification.claims import Claim
from evr.verification.results import Verification
from evr.verification.strict import threshold_of, verify_strictly

QUICK = 20.0
"""Seconds that a strict proof may take where nobody asked for one."""


def prove_strictly(composition: Composition, claim: Claim, how: Attempt) -> Verification:
    """Accept iff a strict bound shows the claim in each direction."""
    enough = threshold_of(claim)

    def prover(direction: Direction, steps: tuple[ExactStep, ...]) -> Proof:
        return _proof(steps, claim.epsilon, enough)

    return verify_strictly(
        composition, claim, prover, attempt=how.number, direction=how.direction, seed=how.seed
    )


@lru_cache(maxsize=4)
def _proof(steps: tuple[ExactStep, ...], epsilon: float, enough: Fraction) -> Proof:
    """Known again where it decided which proof a claim gets."""
    return StrictCurve(steps).prove(epsilon, enough=enough)


def proof_for(event: Any, claim: Claim) -> str:
    """``"strict"`` where every law is on a line, has an exact one, and a strict proof takes seconds
    and shows the claim, as an attempt of a release too; else ``"sequential"``.
    """
    composition = Composition.of(event)
    enough = threshold_of(claim)
    if claim.terms is None:
        enough *= 1 - Fraction(claim.kappa)
    try:
        laws = composition.exact_directions()
        seconds = sum(
            StrictCurve(steps).seconds(claim.epsilon, enough=enough) for steps in laws.values()
        )
        shown = seconds <= QUICK and all(
            _proof(steps, claim.epsilon, enough).delta <= enough for steps in laws.values()
        )
    except (UnsupportedEventError, ValueError):  # no exact law, or numbers too large for one
        return "sequential"
    return "strict" if shown else "sequential"
