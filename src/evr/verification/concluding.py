"""The one place where a verdict and a guarantee are made, from the reports of the directions.

Nothing above the kernel imports this module (import-linter holds that).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from evr.verification.claims import Claim
from evr.verification.results import (
    SEAL,
    DirectionReport,
    Guarantee,
    Verdict,
    Verification,
)


def concluded(
    claim: Claim,
    reports: Mapping[str, DirectionReport],
    *,
    method: str,
    attempt: int | None,
    false_positive_rate: float,
    direction: str | None,
    entropy: int,
    seed: int | None,
    seconds: float,
) -> Verification:
    """Accept iff every direction that was tested passed. A guarantee needs both directions: where
    ``direction`` names the only one that was tested, there is none.
    """
    accepted = bool(reports) and all(report.accepted for report in reports.values())
    held = accepted and direction is None and set(reports) == {"remove", "add"}
    if accepted and direction is None and not held:
        raise AssertionError(f"accepted, with reports of {sorted(reports)} only")
    return Verification(
        verdict=Verdict.ACCEPTED if accepted else Verdict.REJECTED,
        epsilon=claim.epsilon,
        delta=claim.delta,
        tau=claim.tau,
        guarantee=Guarantee(claim.epsilon, claim.value) if held else None,
        method=method,
        attempt=attempt,
        false_positive_rate=false_positive_rate,
        samples=sum(report.samples for report in reports.values()),
        directions=dict(reports),
        entropy=entropy,
        seed=seed,
        entropy_is_fresh=seed is None,
        seconds=seconds,
        notes=tuple(_notes(method, seed, direction)),
        direction=direction,
        seal=SEAL,
    )


def _notes(method: str, seed: int | None, direction: str | None) -> Iterator[str]:
    if seed is not None and method != "strict":
        yield "the seed was given by the caller: repeatable, but a guarantee wants fresh entropy"
    if direction is not None:
        yield (
            f"only direction {direction!r} was tested: a guarantee under add/remove adjacency "
            "needs both"
        )
