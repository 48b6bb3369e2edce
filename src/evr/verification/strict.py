"""Verification by strict bounds: a claim holds if each direction's bound is at most its threshold, as rational numbers.

No samples, no probability: docs/guarantees_strict.md, Section S7. Plans come from anywhere, a chooser of grids or a
certificate; every proof is made here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from fractions import Fraction
from functools import partial

from evr.bounds.strict import Plans, Proof, ProofPlan, prove_within
from evr.errors import DisagreementError
from evr.laws import Direction, Step
from evr.mechanisms import Composition
from evr.randomness import entropy_of
from evr.verification.claims import Claim
from evr.verification.concluding import Asked, concluded, tested
from evr.verification.results import DirectionReport, Verification

StrictPlanner = Callable[[Direction, tuple[Step, ...]], Plans | Iterable[ProofPlan]]
"""From the exact laws of one direction to plans, finer and finer."""


def threshold_of(claim: Claim) -> Fraction:
    """What the truth has to be proved to be at most: the claim's delta.

    In a release whose other attempts may be sampled, ``1 - kappa`` of it, as theirs.
    """
    value = Fraction(claim.delta)
    return value if claim.terms is None else value * (1 - Fraction(claim.kappa))


def proved(
    steps: tuple[Step, ...],
    epsilon: float,
    enough: Fraction,
    plans: Callable[[], Plans | Iterable[ProofPlan]],
    in_hand: Proof | None = None,
) -> Proof:
    """The proof in hand, if it is about the same steps and epsilon and shows enough; else one that is made from the
    plans.
    """
    at = Fraction(epsilon)
    if in_hand is not None and in_hand.delta <= enough and in_hand.is_about(steps, at):
        return in_hand
    return prove_within(steps, at, plans(), enough)


def verify_strictly(
    composition: Composition,
    claim: Claim,
    planner: StrictPlanner,
    *,
    attempt: int | None = None,
    direction: str | None = None,
    seed: int | None = None,
    proofs: Mapping[Direction, Proof] | None = None,
) -> Verification:
    """Accept iff the proofs show the claim. ``proofs`` are those in hand."""
    laws, enough, in_hand = (composition.exact_directions(direction), threshold_of(claim), proofs or {})

    def decide(one: Direction) -> DirectionReport:
        steps = laws[one]
        found = proved(steps, claim.epsilon, enough, partial(planner, one, steps), in_hand.get(one))
        return _report(one, found, enough)

    asked = Asked("strict", attempt, 0.0, direction, entropy_of(seed), seed)
    return tested(claim, asked, laws, decide)


def _report(direction: Direction, proof: Proof, threshold: Fraction) -> DirectionReport:
    accepted = proof.delta <= threshold
    reason = f"proved: delta is at most {proof.shown!r}"
    if not accepted:
        reason = f"delta is at most {proof.shown!r}, which is above the claim: claim more"
    return DirectionReport(
        direction=direction.value,
        accepted=accepted,
        reason=reason,
        estimate=proof.shown,
        standard_error=0.0,
        threshold=threshold.numerator / threshold.denominator,
        bound=proof.shown,
        strict=proof,
    )


def joined(claim: Claim, proved: Verification, sampled: Verification) -> Verification:
    """Two proofs of one claim as one verification. If one holds and the other does not, one of them is broken, and that
    is an error.
    """
    if proved.accepted != sampled.accepted:
        held, failed = ("strict", "sampled") if proved.accepted else ("sampled", "strict")
        refused = sampled if proved.accepted else proved
        reason = next(report.reason for report in refused.directions.values() if not report.accepted)
        raise DisagreementError(
            f"the {held} proof shows the claim and the {failed} one does not ({reason}): one of "
            "them is broken, or the sampled one had too few samples; nothing is certified. Please "
            "report it, with the event and the claim"
        )
    reports = {}
    for name, report in sampled.directions.items():
        other = proved.directions.get(name)
        reports[name] = replace(report, strict=None if other is None else other.strict)
    asked = Asked("both", sampled.attempt, 0.0, sampled.direction, sampled.entropy, sampled.seed)
    return concluded(claim, asked, reports, proved.seconds + sampled.seconds)
