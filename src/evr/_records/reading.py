"""Records of trainings, read: the chain of seals checked, the ranks compared, the event built."""

from __future__ import annotations

import contextlib
import glob
import itertools
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, TypeVar

from dp_accounting import NeighboringRelation, dp_event

from evr._certificate.certificate import Certificate
from evr._certificate.event_json import event_digest
from evr._certificate.judging import contradictions
from evr._dpsgd import opacus_history
from evr._kernel.events.relations import ADD_OR_REMOVE, ZERO_OUT, Relation, relation_named
from evr._kernel.events.table import HYPOTHESES
from evr._records.chain import Chain, Constants, Line, last_of, rank_path, read_lines
from evr._release.budget import Budget
from evr._release.gate import Release, certify, release
from evr._wording.description import Phase, phases_of
from evr._wording.statement import NOTES
from evr.errors import RecordError

T = TypeVar("T")
_FACTS = ("noise_multiplier", "clipping_norm", "sampling_probability", "divisor")


@dataclass(frozen=True)
class Run:
    """Equal steps in a row."""

    noise_multiplier: float
    clipping_norm: float
    sampling_probability: float
    divisor: float | None
    steps: int


@dataclass(frozen=True)
class Finding:
    """Something that a reader should know (a note), or that breaks a hypothesis of the accounting (a breach)."""

    what: str
    words: str
    after_step: int

    def __str__(self) -> str:
        return f"after step {self.after_step}: {self.words}" if self.after_step else f"at the start: {self.words}"


@dataclass(frozen=True)
class Record:
    """A record that was read, its chain of seals checked.

    Attributes
    ----------
    runs
        The steps, equal ones in a row taken together.
    notes, breaches
        What was found on the way. A record with breaches has no event.
    conditions
        What held from the start, and after each restart: libraries, sampler, generators.
    constants
        Divisor, sampling probability and steps, if whoever trained said that these were fixed without looking at the
        data; else None.
    secure
        Whether the noise of every step came from a cryptographic generator.
    finished
        Whether the training was closed in order; a record without its end may have lost its last lines, and has no
        event.
    run, rank, ranks
        The training's name, the process and the number of processes. ``rank`` is None where all were read together.
    paths, seals
        Its files, and the seal of the last line about the training in each.
    """

    runs: tuple[Run, ...]
    notes: tuple[Finding, ...]
    breaches: tuple[Finding, ...]
    conditions: tuple[dict[str, Any], ...]
    constants: Constants | None
    secure: bool
    finished: bool
    run: str
    rank: int | None
    ranks: int
    paths: tuple[Path, ...]
    seals: tuple[str, ...]

    @classmethod
    def load(cls, path: str | Path) -> Record:
        """Read a record. Of a distributed training, ``path`` is what ``evr.record`` was given: all ranks are read, and
        must agree.

        Raises
        ------
        RecordError
            If it cannot be read, was altered or is damaged, or if the ranks do not agree.
        """
        path = Path(path)
        every = rank_path(glob.escape(path.name), "*").name
        ranks = [] if path.exists() else sorted(path.parent.glob(every))
        return _read(ranks, together=True) if ranks else _read([path])

    @property
    def steps(self) -> int:
        """How many steps ran."""
        return sum(run.steps for run in self.runs)

    @property
    def event(self) -> dp_event.DpEvent:
        """The ``DpEvent`` of what ran. Raises ``RecordError`` if the record does not support one."""
        if self.breaches:
            listed = "; ".join(map(str, self.breaches[:5]))
            raise RecordError(f"the record has no event, for what ran is not what is accounted for: {listed}")
        if self.rank is not None and self.ranks > 1:
            raise RecordError(f"this is the record of rank {self.rank} of {self.ranks}: load all of them together")
        if not self.finished:
            raise RecordError("the record is not finished, so lines may be missing: continue or finish the training")
        if not self.runs:
            raise RecordError("the record holds no step")
        # the clipping norm is the noise's unit: it does not enter
        alike = itertools.groupby(self.runs, lambda run: (run.noise_multiplier, run.sampling_probability))
        return opacus_history([(noise, rate, sum(run.steps for run in runs)) for (noise, rate), runs in alike])

    @property
    def relation(self) -> NeighboringRelation:
        """Under which adjacency this training is certified: add-or-remove if divisor, sampling probability and steps
        were given as constants, else zero-out, where the number of records is public. Epsilon is the same
        (docs/guarantees_relations.md, R1.7).
        """
        return ADD_OR_REMOVE if self._not_constant is None else ZERO_OUT

    @property
    def _not_constant(self) -> str | None:
        """Why divisor, sampling probability and steps are not known to be constants, in words."""
        fixed = self.constants
        if fixed is None:
            return "this record does not say so"
        for run in self.runs:
            if unlike := fixed.unlike(divisor=run.divisor, sampling_probability=run.sampling_probability):
                return unlike
        # steps that were lost in a crash ran too, and their number need not be a constant
        return None if self.steps == fixed.steps else f"{self.steps:,} steps ran, and the constant is {fixed.steps:,}"

    def checked_relation(self, asked: Relation | None) -> NeighboringRelation:
        """The relation asked for, unless this record does not support it."""
        relation = self.relation if asked is None else relation_named(asked)
        if relation is ADD_OR_REMOVE and self._not_constant is not None:
            raise RecordError(
                "add-or-remove adjacency keeps the number of records private, and assumes that "
                f"{HYPOTHESES['constant-rate-and-steps'].sentence}; {self._not_constant}. Certify under "
                "neighboring_relation='zero-out' (--adjacency zero-out), which gives the same epsilon; or give the "
                "recorder these constants before the training"
            )
        return relation

    @property
    def _section(self) -> dict[str, Any]:
        """What a certificate says of this record."""
        kinds = {note.what if note.what in NOTES else "other" for note in self.notes}
        held = self.constants if self._not_constant is None else None
        return {
            "seals": list(self.seals),
            "steps": self.steps,
            "constants": None if held is None else asdict(held),
            "notes": sorted(kinds if self.secure else kinds | {"generator"}),
        }

    def certify(self, **options: Any) -> Certificate:
        """``evr.certify`` of what ran, by default under ``relation``. Certificate and record name each other."""
        described = {"algorithm": "DP-SGD", **(options.pop("description", None) or {})}
        certificate = certify(self.event, description=described, **self._asked(options))
        self.add(certificate)
        return certificate

    def release(self, mechanism: Callable[[], T], **options: Any) -> Release[T]:
        """``evr.release`` of what ran: ``mechanism()`` publishes it, if the claim is verified. Else as ``certify``."""
        return release(mechanism, self.event, certified=self.add, **self._asked(options))

    def _asked(self, options: dict[str, Any]) -> dict[str, Any]:
        asked, budget = options.get("neighboring_relation"), options.get("budget")
        if budget is not None:
            asked = Budget.of(budget, options.get("ledger")).relation(asked)
        relation = self.checked_relation(asked)
        return {**options, "neighboring_relation": relation, "record": self._section}

    def add(self, certificate: Certificate) -> None:
        """Name a certificate in the record's file. Raises ``RecordError`` if this record does not support it."""
        self._check(certificate)
        if certificate.digest not in self.certificates:
            with contextlib.closing(Chain(self.paths[0])) as chain:
                chain.write("certificate", digest=certificate.digest, verdict=certificate.verdict)

    @property
    def certificates(self) -> tuple[str, ...]:
        """Digests of the certificates that the record's file names now. The rest of it must be as it was read."""
        lines, seals, _ = read_lines(self.paths[0])
        if seals[last_of(lines)["line"]] != self.seals[0]:
            raise RecordError(f"{self.paths[0]}: the record has changed since it was read: read it again")
        return tuple(line["digest"] for line in lines if line["kind"] == "certificate")

    def is_certified_by(self, certificate: Certificate) -> bool:
        """Whether a certificate is accepted and agrees with itself, is named in the file, of this event, under a
        relation that this record supports, and of this record if it names one.
        """
        named = certificate.record
        if not certificate.accepted or any(contradictions(certificate)) or certificate.digest not in self.certificates:
            return False
        with contextlib.suppress(RecordError):
            self._check(certificate)
            return named is None or named.model_dump() == self._section
        return False

    def _check(self, certificate: Certificate) -> None:
        """Raise unless this record supports what a certificate says."""
        if event_digest(certificate.dp_event()) != event_digest(self.event):
            raise RecordError("the certificate is of another event than what this record says ran")
        self.checked_relation(certificate.relation)

    def require(self, plan: dp_event.DpEvent) -> None:
        """Raise ``RecordError`` unless every step was at least as private as the plan's: no less noise, no higher rate,
        no more steps. What is proved about the plan under this record's ``relation`` then holds for what ran.

        ``plan`` is an event of Poisson-sampled Gaussian steps, such as ``evr.dpsgd`` makes.
        """
        _ = self.event
        phases = phases_of(plan)
        if not phases or any(phase != Phase(*phase[:3]) for phase in phases):  # other sampling, or users
            raise RecordError(f"{plan!r} is not DP-SGD with Poisson sampling: a record is compared with such a plan")
        planned = sum(phase.steps for phase in phases)
        if self.steps > planned:
            raise RecordError(f"{self.steps} steps ran, and {planned} were planned")
        for number, (run, phase) in enumerate(zip(_repeated(self.runs), _repeated(phases), strict=False), start=1):
            if run.noise_multiplier < phase.noise_multiplier or run.sampling_probability > phase.rate:
                raise RecordError(
                    f"step {number} had noise multiplier {run.noise_multiplier!r} and sampling probability "
                    f"{run.sampling_probability!r}; planned were {phase.noise_multiplier!r} and {phase.rate!r}"
                )


def _repeated(runs: Iterable[Any]) -> Iterator[Any]:
    """Each run once for each of its steps."""
    return itertools.chain.from_iterable(itertools.repeat(run, run.steps) for run in runs)


def _read(paths: list[Path], *, together: bool = False) -> Record:
    """The record in one file, or in those of all ranks together: of one training, in which all did the same."""
    files = [read_lines(path)[:2] for path in paths]
    stories = [_story(lines) for lines, _ in files]
    ranks = [lines[0]["rank"] for lines, _ in files]
    if together and [*sorted(ranks), len(ranks)] != [*range(len(ranks)), stories[0]["ranks"]]:
        there = ", ".join(map(str, ranks))
        raise RecordError(f"the ranks do not agree: of {stories[0]['ranks']} processes there are records of {there}")
    for rank, story in zip(ranks, stories, strict=True):
        for what, told in story.items():
            if told != stories[0][what]:
                raise RecordError(f"the ranks do not agree: ranks {ranks[0]} and {rank} differ in {what}")
    every = [line for lines, _ in files for line in lines]
    notes, breaches = (
        tuple(Finding(line["what"], line["words"], line["after_step"]) for line in every if line["kind"] == kind)
        for kind in ("note", "breach")
    )
    return Record(
        **stories[0],
        notes=notes,
        breaches=breaches,
        conditions=tuple(line["conditions"] for line in every if line["kind"] in ("start", "resumed")),
        secure=all(line["secure"] for line in every if line["kind"] == "step"),
        rank=None if together else ranks[0],
        paths=tuple(paths),
        seals=tuple(seals[last_of(lines)["line"]] for lines, seals in files),
    )


def _story(lines: list[Line]) -> dict[str, Any]:
    """What the records of all ranks have in common."""
    first = lines[0]
    fixed = first.get("constants")
    steps: list[Line] = [{fact: line.get(fact) for fact in _FACTS} for line in lines if line["kind"] == "step"]
    return {
        "run": first["run"],
        "ranks": first["ranks"],
        "finished": last_of(lines)["kind"] == "end",
        "constants": None if fixed is None else Constants.of(fixed),
        "runs": tuple(Run(**facts, steps=len(list(some))) for facts, some in itertools.groupby(steps)),
    }
