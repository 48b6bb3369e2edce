"""Replay: compute a certificate again and compare, the only way to trust somebody else's.

Event, claim, attempt, entropy, settings and plans determine everything else, so an altered number or word shows even
if the digest was mended. Some fields cannot be computed and are taken as recorded (``TAKEN``, the name of a release,
the freshness of the entropy).
"""

import contextlib
import math
import re
import threading
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, cast

from evr._accounting import estimate_delta
from evr._basics import validate
from evr._basics.randomness import Stream
from evr._certificate.build import build, is_proved, reported, software
from evr._certificate.build import differences as software_differs
from evr._certificate.certificate import Certificate
from evr._certificate.judging import Mismatch, claim_of, contradictions, differences, refuse, settings_of
from evr._certificate.limits import MAX_SECONDS, Alarm, limited, seconds_allowed, understood
from evr._certificate.sections import SampledDirection, SampledVerification
from evr._kernel.events import Composition
from evr._kernel.pairs import Direction, Step
from evr._kernel.sampled.deciding import Ending, State
from evr._kernel.sampled.driver import Driver
from evr._kernel.sampled.plan import DrawPlan
from evr._kernel.strict import ProofPlan
from evr._kernel.verdict.attempts import PURPOSE, Attempt, Planner, StrictPlanner, Trial
from evr._kernel.verdict.results import DirectionReport, Verification
from evr._kernel.verdict.settings import Claim, Settings
from evr._proof.writer import proof_of, seal_of
from evr._proving.progress import Hook, Progress, ProgressHook, check_progress, reporter, watching
from evr._proving.sampling import working
from evr.errors import AccuracyError, DeviceError, DisagreementError, TooLongError, UnsupportedEventError

TAKEN = ("software", "times", "record", "budget", "event", "description", "neighboring_relation")
"""Fields that a replay takes as recorded; ``evr._certificate.judging`` compares some of them with each other."""
_UNDOABLE = (ValueError, TypeError, ArithmeticError, LookupError, MemoryError, RecursionError, DisagreementError)
_CLOSE = 1e-9
_FEW, _DOUBTS = 5000, 5.0  # samples of an estimate, and by how many of its errors it is above what it contradicts
_DRAWN = re.compile(r"verification\.(directions|samples)(?!.*\.strict\.)")
"""Fields that depend on the samples. The integers of strict proofs come out the same everywhere."""
_SEEN = ("samples", "estimate", "standard_error", "log_wealth", "trace")
_FRESH = re.compile(rf"verification\.(samples|entropy|directions\.\w+\.({'|'.join(_SEEN)}|blocks|reason|plan\.device))")
"""What only drawing tells of a direction, and all that new samples change."""
_WAYS_ON = (
    "This says nothing about the certificate: replay it with the software that made it, or verify its claim with new "
    "samples (--fresh)"
)
_RECORD = (
    "a replay does not read the record of the training: evr.Record.load(...).is_certified_by tells whether the record "
    "names this certificate"
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
    """Repeat the proof of a certificate and compare every field; with ``fresh``, all but samples, which are drawn anew.

    A certificate may come from a stranger. One that asks for more than any that evr writes is refused at once.

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
    seconds, stop = seconds_allowed(max_seconds), threading.Event()

    def unless_stopped(hook: Hook | None, state: Progress) -> None:
        if stop.is_set():
            raise Alarm
        if hook is not None:
            hook(state)

    try:
        if wrong := tuple(contradictions(certificate)):
            return Replay(wrong, None, fresh)
        with watching(progress) as hook:
            how = Attempt(number=certificate.release.attempt, on_block=reporter(partial(unless_stopped, hook)))
            work = partial(_replayed, certificate, how, workers, seconds, fresh=fresh)
            found, verification = limited(seconds, "replaying it", work, stop)
    except (TooLongError, DeviceError):
        raise
    except _UNDOABLE as error:
        found, verification = [Mismatch("verification", "done", f"cannot be done: {error}")], None
    return _judged(certificate, found, verification, fresh)


def _replayed(
    certificate: Certificate, how: Attempt, workers: int | None, seconds: float, *, fresh: bool
) -> tuple[list[Mismatch], Verification]:
    """What differs, and the verification that shows it."""
    claim, settings, checked = claim_of(certificate), settings_of(certificate), certificate.verification
    composition, draw = understood(certificate, seconds), settings
    if not fresh and isinstance(checked, SampledVerification):
        how = replace(how, seed=int(checked.entropy, 16))
        most = max((1, *(one.samples for one in checked.directions.values())))
        draw = replace(draw, max_samples=min(most, draw.max_samples or most))  # no more than are recorded
    with working(None, workers) as pool:
        verification = replace(how, executor=pool).run(composition, claim, draw, *_plans(certificate, fresh=fresh))
    given = {key: getattr(certificate, key) for key in TAKEN} | _proved_again(certificate, claim)
    name, was_fresh = certificate.release.name, isinstance(checked, SampledVerification) and checked.entropy_is_fresh
    again = build(verification, claim, settings, name=name, entropy_is_fresh=was_fresh, given=given)
    found = list(differences(certificate.document(), again.document()))
    if fresh and isinstance(checked, SampledVerification):  # what is recorded of samples has to fit, too
        found = [one for one in found if not _FRESH.match(one.field)]
        found += _without_samples(certificate, composition)
    return found, verification


def confirmed(path: str | Path, max_seconds: float | None = MAX_SECONDS) -> Certificate:
    """Read a certificate, and compute again all that needs no samples; ``FalseCertificateError`` names what does not
    come out. Whatever a command says about a file, it says after this. Only ``replay`` draws samples again.
    """
    certificate, seconds = Certificate.load(path), seconds_allowed(max_seconds)

    def work() -> list[Mismatch]:
        try:
            return list(_without_samples(certificate, understood(certificate, seconds)))
        except TooLongError:
            raise
        except _UNDOABLE as error:
            return [Mismatch("verification", "done", f"cannot be done: {error}")]

    refuse(limited(seconds, "checking it", work), f"{path}: ")
    return certificate


def _without_samples(certificate: Certificate, composition: Composition) -> Iterator[Mismatch]:
    """What does not come out again of a certificate, its samples taken as recorded: proofs in exact arithmetic, and the
    bounds and the verdict of its tests. A claim that an estimate contradicts is false.
    """
    claim, settings, checked = claim_of(certificate), settings_of(certificate), certificate.verification
    attempt, (planner, strictly) = certificate.release.attempt, _plans(certificate)
    again: dict[str, Any] = dict(checked.directions)
    if strict := settings.method in ("strict", "both"):
        proved = Attempt(number=attempt).run(composition, claim, Settings("strict"), strictly=strictly)
        for name, report in proved.directions.items():
            section = reported(report, "strict")
            if settings.method == "strict":
                again[name] = section
            elif name in again:
                again[name] = again[name].model_copy(update={"strict": section.strict})
    if isinstance(checked, SampledVerification):
        how = replace(settings, method="sequential") if strict else settings
        for name, part in checked.directions.items():
            if name == "add" and composition.is_symmetric:
                same = {"reason": "the same as remove", "samples": 0, "blocks": 0, "strict": again[name].strict}
                again[name] = again["remove"].model_copy(update={**same, "seconds": part.seconds})
                continue
            stream = Stream(int(checked.entropy, 16), PURPOSE, attempt, name)
            steps = composition.simplified(Direction(name))
            trial = Trial(name, steps, claim, how, attempt, claim.log_budget(attempt), stream)
            section, taken = _taken(trial.prepared(planner(trial)), part)
            again[name] = section.model_copy(update={key: getattr(again[name], key) for key in (*taken, "strict")})
    said = certificate.model_copy(update={"verification": checked.model_copy(update={"directions": again})})
    compared = differences(certificate.document()["verification"], said.document()["verification"], "verification")
    yield from (mismatch for mismatch in compared if not _is_close(mismatch))
    known = certificate.model_copy(update=_proved_again(certificate, claim))
    yield from differences(certificate.document(), known.document())
    if certificate.accepted and not strict:
        with contextlib.suppress(AccuracyError, UnsupportedEventError):
            about = estimate_delta(composition, claim.epsilon, method="monte_carlo", samples=_FEW, seed=0)
            if about.value - _DOUBTS * (about.doubt or 0.0) > claim.delta:
                yield Mismatch("claim.delta", claim.delta, f"about {about.value:.4g}, by an estimate")


def _taken(trial: Driver | DirectionReport, part: SampledDirection) -> tuple[SampledDirection, tuple[str, ...]]:
    """The section of a direction whose samples are taken as recorded, and the fields that only they tell."""
    if isinstance(trial, DirectionReport):
        return cast(SampledDirection, reported(trial, "sampled")), ("seconds",)
    size = trial.plan.block_size
    total = (part.estimate or 0.0) / trial.unit * part.samples
    state = State(part.samples, math.ceil(part.samples / size), total, log_wealth=part.log_wealth or 0.0)
    ending = (trial.test.ending(state) or Ending(False, "")) if part.accepted else Ending(False, part.reason)
    return cast(SampledDirection, reported(trial.report(ending, state), "sampled")), (*_SEEN, "seconds")


def _plans(certificate: Certificate, *, fresh: bool = False) -> tuple[Planner, StrictPlanner]:
    """The plan of each direction's samples, which new ones draw on the processor, and the grids of its proof."""
    sections, proofs = certificate.verification.directions, certificate.proofs()
    plans = {name: one.plan for name, one in sections.items() if isinstance(one, SampledDirection)}
    draws = {name: DrawPlan.from_json(plan) for name, plan in plans.items() if plan is not None}
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


def _proved_again(certificate: Certificate, claim: Claim) -> dict[str, Any]:
    """The seal of the proof file, and the number per record, each None where it is not proved."""
    event, epsilon = certificate.dp_event(), certificate.per_record
    proved = epsilon is not None and is_proved(epsilon, event, claim.delta, certificate.relation)
    seals = {} if certificate.proof is None else {"proof": seal_of(proof_of(certificate))}
    return seals | ({} if epsilon is None else {"per_record": epsilon if proved else None})
