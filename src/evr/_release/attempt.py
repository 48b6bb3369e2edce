"""One attempt: requested and checked, written down, verified, certified."""

from __future__ import annotations

import contextlib
import gc
import sys
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import BrokenExecutor, CancelledError
from dataclasses import replace
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any, Unpack

from evr._basics import atomic, validate
from evr._basics.numbers import short_exponent
from evr._basics.randomness import entropy_of
from evr._certificate.build import build, epsilon_per_record, software
from evr._certificate.certificate import Certificate
from evr._certificate.event_json import digest_of, event_from_json, event_to_json, walk
from evr._dpsgd import stated_in
from evr._kernel.events import Composition
from evr._kernel.events.relations import Relation, name_of
from evr._kernel.pairs import Direction
from evr._kernel.verdict.attempts import Attempt
from evr._kernel.verdict.results import Verification
from evr._kernel.verdict.settings import Claim, Settings, threshold_of
from evr._plan.sampled import chosen_device
from evr._proof.laws import check_texts
from evr._proof.writer import checker_beside, proof_file, seal_of, write_proof
from evr._proving.api import prove
from evr._proving.choosing import Announce, Forecast, StrictProving, forecast
from evr._proving.planning import planning_told
from evr._proving.progress import ProgressHook, check_progress
from evr._proving.sampling import Sampling, SamplingOptions
from evr._release.budget import Budget
from evr._release.claiming import claimed
from evr._release.journal import AttemptRow
from evr._release.ledger import Ledger, Wanted, now
from evr._wording.description import description_of, protected
from evr._wording.events import describe
from evr.errors import ClusterError, DeviceError, EvrError, LedgerError, UnsupportedEventError

_STOPPED = (KeyboardInterrupt, SystemExit, GeneratorExit)
_RESUMABLE = (*_STOPPED, OSError, MemoryError, LedgerError, BrokenExecutor, CancelledError, DeviceError)


class Request:
    """What ``certify`` is asked for, checked before an attempt is counted. With ``for_output``, the release must not
    have let out its one output, and a pair that seems to be false is tested all the same.
    """

    def __init__(
        self,
        event: Any,
        for_output: bool,
        /,
        *,
        epsilon: float | None,
        delta: float | None,
        risk: Mapping[str, float | None] | None = None,
        tau: float | None = None,
        method: str = "auto",
        ledger: Ledger | str | Path | None = None,
        path: str | Path | None = None,
        proof: str | Path | None = None,
        name: str | None = None,
        budget: Budget | str | None = None,
        progress: ProgressHook | None = None,
        announce: Announce | None = None,
        neighboring_relation: Relation | None = None,
        unit: str | None = None,
        record: dict[str, Any] | None = None,
        description: Mapping[str, Any] | None = None,
        **sampling: Unpack[SamplingOptions],
    ) -> None:
        self.begun = time.perf_counter()
        self.sampling = Sampling.of(sampling)
        self.ledger, self.record, self.progress = ledger, record, check_progress(progress)
        self.announce = None if announce is None else validate.function(announce=announce)
        self.budget = None if budget is None else Budget.of(budget, ledger)
        if self.budget is not None:
            self.ledger = self.budget.ledger
            neighboring_relation = self.budget.relation(neighboring_relation)
        _refuse_event_of_bands(event)
        self.document = event_to_json(event)
        self.composition = Composition.of(event, neighboring_relation)
        if proof is not None:
            check_texts(self.composition)
        written = event_from_json(self.document)
        describe(written)  # the words of a mechanism of somebody's own may fail
        rates = {name: rate for name, rate in (risk or {}).items() if rate is not None}
        more = {"unit": unit, "false_positive_rate": rates.get("false_positive_rate")}
        given = {} if record else stated_in(event)
        given |= {**(description or {}), **{key: value for key, value in more.items() if value is not None}}
        self.description = description_of(given, written)
        self.path = writable(path=path)
        if self.budget is not None:
            self.budget.account().check(event, self.description.unit)
        tell = planning_told(self.composition, progress, method)
        self.claim = claimed(self.composition, epsilon, delta, rates, tau, None if for_output else event)
        tell(short_exponent(f"Estimated: ({self.claim.epsilon!r}, {self.claim.delta!r}) is to be proved"))
        whose = protected(written, self.description.unit)
        self.strict = StrictProving(self.composition, tell)
        enough = threshold_of(self.claim) * (1 - Fraction(self.claim.kappa))  # as an attempt of a release
        self.settings = self.strict.settings(method, self.sampling, self.claim, enough)
        for given, _ in walk([self.document, self.description.model_dump(), self.settings.max_samples]):
            if isinstance(given, int) and given >= 1 << 53:  # floats, which JSON's numbers are, have holes there
                raise ValueError(f"{given:,} is not below 2**53, so a certificate cannot hold it: give less")
        is_strict = self.settings.method == "strict"
        self.wanted = Wanted(self.claim, name, self.composition.relation, whose, for_output, is_strict)
        self.proof = writable(proof=proof)
        if proof is not None:
            if self.settings.method not in ("strict", "both"):
                raise ValueError(f"method={self.settings.method!r} draws samples: a proof file needs method='strict'")
            if self.path in (self.proof, checker_beside(Path(proof).absolute())):
                raise ValueError(f"proof={str(proof)!r} is where the certificate goes, too")
        self.sampling.check_at_work()
        if self.settings.method != "strict":
            self.composition.check_drawn()


def _refuse_event_of_bands(event: Any) -> None:
    """Refuse the bare ``dp_event`` of a plan of JAX Privacy with several bands. It is equal to an event of DP-SGD and
    does not say that fixed groups took turns, for which there is no proof under add-or-remove; so it is known as an
    object, while its plan is in memory.
    """
    if "jax_privacy" not in sys.modules:
        return
    parts, rest = set[int](), [event]
    while rest:
        parts.add(id(part := rest.pop()))
        rest += [*getattr(part, "events", ()), *([part.event] if hasattr(part, "event") else ())]
    for plan in gc.get_objects():
        if type(plan).__name__ != "DPExecutionPlan" or id(plan.dp_event) not in parts:
            continue
        if (bands := getattr(plan.batch_selection_strategy, "cycle_length", 1)) != 1:
            what = f"this is the dp_event of a plan of JAX Privacy with {bands} bands, whose groups take turns"
            raise UnsupportedEventError(f"{what}: give evr.events.from_jax_privacy(config) of its configuration")


def writable(**named: str | Path | None) -> Path | None:
    """Where a file goes, absolute; refused if it cannot be written there."""
    if None in named.values():
        return None
    target = validate.path(**named).absolute()
    atomic.check_writable(path=target)
    return target


def attempted(ledger: Ledger, request: Request) -> tuple[AttemptRow, Certificate]:
    """One attempt from its forecast, which may refuse it and is announced before it counts, to its certificate."""
    terms, number = ledger.upcoming(request.wanted)
    claim, drawn, strict = replace(request.claim, terms=terms), request.sampling, request.strict
    settings, workers = request.settings, drawn.workers
    ahead = forecast(request.composition, claim, settings, attempt=number, workers=workers, strict=strict)
    if request.announce is not None:
        request.announce(ahead)
    attempt = start(ledger, request)
    return attempt, perform(ledger, attempt, drawn, progress=request.progress, ahead=ahead, begun=request.begun)


def start(ledger: Ledger, request: Request) -> AttemptRow:
    """Write an attempt down; from here on it counts. What can be refused is refused before."""
    device, seed, path, budget = drawing_device(request.settings), request.sampling.seed, request.path, request.budget
    return ledger.begin(
        request.wanted,
        settings=request.settings,
        entropy=entropy_of(seed),
        entropy_is_fresh=seed is None,
        event=request.document,
        event_digest=digest_of(request.document),
        options={
            "device": device,
            "path": path and str(path),
            "proof": request.proof and str(request.proof),
            "record": request.record,
            "description": request.description.model_dump(exclude_none=True),
            "replaces": path is not None and path.is_file(),
            "budget": budget and {"name": budget.name, "by": budget.by},
        },
        software=software(),
    )


def drawing_device(settings: Settings) -> str | None:
    """Who draws; None where nothing is drawn. A device that is not here is refused."""
    return None if settings.method == "strict" else chosen_device(settings.device)[0]


def perform(
    ledger: Ledger,
    attempt: AttemptRow,
    sampling: Sampling | None = None,
    *,
    progress: ProgressHook | None = None,
    path: Path | None = None,
    ahead: Forecast | None = None,
    begun: float | None = None,
) -> Certificate:
    """Verify an attempt that is written down, write its certificate to ``path``, or else where the attempt says, and
    close it. Its entropy fixes every block, so nothing of an earlier run is needed, nor the forecast ``ahead`` of it.
    ``begun`` is when the work on it began: proofs may be in hand already.
    """
    with ledger.counting(writes=False) as held:
        release = held.row("releases", attempt.release_id)
    event, options, drawn = event_from_json(attempt.event), attempt.options, sampling or Sampling()
    composition = Composition.of(event, attempt.relation) if ahead is None else ahead.strict.composition
    claim = Claim(attempt.epsilon, attempt.delta, attempt.tau, release.terms)
    begun = time.perf_counter() if begun is None else begun
    with _accounted_for(ledger, attempt):
        how = Attempt(number=attempt.number, seed=attempt.entropy, executor=drawn.executor)
        keep = partial(ledger.keep, attempt)
        verification = prove(
            composition, claim, attempt.settings, how, ahead, workers=drawn.workers, progress=progress, alive=keep
        )
        given: dict[str, Any] = {
            "event": attempt.event,
            "description": options["description"],
            "neighboring_relation": name_of(attempt.relation),
            "software": attempt.software,
            "record": options["record"],
        }
        if verification.accepted:
            given["budget"] = options["budget"] and _spent(ledger, attempt)
            given["proof"] = options["proof"] and _proof_written(composition, claim, verification, options["proof"])
            if verification.method in ("strict", "both"):
                given["per_record"] = epsilon_per_record(event, claim.delta, attempt.relation)
        given["times"] = {"started": attempt.started, "finished": now(), "seconds": time.perf_counter() - begun}
        name, fresh = release.name, attempt.entropy_is_fresh
        certificate = build(verification, claim, attempt.settings, name=name, entropy_is_fresh=fresh, given=given)
        if (where := path or options["path"]) is not None:
            certificate.save(where)
        ledger.finish(attempt, certificate.verdict, samples=verification.samples, written=path and str(path))
    return certificate


def _spent(ledger: Ledger, attempt: AttemptRow) -> dict[str, Any]:
    """Spend what an attempt is about from its budget; an attempt that is continued spends once."""
    budget = Budget(**attempt.options["budget"], ledger=ledger)
    spending = budget.spend(event_from_json(attempt.event), unit=attempt.unit, attempt=attempt)
    row = budget.account().row
    named = {name: getattr(row, name) for name in ("name", "epsilon", "delta", "kind")}
    return {**named, "spending": spending.number, "by": spending.spender}


def _proof_written(composition: Composition, claim: Claim, verification: Verification, path: str) -> str:
    """Write the proof file and the checker beside it; the file's digest."""
    reports = verification.directions.items()
    plans = {Direction(name): None if one.strict is None else one.strict.plan for name, one in reports}
    data = proof_file(composition, Fraction(claim.epsilon), Fraction(claim.delta), plans)
    write_proof(path, data)
    return seal_of(data)


@contextlib.contextmanager
def _accounted_for(ledger: Ledger, attempt: AttemptRow) -> Iterator[None]:
    """Write down how an attempt ended if it does not end well; where that fails too, its row says that it runs."""
    try:
        yield
    except BaseException as error:
        state = "interrupted" if isinstance(error, _RESUMABLE) else "failed"
        with contextlib.suppress(EvrError):
            ledger.finish(attempt, state, message=f"{type(error).__name__}: {error}"[:1000])
        if isinstance(error, ClusterError | KeyboardInterrupt):
            error.add_note("the attempt counts; `evr resume` continues it")
        raise
