"""The file behind a record of a training: lines of JSON, each sealed with the one before it, on the disk when written.

A ``seal`` is the SHA-256 of the seal before it and of the rest of its line: a line that was changed, moved, dropped or
put in between breaks the chain. As in the ledger this tells damage; it is no signature: who rewrites the whole file can
seal it again.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from pathlib import Path
from typing import Any

from evr.certification.event_json import canonical
from evr.errors import RecordError
from evr.kinds import instead

FORMAT = 1
_KINDS = ("start", "resumed", "step", "note", "breach", "end", "certificate")
_sync = getattr(os, "fdatasync", os.fsync)

Line = dict[str, Any]


def read_lines(path: Path) -> tuple[list[Line], list[str], int]:
    """The lines of a record, their seals, and the length of what is whole: a crash may have cut the last line off."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise RecordError(f"{path}: cannot be read ({error.strerror or error})") from None
    if other := instead(data[:1000].decode("utf-8", "replace"), "the record of a training"):
        raise RecordError(f"{path}: {other}")
    whole = data.rfind(b"\n") + 1
    lines: list[Line] = []
    seals: list[str] = []
    for number, text in enumerate(data[:whole].splitlines()):
        try:
            line = json.loads(text)
            seal = line.pop("seal")
            right = line["line"] == number and line["kind"] in _KINDS and seal == _sealed(line, seals)
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
    return lines, seals, whole


def _sealed(line: Line, before: list[str]) -> str:
    return hashlib.sha256(((before[-1] if before else "") + canonical(line)).encode()).hexdigest()


class Chain:
    """A record that is open for writing, by one process at a time.

    Attributes
    ----------
    lines
        What it held when it was opened.
    seals
        Of every line, those since written included.
    cut_off
        Bytes of a line that a crash had cut off; they are gone. A line is written before what it tells happens, so that
        did not.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.lines: list[Line] = []
        self.seals: list[str] = []
        self.cut_off = 0
        self._descriptor = -1
        self._descriptor = _locked(path)
        try:
            size = os.fstat(self._descriptor).st_size
            if size:
                self.lines, self.seals, whole = read_lines(path)
                self.cut_off = size - whole
                os.ftruncate(self._descriptor, whole)
        except BaseException:
            self.close()
            raise

    def write(self, kind: str, **fields: Any) -> None:
        """Append a line; it is on the disk when this returns."""
        if self._descriptor < 0:
            raise RecordError(f"{self.path}: the record is closed: nothing can be added")
        line = {"line": len(self.seals), "kind": kind, **fields}
        try:
            seal = _sealed(line, self.seals)
        except ValueError as error:
            raise RecordError(f"{kind}: {error}: a record holds finite numbers and text") from None
        data = (json.dumps({**line, "seal": seal}, ensure_ascii=False) + "\n").encode()
        if os.write(self._descriptor, data) != len(data):
            raise RecordError(f"{self.path}: a line could not be written in full: is the disk full?")
        _sync(self._descriptor)
        self.seals.append(seal)

    def close(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def __del__(self) -> None:
        self.close()


def _locked(path: Path) -> int:
    """A descriptor that appends; refused while somebody else writes the same record."""
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o644)
    except OSError as error:
        raise RecordError(f"{path}: cannot be written ({error.strerror or error})") from None
    with contextlib.suppress(ImportError):  # no such lock outside POSIX
        import fcntl

        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(descriptor)
            raise RecordError(f"{path}: it is being written already, here or by another process") from None
    return descriptor
