"""Records of trainings, written: what ran, step by step, in a file that a crash does not hurt.

A line is on the disk before the step that it announces happens, so a record may hold one step more than ran, never one
fewer. The ``seal`` of each line is the SHA-256 of the seal before it and of the rest of the line: a line that was
changed, moved, dropped or inserted breaks the chain. It is no signature: whoever rewrites the file can seal it again.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import logging
import os
import secrets
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from evr._basics import atomic, validate
from evr._basics.file_types import instead
from evr._certificate.event_json import canonical, walk
from evr._release.ledger import now
from evr.errors import RecordError

FORMAT = 1
_LINES: dict[str, dict[str, Any]] = {
    "start": {"format": 1, "run": "", "rank": 0, "ranks": 1, "constants": None, "time": "", "conditions": {}},
    "resumed": {"steps": 0, "cut_off": 0, "time": "", "conditions": {}},
    "step": {"step": 1, "noise_multiplier": 1.0, "clipping_norm": 1.0, "divisor": None}
    | {"sampling_probability": 1.0, "skipped": 0, "secure": False},
    "note": {"what": "", "words": "", "after_step": 0},
    "breach": {"what": "", "words": "", "after_step": 0},
    "end": {"steps": 0, "time": ""},
    "certificate": {"digest": "", "verdict": ""},
}
"""A line of each kind: its keys in order, with values of their types; None where there are several types."""
_sync = getattr(os, "fdatasync", os.fsync)

Line = dict[str, Any]


def read_lines(path: Path) -> tuple[list[Line], list[str], int]:
    """The lines of a record, their seals, and the length of what is whole: a crash may have cut the last line off."""
    with atomic.reading(path, RecordError) as file:
        data = file.read()
    if other := instead(data[:1000].decode("utf-8", "replace"), "the record of a training"):
        raise RecordError(f"{path}: {other}")
    whole = data.rfind(b"\n") + 1
    lines: list[Line] = []
    seals: list[str] = []
    steps = 0
    for number, text in enumerate(data[:whole].splitlines()):
        try:
            line = json.loads(text)
            seal = line.pop("seal")
            steps += line["kind"] == "step"
            counted = all(line.get(key, steps) == steps for key in ("step", "steps", "after_step"))
            # no key twice, no space: what is sealed is what is read
            right = line["line"] == number and counted and text == _spelled(line, seal) and seal == _sealed(line, seals)
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            right = False
        if not right:
            raise RecordError(f"{path}: line {number + 1} is not what was written: the record was altered or damaged")
        if number == 0 and line.get("format", FORMAT) != FORMAT:
            raise RecordError(f"{path}: format {line['format']!r}; this evr knows {FORMAT}: use the evr that wrote it")
        if wrong := _wrong(line):
            raise RecordError(f"{path}: line {number + 1}: {wrong}")
        lines.append(line)
        seals.append(seal)
    if not lines or lines[0]["kind"] != "start":
        raise RecordError(f"{path}: not a record of a training")
    return lines, seals, whole


def last_of(lines: list[Line]) -> Line:
    """The last line that is about the training; certificates are named after it, or in between."""
    return next(line for line in reversed(lines) if line["kind"] != "certificate")


def _sealed(line: Line, before: list[str]) -> str:
    return hashlib.sha256(((before[-1] if before else "") + canonical(line)).encode()).hexdigest()


def _spelled(line: Line, seal: str) -> bytes:
    return json.dumps({**line, "seal": seal}, ensure_ascii=False).encode()


def _wrong(line: Line) -> str | None:
    """What is wrong with the form of a line: a kind or a key that is unknown, a value of another type, characters that
    could command a terminal.
    """
    if (kind := line["kind"]) not in _LINES:
        return f"{validate.shown(kind)} is not a kind of line: altered, or of a newer evr"
    model = {"line": 0, "kind": "", **_LINES[kind]}
    if list(line) != list(model):
        odd = [key for key in {**line, **model} if key not in line or key not in model] or ["their order"]
        return f"{validate.shown(odd[0])}: a {kind} line has the keys {', '.join(model)}: altered, or of another evr"
    for key, value in model.items():
        types = (float, int) if isinstance(value, float) else (type(value),)
        if value is not None and type(line[key]) not in types:
            return f"{key}={validate.shown(line[key])} is of another type than evr writes"
    for text, _ in walk(line):
        if isinstance(text, str) and not text.isprintable():
            return f"it contains characters that do not print: {validate.shown(text)[:80]}"
    return None


class Chain:
    """A record that is open for writing, by one process at a time."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.lines: list[Line] = []  # when it was opened
        self.seals: list[str] = []  # of every line, those since written included
        self.cut_off = 0  # bytes of a line that a crash left unfinished; the step that it announces did not happen
        try:
            self._file = path.open("ab", buffering=0)
        except OSError as error:
            raise RecordError(f"{path}: cannot be written ({error.strerror or error})") from None
        try:
            self._lock()
            if size := os.fstat(self._file.fileno()).st_size:
                self.lines, self.seals, whole = read_lines(path)
                self.cut_off = size - whole
                self._file.truncate(whole)
        except BaseException:
            self.close()
            raise

    def _lock(self) -> None:
        with contextlib.suppress(ImportError):  # no such lock outside POSIX
            import fcntl

            try:
                fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                raise RecordError(f"{self.path}: it is being written already, here or by another process") from None

    def write(self, kind: str, **fields: Any) -> None:
        """Append a line; it is on the disk when this returns."""
        if self._file.closed:
            raise RecordError(f"{self.path}: the record is closed: nothing can be added")
        line = {"line": len(self.seals), "kind": kind, **fields}
        if wrong := _wrong(line):
            raise RecordError(f"{self.path}: {wrong}")
        try:
            seal = _sealed(line, self.seals)
        except ValueError as error:
            raise RecordError(f"{kind}: {error}: a record holds finite numbers and text") from None
        data = _spelled(line, seal) + b"\n"
        if self._file.write(data) != len(data):
            raise RecordError(f"{self.path}: a line could not be written in full: is the disk full?")
        _sync(self._file.fileno())
        self.seals.append(seal)

    def close(self) -> None:
        self._file.close()


@dataclass(frozen=True)
class Constants:
    """Numbers of a Poisson-sampled training that were fixed without looking at the data. Where the number of records is
    private, they must not depend on it (docs/guarantees_relations.md, R1.7).
    """

    divisor: float
    sampling_probability: float
    steps: int

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> Constants:
        """The constants as callers give them and as records hold them."""
        if not isinstance(given, Mapping) or given.keys() != cls.__dataclass_fields__.keys():
            wrong = f"constants={validate.shown(given)} are not a dictionary"
            raise ValueError(f"{wrong} of a divisor, a sampling_probability and steps: give these three")
        return cls(
            validate.positive(divisor=given["divisor"]),
            validate.probability(sampling_probability=given["sampling_probability"]),
            validate.positive_integer(steps=given["steps"]),
        )

    def unlike(self, **step: float | None) -> str | None:
        """How numbers of a step differ from these constants, in words; None if they do not."""
        for name, value in step.items():
            if value != (fixed := getattr(self, name)):
                seen = "was not recorded" if value is None else f"was {value!r}"
                return f"the {name.replace('_', ' ')} {seen}, and the constant is {fixed!r}"
        return None


class Recorder(contextlib.AbstractContextManager["Recorder"]):
    """Writes a record, and continues one that is there.

    Parameters
    ----------
    path
        The file. One that exists and was not finished is checked and continued; nothing in it is forgotten.
    conditions
        What holds from here on, in JSON's types.
    constants
        As of ``evr.record``. A step that differs is refused. Without constants, a record is certified under zero-out
        adjacency (``Record.relation``).
    rank, ranks, run
        In a distributed training: this process, the number of processes, and the name of the run that they share.
    resume
        Add steps to a record that is finished, too.

    Examples
    --------
    >>> import tempfile
    >>> from evr._records.reading import Record
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with Recorder(f"{folder}/training.record.jsonl") as recorder:
    ...         for _ in range(100):
    ...             recorder.step(noise_multiplier=1.0, clipping_norm=0.5,
    ...                           sampling_probability=0.01)
    ...     record = Record.load(recorder.path)
    >>> record.steps, record.event.event
    (100, PoissonSampledDpEvent(sampling_probability=0.01,
                                event=GaussianDpEvent(noise_multiplier=1.0)))
    """

    def __init__(
        self,
        path: str | Path,
        conditions: dict[str, Any] | None = None,
        *,
        constants: Mapping[str, Any] | None = None,
        rank: int = 0,
        ranks: int = 1,
        run: str | None = None,
        resume: bool = False,
    ) -> None:
        self.path = Path(path)
        self._constants = None if constants is None else Constants.of(constants)
        place = {"rank": rank, "ranks": ranks, "constants": self._constants and asdict(self._constants)}
        self._chain = Chain(self.path)
        self.steps = sum(line["kind"] == "step" for line in self._chain.lines)
        given = {"time": now(), "conditions": conditions or {}}
        try:
            if self._chain.lines:
                begun = {key: self._chain.lines[0].get(key) for key in place}
                if begun != place:
                    differ = f"the record was begun with {begun}, and {place} is given now"
                    raise RecordError(f"{self.path}: {differ}: continue it with the same, or write another record")
                self._continued(resume)
                self._chain.write("resumed", steps=self.steps, cut_off=self._chain.cut_off, **given)
            else:
                name = run or secrets.token_hex(16)
                self._chain.write("start", format=FORMAT, run=name, **place, **given)
        except BaseException:
            self.close()
            raise

    def _continued(self, resume: bool) -> None:
        """Say that a record is continued. Raises ``RecordError`` if it is finished, unless that was asked for."""
        kinds = [line["kind"] for line in self._chain.lines]
        while kinds[-1] == "certificate":
            kinds.pop()
        if kinds[-1] == "end" and not resume:
            certified = " and certified" if "certificate" in (line["kind"] for line in self._chain.lines) else ""
            raise RecordError(
                f"{self.path}: the record is finished{certified}, with {self.steps} steps. Another training needs "
                "another file (new=True names one); to add steps to this one, which then count together, resume=True"
            )
        logging.getLogger("evr").warning("%s: continued; %s steps are in it, and they count", self.path, self.steps)

    def step(
        self,
        *,
        noise_multiplier: float,
        clipping_norm: float,
        sampling_probability: float,
        divisor: float | None = None,
        skipped: int = 0,
        secure: bool = False,
    ) -> None:
        """Write down a step that is about to happen; it is on the disk when this returns.

        ``divisor`` is what the noisy sum is divided by; ``skipped`` counts physical batches before the step that were
        only added up; ``secure`` says whether its noise comes from a cryptographic generator. A step that differs from
        the constants raises ``RecordError``.
        """
        fixed, ran = self._constants, {"divisor": divisor, "sampling_probability": sampling_probability}
        if fixed is not None and (unlike := fixed.unlike(**ran)):
            raise RecordError(f"after step {self.steps}: {unlike}")
        self._chain.write(
            "step",
            step=self.steps + 1,
            noise_multiplier=noise_multiplier,
            clipping_norm=clipping_norm,
            **ran,
            skipped=skipped,
            secure=secure,
        )
        self.steps += 1

    def find(self, kind: Literal["note", "breach"], what: str, words: str) -> None:
        """Write down a note or a breach."""
        self._chain.write(kind, what=what, words=words, after_step=self.steps)

    @property
    def mark(self) -> dict[str, Any]:
        """Where the record stands: for a checkpoint."""
        return {"line": len(self._chain.seals) - 1, "seal": self._chain.seals[-1], "steps": self.steps}

    def require(self, mark: dict[str, Any]) -> None:
        """Raise ``RecordError`` unless the record holds all that it held when a checkpoint was written."""
        line, seals = mark["line"], self._chain.seals
        if line >= len(seals) or seals[line] != mark["seal"]:
            saved = f"the checkpoint was written after {mark['steps']} steps"
            raise RecordError(f"{self.path}: {saved} of another record, or of this one before lines were lost")

    def finish(self) -> None:
        """Say that the training ended in order, and close the file."""
        with contextlib.closing(self._chain) as chain:
            chain.write("end", steps=self.steps, time=now())

    def close(self) -> None:
        """Close the file; without ``finish`` the training can only be continued."""
        self._chain.close()

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        (self.finish if kind is None else self.close)()
