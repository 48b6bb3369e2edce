"""Records of trainings, written. A line is on the disk before the step that it announces happens, so a record may hold
one step more than ran, never one fewer.
"""

from __future__ import annotations

import contextlib
import hashlib
import logging
import secrets
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, Literal, Self

from evr._records.chain import FORMAT, Chain, Constants, last_of, unused
from evr._records.reading import Record
from evr._release.ledger import now
from evr.errors import RecordError


class Recorder:
    """Writes a record, and continues one that is there. One thread at a time may use it.

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
    new, resume
        As of ``evr.record``.
    seed
        Of what draws batches or noise; a slow hash is written. One that an earlier part of the record had is refused.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     recorder = Recorder(f"{folder}/training.record.jsonl")
    ...     for _ in range(100):
    ...         recorder.step(noise_multiplier=1.0, clipping_norm=0.5, sampling_probability=0.01)
    ...     record = recorder.finish()
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
        new: bool = False,
        resume: bool = False,
        seed: int | None = None,
    ) -> None:
        self._constants = None if constants is None else Constants.of(constants)
        place = {"rank": rank, "ranks": ranks, "constants": self._constants and asdict(self._constants)}
        self._chain = Chain(unused(Path(path)) if new else Path(path))
        self.path, lines = self._chain.path, self._chain.lines
        name = lines[0]["run"] if lines else run or secrets.token_hex(16)
        given: dict[str, Any] = {"time": now(), "conditions": {**(conditions or {})}}
        if seed is not None:  # hashed so slowly that nobody finds it by trying all of 53 bits
            salted = hashlib.scrypt(str(seed).encode(), salt=name.encode(), n=2**14, r=8, p=1, dklen=16)
            given["conditions"]["seed"] = salted.hex()
        try:
            if lines:
                self._check_continued(place, given["conditions"].get("seed"), resume)
                self._chain.write("resumed", steps=self.steps, cut_off=self._chain.cut_off, **given)
            else:
                self._chain.write("start", format=FORMAT, run=name, **place, **given)
        except BaseException:
            self._chain.close()
            raise

    def _check_continued(self, place: dict[str, Any], seed: str | None, resume: bool) -> None:
        """Say that a record is continued. Raises ``RecordError`` if it is of another training, or is finished."""
        lines = self._chain.lines
        begun = {key: lines[0].get(key) for key in place}
        if begun != place:
            differ = f"the record was begun with {begun}, and {place} is given now"
            raise RecordError(f"{self.path}: {differ}: continue it with the same, or write another record")
        if last_of(lines)["kind"] == "end" and not resume:
            certified = " and certified" if "certificate" in (line["kind"] for line in lines) else ""
            raise RecordError(
                f"{self.path}: the record is finished{certified}, with {self.steps} steps. Another training needs "
                "another file (new=True names one); to add steps to this one, which then count together, resume=True"
            )
        if seed is not None and seed in (line.get("conditions", {}).get("seed") for line in lines):
            raise RecordError(
                f"{self.path}: this seed has drawn a part of the record already, and would draw the same batches "
                "again, which is not what is accounted for: go on with another seed"
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

    @property
    def steps(self) -> int:
        """The steps that the record holds."""
        return self._chain.steps

    def find(self, kind: Literal["note", "breach"], what: str, words: str) -> None:
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
            words = f"{saved} of another record, or of this one before lines were lost"
            raise RecordError(f"{self.path}: {words}: continue the record that was open then")

    def finish(self) -> Record:
        """Say that the training ended in order, close the file, and read it."""
        self._end()
        return Record.load(self.path)

    def _end(self) -> None:
        with contextlib.closing(self._chain) as chain:
            chain.write("end", steps=self.steps, time=now())

    def close(self) -> None:
        """Let go of the file; without ``finish`` the training can only be continued."""
        self._chain.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        (self._end if kind is None else self.close)()
