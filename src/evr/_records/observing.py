"""``evr.record``: observes an Opacus training and writes down what really happened.

The recorder hooks the optimizer's step, after noise was added and before the weights move: a line is written, and only
then may the step happen. It also looks at ``pre_step``, at the batch sampler and at every ``torch`` optimizer of the
process. Sizes of batches are compared, never written: under add-or-remove adjacency they are not public.
"""

from __future__ import annotations

import contextlib
import logging
import math
import platform
import secrets
from collections import deque
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Literal

from evr._basics import validate
from evr._records.reading import Record, rank_path
from evr._records.recorder import Recorder
from evr.errors import RecordError

Kind = Literal["note", "breach"]

_RECORDED = (
    "DPOptimizer",
    "DPOptimizerFastGradientClipping",
    "DPPerLayerOptimizer",
    "DistributedDPOptimizer",
    "DistributedDPOptimizerFastGradientClipping",
    "SimpleDistributedPerLayerOptimizer",
    "AdaClipDPOptimizer",  # whose steps are breaches
)
"""The optimizers of Opacus 1.6 whose steps are known here. FSDPOptimizerFastGradientClipping is not one of them."""

_BY_HAND = 2**32  # torch seeds with 53 fresh bits: a fresh seed is below this with probability 2^-21
_UNSEEDED = 67280421310721  # the seed of every torch.Generator() that nobody seeded

_OTHER = "a step did not use the batch that the sampler drew, all of it and nothing else"
EMPTY = "an empty batch was dropped or filled: a Poisson-sampled step with no records still adds its noise"
_UNSEEN = (
    "a step used a batch that the recorded loader did not give: record before anything iterates over the loader (a "
    "trainer may have begun), and give evr.record the loader that the training uses"
)
_PARAMETERS = (
    "something other than the recorded optimizer wrote to the parameters: harmless if it came from private weights (a "
    "checkpoint, an average), not if it came from data"
)


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
        To be finished; its ``path`` is the file.

    Raises
    ------
    RecordError
        If the training cannot be recorded as it is.
    """
    validate.one_of(("refuse", "note"), breaches=breaches)
    try:
        from opacus.optimizers import DPOptimizer
    except ImportError:
        raise ImportError("evr.record observes Opacus trainings: pip install evr-dp[opacus]") from None
    name = type(optimizer).__name__
    if not isinstance(optimizer, DPOptimizer):
        raise TypeError(f"{name} is not recorded: give the optimizer that make_private returned")
    if name not in _RECORDED or not type(optimizer).__module__.startswith("opacus."):
        raise TypeError(f"{name} is not recorded: evr knows what a step of {', '.join(_RECORDED[:-1])} does")
    place = Path(path)
    if new:
        place = unused(place)
    return Recording(optimizer, loader, place, constants, engine, refuse=breaches == "refuse", resume=resume)


def unused(path: Path) -> Path:
    """The path, or the first of ``training.2.record.jsonl``, ``training.3...`` at which there is no record."""
    stem, dot, rest = path.name.partition(".")
    number, place = 1, path
    while place.exists() or rank_path(place, 0).exists():
        number += 1
        place = path.with_name(f"{stem}.{number}{dot}{rest}")
    return place


def _holder(loader: Any) -> tuple[Any, str]:
    """What holds the sampler that draws a loader's batches, whole ones where the loader splits them to save memory."""
    sampler = getattr(loader, "batch_sampler", None)
    if sampler is None:
        raise TypeError(f"{type(loader).__name__} has no batch sampler: give the loader that make_private returned")
    return (sampler, "sampler") if type(sampler).__name__ == "BatchSplittingSampler" else (loader, "batch_sampler")


class Observed:
    """A batch sampler that tells the sizes of the batches that it draws, in ``drawn``, until a step uses them.

    It has the class, the state and the length of the sampler that it stands for.
    """

    drawn: deque[int]
    dropped: bool  # whether a batch of no records was drawn and not used

    @classmethod
    def of(cls, loader: Any) -> Any:
        """The sampler of a loader, observed from now on; the loader draws by it."""
        owner, name = _holder(loader)
        sampler = vars(owner)[name]
        if isinstance(sampler, Observed):
            return sampler
        kind = type(sampler)
        observed: Any = object.__new__(type(kind.__name__, (cls, kind), {"__module__": kind.__module__}))
        observed.__dict__ = vars(sampler)  # shared, so that whoever changes the one changes the other
        observed.drawn, observed.dropped = deque(), False
        vars(owner)[name] = observed  # DataLoader refuses to assign it
        return observed

    def __iter__(self) -> Iterator[Any]:
        self.epoch_ends()
        for batch in super().__iter__():  # type: ignore[misc]
            self.drawn.append(len(batch))
            yield batch

    def epoch_ends(self) -> None:
        """What was drawn and not used will not be."""
        self.dropped |= 0 in self.drawn
        self.drawn.clear()


class Recording(contextlib.AbstractContextManager["Recording"]):
    """A training that is being recorded: made by ``evr.record``."""

    def __init__(
        self,
        optimizer: Any,
        loader: Any,
        path: Path,
        constants: Mapping[str, Any] | None,
        engine: Any,
        *,
        refuse: bool,
        resume: bool = False,
    ) -> None:
        self._optimizer, self._refuse = optimizer, refuse
        self._accountant = _accountant_of(optimizer, engine)
        self._undo = contextlib.ExitStack()
        owner, name = _holder(loader)
        self._undo.callback(vars(owner).__setitem__, name, vars(owner)[name])
        self._sampler = sampler = Observed.of(loader)
        try:
            breaches = [words for kind, _, words in _findings(optimizer, sampler) if kind == "breach"]
            if breaches and refuse:
                raise RecordError("this training cannot be recorded: " + "; ".join(breaches))
            rank, ranks = _place()
            self.path = path if ranks == 1 else rank_path(path, rank)
            told: dict[str, Any] = {
                "constants": constants,
                "rank": rank,
                "ranks": ranks,
                "run": _run(),
                "resume": resume,
            }
            self._recorder = Recorder(self.path, _conditions(optimizer, sampler), **told)
        except BaseException:
            self._undo.close()
            raise
        self._written: set[tuple[str, str]] = set()  # findings
        self._used: int | None = 0  # records of this step so far; None where Opacus keeps no gradients of each
        self._skipped = 0
        self._expected = False  # whether a step of the wrapped optimizer has been announced
        self._versions: int | None = None
        self._counted = -1  # steps in the accountant after the last recorded one
        self._watched: dict[str, tuple[Any, float]] = {}
        try:
            self._look()
            self._check_checkpoint()
            self._attach()
        except BaseException:
            self.close()
            raise

    @property
    def steps(self) -> int:
        """The steps in the record so far."""
        return self._recorder.steps

    def finish(self) -> Record:
        """Stop observing, say in the record that the training ended in order, and read it."""
        self._undo.close()
        with self._recorder:  # finishes it
            self._sampler.epoch_ends()
            self._check_dropped()
            self._check_updates()
        return Record.load(self.path)

    def state_dict(self) -> dict[str, Any]:
        """For a checkpoint: where the record stands, and the steps that the accountant has counted."""
        counted = None if self._accountant is None else dict(self._accountant.state_dict())
        return {"record": self._recorder.mark, "accountant": counted}

    def require(self, state: Mapping[str, Any]) -> None:
        """Raise ``RecordError`` unless the record holds all that it held when a checkpoint was written."""
        self._recorder.require(state["record"])

    def watch(self, module: Any) -> None:
        """Note at the end which trainable parameters of a module were never updated. They cost no privacy; they show
        that something else was trained than was meant, such as adapters that no optimizer holds.
        """
        trainable = {name: parameter for name, parameter in module.named_parameters() if parameter.requires_grad}
        self._watched.update({name: (parameter, _sum(parameter)) for name, parameter in trainable.items()})

    def _check_updates(self) -> None:
        still = [name for name, (parameter, before) in self._watched.items() if _sum(parameter) == before]
        if still and self.steps:
            count = f"{len(still)} of {len(self._watched)} trainable parameters"
            words = f"{count} were never updated ({', '.join(still[:3])}{', ...' if still[3:] else ''})"
            logging.getLogger("evr").warning("%s: %s", self.path, words)
            self._find("note", "updates", words)

    def close(self) -> None:
        """Stop observing; the record can be continued."""
        self._undo.close()
        self._recorder.close()

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        (self.finish if kind is None else self.close)()

    def _attach(self) -> None:
        from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook

        optimizer, undo = self._optimizer, self._undo.callback
        self._hook_before, self._pre_step = optimizer.step_hook, optimizer.pre_step
        undo(optimizer.attach_step_hook, optimizer.step_hook)
        optimizer.attach_step_hook(self._on_noise)
        undo(delattr, optimizer, "pre_step")
        optimizer.pre_step = self._on_pre_step
        undo(register_optimizer_step_pre_hook(self._on_any_step).remove)
        undo(register_optimizer_step_post_hook(self._after_any_step).remove)

    def _check_dropped(self) -> None:
        """What the sampler drew in epochs that are over was used, unless somebody dropped it."""
        if self._sampler.dropped:
            self._find("breach", "empty_batch", EMPTY, happened=True)

    def _on_pre_step(self, closure: Any = None) -> Any:
        """Around all that Opacus does before the weights move."""
        optimizer = self._optimizer
        self._check_checkpoint()
        if optimizer.step_hook != self._on_noise:
            self._find("breach", "hook", "the optimizer's step hook was replaced, and with it the recorder's")
        if self._versions not in (None, _versions(optimizer)):
            self._find("note", "parameters", _PARAMETERS)
        self._versions = None
        size = _batch_size(optimizer)
        self._used = None if size is None or self._used is None else self._used + size
        if optimizer._check_skip_next_step(pop_next=False):
            self._skipped += 1
            return self._pre_step(closure)
        self._check_batch()
        self._look()
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
        self._recorder.step(
            noise_multiplier=float(optimizer.noise_multiplier),
            clipping_norm=float(optimizer.max_grad_norm),
            sampling_probability=_rate(self._sampler),
            divisor=divisor(optimizer, optimizer.accumulated_iterations),
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
            self._versions = _versions(self._optimizer)

    def _look(self) -> None:
        for finding in _findings(self._optimizer, self._sampler):
            self._find(*finding)

    def _find(self, kind: Kind, what: str, words: str, *, happened: bool = False) -> None:
        """Write down a note or a breach, once. Where breaches are refused, write down only one that has happened."""
        refused = kind == "breach" and self._refuse
        if (what, words) not in self._written and (happened or not refused):
            self._recorder.find(kind, what, words)
            self._written.add((what, words))
        if refused:
            raise RecordError(f"after step {self._recorder.steps}: {words}")

    def _check_batch(self) -> None:
        """The step's records are those of the next batch that the sampler drew."""
        self._check_dropped()
        if not self._sampler.drawn:
            self._find("breach", "no_batch", _UNSEEN)
            return
        drawn = self._sampler.drawn.popleft()
        if self._used is not None and self._used != drawn:
            what, words = ("empty_batch", EMPTY) if drawn == 0 else ("batch", _OTHER)
            self._find("breach", what, words, happened=True)

    def _check_checkpoint(self) -> None:
        """The accountant counted what was recorded; after a checkpoint is loaded, the record holds all it knew."""
        counted, recorded = self._count(), self._recorder.steps
        if counted == self._counted:
            return
        mark = getattr(self._accountant, "record_mark", None)
        if mark is not None:
            self._recorder.require(mark)
        if counted > recorded:
            words = f"the accountant has counted {counted} steps, and the record holds {recorded}"
            self._find("breach", "unrecorded", words)
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


def divisor(optimizer: Any, passes: int = 1) -> float:
    """The divisor of the noisy sum of all processes, after so many backward passes."""
    if optimizer.loss_reduction != "mean":
        return 1.0
    return float(optimizer.expected_batch_size * passes * getattr(optimizer, "world_size", 1))


def _is_poisson(sampler: Any) -> bool:
    """Whether it is one of Opacus's Poisson samplers, and no other class made of one."""
    kind = type(sampler).__mro__[2] if isinstance(sampler, Observed) else type(sampler)
    known = ("UniformWithReplacementSampler", "DistributedUniformWithReplacementSampler")
    return kind.__name__ in known and kind.__module__ == "opacus.utils.uniform_sampler"


def _rate(sampler: Any) -> float:
    """The probability that a record is in a batch; for other than Poisson samplers, one over the number of batches."""
    return float(sampler.sample_rate) if _is_poisson(sampler) else 1.0 / max(1, len(sampler))


def _conditions(optimizer: Any, sampler: Any) -> dict[str, Any]:
    """What holds at the start of a training, for its record."""
    import opacus
    import torch

    return {
        "python": platform.python_version(),
        "torch": str(torch.__version__),
        "opacus": str(opacus.__version__),
        "optimizer": type(optimizer).__name__,
        "sampler": type(sampler).__name__,
        "poisson": _is_poisson(sampler),
        "sampling_probability": _rate(sampler),
        "divisor": divisor(optimizer),
        "batches_per_epoch": len(sampler),
        "secure": bool(optimizer.secure_mode),
    }


def _findings(optimizer: Any, sampler: Any) -> Iterator[tuple[Kind, str, str]]:
    """What an optimizer and a sampler show before a step: breaches of the accounting, and notes for its readers."""
    name = type(optimizer).__name__
    if not _is_poisson(sampler):
        inner = type(getattr(sampler, "sampler", sampler)).__name__
        words = f"the loader draws by {inner} and does not sample by Poisson, which is what is accounted for"
        yield "breach", "sampling", f"{words}: leave poisson_sampling=True in make_private"
    if _place()[1] > 1 and "Distributed" not in name:
        words = f"{name} does not add up the gradients of the processes, so that each trains a model of its own"
        yield "breach", "processes", f"{words}: give make_private a module in Opacus's DPDDP"
    if not 0 < float(optimizer.max_grad_norm) < math.inf:
        yield "breach", "clipping", f"clipping is switched off: the clipping norm is {optimizer.max_grad_norm!r}"
    if "AdaClip" in name:
        words = "adaptive clipping divides by the exact size of the batch, which is not private: clip at a fixed norm"
        yield "breach", "clipping", words
    for method in ("clip_and_accumulate", "add_noise"):
        if method in vars(optimizer) or not str(getattr(type(optimizer), method).__module__).startswith("opacus."):
            yield "breach", "methods", f"the optimizer's method {method} is not Opacus's own"
    for what, seed in _seeds(optimizer, sampler).items():
        if seed < _BY_HAND or seed == _UNSEEDED:
            words = "looks chosen by hand, so it is no secret: call torch.seed(), or generator.seed(), before training"
            yield "breach", "seed", f"the generator of the {what} has the seed {seed}, which {words}"
    if not optimizer.secure_mode:
        yield "note", "generator", "the noise is not from a cryptographic generator (secure_mode=False)"
    if "FastGradientClipping" in name:
        words = "gradients are clipped in the module, which the recorder does not see: its norm must be the optimizer's"
        yield "note", "ghost", words
    if type(sampler).__name__ == "DistributedUniformWithReplacementSampler":
        words = "the distributed sampler leaves out batches that are empty; the ranks would no longer agree"
        yield "note", "sampler", words


def _seeds(optimizer: Any, sampler: Any) -> dict[str, int]:
    """The seeds of the generators of noise and sampling. Cryptographic ones have none."""
    import torch

    if optimizer.secure_mode:
        return {}
    noise, device = optimizer.generator, optimizer.params[0].device
    if noise is None and device.type == "cuda":
        noise = torch.cuda.default_generators[device.index or 0]
    found = {"noise": noise, "sampling": getattr(sampler, "generator", None)}
    return {what: int((one or torch.default_generator).initial_seed()) for what, one in found.items()}


def _batch_size(optimizer: Any) -> int | None:
    """The number of records whose gradients the optimizer holds; None where it keeps no gradients of each."""
    gradients = getattr(optimizer.params[0], "grad_sample", None)
    if gradients is None:
        return None
    return sum(len(part) for part in gradients) if isinstance(gradients, list) else len(gradients)


def _sum(parameter: Any) -> float:
    """A number that noise on the parameter changes."""
    return float(parameter.detach().double().sum())


def _versions(optimizer: Any) -> int:
    """A number that changes whenever somebody writes to a parameter."""
    return sum(p._version for p in optimizer.params)


def _place() -> tuple[int, int]:
    """The rank, and the number of processes."""
    import torch.distributed as group

    alone = not (group.is_available() and group.is_initialized())
    return (0, 1) if alone else (group.get_rank(), group.get_world_size())


def _run() -> str | None:
    """The name of the run, which all processes share."""
    import torch.distributed as group

    if _place()[1] == 1:
        return None
    name = [secrets.token_hex(16)]
    group.broadcast_object_list(name, src=0)
    return name[0]


def _accountant_of(optimizer: Any, engine: Any) -> Any:
    """The accountant that counts the optimizer's steps; None if nobody does."""
    if engine is not None:
        return engine.accountant
    if optimizer.step_hook is None or hasattr(optimizer.step_hook, "accountant"):  # evr's says whose it is
        return getattr(optimizer.step_hook, "accountant", None)
    raise TypeError(
        "steps that were taken before would go unseen: give evr.record(..., engine=engine), or let "
        'PrivacyEngine(accountant="evr") count'
    )
