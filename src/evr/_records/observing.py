"""``evr.record``: observes an Opacus training and writes down what really happened."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from evr._basics import validate
from evr._records import inspecting
from evr._records.reading import Record
from evr._records.recording import Recording


def record(
    optimizer: Any,
    loader: Any,
    path: str | Path = "training.record.jsonl",
    *,
    engine: Any = None,
    constants: Mapping[str, Any] | None = None,
    breaches: Literal["refuse", "note"] = "refuse",
    new: bool = False,
    resume: bool = False,
) -> Recording:
    """Record what an Opacus training does, step by step, in a file that survives a crash.

    Call it after ``make_private`` and before the first step; use it as a context manager, or call ``finish`` at the
    end. ``evr.Record.load(path)`` reads the record; its ``event`` is what ran (docs/guide/record_a_training.md).

    Parameters
    ----------
    optimizer
        The ``DPOptimizer`` that ``make_private`` returned.
    loader
        The data loader that ``make_private`` returned.
    path
        The file. One that was not finished is continued, after a crash or a pause; steps after the last checkpoint stay
        in it, for they ran. Each process of a distributed training has its own.
    engine
        The ``PrivacyEngine``: its accountant knows how many steps were taken. Not needed where that is evr's own
        (``PrivacyEngine(accountant="evr")``).
    constants
        ``{"divisor": ..., "sampling_probability": ..., "steps": ...}``, if you fixed these three numbers without
        looking at the data. Opacus computes them from the number of records, so that without constants the record is
        certified under zero-out adjacency, where the number of records is public. What the training does must be equal
        to the constants.
    breaches
        What to do about what breaks the accounting (a shuffled loader, a generator seeded by hand, a dropped batch,
        clipping switched off, a step past the recorder): ``"refuse"`` raises ``RecordError`` before the weights move,
        ``"note"`` writes it down and lets the training go on, and the record has no event.
    new, resume
        What to do with a record that is finished: begin another beside it, under the next free number, or add steps to
        it. Without either it is refused.

    Returns
    -------
    Recording
        To be entered (``with``) around the training; its ``steps`` are those recorded so far.

    Raises
    ------
    RecordError
        If the training cannot be recorded as it is.
    """
    validate.one_of(("refuse", "note"), breaches=breaches)
    inspecting.check_optimizer(optimizer)
    return Recording(
        optimizer, loader, Path(path), constants, engine, refuse=breaches == "refuse", new=new, resume=resume
    )


class Follower:
    """What callbacks of trainers have in common. Checkpoints hold where the record stood and what the accountant had
    counted; a training that is resumed from one continues its record.

    Parameters
    ----------
    path
        The file; each process of a distributed training has its own.
    engine
        The ``PrivacyEngine``. Not needed where its accountant is evr's.
    **options
        As of ``evr.record``.

    Attributes
    ----------
    record
        What ran, after a training that ended in order: ``callback.record.certify(delta=1e-5)``.
    """

    def __init__(self, path: str | Path = "training.record.jsonl", engine: Any = None, **options: Any) -> None:
        self.path, self.engine, self.options = path, engine, options
        self.record: Record | None = None
        self._recording: Recording | None = None

    def begin(self, optimizer: Any, loader: Any, module: Any, state: Mapping[str, Any] | None) -> None:
        """Record from here on, from the state that a checkpoint holds if there is one, and watch a module."""
        options = {**self.options, "resume": True} if state else self.options
        if state and state["accountant"] is not None:
            inspecting.accountant_of(optimizer, self.engine).load_state_dict(state["accountant"])
        self._recording = record(optimizer, loader, self.path, engine=self.engine, **options)
        self._recording.require(state)
        self._recording.watch(module)

    def state_dict(self) -> dict[str, Any]:
        """For the trainer's checkpoints."""
        return {} if self._recording is None else self._recording.state_dict()

    def finish(self) -> None:
        """Finish the record: the training ended in order."""
        assert self._recording is not None
        self.record = self._recording.finish()

    def close(self) -> None:
        """Stop observing. A record that is not finished can be continued."""
        if self._recording is not None and self.record is None:
            self._recording.close()
