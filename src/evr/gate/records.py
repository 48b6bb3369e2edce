"""Records of trainings, read: the chain of seals checked, the ranks compared, the event built."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dp_accounting import dp_event

from evr import validate
from evr.certification.certificate import Certificate
from evr.certification.event_json import event_digest
from evr.errors import RecordError
from evr.events import dpsgd
from evr.gate.certify import certify
from evr.gate.chain import Chain, Line, read_lines


@dataclass(frozen=True)
class Run:
    """Equal steps in a row."""

    noise_multiplier: float
    clipping_norm: float
    sampling_probability: float
    steps: int


@dataclass(frozen=True)
class Finding:
    """Something that a reader should know (a note), or that breaks a hypothesis of the accounting
    (a breach).
    """

    what: str
    words: str
    after_step: int

    def __str__(self) -> str:
        return (
            f"after step {self.after_step}: {self.words}"
            if self.after_step
            else f"at the start: {self.words}"
        )


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
        Whether the training was closed in order; a record without its end may have lost its last
        lines, and has no event.
    run, rank, ranks
        Which training, and which process of how many; of all of them, once they were found to
        agree, ``rank`` is None.
    certificates
        Digests of the certificates that were added to it.
    paths, seals
        Its files, and the seal of the last line of each.
    """

    runs: tuple[Run, ...]
    notes: tuple[Finding, ...]
    breaches: tuple[Finding, ...]
    conditions: tuple[dict[str, Any], ...]
    finished: bool
    run: str
    rank: int | None
    ranks: int
    certificates: tuple[str, ...]
    paths: tuple[Path, ...]
    seals: tuple[str, ...]

    @classmethod
    def load(cls, path: str | Path) -> Record:
        """Read a record. Of a distributed training, ``path`` is what ``evr.record`` was given: all
        ranks are read, and must agree.

        Raises
        ------
        RecordError
            If it cannot be read, was altered or is damaged, or if the ranks do not agree.
        """
        found = (
            sorted(Path(path).parent.glob(rank_path(path, "*").name))
            if not Path(path).exists()
            else []
        )
        if not found:
            return _read(Path(path))
        return agreed([_read(one) for one in found])

    @property
    def steps(self) -> int:
        """How many steps ran."""
        return sum(run.steps for run in self.runs)

    @property
    def event(self) -> dp_event.DpEvent:
        """The ``DpEvent`` of what ran. Raises ``RecordError`` if the record
        does not support one.
        """
        if self.breaches:
            listed = "; ".join(map(str, self.breaches[:5]))
            raise RecordError(
                f"the record has no event, for what ran is not what is accounted for: {listed}"
            )
        if self.rank is not None and self.ranks > 1:
            raise RecordError(
                f"this is the record of rank {self.rank} of {self.ranks}: load all of them together"
            )
        if not self.finished:
            raise RecordError(
                "the record is not finished, so its last lines may be missing: continue the "
                "training, or finish the recording"
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

    def certify(self, **options: Any) -> Certificate:
        """``evr.certify`` of what ran; the record then names the certificate. Options as there."""
        certificate = certify(self.event, **options)
        self.add(certificate)
        return certificate

    def add(self, certificate: Certificate) -> None:
        """Name a certificate in the record's file, as a line of its own. Raises ``RecordError`` if
        it is of another event.
        """
        if event_digest(certificate.dp_event()) != event_digest(self.event):
            raise RecordError("the certificate is of another event than what this record says ran")
        chain = Chain(self.paths[0])
        try:
            if chain.seals[-1] != self.seals[-1]:
                raise RecordError(
                    f"{chain.path}: the record has changed since it was read: read it again"
                )
            chain.write("certificate", digest=certificate.digest, verdict=certificate.verdict)
        finally:
            chain.close()

    def is_certified_by(self, certificate: Certificate) -> bool:
        """Whether an accepted certificate is named in this record (read after it was), and is of
        its event.
        """
        return (
            certificate.accepted
            and certificate.digest in self.certificates
            and event_digest(certificate.dp_event()) == event_digest(self.event)
        )

    def require(self, plan: dp_event.DpEvent) -> None:
        """Raise ``RecordError`` unless every step was at least as private as the plan's: no less
        noise, no higher rate, no more steps.

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
                        f"step {done + 1} had noise multiplier {run.noise_multiplier!r} and "
                        f"sampling probability {run.sampling_probability!r}; planned were "
                        f"{noise!r} and {rate!r}"
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
        raise RecordError(
            f"{event!r} is not a step of DP-SGD: a record is compared with a plan of Gaussian steps"
        )
    yield event.noise_multiplier, rate, count


def rank_path(path: str | Path, rank: int | str) -> Path:
    """Where one process of a distributed training writes."""
    path = Path(path)
    return path.with_name(f"{path.name.removesuffix(path.suffix)}.rank{rank}{path.suffix}")


def agreed(records: list[Record]) -> Record:
    """One record of all ranks. Raises ``RecordError`` where they are not ranks of one training that
    did the same.
    """
    first = records[0]
    if sorted(-1 if r.rank is None else r.rank for r in records) != list(range(first.ranks)):
        ranks = ", ".join(str(record.rank) for record in records)
        raise RecordError(
            f"the ranks do not agree: of {first.ranks} processes there are records of {ranks}"
        )
    for record in records[1:]:
        for what in ("run", "ranks", "steps", "finished", "runs"):
            here, there = getattr(first, what), getattr(record, what)
            if here != there:
                words = (
                    "the steps"
                    if what == "runs"
                    else f"{what} ({validate.shown(here)}, {validate.shown(there)})"
                )
                raise RecordError(
                    f"the ranks do not agree: ranks {first.rank} and {record.rank} differ in "
                    f"{words}"
                )
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
        certificates=ordered[0].certificates,
        paths=tuple(path for record in ordered for path in record.paths),
        seals=tuple(seal for record in ordered for seal in record.seals),
    )


def _read(path: Path) -> Record:
    lines, seals, _ = read_lines(path)
    runs: list[Run] = []
    found: dict[str, list[Finding]] = {"note": [], "breach": []}
    for line in lines:
        if line["kind"] == "step":
            this = Run(
                line["noise_multiplier"], line["clipping_norm"], line["sampling_probability"], 1
            )
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
        conditions=tuple(
            line["conditions"] for line in lines if line["kind"] in ("start", "resumed")
        ),
        finished=_ending(lines) == "end",
        run=lines[0]["run"],
        rank=lines[0]["rank"],
        ranks=lines[0]["ranks"],
        certificates=tuple(line["digest"] for line in lines if line["kind"] == "certificate"),
        paths=(path,),
        seals=(seals[-1],),
    )


def _ending(lines: list[Line]) -> str:
    """The kind of the last line that is about the training."""
    return next(str(line["kind"]) for line in reversed(lines) if line["kind"] != "certificate")


def _facts(run: Run) -> tuple[float, float, float]:
    return run.noise_multiplier, run.clipping_norm, run.sampling_probability
