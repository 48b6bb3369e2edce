"""Replay: compute a certificate again and compare, the only way to trust somebody else's.

Event, claim, attempt, entropy, settings and plans determine everything else, so an altered number or word shows even
if the digest was mended. Some fields cannot be computed and are taken as recorded (``TAKEN``, the name of a release,
the freshness of the entropy). What is too large or takes too long is refused; no guarantee rests on that.
"""

import contextlib
import ctypes
import math
import re
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from evr._accounting import estimate_delta
from evr._basics import validate
from evr._basics.randomness import Stream
from evr._certificate.build import build, is_proved, software
from evr._certificate.build import differences as software_differs
from evr._certificate.certificate import Certificate, DirectionSection
from evr._certificate.event_json import plain, walk
from evr._certificate.judging import Mismatch, claim_of, contradictions, differences, refuse, settings_of
from evr._kernel.events import Composition
from evr._kernel.pairs import Direction, Step
from evr._kernel.sampled.deciding import Ending, State
from evr._kernel.sampled.driver import ProgressHook
from evr._kernel.sampled.plan import DrawPlan
from evr._kernel.strict import ProofPlan
from evr._kernel.verdict.attempts import PURPOSE, Attempt, Planner, StrictPlanner, Trial
from evr._kernel.verdict.results import DirectionReport, Verification
from evr._kernel.verdict.settings import Claim, Settings
from evr._proof.writer import proof_of, seal_of
from evr._proving.api import check_progress, watching
from evr.errors import AccuracyError, DeviceError, DisagreementError, TooLongError, UnsupportedEventError

TAKEN = ("software", "times", "record", "budget", "event", "description", "neighboring_relation")
"""Fields that a replay takes as recorded; ``evr._certificate.judging`` compares some of them with each other."""
MAX_SECONDS = 600.0  # allowed by default
_MOST_OUTCOMES = 10_000_000  # parts of an event, with the outcomes of its discrete laws
_MOST_BITS = 1 << 34  # of the masses of a strict proof
_OUTCOMES = {"sigma": 80.0, "sensitivity": 1.0, "iterations": 0.1, "cycle_length": 0.1, "sensitivities": 500.0}
"""About how many outcomes each unit, or each entry, of these fields of an event costs."""
_UNDOABLE = (ValueError, TypeError, ArithmeticError, LookupError, MemoryError, RecursionError, DisagreementError)
_CLOSE = 1e-9
_FEW, _DOUBTS = 5000, 5.0  # samples of an estimate, and by how many of its errors it is above what it contradicts
_DRAWN = re.compile(r"verification\.(directions|samples)(?!.*\.strict\.)")
"""Fields that depend on the samples. The integers of strict proofs come out the same everywhere."""
_SEEN = ("samples", "estimate", "standard_error", "log_wealth", "trace")
_FRESH = re.compile(
    rf"verification\.(samples|entropy|notes|directions\.\w+\.({'|'.join(_SEEN)}|blocks|reason|plan\.device))"
)
"""What only drawing tells of a direction, and all that new samples change."""
_WAYS_ON = (
    "This says nothing about the certificate: replay it with the software that made it, or verify "
    "its claim with new samples (--fresh)"
)
_ALLOW = "if you trust the file, allow more with --max-seconds, inf for no limits (max_seconds=, None, in Python)"
_RECORD = (
    "a replay does not read the record of the training: evr.Record.load(...).is_certified_by tells "
    "whether the record names this certificate"
)


@dataclass(frozen=True)
class Replay:
    """The result of a replay.

    Attributes
    ----------
    mismatches
        Fields that differ; empty if the replay came to the same certificate.
    verification
        That of the replay, if it was completed; with ``fresh``, an independent one.
    fresh
        Whether new samples were drawn: those recorded are then compared by their verdict alone.
    notes
        What else a reader should know.
    undecided
        Set if other software made the certificate and may be the reason for every mismatch: which software, and what to
        do. Such mismatches say nothing about the certificate.
    """

    mismatches: tuple[Mismatch, ...]
    verification: Verification | None
    fresh: bool
    notes: tuple[str, ...] = ()
    undecided: str | None = None

    @property
    def agrees(self) -> bool:
        """Whether nothing differs."""
        return not self.mismatches


def replay(
    certificate: Certificate | str | Path,
    *,
    fresh: bool = False,
    workers: int | None = None,
    progress: ProgressHook | None = None,
    max_seconds: float | None = MAX_SECONDS,
) -> Replay:
    """Repeat the proof of a certificate and compare every field; with ``fresh``, draw new samples where it has any, and
    compare all but them.

    A certificate may come from a stranger. One that asks for more than any that evr writes is refused at once, and
    ``TooLongError`` is raised after ``max_seconds``.

    With other software or processors the statistics of samples may differ in the last digits, which counts as equal. If
    they differ by more, ``undecided`` says so.

    Parameters
    ----------
    certificate
        Of ``certify`` or from ``Certificate.load``; or the name of its file.
    fresh
        Draw samples from new entropy: an independent check.
    workers, progress
        As of ``evr.verify``.
    max_seconds
        How long it may take; None lifts all limits.

    Returns
    -------
    Replay
        What differs, if anything: ``agrees``.

    Raises
    ------
    CertificateError
        If the file is damaged or altered, or contradicts itself (``FalseCertificateError``).
    TooLongError
        If it takes longer than ``max_seconds``, or the event or the proof is too large.

    Examples
    --------
    >>> import evr, tempfile
    >>> from dp_accounting import dp_event
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     certificate = evr.certify(dp_event.GaussianDpEvent(4.0), delta=1e-5,
    ...                               ledger=f"{folder}/ledger.sqlite")
    >>> evr.replay(certificate).agrees
    True
    """
    certificate = Certificate.of(certificate)
    validate.worker_count(workers)
    check_progress(progress)
    seconds, verification = seconds_allowed(max_seconds), None
    try:
        if wrong := tuple(contradictions(certificate)):
            return Replay(wrong, None, fresh)
        with watching(progress) as hook, alarmed(seconds, "replaying it"):
            claim, settings = claim_of(certificate), settings_of(certificate)
            composition = understood(certificate, seconds)
            how, draw = Attempt(number=certificate.release.attempt, workers=workers, progress=hook), settings
            if not fresh and settings.method != "strict":
                how = replace(how, seed=int(certificate.verification.entropy, 16))
                most = max((1, *(one.samples for one in certificate.verification.directions.values())))
                draw = replace(draw, max_samples=min(most, draw.max_samples or most))  # no more than are recorded
            verification = how.run(composition, claim, draw, *_plans(certificate, fresh=fresh))
            again = _rebuilt(certificate, claim, settings, verification)
            found = list(differences(certificate.document(), again.document()))
            if fresh:  # what is recorded of samples has to fit, too
                found = [one for one in found if not _FRESH.match(one.field)]
                found += _without_samples(certificate, composition)
    except (TooLongError, DeviceError):
        raise
    except _UNDOABLE as error:
        found = [Mismatch("verification", "done", f"cannot be done: {error}")]
    return _judged(certificate, found, verification, fresh)


def confirmed(path: str | Path, max_seconds: float | None = MAX_SECONDS) -> Certificate:
    """Read a certificate, and compute again all that needs no samples; ``FalseCertificateError`` names what does not
    come out. Whatever a command says about a file, it says after this. Only ``replay`` draws samples again.
    """
    certificate, seconds = Certificate.load(path), seconds_allowed(max_seconds)
    with alarmed(seconds, "checking it"):
        composition = understood(certificate, seconds)
        try:
            mismatches = list(_without_samples(certificate, composition))
        except _UNDOABLE as error:
            mismatches = [Mismatch("verification", "done", f"cannot be done: {error}")]
    refuse(mismatches, f"{path}: ")
    return certificate


def _without_samples(certificate: Certificate, composition: Composition) -> Iterator[Mismatch]:
    """What does not come out again of a certificate, its samples taken as recorded: proofs in exact arithmetic, the
    bounds that samples are tested against, and whether the test accepts them. A claim that an estimate contradicts is
    false.
    """
    claim, settings, document = claim_of(certificate), settings_of(certificate), certificate.document()
    attempt, entropy = certificate.release.attempt, int(certificate.verification.entropy, 16)
    recorded, (planner, strictly) = document["verification"]["directions"], _plans(certificate)
    again: dict[str, dict[str, Any]] = {name: dict(part) for name, part in recorded.items()}
    if strict := settings.method in ("strict", "both"):
        proved = Attempt(number=attempt).run(composition, claim, Settings("strict"), strictly=strictly)
        fields = DirectionSection.model_fields if settings.method == "strict" else ("strict",)
        for name, report in proved.directions.items():
            if name in again or settings.method == "strict":
                again[name] = {**again.get(name, {}), **{key: getattr(report, key) for key in fields}}
    for name, part in certificate.verification.directions.items() if settings.method != "strict" else ():
        how = replace(settings, method="sequential") if strict else settings
        stream, steps = Stream(entropy, PURPOSE, attempt, name), composition.simplified(Direction(name))
        trial = Trial(name, steps, claim, how, attempt, claim.log_budget(attempt), stream)
        if name == "add" and composition.is_symmetric:
            again[name] = {**again["remove"], "reason": "the same as remove", "samples": 0, "blocks": 0}
        elif isinstance(driver := trial.prepared(planner(trial)), DirectionReport):
            again[name] |= {key: getattr(driver, key) for key in recorded[name] if key != "strict"}
        else:
            total, size = part.estimate / driver.unit * part.samples, driver.plan.block_size
            state = State(part.samples, math.ceil(part.samples / size), total, log_wealth=part.log_wealth or 0.0)
            ending = (driver.test.ending(state) or Ending(False, "")) if part.accepted else Ending(False, part.reason)
            report = driver.report(ending, state)
            again[name] |= {key: getattr(report, key) for key in recorded[name] if key not in (*_SEEN, "strict")}
    compared = differences(recorded, plain(again), "verification.directions")
    yield from (mismatch for mismatch in compared if not _is_close(mismatch))
    yield from differences(document, {**document, **_proved_again(certificate, claim)})
    if certificate.accepted and not strict:
        with contextlib.suppress(AccuracyError, UnsupportedEventError):
            about = estimate_delta(composition, claim.epsilon, method="monte_carlo", samples=_FEW, seed=0)
            if about.value - _DOUBTS * (about.doubt or 0.0) > claim.delta:
                yield Mismatch("claim.delta", claim.delta, f"about {about.value:.4g}, by an estimate")


def _plans(certificate: Certificate, *, fresh: bool = False) -> tuple[Planner, StrictPlanner]:
    """The plan of each direction's samples, and the grids of its proof, from the certificate. New samples are drawn by
    the processor.
    """
    sections, proofs = certificate.verification.directions, certificate.proofs()
    draws = {name: DrawPlan.from_json(one.plan) for name, one in sections.items() if one.plan is not None}
    if fresh:
        draws = {name: replace(one, device="cpu") for name, one in draws.items()}

    def strict(direction: Direction, steps: tuple[Step, ...]) -> list[ProofPlan]:
        if (proof := proofs.get(direction.value)) is None:
            raise ValueError(f"there is no proof for direction {direction.value!r}")
        return [] if proof.plan is None else [proof.plan]

    return lambda trial: draws.get(trial.direction), strict


def _judged(certificate: Certificate, found: list[Mismatch], verification: Verification | None, fresh: bool) -> Replay:
    """Judge the differences, given the software that drew the samples. Integers come out the same everywhere."""
    notes: tuple[str, ...] = () if certificate.record is None else (_RECORD,)
    if certificate.verification.method == "strict":
        return Replay(tuple(found), verification, fresh, notes)
    # the statement is made of the rest, and differs where a number of samples does
    kept = tuple(one for one in found if one.field != "statement" and not _is_close(one))
    other, undecided = "; ".join(software_differs(certificate.software.model_dump(), software())), None
    if other and not kept:
        notes += (f"it was made with {other}: statistics are compared to a relative difference of {_CLOSE:g}",)
    if other and kept and not fresh and all(_DRAWN.match(one.field) for one in kept):
        undecided = f"its samples were drawn by evr {certificate.software.evr} with {other}. {_WAYS_ON}"
    return Replay(kept, verification, fresh, notes, undecided)


def _is_close(one: Mismatch) -> bool:
    """Whether a statistic or a bound of samples differs in its last digits only."""
    old, new = one.recorded, one.recomputed
    floats = isinstance(old, float) and isinstance(new, float)
    return floats and bool(_DRAWN.match(one.field)) and math.isclose(old, new, rel_tol=_CLOSE, abs_tol=1e-300)


def _rebuilt(certificate: Certificate, claim: Claim, settings: Settings, verification: Verification) -> Certificate:
    """The certificate that the replay's verification gives."""
    document = certificate.document()
    return build(
        verification,
        claim,
        settings,
        name=certificate.release.name,
        entropy_is_fresh=certificate.verification.entropy_is_fresh,
        given={**{key: document.get(key) for key in TAKEN}, **_proved_again(certificate, claim)},
    )


def _proved_again(certificate: Certificate, claim: Claim) -> dict[str, Any]:
    """The seal of the proof file, and the number per record, each None where it is not proved."""
    event, epsilon = certificate.dp_event(), certificate.per_record
    proved = epsilon is not None and is_proved(epsilon, event, claim.delta, certificate.relation)
    seals = {} if certificate.proof is None else {"proof": seal_of(proof_of(certificate))}
    return seals | ({} if epsilon is None else {"per_record": epsilon if proved else None})


def seconds_allowed(max_seconds: float | None) -> float:
    """How long something may take: infinitely long for None, which lifts the limits of sizes too."""
    return math.inf if max_seconds in (None, math.inf) else validate.positive(max_seconds=max_seconds)


class _Alarm(BaseException):
    """Not an ``Exception``, so that nothing on its way catches it."""


@contextlib.contextmanager
def alarmed(seconds: float, doing: str) -> Iterator[None]:
    """Stop the work inside after so many seconds, in whichever thread it is. No signal and no timer of the caller is
    touched: another thread has the interpreter raise an exception here.
    """
    if seconds >= 1e9:  # longer than a thread waits
        yield
        return
    worker, begun = threading.get_ident(), time.monotonic()
    over, sending = threading.Event(), threading.Lock()

    def watch() -> None:
        pause = max(seconds, 0.01)  # the work has begun by then
        while not over.wait(pause):
            with sending:
                if not over.is_set():
                    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(worker), ctypes.py_object(_Alarm))
            pause = 1.0  # again, in case something swallowed the exception

    threading.Thread(target=watch, daemon=True).start()
    try:
        try:
            yield
        finally:
            _call_off(over, sending)
        if time.monotonic() - begun > seconds:
            raise _Alarm
    except _Alarm:
        raise TooLongError(f"{doing} took more than {seconds:g} s: {_ALLOW}") from None
    finally:  # once more: an alarm may have come before the first was begun
        _call_off(over, sending)


def _call_off(over: threading.Event, sending: threading.Lock) -> None:
    """Let no alarm ring any more. One on its way is awaited here: taken back, it would leave the interpreter in a state
    in which profilers and debuggers hang (CPython 3.11).
    """
    while True:
        try:
            with sending:
                over.set()
            for _ in range(100):
                pass
            return
        except _Alarm:
            continue


def understood(certificate: Certificate, seconds: float) -> Composition:
    """The composition of a certificate's event. If time is limited, so are the sizes of the event and of the proofs."""
    if seconds < math.inf:
        plans = [proof.plan for proof in certificate.proofs().values()]
        bits = max([0, *(plan.places * plan.bits for plan in plans if plan is not None)])
        for size, most, what in (
            (_size(certificate.event), _MOST_OUTCOMES, "parts and outcomes in its event"),
            (bits, _MOST_BITS, "bits in its proof"),
        ):
            if size > most:
                raise TooLongError(f"about {size:,.0f} {what}, more than the limit of {most:,}: {_ALLOW}")
    return Composition.of(certificate.dp_event(), certificate.relation)


def _size(event: Any) -> float:
    """About how many parts an event in JSON has; the outcomes of its discrete laws are counted too."""
    outcomes = 0.0
    for value, _ in walk(event):
        if isinstance(value, list):
            outcomes += len(value)
        elif isinstance(value, dict):
            for key in _OUTCOMES.keys() & value.keys():
                size = len(value[key]) if isinstance(value[key], list) else value[key]
                if isinstance(size, int | float):
                    outcomes += _OUTCOMES[key] * min(abs(size), 1e18)
    return outcomes
