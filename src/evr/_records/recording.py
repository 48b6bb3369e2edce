"""``evr.record``: observes an Opacus training and writes down what really happened.

The recording hooks the optimizer's step, after noise was added and before the weights move: a line is written, and only
then may the step happen. It also looks at ``pre_step``, at the batch sampler and at every ``torch`` optimizer of the
process. Sizes of batches are compared, never written: under add-or-remove adjacency they are not public.
"""

import contextlib
import logging
import secrets
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Literal

from evr._basics import validate
from evr._records import inspecting
from evr._records.chain import rank_path, unused
from evr._records.recorder import Recorder
from evr.errors import RecordError

_OTHER = "a step did not use the batch that the sampler drew, all of it and nothing else"
EMPTY = "an empty batch was dropped or filled: a Poisson-sampled step with no records still adds its noise"
_UNSEEN = (
    "a step used a batch that the recorded loader did not give: record before anything iterates over the loader (a "
    "trainer may have begun), and give evr.record the loader that the training uses"
)
_REPEATED = (
    "the generator of the noise was set back, so that noise would be used a second time: leave its state alone "
    "(torch.set_rng_state, fork_rng), or call torch.seed() after it"
)
_PARAMETERS = (
    "something other than the recorded optimizer wrote to the parameters: harmless if it came from private weights (a "
    "checkpoint, an average), not if it came from data"
)


class Recording(Recorder):
    """A ``Recorder`` that observes an Opacus training and writes down its steps itself: made by ``evr.record``."""

    def __init__(
        self, optimizer: Any, loader: Any, path: Path, engine: Any, *, refuse: bool, new: bool, **options: Any
    ) -> None:
        self._optimizer, self._refuse = optimizer, refuse
        self._accountant = inspecting.accountant_of(optimizer, engine)
        self._written: set[tuple[str, str]] = set()  # findings
        self._used: int | None = 0  # records of this step so far; None where Opacus keeps no gradients of each
        self._skipped = 0
        self._states: set[bytes] = set()  # of the generator, before it drew the noise of a step
        self._state = b""
        self._expected = False  # whether a step of the wrapped optimizer has been announced
        self._versions: int | None = None
        self._counted = -1  # steps in the accountant after the last recorded one
        self._watched: dict[str, tuple[Any, float]] = {}
        owner, name = inspecting.holder(loader)
        with contextlib.ExitStack() as undo:
            undo.callback(vars(owner).__setitem__, name, vars(owner)[name])
            self._batches = inspecting.observe(loader)
            self._sampler = self._batches.observed
            breaches = [words for kind, _, words in inspecting.findings(optimizer, self._sampler) if kind == "breach"]
            if breaches and refuse:
                raise RecordError("this training cannot be recorded: " + "; ".join(breaches))
            rank, ranks = inspecting.place()
            run, path = _agreed(unused(path) if new else path, ranks)
            conditions = inspecting.conditions(optimizer, self._sampler)
            own = path if ranks == 1 else rank_path(path, rank)
            super().__init__(own, conditions, rank=rank, ranks=ranks, run=run, **options)
            undo.callback(super().close)
            self._look()
            self._check_checkpoint()
            self._attach(undo.callback)
            self._undo = undo.pop_all()

    def _end(self) -> None:
        with self._undo:
            self._batches.epoch_ends()
            self._check_dropped()
            self._check_updates()
            super()._end()

    def state_dict(self) -> dict[str, Any]:
        """For a checkpoint: where the record stands, and the steps that the accountant has counted."""
        counted = None if self._accountant is None else dict(self._accountant.state_dict())
        return {"record": self.mark, "accountant": counted}

    def watch(self, module: Any) -> None:
        """Note at the end which trainable parameters of a module were never updated. They cost no privacy; they show
        that something else was trained than was meant, such as adapters that no optimizer holds.
        """
        self._watched.update(
            {name: (p, inspecting.total(p)) for name, p in module.named_parameters() if p.requires_grad}
        )

    def _check_updates(self) -> None:
        still = [name for name, (parameter, before) in self._watched.items() if inspecting.total(parameter) == before]
        if still and self.steps:
            count = f"{len(still)} of {len(self._watched)} trainable parameters"
            words = f"{count} were never updated ({', '.join(still[:3])}{', ...' if still[3:] else ''})"
            logging.getLogger("evr").warning("%s: %s", self.path, words)
            self._find("note", "updates", words)

    def close(self) -> None:
        """Stop observing; the record can be continued."""
        self._undo.close()

    def _attach(self, undo: Callable[..., Any]) -> None:
        from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook

        optimizer = self._optimizer
        self._hook_before, self._pre_step = optimizer.step_hook, optimizer.pre_step
        undo(optimizer.attach_step_hook, optimizer.step_hook)
        optimizer.attach_step_hook(self._on_noise)
        undo(delattr, optimizer, "pre_step")
        optimizer.pre_step = self._on_pre_step
        undo(register_optimizer_step_pre_hook(self._on_any_step).remove)
        undo(register_optimizer_step_post_hook(self._after_any_step).remove)

    def _check_dropped(self) -> None:
        """What the sampler drew in epochs that are over was used, unless somebody dropped it."""
        if self._batches.dropped:
            self._find("breach", "empty_batch", EMPTY, happened=True)

    def _on_pre_step(self, closure: Any = None) -> Any:
        """Around all that Opacus does before the weights move."""
        optimizer = self._optimizer
        self._check_checkpoint()
        if optimizer.step_hook != self._on_noise:
            self._find("breach", "hook", "the optimizer's step hook was replaced, and with it the recorder's")
        if self._versions not in (None, inspecting.versions(optimizer)):
            self._find("note", "parameters", _PARAMETERS)
        self._versions = None
        size = inspecting.batch_size(optimizer)
        self._used = None if size is None or self._used is None else self._used + size
        if optimizer._check_skip_next_step(pop_next=False):
            self._skipped += 1
            return self._pre_step(closure)
        self._check_batch()
        self._look()
        self._state = inspecting.noise_state(optimizer)
        if self._state in self._states:
            self._find("breach", "repeated", _REPEATED)
        self._expected = False
        happens = self._pre_step(closure)
        if happens:
            if not self._expected:
                self._find("breach", "unseen", "a step did not pass the optimizer's hook")
            self._used, self._skipped = 0, 0
        return happens

    def _on_noise(self, optimizer: Any) -> None:
        """Opacus's step hook: noise was added, the weights have not moved."""
        if self._hook_before is not None:
            self._hook_before(optimizer)
        if inspecting.noise_state(optimizer) != self._state:  # a rank that adds no noise draws none
            self._states.add(self._state)
        self._used = 0  # also where the line is interrupted: Opacus uses no gradient twice that has its noise
        self.step(
            noise_multiplier=float(optimizer.noise_multiplier),
            clipping_norm=float(optimizer.max_grad_norm),
            sampling_probability=inspecting.rate(self._sampler),
            divisor=inspecting.divisor(optimizer, optimizer.accumulated_iterations),
            skipped=self._skipped,
            secure=bool(optimizer.secure_mode),
        )
        self._expected = True
        self._mark_checkpoint()

    def _on_any_step(self, optimizer: Any, *_: Any) -> None:
        """Before a step of any torch optimizer."""
        if optimizer is self._optimizer.original_optimizer:
            if not self._expected:
                self._find("breach", "outside", "the wrapped optimizer stepped by itself, past clipping and noise")
            self._expected = False
            return
        parameters = {id(p) for p in self._optimizer.params}
        if any(id(p) in parameters for group in optimizer.param_groups for p in group["params"]):
            name = type(optimizer).__name__
            self._find("breach", "outside", f"another optimizer ({name}) stepped on the recorded parameters")

    def _after_any_step(self, optimizer: Any, *_: Any) -> None:
        if optimizer is self._optimizer.original_optimizer:
            self._versions = inspecting.versions(self._optimizer)

    def _look(self) -> None:
        for finding in inspecting.findings(self._optimizer, self._sampler):
            self._find(*finding)

    def _find(self, kind: inspecting.Kind, what: str, words: str, *, happened: bool = False) -> None:
        """Write down a note or a breach, once. Where breaches are refused, write down only one that has happened."""
        refused = kind == "breach" and self._refuse
        if (what, words) not in self._written and (happened or not refused):
            self.find(kind, what, words)
            self._written.add((what, words))
        if refused:
            raise RecordError(f"after step {self.steps}: {words}")

    def _check_batch(self) -> None:
        """The step's records are those of the next batch that the sampler drew."""
        self._check_dropped()
        if not self._batches.drawn:
            self._find("breach", "no_batch", _UNSEEN)
            return
        drawn = self._batches.drawn.popleft()
        if self._used is not None and self._used != drawn:
            what, words = ("empty_batch", EMPTY) if drawn == 0 else ("batch", _OTHER)
            self._find("breach", what, words, happened=True)

    def _check_checkpoint(self) -> None:
        """The accountant counted what was recorded; after a checkpoint is loaded, the record holds all it knew."""
        counted, recorded = inspecting.counted(self._accountant), self.steps
        if counted == self._counted:
            return
        mark = getattr(self._accountant, "record_mark", None)
        if mark is not None:
            self.require(mark)
        if counted > recorded:
            words = f"the accountant has counted {counted} steps, and the record holds {recorded}"
            self._find("breach", "unrecorded", f"{words}: record from the first step after make_private")
        elif self._accountant is not None and counted < recorded:
            lost = f"{recorded - counted} recorded steps are not in the weights that the training goes on from"
            self._find("note", "lost", f"{lost}; they count")
        self._mark_checkpoint()

    def _mark_checkpoint(self) -> None:
        self._counted = inspecting.counted(self._accountant)
        if hasattr(self._accountant, "record_mark"):
            self._accountant.record_mark = self.mark


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
        looking at the data: the training must keep to them. Opacus computes them from the number of records, so that
        without constants the record is certified under zero-out adjacency, where that number is public.
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
        To be entered (``with``) around the training; its ``steps`` are those recorded so far, and ``path`` is the file.

    Raises
    ------
    RecordError
        If the training cannot be recorded as it is.
    """
    validate.one_of(("refuse", "note"), breaches=breaches)
    inspecting.check_optimizer(optimizer)
    refuse = breaches == "refuse"
    return Recording(optimizer, loader, Path(path), engine, refuse=refuse, new=new, constants=constants, resume=resume)


def _agreed(path: Path, ranks: int) -> tuple[str | None, Path]:
    """The name of the run and where its record goes: those of rank 0, which all processes share."""
    import torch.distributed as group

    if ranks == 1:
        return None, path
    chosen = [secrets.token_hex(16), str(path)]
    group.broadcast_object_list(chosen, src=0)
    return chosen[0], Path(chosen[1])
