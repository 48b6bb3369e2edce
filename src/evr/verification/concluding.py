"""The one loop over directions, and the one place where a verdict and a guarantee are made from their reports.

Nothing above the kernel imports this module (import-linter holds that).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import NamedTuple

from evr.laws import Direction
from evr.verification.claims import Claim
from evr.verification.results import SEAL, DirectionReport, Guarantee, Verdict, Verification

Decider = Callable[[Direction], DirectionReport]
"""What decides one direction: a proof in exact arithmetic, or samples."""


class Asked(NamedTuple):
    """How a claim is tested; fields as of ``Verification``."""

    method: str
    attempt: int | None
    false_positive_rate: float
    direction: str | None
    entropy: int
    seed: int | None


def tested(claim: Claim, asked: Asked, directions: Iterable[Direction], decide: Decider) -> Verification:
    """Decide one direction after the other, until one fails. Where both were asked for and there is one only, it stands
    for both, which are the same.
    """
    start = time.perf_counter()
    reports: dict[str, DirectionReport] = {}
    for one in directions:
        begun = time.perf_counter()
        report = decide(one)
        reports[one.value] = replace(report, seconds=time.perf_counter() - begun)
        if not report.accepted:
            break
    else:
        if asked.direction is None and len(reports) == 1:
            same = replace(reports["remove"], direction="add", reason="the same as remove")
            reports["add"] = replace(same, samples=0, blocks=0)
    return concluded(claim, asked, reports, time.perf_counter() - start)


def concluded(claim: Claim, asked: Asked, reports: Mapping[str, DirectionReport], seconds: float) -> Verification:
    """Accept iff every direction that was tested passed. A guarantee needs both directions: where only one was asked
    for, there is none.
    """
    accepted = bool(reports) and all(report.accepted for report in reports.values())
    held = accepted and asked.direction is None and set(reports) == {"remove", "add"}
    if accepted and asked.direction is None and not held:
        raise AssertionError(f"accepted, with reports of {sorted(reports)} only")
    return Verification(
        verdict=Verdict.ACCEPTED if accepted else Verdict.REJECTED,
        epsilon=claim.epsilon,
        delta=claim.delta,
        tau=claim.tau,
        guarantee=Guarantee(claim.epsilon, claim.delta) if held else None,
        samples=sum(report.samples for report in reports.values()),
        directions=dict(reports),
        entropy_is_fresh=asked.seed is None,
        seconds=seconds,
        notes=tuple(_notes(asked)),
        seal=SEAL,
        **asked._asdict(),
    )


def _notes(asked: Asked) -> Iterator[str]:
    if asked.seed is not None and asked.method != "strict":
        yield "the seed was given by the caller: repeatable, but a guarantee wants fresh entropy"
    if asked.direction is not None:
        yield (f"only direction {asked.direction!r} was tested: a guarantee under add/remove adjacency needs both")
