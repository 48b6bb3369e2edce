"""Records of trainings, written: what ran, step by step, in a file that a crash does not hurt.

A line is on the disk before the step that it announces happens, so a record may hold one step more than ran, never one
fewer. The file is a sealed chain of lines (``evr.records.chain``).

``evr.records.observing`` writes records of Opacus trainings; other training loops use ``Recorder`` themselves.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

from evr import validate
from evr.errors import RecordError
from evr.randomness import fresh_entropy
from evr.records.chain import FORMAT, Chain


@dataclass(frozen=True)
class Constants:
    """What somebody fixed without looking at the data: numbers of a Poisson-sampled training that must not depend on
    the number of records where that is private (docs/guarantees_relations.md, R1.7).
    """

    divisor: float
    sampling_probability: float
    steps: int

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> Constants:
        """The constants as callers give them and as records hold them.

        >>> Constants.of({"divisor": 256, "sampling_probability": 0.01, "steps": 100})
        Constants(divisor=256.0, sampling_probability=0.01, steps=100)
        """
        wanted = set(cls.__dataclass_fields__)
        if not isinstance(given, Mapping) or set(given) != wanted:
            raise ValueError(
                f"constants={validate.shown(given)} are not a divisor, a sampling_probability and "
                "steps: give a dictionary of these three"
            )
        return cls(
            validate.positive(divisor=given["divisor"]),
            validate.probability(sampling_probability=given["sampling_probability"]),
            validate.positive_integer(steps=given["steps"]),
        )

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    def unlike(self, divisor: float | None, sampling_probability: float) -> str | None:
        """How a step differs from these constants, in words; None if it does not."""
        if divisor != self.divisor:
            seen = "was not recorded" if divisor is None else f"was {divisor!r}"
            return f"the divisor {seen}, and the constant is {self.divisor!r}"
        if sampling_probability != self.sampling_probability:
            return (
                f"the sampling probability was {sampling_probability!r}, and the constant is "
                f"{self.sampling_probability!r}"
            )
        return None


class Recorder(contextlib.AbstractContextManager["Recorder"]):
    """Writes a record, and continues one that is there.

    Parameters
    ----------
    path
        The file. One that exists is checked and continued; nothing in it is forgotten.
    conditions
        What holds from here on, in JSON's types.
    constants
        ``{"divisor": ..., "sampling_probability": ..., "steps": ...}``: say with it that these three numbers were fixed
        without looking at the data, the number of records included. A step that differs is refused. Without constants,
        a record is certified under zero-out adjacency (``Record.relation``).
    rank, ranks, run
        Of a distributed training: which process of how many, and a name of the run that all of them share.

    Examples
    --------
    >>> import tempfile
    >>> from evr.records.reading import Record
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
    ) -> None:
        self.path = Path(path)
        self._constants = None if constants is None else Constants.of(constants)
        fixed = None if self._constants is None else self._constants.to_json()
        self._chain = Chain(self.path)
        self.steps = sum(line["kind"] == "step" for line in self._chain.lines)
        try:
            if self._chain.lines:
                self._continue(rank, ranks, conditions or {}, fixed)
            else:
                name = run or f"{fresh_entropy():x}"[:32]
                fields = {"format": FORMAT, "run": name, "rank": rank, "ranks": ranks}
                self._chain.write("start", **fields, time=_now(), conditions=conditions or {}, constants=fixed)
        except BaseException:
            self.close()
            raise

    def _continue(self, rank: int, ranks: int, conditions: dict[str, Any], fixed: dict[str, Any] | None) -> None:
        first = self._chain.lines[0]
        if (first["rank"], first["ranks"]) != (rank, ranks):
            raise RecordError(
                f"{self.path}: the record of rank {first['rank']} of {first['ranks']} cannot be "
                f"continued by rank {rank} of {ranks}"
            )
        if first.get("constants") != fixed:
            raise RecordError(
                f"{self.path}: the record was begun with constants={first.get('constants')!r}, and constants={fixed!r} "
                "are given now: continue it with the same, or write another record"
            )
        self._chain.write("resumed", time=_now(), steps=self.steps, cut_off=self._chain.cut_off, conditions=conditions)

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
        unlike = self._constants and self._constants.unlike(divisor, sampling_probability)
        if unlike:
            raise RecordError(f"after step {self.steps}: {unlike}")
        self.steps += 1
        self._chain.write(
            "step",
            step=self.steps,
            noise_multiplier=noise_multiplier,
            clipping_norm=clipping_norm,
            sampling_probability=sampling_probability,
            divisor=divisor,
            skipped=skipped,
            secure=secure,
        )

    def find(self, kind: Literal["note", "breach"], what: str, words: str) -> None:
        """Write down a note or a breach."""
        self._chain.write(kind, what=what, words=words, after_step=self.steps)

    @property
    def _mark(self) -> dict[str, Any]:
        """Where the record stands: for a checkpoint."""
        return {"line": len(self._chain.seals) - 1, "seal": self._chain.seals[-1], "steps": self.steps}

    def _require(self, mark: dict[str, Any]) -> None:
        """Raise ``RecordError`` unless the record holds all that it held when a checkpoint was written."""
        line, seals = mark["line"], self._chain.seals
        if line >= len(seals) or seals[line] != mark["seal"]:
            raise RecordError(
                f"{self.path}: the checkpoint was written after {mark['steps']} steps of another "
                "record, or of this one before lines were lost"
            )

    def finish(self) -> None:
        """Say that the training ended in order, and close the file."""
        self._chain.write("end", steps=self.steps, time=_now())
        self.close()

    def close(self) -> None:
        """Close the file; without ``finish`` the training can only be continued."""
        self._chain.close()

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            self.finish()
        self.close()


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")
