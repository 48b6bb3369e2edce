"""Records of trainings, written: what ran, step by step, in a file that a crash does not hurt.

A line is on the disk before the step that it announces happens, so a record may hold one step more
than ran, never one fewer. The file's form and its seals are those of ``evr.gate.records``.

The observer that writes records of Opacus trainings is ``evr.integrations.observing``; other
training loops can use ``Recorder`` by themselves.
"""

from __future__ import annotations

import contextlib
import json
import os
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Any, Literal

from evr.errors import RecordError
from evr.gate.records import FORMAT, read, sealed
from evr.randomness import fresh_entropy

_sync = getattr(os, "fdatasync", os.fsync)


class Recorder:
    """Writes a record, and continues one that is there.

    Parameters
    ----------
    path
        The file. One that exists is checked and continued; nothing in it is forgotten.
    conditions
        What holds from here on, in JSON's types.
    rank, ranks, run
        Of a distributed training: which process of how many, and a name of the run that all of them share.

    Examples
    --------
    >>> import tempfile
    >>> from evr.gate.records import Record
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with Recorder(f"{folder}/training.record.jsonl") as recorder:
    ...         for _ in range(100):
    ...             recorder.step(noise_multiplier=1.0, clipping_norm=0.5, sampling_probability=0.01)
    ...     record = Record.load(recorder.path)
    >>> record.steps, record.event.event
    (100, PoissonSampledDpEvent(sampling_probability=0.01, event=GaussianDpEvent(noise_multiplier=1.0)))
    """

    def __init__(
        self,
        path: str | Path,
        conditions: dict[str, Any] | None = None,
        *,
        rank: int = 0,
        ranks: int = 1,
        run: str | None = None,
    ) -> None:
        self.path = Path(path)
        self.steps = 0
        self._seals: list[str] = []
        self._descriptor = -1
        self._descriptor = _locked(self.path)
        try:
            if os.fstat(self._descriptor).st_size:
                self._continue(rank, ranks, conditions or {})
            else:
                name = run or f"{fresh_entropy():x}"[:32]
                self._write(
                    "start", format=FORMAT, run=name, rank=rank, ranks=ranks, time=_now(), conditions=conditions or {}
                )
        except BaseException:
            self.close()
            raise

    def _continue(self, rank: int, ranks: int, conditions: dict[str, Any]) -> None:
        record, whole = read(self.path)
        if (record.rank, record.ranks) != (rank, ranks):
            raise RecordError(
                f"{self.path}: the record of rank {record.rank} of {record.ranks} cannot be continued by rank {rank} of {ranks}"
            )
        cut_off = os.fstat(self._descriptor).st_size - whole
        os.ftruncate(self._descriptor, whole)  # a line is written before its step: what it announced did not happen
        self.steps, self._seals = record.steps, list(record.seals)
        self._write("resumed", time=_now(), steps=self.steps, cut_off=cut_off, conditions=conditions)

    def step(
        self,
        *,
        noise_multiplier: float,
        clipping_norm: float,
        sampling_probability: float,
        skipped: int = 0,
        secure: bool = False,
    ) -> None:
        """Write down a step that is about to happen; it is on the disk when this returns.

        ``skipped`` counts physical batches before it that were only added up; ``secure`` says whether its noise comes from a
        cryptographic generator.
        """
        self.steps += 1
        self._write(
            "step",
            step=self.steps,
            noise_multiplier=noise_multiplier,
            clipping_norm=clipping_norm,
            sampling_probability=sampling_probability,
            skipped=skipped,
            secure=secure,
        )

    def find(self, kind: Literal["note", "breach"], what: str, words: str) -> None:
        """Write down a note or a breach."""
        self._write(kind, what=what, words=words, after_step=self.steps)

    @property
    def mark(self) -> dict[str, Any]:
        """Where the record stands: for a checkpoint."""
        return {"line": len(self._seals) - 1, "seal": self._seals[-1], "steps": self.steps}

    def require_mark(self, mark: dict[str, Any]) -> None:
        """Raise ``RecordError`` unless the record holds all that it held when a checkpoint was written."""
        line = mark["line"]
        if line >= len(self._seals) or self._seals[line] != mark["seal"]:
            raise RecordError(
                f"{self.path}: the checkpoint was written after {mark['steps']} steps of another record, or of this one "
                "before lines were lost"
            )

    def finish(self) -> None:
        """Say that the training ended in order, and close the file."""
        self._write("end", steps=self.steps, time=_now())
        self.close()

    def close(self) -> None:
        """Close the file; without ``finish`` the training can only be continued."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def __del__(self) -> None:
        self.close()

    def __enter__(self) -> Recorder:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self.finish()
        self.close()

    def _write(self, kind: str, **fields: Any) -> None:
        if self._descriptor < 0:
            raise RecordError(f"{self.path}: the record is closed: nothing can be added")
        line = {"line": len(self._seals), "kind": kind, **fields}
        try:
            seal = sealed(line, self._seals[-1] if self._seals else "")
        except ValueError as error:
            raise RecordError(f"{kind}: {error}: a record holds finite numbers and text") from None
        data = (json.dumps({**line, "seal": seal}, ensure_ascii=False) + "\n").encode()
        if os.write(self._descriptor, data) != len(data):
            raise RecordError(f"{self.path}: a line could not be written in full: is the disk full?")
        _sync(self._descriptor)
        self._seals.append(seal)


def _locked(path: Path) -> int:
    """A descriptor that appends; refused while another process writes the same record."""
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


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")
