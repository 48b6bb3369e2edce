"""``verify``: one attempt to prove a claim."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from evr import validate
from evr.laws import Step
from evr.mechanisms import Composition
from evr.proving.settings import METHODS, PROPOSALS
from evr.randomness import Stream, entropy_of
from evr.sampling import Proposal
from evr.search import capped_proposal, merged_steps, simple_proposal
from evr.verification.claims import Claim, Terms
from evr.verification.fixed import plan_fixed
from evr.verification.results import DirectionReport, Guarantee, Progress, Verdict, Verification
from evr.verification.run import (
    TOO_LONG,
    Checkpoint,
    decided,
    run_fixed,
    run_sequential,
    shortcut,
    tested_directions,
)

PURPOSE = "verify"
ALLOWANCE = 0.02
"""The share of the slack that drawing many steps as a few outcomes may cost."""


def verify(
    event: Any,
    *,
    epsilon: float,
    delta: float,
    tau: float = 0.99,
    method: str = "sequential",
    proposal: str = "capped",
    attempt: int | None = None,
    seed: int | None = None,
    max_samples: int | None = None,
    workers: int | None = None,
    device: str = "cpu",
    direction: str | None = None,
    offset: float | None = None,
    terms: Terms | None = None,
    progress: Callable[[Progress], None] | None = None,
    checkpoint: Checkpoint | None = None,
    resume: dict[str, Any] | None = None,
) -> Verification:
    """Try to prove, by Monte Carlo or in exact arithmetic, that everything that ran is ``(epsilon, delta / tau)``-DP.

    Rests on: fresh samples in each attempt; an estimate ``delta`` that does not depend on them; trials and stopping that do
    not depend on the data; one output for each release, attempts counted before they run (``evr.release`` and the ledger do
    that). docs/guarantees.md, Section 5.

    Parameters
    ----------
    event
        A ``DpEvent`` tree, or a ``Composition``.
    epsilon, delta
        The estimate. What is proved is ``delta / tau``.
    tau
        Slack in (0, 1): the closer to 1, the tighter the guarantee and the more samples.
    method
        ``"sequential"`` (testing by betting), ``"fixed"`` (Algorithm 2 of the paper), or ``"strict"``: no sample, a bound in
        exact arithmetic that is never wrong (compositions of one-dimensional mechanisms; docs/guarantees_strict.md).
    proposal
        ``"capped"`` (any composition), ``"single"`` (the paper's, equal Poisson-sampled Gaussian steps), ``"simple"``.
    attempt
        The number of this attempt at the release, from 1: it sets the false-positive budget ``kappa claim 2^-attempt``.
        The fixed verifier without one spends the paper's budget, ``delta / tau``, which is good for a single attempt.
    seed
        For results that can be repeated; a guarantee wants fresh entropy, so leave it out.
    max_samples
        In each direction. The sequential verifier rejects when they are used up; the fixed one refuses to start if it needs
        more.
    workers
        Threads; the answer does not depend on it.
    direction
        Test only ``"remove"`` or ``"add"``: then there is no guarantee, for it needs both.
    offset
        ``Delta`` of the fixed verifier, instead of the paper's heuristic.
    terms
        Of the release that this attempt belongs to, where its first attempt fixed others than this claim would.
    progress
        Called with a ``Progress`` now and then.
    checkpoint, resume
        ``checkpoint(direction, snapshot)`` is called every few seconds and at the end of each direction; a dictionary of
        the latest snapshots, given as ``resume`` with the same other arguments, continues to the same result bit for bit.

    Examples
    --------
    >>> import evr
    >>> event = evr.dpsgd(noise_multiplier=1.0, sampling_probability=1e-3, steps=100)
    >>> estimate = evr.estimate_delta(event, epsilon=0.5).value
    >>> verification = evr.verify(event, epsilon=0.5, delta=estimate, tau=0.8, seed=1)
    >>> verification.verdict
    <Verdict.ACCEPTED: 'accepted'>
    >>> verification.guarantee == evr.Guarantee(0.5, estimate / 0.8)
    True
    """
    start = time.perf_counter()
    claim = Claim(epsilon, delta, tau, terms)
    validate.one_of(METHODS, method=method)
    validate.one_of(PROPOSALS, proposal=proposal)
    validate.one_of(("cpu",), device=device)
    if direction is not None:
        validate.one_of(("remove", "add"), direction=direction)
    if max_samples is not None:
        max_samples = validate.positive_integer(max_samples=max_samples)
    if offset is not None and method != "fixed":
        raise ValueError(f"offset={offset!r} belongs to method='fixed'")
    if method == "sequential":
        attempt = 1 if attempt is None else attempt
    if attempt is not None:
        attempt = validate.positive_integer(attempt=attempt)
    if method == "strict":
        from evr.proving.strict import prove_strictly

        if max_samples is not None:
            raise ValueError(
                f"max_samples={max_samples!r} belongs to methods that sample: leave it out for method='strict'"
            )
        return prove_strictly(Composition.of(event), claim, attempt=attempt, direction=direction, seed=seed)
    entropy = entropy_of(seed)
    composition = Composition.of(event)
    chosen, one_for_both = tested_directions(composition, direction)
    log_budget = _log_budget(claim, attempt)
    reports: dict[str, DirectionReport] = {}
    for one in chosen:
        stream = Stream(entropy, PURPOSE, attempt or 1, one.value)
        report = _test(
            one.value, composition.simplified(one), claim, log_budget, stream,
            method=method, proposal=proposal, attempt=attempt, offset=offset, max_samples=max_samples, workers=workers,
            progress=progress, checkpoint=checkpoint, resume=(resume or {}).get(one.value),
        )  # fmt: skip
        reports[one.value] = report
        if not report.accepted:
            break
    if one_for_both and reports["remove"].accepted:
        reports["add"] = replace(reports["remove"], direction="add", reason="the same as remove", samples=0, blocks=0)
    accepted = all(report.accepted for report in reports.values())
    guarantee = Guarantee(claim.epsilon, claim.value) if accepted and direction is None else None
    return Verification(
        verdict=Verdict.ACCEPTED if accepted else Verdict.REJECTED,
        epsilon=claim.epsilon,
        delta=claim.delta,
        tau=claim.tau,
        guarantee=guarantee,
        method=method,
        attempt=attempt,
        false_positive_rate=math.exp(log_budget),
        samples=sum(report.samples for report in reports.values()),
        directions=reports,
        entropy=entropy,
        seed=seed,
        entropy_is_fresh=seed is None,
        seconds=time.perf_counter() - start,
        notes=_notes(seed, direction, reports),
    )


def _log_budget(claim: Claim, attempt: int | None) -> float:
    if claim.value == 0:
        return -math.inf
    return math.log(claim.value) if attempt is None else claim.log_budget(attempt)


def _notes(seed: int | None, direction: str | None, reports: dict[str, DirectionReport]) -> tuple[str, ...]:
    notes = []
    if seed is not None:
        notes.append("the seed was given by the caller: repeatable, but a guarantee wants fresh entropy")
    if direction is not None:
        notes.append(f"only direction {direction!r} was tested: a guarantee under add/remove adjacency needs both")
    return tuple(notes)


def make_proposal(name: str, direction: str, steps: tuple[Step, ...], epsilon: float) -> Proposal:
    """The proposal of that name for one direction; the paper's covers the remove direction only, so add takes the default."""
    if name == "single" and direction == "remove":
        from evr.sampling.single import single_proposal

        return single_proposal(steps, epsilon, theta="bound")
    if name == "simple":
        return simple_proposal(steps, epsilon)
    return capped_proposal(steps, epsilon)


def _decided(direction: str, claim: Claim, found: tuple[bool, str], start: float) -> DirectionReport:
    accepted, reason = found
    report = decided(direction, None, claim, reason, claim.value if accepted else 1.0, time.perf_counter() - start)
    return replace(report, accepted=accepted)


def _test(
    direction: str,
    steps: tuple[Step, ...],
    claim: Claim,
    log_budget: float,
    stream: Stream,
    *,
    method: str,
    proposal: str,
    attempt: int | None,
    offset: float | None,
    max_samples: int | None,
    workers: int | None,
    progress: Callable[[Progress], None] | None,
    checkpoint: Checkpoint | None,
    resume: dict[str, Any] | None,
) -> DirectionReport:
    start = time.perf_counter()
    if found := shortcut(steps, claim):
        return _decided(direction, claim, found, start)
    if proposal == "capped":
        merged = merged_steps(steps, claim.epsilon, claim.delta, ALLOWANCE * (1.0 - claim.tau))
        if (found := shortcut(merged, claim)) and found[0]:
            return _decided(direction, claim, found, start)
        steps = steps if found else merged  # what merging made infinite rejects no claim
    drawn_from = make_proposal(proposal, direction, steps, claim.epsilon)
    rounding = drawn_from.rounding(claim.epsilon)
    log_bound = drawn_from.log_greatest(rounding.bounded(claim.epsilon)) + rounding.weight
    if log_bound <= math.log(claim.threshold):
        return decided(direction, drawn_from, claim, "a proved bound on delta is below the claim", math.exp(log_bound),
                       time.perf_counter() - start)  # fmt: skip
    if method == "sequential":
        return run_sequential(direction, drawn_from, claim, log_budget, stream, max_samples=max_samples, workers=workers,
                              progress=progress, checkpoint=checkpoint, resume=resume)  # fmt: skip
    log_moment = drawn_from.log_moment(rounding.bounded(claim.epsilon), 2.0) + 2.0 * rounding.weight
    plan = plan_fixed(claim, log_moment, attempt=attempt, offset=offset)
    if max_samples is not None and plan.samples > max_samples:
        raise ValueError(
            f"max_samples={max_samples!r} is below the {plan.samples:.6g} samples that the false-positive bound needs in "
            f"direction {direction!r} (nu = {plan.second_moment:.4g}, Delta = {plan.offset:.4g}): "
            "raise it, lower tau, or use method='sequential'"
        )
    if max_samples is None and plan.samples * drawn_from.work > TOO_LONG:
        raise ValueError(
            f"the fixed verifier needs {plan.samples:.6g} samples of {drawn_from.total_steps} steps in direction "
            f"{direction!r}: lower tau (now {claim.tau!r}), use method='sequential', or set max_samples"
        )
    return run_fixed(direction, drawn_from, claim, plan, stream, workers=workers, progress=progress, checkpoint=checkpoint,
                     resume=resume)  # fmt: skip
