"""One attempt: written down, verified, certified. And its continuation after a crash."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from concurrent.futures import BrokenExecutor, CancelledError, Executor
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

from evr.certification.budget import Budget
from evr.certification.build import build, differences, epsilon_per_record, software
from evr.certification.certificate import Certificate
from evr.certification.event_json import digest_of, event_from_json
from evr.certification.ledger import Ledger, now, opened
from evr.certification.proof_file import proof_file, seal_of, write_proof
from evr.certification.tables import Attempt
from evr.errors import ClusterError, DeviceError, EvrError, LedgerError
from evr.gate.request import Request, writable
from evr.laws import Direction
from evr.mechanisms import Composition
from evr.planning.sampled import chosen_device
from evr.proving import Announce, Forecast, Sampling, forecast, prove
from evr.proving.showing import check_progress
from evr.randomness import fresh_entropy
from evr.verification import Claim, Verification
from evr.verification.attempts import Attempt as Trying
from evr.verification.driver import ProgressHook, check_at_work
from evr.verification.settings import Settings

_STOPPED = (KeyboardInterrupt, SystemExit, GeneratorExit)
_RESUMABLE = (*_STOPPED, OSError, MemoryError, LedgerError, BrokenExecutor, CancelledError, DeviceError)


def start(ledger: Ledger, request: Request, *, for_output: bool = False) -> Attempt:
    """Write an attempt down; from here on it counts. What can be refused is refused before."""
    device, seed, path, budget = _device(request.settings), request.sampling.seed, request.path, request.budget
    return ledger.begin(
        request.claim,
        request.settings,
        relation=request.composition.relation,
        name=request.name,
        for_output=for_output,
        entropy=fresh_entropy() if seed is None else seed,
        entropy_is_fresh=seed is None,
        event=request.document,
        event_digest=digest_of(request.document),
        options={
            "device": device,
            "path": None if path is None else str(path),
            "proof": None if request.proof is None else str(request.proof),
            "record": request.record,
            "description": request.description,
            "replaces": path is not None and path.is_file(),
            "budget": None if budget is None else {"name": budget.name, "by": budget.by},
        },
        software=software(),
    )


def _device(settings: Settings) -> str | None:
    """Who draws; None where nothing is drawn. A device that is not here is refused."""
    return None if settings.method == "strict" else chosen_device(settings.device)[0]


def attempted(
    ledger: Ledger, request: Request, announce: Announce | None = None, *, for_output: bool = False
) -> tuple[Attempt, Certificate]:
    """One attempt from its forecast, which is announced before it counts, to its certificate. The forecast refuses
    requests whose plan shows that they cannot succeed.
    """
    composition, claim = request.composition, request.claim
    terms, number = ledger.upcoming(claim, name=request.name, relation=composition.relation, for_output=for_output)
    ahead = forecast(
        composition,
        replace(claim, terms=terms),
        request.settings,
        attempt=number,
        workers=request.sampling.workers,
        strict=request.strict,
    )
    if announce is not None:
        announce(ahead)
    attempt = start(ledger, request, for_output=for_output)
    return attempt, perform(ledger, attempt, request.sampling, progress=request.progress, ahead=ahead)


def perform(
    ledger: Ledger,
    attempt: Attempt,
    sampling: Sampling | None = None,
    *,
    progress: ProgressHook | None = None,
    path: Path | None = None,
    ahead: Forecast | None = None,
) -> Certificate:
    """Verify an attempt that is written down, write its certificate, and close it. Its entropy fixes every block, so
    nothing of an earlier run is needed.

    The certificate goes to ``path``, or else where the attempt says. ``ahead`` is the forecast of the request that
    the attempt was started with.
    """
    release = next(r for r in ledger.releases() if r.id == attempt.release_id)
    event, options, drawn = event_from_json(attempt.event), attempt.options, sampling or Sampling()
    if digest_of(attempt.event) != attempt.event_digest:
        raise LedgerError(f"{ledger.path}: the ledger is damaged (the event of attempt {attempt.id})")
    composition = Composition.of(event, attempt.relation) if ahead is None else ahead.composition
    claim = Claim(attempt.epsilon, attempt.delta, attempt.tau, release.terms)
    begun = time.perf_counter()
    with _accounted_for(ledger, attempt):
        how = Trying(
            number=attempt.number,
            seed=attempt.entropy,
            executor=drawn.executor,
            workers=drawn.workers,
            progress=progress,
            alive=lambda: ledger.keep(attempt),
        )
        verification = prove(composition, claim, attempt.settings, how, ahead)
        given: dict[str, Any] = {
            **dict.fromkeys(("budget", "proof", "per_record")),
            "event": attempt.event,
            "description": options["description"],
            "neighboring_relation": attempt.relation.name,
            "software": attempt.software,
            "record": options.get("record"),
        }
        if verification.accepted:
            given["budget"] = _spent(ledger, attempt)
            given["proof"] = _proof_written(composition, claim, verification, options.get("proof"))
            if verification.method in ("strict", "both"):
                given["per_record"] = epsilon_per_record(event, claim.delta, attempt.relation)
        given["times"] = {"started": attempt.started, "finished": now(), "seconds": time.perf_counter() - begun}
        certificate = build(
            verification,
            claim,
            attempt.settings,
            name=release.name,
            entropy_is_fresh=attempt.entropy_is_fresh,
            given=given,
        )
        if (where := path or options["path"]) is not None:
            certificate.save(where)
        elsewhere = None if path is None else str(path)
        ledger.finish(attempt, certificate.verdict, samples=verification.samples, written=elsewhere)
    return certificate


def _spent(ledger: Ledger, attempt: Attempt) -> dict[str, Any] | None:
    """Spend what an attempt is about from its budget, if it has one; an attempt that is continued spends once."""
    if not attempt.options.get("budget"):
        return None
    budget = Budget(**attempt.options["budget"], ledger=ledger)
    spending = budget.spend(event_from_json(attempt.event), attempt=attempt)
    row = budget.account().row
    named = {"name": row.name, "epsilon": row.epsilon, "delta": row.delta, "kind": row.kind}
    return {**named, "spending": spending.number, "by": spending.spender}


def _proof_written(composition: Composition, claim: Claim, verification: Verification, path: str | None) -> str | None:
    """Write the proof file and the checker beside it, where that was asked for and there is a proof; the file's
    digest.
    """
    if path is None:
        return None
    proofs = {
        Direction(name): None if report.strict is None else report.strict.plan
        for name, report in verification.directions.items()
    }
    data = proof_file(composition, Fraction(claim.epsilon), Fraction(claim.delta), proofs)
    write_proof(path, data)
    return seal_of(data)


@contextlib.contextmanager
def _accounted_for(ledger: Ledger, attempt: Attempt) -> Iterator[None]:
    """Write down how an attempt ended if it does not end well; where that fails too, the row says that it was
    running.
    """
    try:
        yield
    except BaseException as error:
        state = "interrupted" if isinstance(error, _RESUMABLE) else "failed"
        with contextlib.suppress(EvrError):
            ledger.finish(attempt, state, message=f"{type(error).__name__}: {error}"[:1000])
        if isinstance(error, ClusterError | KeyboardInterrupt):
            error.add_note("the attempt counts; `evr resume` continues it")
        raise


def resume(
    ledger: Ledger | str | Path | None = None,
    *,
    attempt: int | None = None,
    path: str | Path | None = None,
    progress: ProgressHook | None = None,
    workers: int | None = None,
    executor: Executor | None = None,
) -> Certificate:
    """Continue a verification that was interrupted: its samples are drawn again, and the verdict is the one that it
    would have had.

    Parameters
    ----------
    ledger
        Where it is counted: ``.evr/ledger.sqlite`` in the working directory by default.
    attempt
        The ``id`` of one in ``Ledger.interrupted()``; the latest by default.
    path
        Where to write the certificate, instead of the file that was planned.
    workers, executor, progress
        As of ``evr.verify``.

    Returns
    -------
    Certificate
        Of the attempt, now complete.

    Raises
    ------
    LedgerError
        If there is none, or if it was begun with another version of evr, NumPy or SciPy, or on another device: its
        samples could not be drawn again.
    """
    with opened(ledger) as one:
        waiting = [each for each in one.interrupted() if attempt in (None, each.id)]
        if not waiting:
            what = "no verification was interrupted" if attempt is None else f"attempt {attempt!r} was not interrupted"
            raise LedgerError(f"{one.path}: {what}")
        chosen = waiting[0]
        if changed := differences(chosen.software, software()):
            raise LedgerError(
                f"attempt {chosen.number} was begun with {changed[0]}: its samples "
                "may not come out the same, so start another attempt"
            )
        begun = chosen.options.get("device")
        if chosen.settings.device == "auto" and _device(chosen.settings) != begun:
            raise LedgerError(
                f"attempt {chosen.number} was begun with device={begun!r}, and device='auto' is another one here: its "
                "samples would differ, so start another attempt"
            )
        elsewhere = writable(path=path)
        writable(path=elsewhere or chosen.options["path"])
        check_progress(progress)
        check_at_work(executor)
        sampling = Sampling(workers=workers, executor=executor)
        return perform(one, one.take_over(chosen), sampling, progress=progress, path=elsewhere)
