"""The file of a record: lines that are sealed one by one, and that a crash does not hurt.

The ``seal`` of each line is the SHA-256 of the seal before it and of the rest of the line: a line that was changed,
moved, dropped or inserted breaks the chain. It is no signature: whoever rewrites the file can seal it again.
"""

import contextlib
import hashlib
import json
import logging
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from evr._basics import atomic, validate
from evr._basics.file_types import instead
from evr._certificate.event_json import canonical, walk
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
    with atomic.reading(path, RecordError, most=None) as data:
        if other := instead(data[:1000].decode("utf-8", "replace"), "the record of a training"):
            raise RecordError(other)
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
    if (kind := line["kind"]) not in [*_LINES]:
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


@dataclass(frozen=True)
class Constants:
    """Numbers of a Poisson-sampled training that were fixed without looking at the data. Where the number of records is
    private, they must not depend on it (docs/guarantees_relations.md, R1.7).
    """

    divisor: float
    sampling_probability: float
    steps: int

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> Self:
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


class Chain:
    """A record that is open for writing, by one process at a time."""

    lines: list[Line]
    seals: list[str]

    def __init__(self, path: Path) -> None:
        self.path = path = path.absolute()  # the training may go to another folder
        try:
            self._file = path.open("ab", buffering=0)
        except OSError as error:
            raise RecordError(f"{path}: cannot be written ({error.strerror or error})") from None
        try:
            self._lock()
            self._read()
        except BaseException:
            self.close()
            raise

    def _read(self) -> None:
        """Read what is there: ``lines`` when it was opened, the ``seals`` of all, and ``cut_off``, the bytes of a line
        that was left unfinished; the step that it announces did not happen.
        """
        self.lines, self.seals, self._size, size = [], [], 0, os.fstat(self._file.fileno()).st_size
        if size:
            self.lines, self.seals, self._size = read_lines(self.path)
            self._file.truncate(self._size)
        self.steps, self.cut_off = sum(line["kind"] == "step" for line in self.lines), size - self._size

    def _check_place(self) -> None:
        """Raise unless what was written lies at the path, and nothing else: what nobody will find does not count."""
        with contextlib.suppress(FileNotFoundError):
            found, written = os.stat(self.path), os.fstat(self._file.fileno())
            if os.path.samestat(found, written) and written.st_size == self._size:
                return
        raise RecordError(f"{self.path}: the record was moved, deleted or changed while it was open: put it back")

    def _lock(self) -> None:
        with contextlib.suppress(ImportError):  # no such lock outside POSIX
            import fcntl

            try:
                fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                raise RecordError(f"{self.path}: it is being written already, here or by another process") from None

    def write(self, kind: str, **fields: Any) -> None:
        """Append a line; it is on the disk when this returns. If that is interrupted, or the disk is full, what is on
        the disk counts.
        """
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
        try:
            if self._file.write(data) != len(data):
                raise RecordError(f"{self.path}: a line could not be written in full: is the disk full?")
            _sync(self._file.fileno())
            self.seals.append(seal)
            self.steps += kind == "step"
            self._size += len(data)
        except BaseException as error:
            self._read()
            if isinstance(error, OSError):
                raise RecordError(f"{self.path}: a line could not be written ({error.strerror or error})") from None
            raise
        self._check_place()

    def close(self) -> None:
        self._file.close()


def rank_path(path: str | Path, rank: int | str) -> Path:
    """Where one process of a distributed training writes."""
    path = Path(path)
    return path.with_name(f"{path.name.removesuffix(path.suffix)}.rank{rank}{path.suffix}")


def unused(path: Path) -> Path:
    """The path, or the first of ``training.2.record.jsonl``, ``training.3...`` at which there is no record."""
    stem, dot, rest = path.name.partition(".")
    number, place = 1, path
    while place.exists() or rank_path(place, 0).exists():
        number += 1
        place = path.with_name(f"{stem}.{number}{dot}{rest}")
    if number > 1:
        logging.getLogger("evr").warning("%s: the record of this training, since %s exists", place, path)
    return place
