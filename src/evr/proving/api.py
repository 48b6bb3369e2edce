"""``verify``: one attempt to prove a claim."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import Executor
from dataclasses import replace
from typing import Any

from dp_accounting import dp_event

from evr import validate
from evr.mechanisms import Composition
from evr.randomness import Stream, entropy_of
from evr.sampling import Plan
from evr.search import planned
from evr.verification.claims import Claim, Terms
from evr.verification.directions import Trial, shortcut, tested_directions
from evr.verification.driver import Checkpoint, Hooks, ProgressHook
from evr.verification.results import DirectionReport, Guarantee, Verdict, Verification
from evr.verification.settings import Settings
from evr.verification.summary import BACKENDS

PURPOSE = "verify"


def verify(
    event: dp_event.DpEvent | Composition,
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
    executor: Executor | None = None,
    device: str = "cpu",
    direction: str | None = None,
    offset: float | None = None,
    terms: Terms | None = None,
    progress: ProgressHook | None = None,
) -> Verification:
    """Try to prove, by Monte Carlo, that everything that ran is ``(epsilon, delta / tau)``-DP.

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
        ``"sequential"`` (testing by betting), or ``"fixed"`` (Algorithm 2 of the paper).
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
    workers, executor
        Threads, or any ``concurrent.futures.Executor`` to do the work; the answer does not depend on it.
    device
        Who draws: ``"cpu"``, or another name in ``evr.verification.summary.BACKENDS``.
    direction
        Test only ``"remove"`` or ``"add"``: then there is no guarantee, for it needs both.
    offset
        ``Delta`` of the fixed verifier, instead of the paper's heuristic.
    terms
        Of the release that this attempt belongs to, where its first attempt fixed others than this claim would.
    progress
        Called with a ``Progress`` now and then.

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
    claim = Claim(epsilon, delta, tau, terms)
    settings = Settings(method, proposal, max_samples, offset)
    return prove(
        event,
        claim,
        settings,
        attempt=attempt,
        seed=seed,
        workers=workers,
        executor=executor,
        device=device,
        direction=direction,
        progress=progress,
    )


def prove(
    event: dp_event.DpEvent | Composition,
    claim: Claim,
    settings: Settings,
    *,
    attempt: int | None = None,
    seed: int | None = None,
    workers: int | None = None,
    executor: Executor | None = None,
    device: str = "cpu",
    direction: str | None = None,
    progress: ProgressHook | None = None,
    checkpoint: Checkpoint | None = None,
    resume: Mapping[str, dict[str, Any]] | None = None,
    plans: Mapping[str, Plan | None] | None = None,
) -> Verification:
    """``verify`` for the ledger, which keeps snapshots and continues from them, and for replay, which has plans.

    ``checkpoint(direction, snapshot)`` is called every few seconds and at the end of each direction. The latest snapshots by
    direction, given as ``resume`` with the same other arguments, continue to the same result bit for bit. A snapshot holds the
    wealth of the test and is believed: only ``evr.gate`` calls this with one, from a ledger that seals its rows. With
    ``plans`` nothing is searched for.
    """
    start, entropy = time.perf_counter(), entropy_of(seed)
    validate.one_of(tuple(BACKENDS), device=device)
    if direction is not None:
        validate.one_of(("remove", "add"), direction=direction)
    if workers is not None:
        workers = validate.positive_integer(workers=workers)
    if settings.method == "sequential" and attempt is None:
        attempt = 1
    if attempt is not None:
        attempt = validate.positive_integer(attempt=attempt)
    composition = Composition.of(event)
    chosen, one_for_both = tested_directions(composition, direction)
    log_budget = _log_budget(claim, attempt)
    reports: dict[str, DirectionReport] = {}
    for one in chosen:
        begun, steps, name = time.perf_counter(), composition.simplified(one), one.value
        stream = Stream(entropy, PURPOSE, attempt or 1, name)
        trial = Trial(name, steps, claim, settings, attempt, log_budget, stream)
        hooks = Hooks(progress, checkpoint, (resume or {}).get(name))
        if plans is not None:
            plan = plans.get(name)
        elif shortcut(steps, claim):
            plan = None
        else:
            plan = planned(steps, name, claim, settings.proposal, device=device)
        report = trial.run(plan, hooks, executor=executor, workers=workers)
        reports[name] = replace(report, seconds=time.perf_counter() - begun)
        if not report.accepted:
            break
    if one_for_both and reports["remove"].accepted:
        same = replace(reports["remove"], direction="add", reason="the same as remove")
        reports["add"] = replace(same, samples=0, blocks=0)
    accepted = all(report.accepted for report in reports.values())
    held = accepted and direction is None
    return Verification(
        verdict=Verdict.ACCEPTED if accepted else Verdict.REJECTED,
        epsilon=claim.epsilon,
        delta=claim.delta,
        tau=claim.tau,
        guarantee=Guarantee(claim.epsilon, claim.value) if held else None,
        method=settings.method,
        attempt=attempt,
        false_positive_rate=math.exp(log_budget),
        samples=sum(report.samples for report in reports.values()),
        directions=reports,
        entropy=entropy,
        seed=seed,
        entropy_is_fresh=seed is None,
        seconds=time.perf_counter() - start,
        notes=tuple(_notes(seed, direction)),
    )


def _notes(seed: int | None, direction: str | None) -> Iterator[str]:
    if seed is not None:
        yield "the seed was given by the caller: repeatable, but a guarantee wants fresh entropy"
    if direction is not None:
        yield (f"only direction {direction!r} was tested: a guarantee under add/remove adjacency needs both")


def _log_budget(claim: Claim, attempt: int | None) -> float:
    if claim.value == 0:
        return -math.inf
    return math.log(claim.value) if attempt is None else claim.log_budget(attempt)
