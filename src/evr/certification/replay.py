"""Replay: compute a certificate again and compare, the only way to trust somebody else's.

Event, claim, attempt, entropy, settings and plans determine everything else, so an altered number or word shows even
if the digest was mended. Some fields cannot be computed and are taken as recorded (``TAKEN``, the name of a release,
the freshness of the entropy). What is too large or takes too long is refused; no guarantee rests on that.
"""

import contextlib
import math
import re
import signal
import threading
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from evr import validate
from evr.bounds.strict import ProofPlan, StatedProof
from evr.certification.build import build, is_proved, software
from evr.certification.certificate import Certificate
from evr.certification.event_json import walk
from evr.certification.proof_file import proof_of, seal_of
from evr.certification.words import phases_of, statement
from evr.errors import CertificateError, DeviceError, DisagreementError, TooLongError
from evr.laws import Direction, Step
from evr.mechanisms import Composition
from evr.proving import prove
from evr.proving.api import check_progress, watching
from evr.randomness import ENTROPY_BITS
from evr.sampling import DrawPlan
from evr.verification import Claim, Progress, Terms, Verification
from evr.verification.attempts import Attempt, Planner, StrictPlanner
from evr.verification.driver import Hook, ProgressHook
from evr.verification.settings import Settings

TAKEN = ("software", "times", "record", "budget", "event", "description", "neighboring_relation")
"""Fields that a replay takes as recorded; ``_unbelievable`` compares the record with the event."""
MAX_SECONDS = 600.0  # allowed by default
_MOST_OUTCOMES = 10_000_000  # parts of an event, with the outcomes of its discrete laws
_MOST_BITS = 1 << 34  # of the masses of a strict proof
_OUTCOMES = {"sigma": 80.0, "sensitivity": 1.0, "iterations": 0.1, "cycle_length": 0.1, "sensitivities": 500.0}
"""About how many outcomes each unit, or each entry, of these fields of an event costs."""
_UNDOABLE = (ValueError, TypeError, ArithmeticError, LookupError, MemoryError, RecursionError, DisagreementError)
_SMALLEST_FRESH = 1 << 160  # 256 fresh bits are below this once in 2^96
_CLOSE = 1e-9
_UNCOMPARED = re.compile(r"digest|verification\.directions\.\w+\.seconds")
_DRAWN = re.compile(r"verification\.(directions|samples)(?!.*\.strict\.)")
"""Fields that depend on the samples. The integers of strict proofs come out the same everywhere."""
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
class Mismatch:
    field: str
    recorded: Any
    recomputed: Any

    def __str__(self) -> str:
        return f"{self.field}: recorded {self.recorded!r:.120}, recomputed {self.recomputed!r:.120}"


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
        Whether new entropy was used: then only the verdict is compared.
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


class _TooMany(Exception):
    pass


def replay(
    certificate: Certificate | str | Path,
    *,
    fresh: bool = False,
    workers: int | None = None,
    progress: ProgressHook | None = None,
    max_seconds: float | None = MAX_SECONDS,
) -> Replay:
    """Repeat the proof of a certificate and compare every field; with ``fresh``, verify the claim anew instead.

    A certificate may come from a stranger. One that asks for more than any that evr writes is refused at once, and
    ``TooLongError`` is raised after ``max_seconds`` (in the main thread).

    The same software gives the same bits. With other versions or processors the statistics of samples may differ in the
    last digits, which a note says. If they differ by more, ``undecided`` says so.

    Parameters
    ----------
    certificate
        Of ``certify`` or from ``Certificate.load``; or the name of its file.
    fresh
        Verify the claim with new entropy instead.
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
        If the file is damaged or altered.
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
        with watching(progress) as hook, alarmed(seconds, "replaying it"):
            claim, settings = _claim(certificate)
            composition = understood(certificate, seconds)
            how = Attempt(number=certificate.release.attempt, workers=workers, progress=hook)
            if fresh:
                verification = prove(composition, claim, settings, how)
                theirs, ours = certificate.verdict, verification.verdict.value
                return Replay(() if ours == theirs else (Mismatch("verdict", theirs, ours),), verification, fresh=True)
            how = replace(how, seed=int(certificate.verification.entropy, 16), progress=_within(certificate, hook))
            verification = how.run(composition, claim, settings, *_plans(certificate))
            again = _rebuilt(certificate, claim, settings, verification)
        found = [*_differences(certificate.document(), again.document()), *_unbelievable(certificate)]
    except (TooLongError, DeviceError):
        raise
    except _TooMany as error:
        found = [Mismatch("verification.samples", certificate.verification.samples, str(error))]
    except _UNDOABLE as error:
        found = [Mismatch("verification", "done", f"cannot be done: {error}")]
    return _judged(certificate, found, verification, fresh)


def _plans(certificate: Certificate) -> tuple[Planner, StrictPlanner]:
    """The plan of each direction's samples, and the grids of its proof, from the certificate."""
    sections = certificate.verification.directions
    draws = {name: DrawPlan.from_json(one.plan) for name, one in sections.items() if one.plan is not None}
    proofs = {name: StatedProof.from_json(one.strict) for name, one in sections.items() if one.strict is not None}

    def strict(direction: Direction, steps: tuple[Step, ...]) -> list[ProofPlan]:
        if (proof := proofs.get(direction.value)) is None:
            raise ValueError(f"there is no proof for direction {direction.value!r}")
        return [] if proof.plan is None else [proof.plan]

    return lambda trial: draws.get(trial.direction), strict


def _within(certificate: Certificate, progress: Hook | None) -> Hook:
    """A hook that stops a replay which draws more samples than are recorded."""
    recorded = {str(name): one.samples for name, one in certificate.verification.directions.items()}

    def watch(state: Progress) -> None:
        if state.samples > recorded.get(state.direction, 0):
            raise _TooMany(f"more than {state.samples} in direction {state.direction}")
        if progress is not None:
            progress(state)

    return watch


def _judged(certificate: Certificate, found: list[Mismatch], verification: Verification | None, fresh: bool) -> Replay:
    """Judge the differences, given the software and the devices that made the certificate."""
    theirs, here, checked = certificate.software.model_dump(), software(), certificate.verification
    other = [key for key in here if key != "commit" and theirs[key] != here[key]]
    devices = sorted({one.plan["device"] for one in checked.directions.values() if one.plan} - {"cpu"})
    drawn_by = f"its samples were drawn by evr {certificate.software.evr}"
    made, have = (", ".join(f"{key} {which[key]}" for key in other) for which in (theirs, here))
    notes = [] if certificate.record is None else [_RECORD]
    if other:
        notes.append(f"it was made with {made}, and this is {have}: statistics may differ in their last digits")
    if devices:
        compared = f"statistics are compared to a relative difference of {_CLOSE:g}"
        notes.append(f"{drawn_by} on {', '.join(devices)}: {compared}")

    def is_drawn(one: Mismatch) -> bool:
        return checked.method != "strict" and _DRAWN.match(one.field) is not None

    def is_close(one: Mismatch) -> bool:
        old, new = one.recorded, one.recomputed
        floats = isinstance(old, float) and isinstance(new, float)
        return floats and is_drawn(one) and math.isclose(old, new, rel_tol=_CLOSE, abs_tol=1e-300)

    def is_reworded(one: Mismatch) -> bool:  # because its numbers differ, or in the words of another version
        stated = one.field == "statement"
        return stated and ("evr" in other or certificate.statement == statement(certificate.document()))

    kept = [one for one in found if not ((other or devices) and is_close(one))]
    if len(kept) < len(found):
        notes.append(f"{len(found) - len(kept)} statistics differ in their last digits only")
    undecided = None
    if other and kept and all(is_drawn(one) or is_reworded(one) for one in kept):
        undecided = f"{drawn_by} with {made}, and this is {have}. {_WAYS_ON}"
    return Replay(tuple(kept), verification, fresh, tuple(notes), undecided)


def _claim(certificate: Certificate) -> tuple[Claim, Settings]:
    stated, release, checked = certificate.claim, certificate.release, certificate.verification
    plain = Claim(stated.epsilon, stated.delta, stated.tau)
    if (release.name is None) != (release.floor is None):
        raise CertificateError("release.name and release.floor come together or not at all")
    if not 0 < stated.kappa <= 0.025 or (release.attempt == 1 and stated.kappa != plain.kappa):
        raise CertificateError(f"claim.kappa={stated.kappa!r} cannot have been written by evr")
    terms = Terms(stated.kappa, plain.delta if release.floor is None else release.floor)
    return replace(plain, terms=terms), Settings(checked.method, checked.proposal, checked.max_samples)


def _rebuilt(certificate: Certificate, claim: Claim, settings: Settings, verification: Verification) -> Certificate:
    """The certificate that the replay's verification gives."""
    document, epsilon = certificate.document(), certificate.per_record
    proved = epsilon is not None and is_proved(epsilon, certificate.dp_event(), claim.delta, certificate.relation)
    return build(
        verification,
        claim,
        settings,
        name=certificate.release.name,
        entropy_is_fresh=certificate.verification.entropy_is_fresh,
        given={
            **{key: document.get(key) for key in TAKEN},
            "proof": None if certificate.proof is None else seal_of(proof_of(certificate)),
            "per_record": epsilon if proved and certificate.accepted else None,
        },
    )


def _unbelievable(certificate: Certificate) -> Iterator[Mismatch]:
    """Entropy that is too unlikely, and a record of the training that contradicts the event."""
    checked, record, relation = certificate.verification, certificate.record, certificate.neighboring_relation
    entropy = int(checked.entropy, 16)
    if checked.entropy_is_fresh and not _SMALLEST_FRESH <= entropy < 1 << ENTROPY_BITS:
        why = f"a number of {entropy.bit_length()} bits was not drawn from {ENTROPY_BITS} fresh ones"
        yield Mismatch("verification.entropy_is_fresh", True, why)
    if record is None:
        return
    phases, fixed = phases_of(certificate.dp_event()), record.constants
    ran, rates = sum(phase.steps for phase in phases), sorted({phase.rate for phase in phases})
    if record.steps != ran:
        yield Mismatch("record.steps", record.steps, ran)
    if relation == "ADD_OR_REMOVE_ONE" and fixed is None:
        yield Mismatch("neighboring_relation", relation, "REPLACE_SPECIAL, because the record has no constants")
    elif relation == "ADD_OR_REMOVE_ONE" and fixed is not None:
        if rates != [fixed.sampling_probability]:
            yield Mismatch("record.constants.sampling_probability", fixed.sampling_probability, rates)
        if fixed.steps > ran:
            yield Mismatch("record.constants.steps", fixed.steps, ran)


def _differences(old: Any, new: Any, path: str = "") -> Iterator[Mismatch]:
    """Every field in which the two differ, at every depth."""
    if isinstance(old, dict) and isinstance(new, dict):
        for key in {**new, **old}:
            yield from _differences(old.get(key), new.get(key), f"{path}.{key}" if path else key)
    elif isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        for index, (one, other) in enumerate(zip(old, new, strict=True)):
            yield from _differences(one, other, f"{path}[{index}]")
    elif repr(old) != repr(new) and not _UNCOMPARED.fullmatch(path):  # which also tells 1 from 1.0, and 0.0 from -0.0
        yield Mismatch(path, old, new)


def seconds_allowed(max_seconds: float | None) -> float:
    """How long something may take: infinitely long for None, which lifts the limits of sizes too."""
    return math.inf if max_seconds in (None, math.inf) else validate.positive(max_seconds=max_seconds)


class _Alarm(BaseException):
    """Not an ``Exception``, so that nothing on its way catches it."""


@contextlib.contextmanager
def alarmed(seconds: float, doing: str) -> Iterator[None]:
    """Stop the work inside after so many seconds, in the main thread of a system that has alarms."""
    alarms = hasattr(signal, "setitimer") and threading.current_thread() is threading.main_thread()
    if not alarms or seconds >= 1e9:  # longer than a timer takes
        yield
        return

    def ring(*_: Any) -> None:
        raise _Alarm

    before = signal.signal(signal.SIGALRM, ring)
    try:
        # it rings again every second, in case something swallows the exception
        signal.setitimer(signal.ITIMER_REAL, seconds, 1.0)
        yield
    except _Alarm:
        raise TooLongError(f"{doing} took more than {seconds:g} s: {_ALLOW}") from None
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, before)


def understood(certificate: Certificate, seconds: float) -> Composition:
    """The composition of a certificate's event. If time is limited, so are the sizes of the event and of the proofs."""
    if seconds < math.inf:
        sections = certificate.verification.directions.values()
        plans = [StatedProof.from_json(one.strict).plan for one in sections if one.strict is not None]
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
