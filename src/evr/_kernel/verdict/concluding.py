"""The one loop over directions, and the one place where a verdict and a guarantee are made from their reports: nothing
above the kernel imports it (import-linter holds that).
"""

import time
from collections.abc import Callable, Iterable
from dataclasses import replace

from evr._kernel.pairs import Direction
from evr._kernel.verdict.results import SEAL, DirectionReport, Guarantee, Verdict, Verification
from evr._kernel.verdict.settings import Claim
from evr.errors import DisagreementError


def tested(
    claim: Claim,
    directions: Iterable[Direction],
    decide: Callable[[Direction], DirectionReport],
    method: str,
    attempt: int | None,
    rate: float,
    direction: str | None,
    entropy: int,
    seed: int | None,
) -> Verification:
    """Decide one direction after the other, by a proof or by samples, until one fails; accept if all pass. Other
    arguments are as of ``Verification``, ``rate`` is that of false positives.

    Where both directions were asked for and there is one only, it stands for both, which are the same. A guarantee
    needs both: where one alone was asked for, there is none.
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
        if direction is None and len(reports) == 1:
            same = replace(reports["remove"], direction="add", reason="the same as remove")
            reports["add"] = replace(same, samples=0, blocks=0)
    notes = []
    if seed is not None and method != "strict":
        notes.append("the seed was given by the caller: repeatable, but a guarantee wants fresh entropy")
    if direction is not None:
        notes.append(f"only direction {direction!r} was tested: a guarantee under add/remove adjacency needs both")
    accepted = bool(reports) and all(report.accepted for report in reports.values())
    if accepted and direction is None and set(reports) != {"remove", "add"}:
        raise AssertionError(f"accepted, with reports of {sorted(reports)} only")
    return Verification(
        verdict=Verdict.ACCEPTED if accepted else Verdict.REJECTED,
        epsilon=claim.epsilon,
        delta=claim.delta,
        tau=claim.tau,
        guarantee=Guarantee(claim.epsilon, claim.delta) if accepted and direction is None else None,
        method=method,
        attempt=attempt,
        false_positive_rate=rate,
        samples=sum(report.samples for report in reports.values()),
        directions=reports,
        entropy=entropy,
        seed=seed,
        entropy_is_fresh=seed is None,
        seconds=time.perf_counter() - start,
        notes=tuple(notes),
        direction=direction,
        seal=SEAL,
    )


def joined(proved: Verification, sampled: Verification) -> Verification:
    """Two proofs of one claim as one. If one holds and the other does not, one of them is broken: an error."""
    if proved.accepted != sampled.accepted:
        held, failed = ("strict", "sampled") if proved.accepted else ("sampled", "strict")
        refused = sampled if proved.accepted else proved
        reason = next(report.reason for report in refused.directions.values() if not report.accepted)
        raise DisagreementError(
            f"the {held} proof shows the claim and the {failed} one does not ({reason}): one of them is broken, or the "
            "sampled one had too few samples; nothing is certified. Please report it, with the event and the claim"
        )
    proofs = {name: report.strict for name, report in proved.directions.items()}
    reports = {name: replace(report, strict=proofs.get(name)) for name, report in sampled.directions.items()}
    seconds = proved.seconds + sampled.seconds
    return replace(sampled, method="both", false_positive_rate=0.0, directions=reports, seconds=seconds, seal=SEAL)
