"""The one loop over directions, and the one place where a verdict and a guarantee are made from their
reports: nothing above the kernel imports it (import-linter holds that).
"""

import time
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import NamedTuple

from evr._kernel.pairs import Direction
from evr._kernel.verdict.results import SEAL, DirectionReport, Guarantee, Verdict, Verification
from evr._kernel.verdict.settings import Claim
from evr.errors import DisagreementError


class Asked(NamedTuple):
    """What an attempt asks, as ``Verification`` states it."""

    claim: Claim
    method: str
    attempt: int | None
    false_positive_rate: float
    direction: str | None  # one that was asked for alone
    entropy: int
    seed: int | None

    @property
    def notes(self) -> tuple[str, ...]:
        notes = []
        if self.seed is not None and self.method != "strict":
            notes.append("the seed was given by the caller: repeatable, but a guarantee wants fresh entropy")
        if self.direction is not None:
            alone = f"only direction {self.direction!r} was tested"
            notes.append(f"{alone}: a guarantee under add/remove adjacency needs both")
        return tuple(notes)


def conclude(
    asked: Asked, directions: Iterable[Direction], decide: Callable[[Direction], DirectionReport]
) -> Verification:
    """Given a decision for each direction, by a proof or by samples, ensures that a claim is accepted only if
    both directions pass, and that a guarantee is made only where both were asked for.
    """
    start = time.perf_counter()
    reports = _reports(directions, decide, both=asked.direction is None)
    accepted = bool(reports) and all(report.accepted for report in reports.values())
    if accepted and asked.direction is None and set(reports) != {"remove", "add"}:
        raise AssertionError(f"accepted, with reports of {sorted(reports)} only")
    claim = asked.claim
    return Verification(
        verdict=Verdict.ACCEPTED if accepted else Verdict.REJECTED,
        epsilon=claim.epsilon,
        delta=claim.delta,
        tau=claim.tau,
        guarantee=Guarantee(claim.epsilon, claim.delta) if accepted and asked.direction is None else None,
        method=asked.method,
        attempt=asked.attempt,
        false_positive_rate=asked.false_positive_rate,
        samples=sum(report.samples for report in reports.values()),
        directions=reports,
        entropy=asked.entropy,
        seed=asked.seed,
        entropy_is_fresh=asked.seed is None,
        seconds=time.perf_counter() - start,
        notes=asked.notes,
        direction=asked.direction,
        seal=SEAL,
    )


def _reports(
    directions: Iterable[Direction], decide: Callable[[Direction], DirectionReport], *, both: bool
) -> dict[str, DirectionReport]:
    """The reports of one direction after the other, until one fails. Where both were asked for and there is
    one only, it stands for both, which are the same.
    """
    reports: dict[str, DirectionReport] = {}
    for one in directions:
        start = time.perf_counter()
        report = decide(one)
        reports[one.value] = replace(report, seconds=time.perf_counter() - start)
        if not report.accepted:
            return reports
    if both and len(reports) == 1:
        same = replace(reports["remove"], direction="add", reason="the same as remove")
        reports["add"] = replace(same, samples=0, blocks=0)
    return reports


def join(proved: Verification, drawn: Verification) -> Verification:
    """Two proofs of one claim as one. If one holds and the other does not, that is an error."""
    if proved.accepted != drawn.accepted:
        held, failed = ("strict", "sampled") if proved.accepted else ("sampled", "strict")
        refused = drawn if proved.accepted else proved
        reason = next(report.reason for report in refused.directions.values() if not report.accepted)
        what = f"the {held} proof shows the claim and the {failed} one does not ({reason})"
        why = "one of them is broken, or the sampled one had too few samples; nothing is certified"
        raise DisagreementError(f"{what}: {why}. Please report it, with the event and the claim")
    proofs = {name: report.strict for name, report in proved.directions.items()}
    reports = {name: replace(report, strict=proofs.get(name)) for name, report in drawn.directions.items()}
    seconds = proved.seconds + drawn.seconds
    return replace(
        drawn, method="both", false_positive_rate=0.0, directions=reports, seconds=seconds, seal=SEAL
    )
