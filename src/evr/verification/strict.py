"""Verification by strict bounds: a claim holds if each direction's bound is at most its threshold,
as rational numbers.

No samples, no probability: docs/guarantees_strict.md, Section S7. Plans come from anywhere, a
chooser of grids or a certificate; every proof is made here.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from fractions import Fraction

from evr.bounds.strict import Plans, Proof, StrictPlan, prove_within
from evr.errors import DisagreementError
from evr.laws import Direction, Step
from evr.mechanisms import Composition
from evr.randomness import entropy_of
from evr.verification.claims import Claim
from evr.verification.concluding import concluded
from evr.verification.results import DirectionReport, Verification

StrictPlanner = Callable[[Direction, tuple[Step, ...]], Plans | Iterable[StrictPlan]]
"""From the exact laws of one direction to plans, finer and finer."""


def threshold_of(claim: Claim) -> Fraction:
    """What delta has to be proved to be at most: ``delta / tau`` exactly, and not above the float
    that a guarantee states.

    In a release whose other attempts may be sampled, ``1 - kappa`` of it, as theirs.
    """
    value = min(Fraction(claim.delta) / Fraction(claim.tau), Fraction(claim.value))
    return value if claim.terms is None else value * (1 - Fraction(claim.kappa))


def proved_directions(
    composition: Composition,
    epsilon: float,
    enough: Fraction,
    planner: StrictPlanner,
    *,
    direction: str | None = None,
    proofs: Mapping[Direction, Proof] | None = None,
) -> dict[Direction, Proof]:
    """Prove one direction after the other, until one bound exceeds ``enough``.

    ``proofs`` are proofs in hand: one that is about the same steps and epsilon, and shows enough,
    is not made again.
    """
    found: dict[Direction, Proof] = {}
    for one, steps in composition.exact_directions(direction).items():
        proof = None if proofs is None else proofs.get(one)
        if proof is None or proof.delta > enough or not proof.is_about(steps, Fraction(epsilon)):
            proof = prove_within(steps, Fraction(epsilon), planner(one, steps), enough)
        found[one] = proof
        if proof.delta > enough:
            break
    return found


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
    """Accept iff the proofs show the claim, one direction after the other, until one fails."""
    start = time.perf_counter()
    found = proved_directions(
        composition,
        claim.epsilon,
        threshold_of(claim),
        planner,
        direction=direction,
        proofs=proofs,
    )
    seconds = (time.perf_counter() - start) / len(found)
    reports = {one.value: _report(one, proof, claim, seconds) for one, proof in found.items()}
    if (
        direction is None
        and len(composition.exact_directions()) == 1
        and reports["remove"].accepted
    ):
        reports["add"] = replace(reports["remove"], direction="add", reason="the same as remove")
    return concluded(
        claim,
        reports,
        method="strict",
        attempt=attempt,
        false_positive_rate=0.0,
        direction=direction,
        entropy=entropy_of(seed),
        seed=seed,
        seconds=time.perf_counter() - start,
    )


def _report(direction: Direction, proof: Proof, claim: Claim, seconds: float) -> DirectionReport:
    threshold = threshold_of(claim)
    accepted = proof.delta <= threshold
    reason = f"proved: delta is at most {proof.shown!r}"
    if not accepted:
        reason = (
            f"delta is at most {proof.shown!r}, which is above the claim: claim more, or lower tau"
        )
    return DirectionReport(
        direction=direction.value,
        accepted=accepted,
        reason=reason,
        estimate=proof.shown,
        standard_error=0.0,
        threshold=threshold.numerator / threshold.denominator,
        bound=proof.shown,
        strict=proof,
        seconds=seconds,
    )


def joined(claim: Claim, proved: Verification, sampled: Verification) -> Verification:
    """Two proofs of one claim as one verification. If one holds and the other does not, one of them
    is broken, and that is an error.
    """
    if proved.accepted != sampled.accepted:
        held, failed = ("strict", "sampled") if proved.accepted else ("sampled", "strict")
        refused = sampled if proved.accepted else proved
        reason = next(
            report.reason for report in refused.directions.values() if not report.accepted
        )
        raise DisagreementError(
            f"the {held} proof shows the claim and the {failed} one does not ({reason}): one of "
            "them is broken, or the sampled one had too few samples; nothing is certified. Please "
            "report it, with the event and the claim"
        )
    reports = {}
    for name, report in sampled.directions.items():
        other = proved.directions.get(name)
        reports[name] = replace(report, strict=None if other is None else other.strict)
    return concluded(
        claim,
        reports,
        method="both",
        attempt=sampled.attempt,
        false_positive_rate=0.0,
        direction=sampled.direction,
        entropy=sampled.entropy,
        seed=sampled.seed,
        seconds=proved.seconds + sampled.seconds,
    )
