"""Verification by strict bounds: a claim holds if each direction's bound is at most its threshold, as rational numbers.

No samples, no probability: docs/guarantees_strict.md, Section S7. Plans come from anywhere, a chooser of grids or a
certificate; every proof is made here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from fractions import Fraction

from evr.bounds.strict import Plans, Proof, ProofPlan, prove_within
from evr.laws import Direction, Step
from evr.verification.claims import Claim
from evr.verification.results import DirectionReport

StrictPlanner = Callable[[Direction, tuple[Step, ...]], Plans | Iterable[ProofPlan]]
"""From the exact laws of one direction to plans, finer and finer."""


def threshold_of(claim: Claim) -> Fraction:
    """What the truth has to be proved to be at most: the claim's delta; in a release whose other attempts may be
    sampled, ``1 - kappa`` of it, as theirs.
    """
    value = Fraction(claim.delta)
    return value if claim.terms is None else value * (1 - Fraction(claim.kappa))


def decided(
    direction: Direction, steps: tuple[Step, ...], claim: Claim, planner: StrictPlanner, in_hand: Proof | None = None
) -> DirectionReport:
    """Accepted iff a proof shows the claim: the one in hand, if it is about these steps and this epsilon and shows
    enough; else one made from the plans.
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
