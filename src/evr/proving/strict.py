"""Verification by a strict bound: no samples, no probability (docs/guarantees_strict.md, Section S7)."""

from __future__ import annotations

import time
from dataclasses import replace
from fractions import Fraction

from evr.estimation.strict import Proof, StrictCurve, rounded_up, strict_curves
from evr.laws import Direction
from evr.mechanisms import Composition
from evr.randomness import entropy_of
from evr.verification.claims import Claim
from evr.verification.results import DirectionReport, Guarantee, Verdict, Verification


def threshold_of(claim: Claim) -> Fraction:
    """What delta has to be proved to be at most: ``delta / tau`` exactly, and not above the float that a guarantee states.

    In a release whose other attempts may be sampled, ``1 - kappa`` of it, as theirs.
    """
    value = min(Fraction(claim.delta) / Fraction(claim.tau), Fraction(claim.value))
    return value if claim.terms is None else value * (1 - Fraction(claim.kappa))


def prove_strictly(
    composition: Composition,
    claim: Claim,
    *,
    attempt: int | None = None,
    direction: str | None = None,
    seed: int | None = None,
) -> Verification:
    """Accept iff a strict bound shows the claim in each direction. Grids are refined until it does, or until they cannot help."""
    start = time.perf_counter()
    reports: dict[str, DirectionReport] = {}
    curves = strict_curves(composition, direction)
    for one, curve in curves.items():
        reports[one.value] = report = _report(one, curve, claim)
        if not report.accepted:
            break
    if direction is None and Direction.ADD not in curves and reports["remove"].accepted:
        reports["add"] = replace(reports["remove"], direction="add", reason="the same as remove")
    accepted = all(report.accepted for report in reports.values())
    one_only = f"only direction {direction!r} was tested: a guarantee under add/remove adjacency needs both"
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


def _report(direction: Direction, curve: StrictCurve, claim: Claim) -> DirectionReport:
    start = time.perf_counter()
    threshold = threshold_of(claim)
    proof = curve.prove(claim.epsilon, enough=threshold)
    bound = rounded_up(proof.delta)
    accepted = proof.delta <= threshold
    if accepted:
        reason = f"proved: delta is at most {bound!r}"
    else:
        reason = f"the strict bound {bound!r} is above the claim: delta may be below it all the same; claim more, or lower tau"
    return DirectionReport(
        direction=direction.value,
        accepted=accepted,
        reason=reason,
        estimate=bound,
        standard_error=0.0,
        threshold=float(threshold),
        bound=bound,
        strict=_described(proof),
        seconds=time.perf_counter() - start,
    )


def _described(proof: Proof) -> dict[str, object]:
    """What a certificate needs to check the bound again."""
    plan = None if proof.plan is None else proof.plan.to_json()
    return {"name": "strict", "bound": str(proof.delta), "plan": plan, "digest": proof.digest}
