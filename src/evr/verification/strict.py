"""Verification by strict bounds: a claim holds if each direction's bound is at most its threshold,
as rational numbers.

No samples, no probability: docs/guarantees_strict.md, Section S7. Who finds the proofs does not
matter here: a chooser of grids, or a certificate that holds them.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction

from evr.bounds.strict import Proof
from evr.errors import DisagreementError
from evr.laws import Direction
from evr.laws.exact import ExactStep
from evr.mechanisms import Composition
from evr.randomness import entropy_of
from evr.verification.claims import Claim
from evr.verification.results import DirectionReport, Guarantee, Verdict, Verification

Prover = Callable[[Direction, tuple[ExactStep, ...]], Proof]
"""From the exact laws of one direction to a proof about it."""


def threshold_of(claim: Claim) -> Fraction:
    """What delta has to be proved to be at most: ``delta / tau`` exactly, and not above the float
    that a guarantee states.

    In a release whose other attempts may be sampled, ``1 - kappa`` of it, as theirs.
    """
    value = min(Fraction(claim.delta) / Fraction(claim.tau), Fraction(claim.value))
    return value if claim.terms is None else value * (1 - Fraction(claim.kappa))


def verify_strictly(
    composition: Composition,
    claim: Claim,
    prover: Prover,
    *,
    attempt: int | None = None,
    direction: str | None = None,
    seed: int | None = None,
) -> Verification:
    """Accept iff the proofs show the claim, one direction after the other, until one fails."""
    start = time.perf_counter()
    reports: dict[str, DirectionReport] = {}
    laws = composition.exact_directions(direction)
    for one, steps in laws.items():
        begun = time.perf_counter()
        proof = prover(one, steps)
        reports[one.value] = report = _report(one, proof, claim, time.perf_counter() - begun)
        if not report.accepted:
            break
    if direction is None and Direction.ADD not in laws and reports["remove"].accepted:
        reports["add"] = replace(reports["remove"], direction="add", reason="the same as remove")
    accepted = all(report.accepted for report in reports.values())
    one_only = (
        f"only direction {direction!r} was tested: a guarantee under add/remove adjacency needs "
        "both"
    )
    return Verification(
        verdict=Verdict.ACCEPTED if accepted else Verdict.REJECTED,
        epsilon=claim.epsilon,
        delta=claim.delta,
        tau=claim.tau,
        guarantee=Guarantee(claim.epsilon, claim.value) if accepted and direction is None else None,
        method="strict",
        attempt=attempt,
        false_positive_rate=0.0,
        samples=0,
        directions=reports,
        entropy=entropy_of(seed),
        seed=seed,
        entropy_is_fresh=seed is None,
        seconds=time.perf_counter() - start,
        notes=() if direction is None else (one_only,),
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


def joined(proved: Verification, sampled: Verification) -> Verification:
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
        proof = None if other is None else other.strict
        reports[name] = replace(report, strict=proof)
    return replace(
        sampled,
        method="both",
        directions=reports,
        false_positive_rate=0.0,
        seconds=proved.seconds + sampled.seconds,
    )
