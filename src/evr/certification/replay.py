"""Replay: compute a certificate again and compare, the only way to trust somebody else's.

The event, the claim, the attempt, the entropy, the settings and the plans determine everything else, samples included.
A replay computes it anew and compares field by field, so an altered number or word shows even if the digest was mended.
Some fields cannot be computed and are taken as recorded: software, times, the name of a release, the budget, the title
and the unit, the freshness of the entropy, and the record of a training where it does not contradict the event
(``Record.is_certified_by`` reads that). ``event_json.py`` leaves no room for a sentence in them.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from evr import validate
from evr.bounds.strict import ProofPlan, StatedProof
from evr.certification.build import build, is_proved, software
from evr.certification.certificate import Certificate
from evr.certification.description import phases_of
from evr.certification.proof_file import proof_of, seal_of
from evr.certification.time_limits import MAX_SECONDS, alarmed, refuse_large_plans, seconds_allowed, understood
from evr.certification.words import statement
from evr.errors import CertificateError, DeviceError, DisagreementError, TooLongError
from evr.laws import Direction, Step
from evr.proving import prove
from evr.proving.showing import check_progress, watching
from evr.randomness import ENTROPY_BITS
from evr.sampling import DrawPlan
from evr.verification import Claim, Progress, Terms, Verification
from evr.verification.attempts import Attempt, Planner, StrictPlanner
from evr.verification.driver import Hook, ProgressHook
from evr.verification.settings import Settings

UNCHECKED = ("digest", "software", "times", "record", "budget")
"""Top-level fields that no replay can recompute; neither can it recompute the ``seconds`` of a direction."""

_UNDOABLE = (ValueError, TypeError, ArithmeticError, LookupError, MemoryError, RecursionError, DisagreementError)
_SMALLEST_FRESH = 1 << 160  # 256 fresh bits are below this once in 2^96
_CLOSE = 1e-9
_WAYS_ON = (
    "This says nothing about the certificate: replay it with the software that made it, or verify "
    "its claim with new samples (--fresh)"
)
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
        return f"{self.field}: recorded {_short(self.recorded)}, recomputed {_short(self.recomputed)}"


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
    last digits, which a note says. If they differ by more,
    ``undecided`` says so.

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
        If it takes longer than ``max_seconds``, or the event or a plan is too large.

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
    if workers is not None:
        validate.positive_integer(workers=workers)
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
            if seconds < math.inf:
                refuse_large_plans(certificate, composition)
            how = replace(how, seed=int(certificate.verification.entropy, 16), progress=_within(certificate, hook))
            plans, proofs = _plans(certificate)
            verification = how.run(composition, claim, settings, plans, proofs)
            again = _rebuilt(certificate, claim, settings, verification)
        found = [Mismatch(*one) for one in _differences(certificate.document(), again.document())]
        found += _unbelievable(certificate)
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
        if direction.value not in proofs:
            raise ValueError(f"there is no proof for direction {direction.value!r}")
        plan = proofs[direction.value].plan
        return [] if plan is None else [plan]

    return lambda trial: draws.get(trial.direction), strict


def _within(certificate: Certificate, progress: Hook | None) -> Hook:
    """Stops a replay that draws more samples than are recorded."""
    recorded = {str(name): one.samples for name, one in certificate.verification.directions.items()}

    def watch(state: Progress) -> None:
        if state.samples > recorded.get(state.direction, 0):
            raise _TooMany(f"more than {state.samples} in direction {state.direction}")
        if progress is not None:
            progress(state)

    return watch


def _judged(certificate: Certificate, found: list[Mismatch], verification: Verification | None, fresh: bool) -> Replay:
    """Judge the differences, given the software that made the certificate."""
    theirs, here, checked = certificate.software.model_dump(), software(), certificate.verification
    other = [key for key in here if key != "commit" and theirs[key] != here[key]]
    devices = sorted({one.plan["device"] for one in checked.directions.values() if one.plan} - {"cpu"})
    notes = [] if certificate.record is None else [_RECORD]
    if not other and not devices:
        return Replay(tuple(found), verification, fresh, tuple(notes))
    drawn_by = f"its samples were drawn by evr {certificate.software.evr}"
    made, have = (", ".join(f"{key} {which[key]}" for key in other) for which in (theirs, here))
    if other:
        notes.append(
            f"the certificate was made with {made}, and this is {have}: statistics may differ in their last digits"
        )
    if devices:
        notes.append(
            f"{drawn_by} on {', '.join(devices)}: statistics are compared to a relative difference of {_CLOSE:g}"
        )

    def is_drawn(field: str) -> bool:
        """Whether a field depends on the samples. Integers come out the same everywhere."""
        sampled = field.startswith(("verification.directions", "verification.samples"))
        return sampled and checked.method != "strict" and ".strict." not in field

    def is_reworded(field: str) -> bool:
        """Whether a statement may differ because its numbers do, or because another version words it otherwise."""
        return field == "statement" and ("evr" in other or certificate.statement == statement(certificate.document()))

    kept = [m for m in found if not (is_drawn(m.field) and _close(m.recorded, m.recomputed))]
    if len(kept) < len(found):
        notes.append(f"{len(found) - len(kept)} statistics differ in their last digits only")
    undecided = None
    if other and kept and all(is_drawn(m.field) or is_reworded(m.field) for m in kept):
        undecided = f"{drawn_by} with {made}, and this is {have}. {_WAYS_ON}"
    return Replay(tuple(kept), verification, fresh, tuple(notes), undecided)


def _claim(certificate: Certificate) -> tuple[Claim, Settings]:
    stated, release, checked = certificate.claim, certificate.release, certificate.verification
    plain = Claim(stated.epsilon, stated.delta, stated.tau)
    if (release.name is None) != (release.floor is None):
        raise CertificateError("release.name and release.floor come together or not at all")
    base = plain.delta if release.floor is None else release.floor
    if not 0 < stated.kappa <= 0.025 or (release.attempt == 1 and stated.kappa != plain.kappa):
        raise CertificateError(f"claim.kappa={stated.kappa!r} cannot have been written by evr")
    claim = Claim(stated.epsilon, stated.delta, stated.tau, Terms(stated.kappa, base))
    return claim, Settings(checked.method, checked.proposal, checked.max_samples)


def _rebuilt(certificate: Certificate, claim: Claim, settings: Settings, verification: Verification) -> Certificate:
    document = certificate.document()
    taken = {key: document.get(key) for key in (*UNCHECKED, "event", "description", "neighboring_relation")}
    epsilon, event = certificate.per_record, certificate.dp_event()
    if not (
        epsilon is not None and certificate.accepted and is_proved(epsilon, event, claim.delta, certificate.relation)
    ):
        epsilon = None  # the number for one record, unless it is proved again
    proof = None if certificate.proof is None else seal_of(proof_of(certificate))
    return build(
        verification,
        claim,
        settings,
        name=certificate.release.name,
        entropy_is_fresh=certificate.verification.entropy_is_fresh,
        given={**taken, "proof": proof, "per_record": epsilon},
    )


def _unbelievable(certificate: Certificate) -> Iterator[Mismatch]:
    """Entropy that is possible, but too unlikely; and where a certificate contradicts itself about the record of its
    training.
    """
    checked, record, relation = certificate.verification, certificate.record, certificate.neighboring_relation
    if checked.entropy_is_fresh and not _SMALLEST_FRESH <= int(checked.entropy, 16) < 1 << ENTROPY_BITS:
        size = f"a number of {int(checked.entropy, 16).bit_length()} bits"
        yield Mismatch("verification.entropy_is_fresh", True, f"{size} was not drawn from {ENTROPY_BITS} fresh ones")
    if record is None:
        return
    phases, fixed = phases_of(certificate.dp_event()), record.constants
    ran, rates = sum(phase.steps for phase in phases), sorted({phase.rate for phase in phases})
    if record.steps != ran:
        yield Mismatch("record.steps", record.steps, ran)
    if relation != "ADD_OR_REMOVE_ONE":
        return
    if fixed is None:
        yield Mismatch("neighboring_relation", relation, "REPLACE_SPECIAL, because the record has no constants")
        return
    if rates != [fixed.sampling_probability]:
        yield Mismatch("record.constants.sampling_probability", fixed.sampling_probability, rates)
    if fixed.steps > ran:
        yield Mismatch("record.constants.steps", fixed.steps, ran)


def _differences(old: Any, new: Any, path: str = "") -> Iterator[tuple[str, Any, Any]]:
    """Every field in which the two differ, at every depth."""
    if isinstance(old, dict) and isinstance(new, dict):
        for key, value in new.items():
            field = f"{path}.{key}" if path else key
            if field in UNCHECKED or (key == "seconds" and path.startswith("verification.directions")):
                continue
            if key not in old:
                yield field, None, value
            else:
                yield from _differences(old[key], value, field)
        yield from ((f"{path}.{key}", old[key], None) for key in sorted(old.keys() - new.keys()))
    elif isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        for index, (one, other) in enumerate(zip(old, new, strict=True)):
            yield from _differences(one, other, f"{path}[{index}]")
    elif repr(old) != repr(new):  # which also tells 1 from 1.0, and 0.0 from -0.0
        yield path, old, new


def _close(old: Any, new: Any) -> bool:
    """Whether two numbers differ by a small share of themselves only."""
    numbers = isinstance(old, float) and isinstance(new, float)
    return numbers and math.isclose(old, new, rel_tol=_CLOSE, abs_tol=1e-300)


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 120 else text[:117] + "..."
