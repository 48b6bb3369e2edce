"""Records of trainings, read: the chain of seals checked, the ranks compared, the event built.

A record is a text file with one JSON object a line (``evr.gate.recording`` writes it). Each line
carries a ``seal``, the SHA-256 of the seal before it and of the rest of the line: a line that was
changed, moved, dropped or put in between breaks the chain. As in the ledger this tells damage; it
is no signature: who rewrites the whole file can seal it again.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from dp_accounting import dp_event

from evr import validate
from evr.certification.certificate import Certificate
from evr.certification.event_json import canonical, event_digest
from evr.errors import RecordError
from evr.gate.certify import certify
from evr.mechanisms.events import dpsgd

FORMAT = 1
_KINDS = ("start", "resumed", "step", "note", "breach", "end")


@dataclass(frozen=True)
class Run:
    """Equal steps in a row."""

    noise_multiplier: float
    clipping_norm: float
    sampling_probability: float
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
    finished
        Whether the training was closed in order; a record without its end may have lost its last lines, and has no event.
    rank, ranks
        Which process of how many; of all of them, once they were found to agree, ``rank`` is None.
    seal
        The last line's (of several ranks: a digest of theirs). Certificates name the record by it.
    """

    runs: tuple[Run, ...]
    notes: tuple[Finding, ...]
    breaches: tuple[Finding, ...]
    conditions: tuple[dict[str, Any], ...]
    finished: bool
    run: str
    rank: int | None
    ranks: int
    seal: str
    seals: tuple[str, ...] = field(default=(), repr=False)

    @classmethod
    def load(cls, path: str | Path) -> Record:
        """Read a record. Of a distributed training, ``path`` is what ``evr.record`` was given: all ranks are read, and must agree.

        Raises
        ------
        RecordError
            If it cannot be read, was altered or is damaged, or if the ranks do not agree.
        """
        found = sorted(Path(path).parent.glob(rank_path(path, "*").name)) if not Path(path).exists() else []
        if not found:
            return read(Path(path))[0]
        return agreed([read(one)[0] for one in found])

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
            raise RecordError(
                "the record is not finished, so its last lines may be missing: continue the training, or finish the recording"
            )
        if not self.runs:
            raise RecordError("the record holds no step")
        merged: list[tuple[float, float, int]] = []
        for run in self.runs:  # the clipping norm is the noise's unit: it does not enter
            noise, rate = run.noise_multiplier, run.sampling_probability
            if merged and merged[-1][:2] == (noise, rate):
                merged[-1] = (noise, rate, merged[-1][2] + run.steps)
            else:
                merged.append((noise, rate, run.steps))
        phases = [dpsgd(noise_multiplier=n, sampling_probability=q, steps=k) for n, q, k in merged]
        return phases[0] if len(phases) == 1 else dp_event.ComposedDpEvent(phases)

    def certify(self, *, path: str | Path | None = None, **options: Any) -> Certificate:
        """``evr.certify`` of what ran; the certificate names this record. Options as there."""
        certificate = self.named_in(certify(self.event, **options))
        if path is not None:
            certificate.save(path)
        return certificate

    def named_in(self, certificate: Certificate) -> Certificate:
        """The certificate, which must be of this record's event, with a field ``record`` that names it."""
        if event_digest(certificate.dp_event()) != event_digest(self.event):
            raise RecordError("the certificate is of another event than what this record says ran")
        names = {"seal": self.seal, "run": self.run, "steps": self.steps}
        return Certificate.sealed({**certificate.document(), "record": names})

    def is_certified_by(self, certificate: Certificate) -> bool:
        """Whether an accepted certificate names this record, and is of its event."""
        return (
            certificate.accepted
            and certificate.record is not None
            and certificate.record.seal == self.seal
            and event_digest(certificate.dp_event()) == event_digest(self.event)
        )

    def require(self, plan: dp_event.DpEvent) -> None:
        """Raise ``RecordError`` unless every step was at least as private as the plan's: no less noise, no higher rate, no more steps.

        ``plan`` is an event of Poisson-sampled Gaussian steps, such as ``evr.dpsgd`` makes.
        """
        _ = self.event
        planned, done = _planned(plan), 0
        left, noise, rate = 0, math.inf, 0.0
        for run in self.runs:
            steps = run.steps
            while steps:
                if not left:
                    noise, rate, left = next(planned, (math.inf, 0.0, 0))
                    if not left:
                        raise RecordError(f"{self.steps} steps ran, and {done} were planned")
                if run.noise_multiplier < noise or run.sampling_probability > rate:
                    raise RecordError(
                        f"step {done + 1} had noise multiplier {run.noise_multiplier!r} and sampling probability "
                        f"{run.sampling_probability!r}; planned were {noise!r} and {rate!r}"
                    )
                taken = min(steps, left)
                steps, left, done = steps - taken, left - taken, done + taken


def _planned(event: Any) -> Iterator[tuple[float, float, int]]:
    """The plan as runs of equal steps."""
    count = 1
    if isinstance(event, dp_event.ComposedDpEvent):
        for child in event.events:
            yield from _planned(child)
        return
    if isinstance(event, dp_event.SelfComposedDpEvent):
        event, count = event.event, event.count
    rate = 1.0
    if isinstance(event, dp_event.PoissonSampledDpEvent):
        event, rate = event.event, event.sampling_probability
    if not isinstance(event, dp_event.GaussianDpEvent):
        raise RecordError(f"{event!r} is not a step of DP-SGD: a record is compared with a plan of Gaussian steps")
    yield event.noise_multiplier, rate, count


def rank_path(path: str | Path, rank: int | str) -> Path:
    """Where one process of a distributed training writes."""
    path = Path(path)
    return path.with_name(f"{path.name.removesuffix(path.suffix)}.rank{rank}{path.suffix}")


def agreed(records: list[Record]) -> Record:
    """One record of all ranks. Raises ``RecordError`` where they are not ranks of one training that did the same."""
    first = records[0]
    if sorted(-1 if r.rank is None else r.rank for r in records) != list(range(first.ranks)):
        ranks = ", ".join(str(record.rank) for record in records)
        raise RecordError(f"the ranks do not agree: of {first.ranks} processes there are records of {ranks}")
    for record in records[1:]:
        for what in ("run", "ranks", "steps", "finished", "runs"):
            here, there = getattr(first, what), getattr(record, what)
            if here != there:
                words = "the steps" if what == "runs" else f"{what} ({validate.shown(here)}, {validate.shown(there)})"
                raise RecordError(f"the ranks do not agree: ranks {first.rank} and {record.rank} differ in {words}")
    ordered = sorted(records, key=lambda record: record.rank or 0)
    return Record(
        runs=first.runs,
        notes=tuple(finding for record in ordered for finding in record.notes),
        breaches=tuple(finding for record in ordered for finding in record.breaches),
        conditions=tuple(each for record in ordered for each in record.conditions),
        finished=first.finished,
        run=first.run,
        rank=None,
        ranks=first.ranks,
        seal=hashlib.sha256("".join(record.seal for record in ordered).encode()).hexdigest(),
    )


def sealed(line: dict[str, Any], before: str) -> str:
    """The seal of a line, given the seal of the line before it."""
    return hashlib.sha256((before + canonical(line)).encode()).hexdigest()


def read(path: Path) -> tuple[Record, int]:
    """A record and the length of its whole lines: a crash may have cut the last one off."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise RecordError(f"{path}: cannot be read ({error.strerror or error})") from None
    whole = data.rfind(b"\n") + 1
    lines: list[dict[str, Any]] = []
    seals: list[str] = []
    for number, text in enumerate(data[:whole].splitlines()):
        try:
            line = json.loads(text)
            seal = line.pop("seal")
            right = (
                line["line"] == number and line["kind"] in _KINDS and seal == sealed(line, seals[-1] if seals else "")
            )
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            right = False
        if not right:
            raise RecordError(
                f"{path}: line {number + 1} is not what was written: the record was altered or is damaged"
            )
        lines.append(line)
        seals.append(seal)
    if not lines or lines[0]["kind"] != "start":
        raise RecordError(f"{path}: not a record of a training")
    if lines[0]["format"] != FORMAT:
        raise RecordError(f"{path}: format {lines[0]['format']!r}; this evr knows {FORMAT}: use a newer evr")
    return _understood(lines, seals), whole


def _understood(lines: list[dict[str, Any]], seals: list[str]) -> Record:
    runs: list[Run] = []
    found: dict[str, list[Finding]] = {"note": [], "breach": []}
    for line in lines:
        if line["kind"] == "step":
            this = Run(line["noise_multiplier"], line["clipping_norm"], line["sampling_probability"], 1)
            before = runs.pop() if runs else None
            if before is not None and before == Run(*_facts(this), before.steps):
                this = Run(*_facts(this), before.steps + 1)
            elif before is not None:
                runs.append(before)
            runs.append(this)
        elif line["kind"] in found:
            found[line["kind"]].append(Finding(line["what"], line["words"], line["after_step"]))
    return Record(
        runs=tuple(runs),
        notes=tuple(found["note"]),
        breaches=tuple(found["breach"]),
        conditions=tuple(line["conditions"] for line in lines if line["kind"] in ("start", "resumed")),
        finished=lines[-1]["kind"] == "end",
        run=lines[0]["run"],
        rank=lines[0]["rank"],
        ranks=lines[0]["ranks"],
        seal=seals[-1],
        seals=tuple(seals),
    )


def _facts(run: Run) -> tuple[float, float, float]:
    return run.noise_multiplier, run.clipping_norm, run.sampling_probability
