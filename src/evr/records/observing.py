"""``evr.record``: observes an Opacus training and writes down what really happened (docs/guide/record_a_training.md).

The recorder hooks the optimizer's step, after noise was added and before the weights move: a line is written, and only
then may the step happen. It also looks at ``pre_step``, at the batch sampler and at every ``torch`` optimizer of the
process. Sizes of batches are compared, never written: under add-or-remove adjacency they are not public.
"""

from __future__ import annotations

import contextlib
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Literal

from evr import validate
from evr.errors import RecordError
from evr.records import conditions
from evr.records.reading import Record, rank_path
from evr.records.recorder import Recorder


def record(
    optimizer: Any,
    loader: Any,
    path: str | Path = "training.record.jsonl",
    *,
    constants: Mapping[str, Any] | None = None,
    breaches: Literal["refuse", "note"] = "refuse",
) -> Recording:
    """Record what an Opacus training does, step by step, in a file that survives a crash.

    Call it after ``make_private`` and before the first step; use it as a context manager, or call ``finish`` at the
    end. ``evr.Record.load(path)`` reads the record; its ``event`` is what ran.

    Parameters
    ----------
    optimizer
        The ``DPOptimizer`` that ``make_private`` returned.
    loader
        The data loader that ``make_private`` returned.
    path
        The file. One that exists is continued, after a crash or a pause; steps after the last checkpoint stay in it,
        for they ran. Each process of a distributed training has its own.
    constants
        ``{"divisor": ..., "sampling_probability": ..., "steps": ...}``, if you fixed these three numbers without
        looking at the data. Opacus computes them from the number of records, so that without constants the record is
        certified under zero-out adjacency, where the number of records is public. What the training does must be equal
        to the constants.
    breaches
        What to do about what breaks the accounting (a shuffled loader, a generator seeded by hand, a dropped batch,
        clipping switched off, a step past the recorder): ``"refuse"`` raises ``RecordError`` before the weights move,
        ``"note"`` writes it down and lets the training go on, and the record has no event.

    Returns
    -------
    Recording
        To be finished; its ``path`` is the file.

    Raises
    ------
    RecordError
        If the training cannot be recorded as it is.

    Examples
    --------
    `docs/guide/record_a_training.md` has one from the first line to the certificate.
    """
    validate.one_of(("refuse", "note"), breaches=breaches)
    try:
        from opacus.optimizers import DPOptimizer
    except ImportError:
        raise ImportError("evr.record observes Opacus trainings: pip install evr-dp[opacus]") from None
    if not isinstance(optimizer, DPOptimizer):
        raise TypeError(f"{type(optimizer).__name__} is not recorded: give the optimizer that make_private returned")
    return Recording(optimizer, loader, Path(path), constants, refuse=breaches == "refuse")


class Recording(contextlib.AbstractContextManager["Recording"]):
    """A training that is being recorded: made by ``evr.record``."""

    def __init__(
        self, optimizer: Any, loader: Any, path: Path, constants: Mapping[str, Any] | None, *, refuse: bool
    ) -> None:
        self._optimizer, self._refuse = optimizer, refuse
        self._sampler = conditions.batch_sampler(loader)
        self._accountant = _accountant_of(optimizer)
        found = list(conditions.breaches(optimizer, self._sampler))
        if found and refuse:
            raise RecordError("this training cannot be recorded: " + "; ".join(words for _, words in found))
        rank, ranks, run = conditions.place()
        self.path = path if ranks == 1 else rank_path(path, rank)
        described = conditions.described(optimizer, self._sampler)
        self._recorder = Recorder(self.path, described, constants=constants, rank=rank, ranks=ranks, run=run)
        self._written: set[tuple[str, str]] = set()  # findings
        self._drawn: deque[int] = deque()  # sizes of batches that no step has used yet
        self._used: int | None = 0  # records of this step so far; None where Opacus keeps no gradients of each
        self._skipped = 0
        self._expected = False  # whether a step of the wrapped optimizer has been announced
        self._versions: int | None = None
        self._counted = -1  # steps in the accountant after the last recorded one
        self._undo = contextlib.ExitStack()
        try:
            for finding in found:
                self._find("breach", *finding)
            for finding in conditions.notes(optimizer, self._sampler):
                self._find("note", *finding)
            self._check_checkpoint()
            self._attach()
        except BaseException:
            self._recorder.close()
            raise

    @property
    def steps(self) -> int:
        """The steps in the record so far."""
        return self._recorder.steps

    def finish(self) -> Record:
        """Stop observing, say in the record that the training ended in order, and read it."""
        self._undo.close()
        try:
            self._epoch_ends()
            self._recorder.finish()
        finally:
            self._recorder.close()
        return Record.load(self.path)

    def close(self) -> None:
        """Stop observing; the record can be continued."""
        self._undo.close()
        self._recorder.close()

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            self.finish()
        else:
            self.close()

    def _attach(self) -> None:
        from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook

        optimizer, sampler, undo = self._optimizer, self._sampler, self._undo.callback
        self._hook_before, self._pre_step = optimizer.step_hook, optimizer.pre_step
        undo(optimizer.attach_step_hook, optimizer.step_hook)
        optimizer.attach_step_hook(self._on_noise)
        undo(delattr, optimizer, "pre_step")
        optimizer.pre_step = self._on_pre_step
        undo(register_optimizer_step_pre_hook(self._on_any_step).remove)
        undo(register_optimizer_step_post_hook(self._after_any_step).remove)
        undo(setattr, sampler, "__class__", type(sampler))
        sampler.__class__ = _observed(type(sampler), self._drawn.append, self._epoch_ends)

    def _epoch_ends(self) -> None:
        """The sampler is through, or starts again: what it drew was used, unless somebody dropped it."""
        dropped = 0 in self._drawn
        self._drawn.clear()
        if dropped:
            self._breach("empty_batch", _EMPTY, happened=True)

    def _on_pre_step(self, closure: Any = None) -> Any:
        """Around all that Opacus does before the weights move."""
        optimizer = self._optimizer
        self._check_checkpoint()
        if optimizer.step_hook != self._on_noise:
            self._breach("hook", "the optimizer's step hook was replaced, and with it the recorder's")
        if self._versions is not None and conditions.versions(optimizer) != self._versions:
            self._find("note", "parameters", _PARAMETERS)
        self._versions = None
        size = conditions.batch_size(optimizer)
        self._used = None if size is None or self._used is None else self._used + size
        if optimizer._check_skip_next_step(pop_next=False):
            self._skipped += 1
            return self._pre_step(closure)
        self._check_batch()
        for finding in conditions.breaches(optimizer, self._sampler):
            self._breach(*finding)
        self._expected = False
        happens = self._pre_step(closure)
        if happens:
            if not self._expected:
                self._breach("unseen", "a step did not pass the optimizer's hook")
            self._used, self._skipped = 0, 0
        return happens

    def _on_noise(self, optimizer: Any) -> None:
        """Opacus's step hook: noise was added, the weights have not moved."""
        if self._hook_before is not None:
            self._hook_before(optimizer)
        self._recorder.step(
            noise_multiplier=float(optimizer.noise_multiplier),
            clipping_norm=float(optimizer.max_grad_norm),
            sampling_probability=conditions.rate(self._sampler),
            divisor=conditions.divisor(optimizer, optimizer.accumulated_iterations),
            skipped=self._skipped,
            secure=bool(optimizer.secure_mode),
        )
        self._expected = True
        self._mark_checkpoint()

    def _on_any_step(self, optimizer: Any, *_: Any) -> None:
        """Before a step of any torch optimizer."""
        if optimizer is self._optimizer.original_optimizer:
            if not self._expected:
                self._breach("outside", "the wrapped optimizer stepped by itself, past clipping and noise")
            self._expected = False
            return
        parameters = {id(p) for p in self._optimizer.params}
        if any(id(p) in parameters for group in optimizer.param_groups for p in group["params"]):
            name = type(optimizer).__name__
            self._breach("outside", f"another optimizer ({name}) stepped on the recorded parameters")

    def _after_any_step(self, optimizer: Any, *_: Any) -> None:
        if optimizer is self._optimizer.original_optimizer:
            self._versions = conditions.versions(self._optimizer)

    def _find(self, kind: Literal["note", "breach"], what: str, words: str) -> None:
        """Write down what was found, once."""
        if (what, words) not in self._written:
            self._recorder.find(kind, what, words)
            self._written.add((what, words))

    def _breach(self, what: str, words: str, *, happened: bool = False) -> None:
        """Refuse what can still be refused; write down what has happened, or is let pass."""
        if happened or not self._refuse:
            self._find("breach", what, words)
        if self._refuse:
            raise RecordError(f"after step {self._recorder.steps}: {words}")

    def _check_batch(self) -> None:
        """The step's records are those of the next batch that the sampler drew."""
        if not self._drawn:
            self._breach("no_batch", "a step used a batch that the recorded loader did not give")
            return
        drawn = self._drawn.popleft()
        if self._used is not None and self._used != drawn:
            self._breach(*(("empty_batch", _EMPTY) if drawn == 0 else ("batch", _OTHER)), happened=True)

    def _check_checkpoint(self) -> None:
        """The accountant counted what was recorded; after a checkpoint is loaded, the record holds all it knew."""
        counted, recorded = self._count(), self._recorder.steps
        if counted == self._counted:
            return
        mark = getattr(self._accountant, "record_mark", None)
        if mark is not None:
            self._recorder.require(mark)
        if counted > recorded:
            self._breach("unrecorded", f"the accountant has counted {counted} steps, and the record holds {recorded}")
        elif self._accountant is not None and counted < recorded:
            lost = f"{recorded - counted} recorded steps are not in the weights that the training goes on from"
            self._find("note", "lost", f"{lost}; they count")
        self._mark_checkpoint()

    def _mark_checkpoint(self) -> None:
        self._counted = self._count()
        if hasattr(self._accountant, "record_mark"):
            self._accountant.record_mark = self._recorder.mark

    def _count(self) -> int:
        return sum(steps for *_, steps in getattr(self._accountant, "history", ()))


_OTHER = "a step did not use the batch that the sampler drew, all of it and nothing else"
_EMPTY = "an empty batch was dropped or filled: a Poisson-sampled step with no records still adds its noise"
_PARAMETERS = (
    "something other than the recorded optimizer wrote to the parameters: harmless if it came from private weights (a "
    "checkpoint, an average), not if it came from data"
)


def _observed(sampler: type[Iterable[Any]], on_batch: Callable[[int], None], on_end: Callable[[], None]) -> type:
    """The sampler's class, telling what it draws: a subclass, so that ``isinstance`` and its state stay as they are."""

    def __iter__(self: Any) -> Iterator[Any]:
        on_end()
        for batch in sampler.__iter__(self):
            on_batch(len(batch))
            yield batch

    return type(sampler.__name__, (sampler,), {"__iter__": __iter__, "__module__": sampler.__module__})


def _accountant_of(optimizer: Any) -> Any:
    """The accountant that counts the optimizer's steps, in the closure of Opacus's step hook; None for another hook."""
    from opacus.accountants import IAccountant

    cells = getattr(optimizer.step_hook, "__closure__", None) or ()
    return next((cell.cell_contents for cell in cells if isinstance(cell.cell_contents, IAccountant)), None)
