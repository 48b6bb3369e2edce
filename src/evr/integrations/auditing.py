"""A neighbour replay: a check of the program that trains, in PyTorch with Opacus or without (docs/guide/audit.md)."""

import copy
import itertools
import math
import random
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any
from unittest.mock import patch

import torch
from torch.optim.optimizer import register_optimizer_step_pre_hook

from evr._basics import validate
from evr._records.inspecting import divisor

_LOUDER = 100.0  # the factor of the record that is tried, so that clipping has something to do
_ROUNDING = 1e-5  # of float32 sums, relative to the gradient; other records' gradients may differ by a hundred of these
MISSING = "{} is missing: the clipping norm over the divisor of the sum of gradients"
_SETTINGS = ("noise_multiplier", "max_grad_norm", "expected_batch_size", "loss_reduction")
_NEIGHBORS: dict[str, Callable[[Any], Any]] = {  # of a batch, whose last record is tried
    "left out": lambda part: part[:-1],
    "replaced": lambda part: torch.cat([part[:-1], part[:1]]),
}


@dataclass(frozen=True)
class Sensitivity:
    """What a neighbour replay found."""

    verdict: str  # "respected" or "violated"
    ratio: float  # the greatest change of a step's gradient, over what one record may change
    findings: tuple[str, ...]  # what changed that must not, in words
    steps: int  # that were run again

    def __bool__(self) -> bool:
        raise TypeError("a Sensitivity has no truth value: use .verdict")


def check_sensitivity(
    step: Callable[[Any], Any],
    model: Any,
    optimizer: Any,
    loader: Iterable[Any],
    *,
    steps: int = 10,
    sensitivity: float | None = None,
    neighbor: str = "left out",
    record: Any = None,
) -> Sensitivity:
    """Neighbour replay: run steps of a training with and without one record, and compare exactly.

    Both runs start from the same weights and draw the same noise, so the gradients that the optimizer gets differ as
    the noiseless sums do. Afterwards the training is as it was. docs/pitfalls.md says what this finds.

    Parameters
    ----------
    step
        What the training does with one whole batch: ``zero_grad``, forward, loss, backward, ``optimizer.step``.
    model, optimizer, loader
        The training's. Batches are tensors, or tuples or dictionaries of tensors, along whose first axis records lie.
    steps
        The number of steps. The last one has a single record, whose neighbour is an empty batch.
    sensitivity
        How much one record may change the gradient that the optimizer gets: the clipping norm over the divisor. An
        optimizer of Opacus knows.
    neighbor
        ``"left out"``, or ``"replaced"`` by another record: for steps that draw random numbers for each record, such as
        dropout. Twice the sensitivity is allowed then, and the batch size is not tried.
    record
        The record to try, as an item of the data set; by default the last of each batch, a hundred times as loud.
    """
    steps = validate.positive_integer(steps=steps)
    validate.one_of(tuple(_NEIGHBORS), neighbor=neighbor)
    if "pre_step" in vars(optimizer):
        raise ValueError("this training is being recorded: check it before, or after the recording is finished")
    if getattr(optimizer, "secure_mode", False):
        raise ValueError("noise of secure_mode=True cannot be drawn again: check the training with secure_mode=False")
    if sensitivity is None:
        if not hasattr(optimizer, "max_grad_norm"):
            raise ValueError(MISSING.format("sensitivity="))
        sensitivity = float(optimizer.max_grad_norm) / divisor(optimizer)
    allowed = validate.positive(sensitivity=sensitivity) * (2 if neighbor == "replaced" else 1)
    put_back, ratio, findings = _kept(model, optimizer), 0.0, dict[str, None]()
    try:
        for number, batch in enumerate(_batches(loader, steps, 1 if neighbor == "left out" else 2)):
            is_alone = number == steps - 1 and neighbor == "left out"
            whole = _with_record(_each(batch, lambda part: part[-1:]) if is_alone else batch, record)
            again = _kept(model, optimizer)
            without = _run(step, _each(whole, _NEIGHBORS[neighbor]), model, optimizer)
            again()
            change, words = _compare(without, _run(step, whole, model, optimizer), allowed)
            ratio = max(ratio, change / allowed)
            findings |= dict.fromkeys(words)
    finally:
        put_back(generators=False)
    return Sensitivity("violated" if findings else "respected", ratio, tuple(findings), steps)


@dataclass
class _Ran:
    """What one run of a step did: gradients and settings whenever the optimizer stepped, and each record's gradient."""

    gradients: list[Any] = field(default_factory=list)
    settings: list[Any] = field(default_factory=list)
    records: list[Any] = field(default_factory=list)
    buffers: list[Any] = field(default_factory=list)
    drawn: list[Any] = field(default_factory=list)
    error: str = ""


def _compare(without: _Ran, whole: _Ran, allowed: float) -> tuple[float, list[str]]:
    """By how much the gradient changes, and all that changes and must not."""
    named = {"without": without, "with": whole}
    if failed := [f"the step fails {how} the record: {ran.error}" for how, ran in named.items() if ran.error]:
        return 0.0, failed
    counts = [len(ran.gradients) for ran in named.values()]
    if counts[0] != counts[1] or not counts[0]:
        return 0.0, [f"the optimizer steps {counts[0]} times without the record and {counts[1]} times with it"]
    if not all(map(torch.equal, without.drawn, whole.drawn)):
        raise ValueError("a step draws random numbers for each record: use neighbor='replaced'")
    pairs = list(zip(without.gradients, whole.gradients, strict=True))
    changes = [float((a - b).norm()) for a, b in pairs]
    limits = [allowed * (1 + 1e-4) + _ROUNDING * float(b.norm()) for _, b in pairs]
    found = {
        "the gradient is not finite": not all(map(math.isfinite, changes)),
        "the gradient changes by more than one record may change it": any(map(float.__gt__, changes, limits)),
        "settings of the optimizer depend on the record": without.settings != whole.settings,
        "buffers of the model depend on the record": not all(map(torch.equal, without.buffers, whole.buffers)),
        "gradients of other records change": _others_change(without.records, whole.records),
    }
    return max(filter(math.isfinite, changes), default=0.0), [words for words, happens in found.items() if happens]


def _others_change(without: list[Any], whole: list[Any]) -> bool:
    """Whether gradients of single records differ, or how many there are, where Opacus keeps them."""
    if not (without and whole):
        return False
    a, b = torch.cat(without), torch.cat(whole)
    others = len(b) - 1
    if len(a) not in (others, others + 1):
        return True
    change, norms = (a[:others] - b[:others]).norm(dim=1), b[:others].norm(dim=1)
    return others > 0 and bool(change.max() > 100 * _ROUNDING * norms.max())


def _kept(model: Any, optimizer: Any) -> Callable[..., None]:
    """A function that puts back everything that a step may change."""
    kept = copy.deepcopy((model.state_dict(), optimizer.state_dict()))
    settings = {name: getattr(optimizer, name) for name in _SETTINGS if hasattr(optimizer, name)}
    seen, drawn = random.getstate(), _drawn(optimizer)

    def put_back(*, generators: bool = True) -> None:
        weights, moments = copy.deepcopy(kept)
        model.load_state_dict(weights)
        optimizer.load_state_dict(moments)
        optimizer.zero_grad(set_to_none=True)
        for name, value in settings.items():
            setattr(optimizer, name, value)
        if generators:
            random.setstate(seen)
            for generator, state in zip(_generators(optimizer), drawn, strict=True):
                generator.set_state(state)

    return put_back


def _generators(optimizer: Any) -> list[Any]:
    own = getattr(optimizer, "generator", None)
    return [torch.default_generator, *torch.cuda.default_generators, *([] if own is None else [own])]


def _drawn(optimizer: Any) -> list[Any]:
    return [generator.get_state() for generator in _generators(optimizer)]


def _run(step: Callable[[Any], Any], batch: Any, model: Any, optimizer: Any) -> _Ran:
    """A step, and all that is seen of it. Opacus's accountant does not count it, for nobody gets what comes out."""
    ran, parameters = _Ran(), [p for p in model.parameters() if p.requires_grad]
    ids = {id(p) for p in parameters}
    clip: Any = getattr(optimizer, "clip_and_accumulate", None)

    def stepping(which: Any, *_: Any) -> None:
        if any(id(p) in ids for group in which.param_groups for p in group["params"]):
            flat = [(torch.zeros_like(p) if p.grad is None else p.grad).detach().flatten() for p in parameters]
            ran.gradients.append(torch.cat(flat).double())
            groups = [{k: v for k, v in group.items() if k != "params"} for group in which.param_groups]
            ran.settings.append((groups, [getattr(optimizer, name, None) for name in _SETTINGS]))

    def clipping() -> None:
        if all(getattr(p, "grad_sample", None) is not None for p in optimizer.params):
            ran.records.append(torch.cat([g.detach().flatten(1).double() for g in optimizer.grad_samples], dim=1))
        clip()

    optimizer.zero_grad(set_to_none=True)
    with ExitStack() as stack:
        if clip is not None:
            stack.enter_context(patch.multiple(optimizer, clip_and_accumulate=clipping, step_hook=None))
        stack.callback(register_optimizer_step_pre_hook(stepping).remove)
        try:
            step(batch)
        except Exception as error:
            ran.error = f"{type(error).__name__}: {error}".splitlines()[0]
    ran.buffers = [value.detach().clone() for value in model.buffers()]
    ran.drawn = _drawn(optimizer)
    return ran


def _batches(loader: Iterable[Any], steps: int, least: int) -> list[Any]:
    """So many batches of at least so many records."""
    passes = itertools.chain.from_iterable(itertools.repeat(loader, 1 + 10 * steps))
    found = list(itertools.islice((batch for batch in passes if len(_first(batch)) >= least), steps))
    if len(found) < steps:
        raise ValueError(f"the loader gave {len(found)} batches of at least {least} records, not {steps}")
    return found


def _first(batch: Any) -> Any:
    """The first tensor of a batch: what the model gets."""
    parts = list(batch.values()) if isinstance(batch, dict) else batch
    first = parts[0] if isinstance(parts, tuple | list) and parts else parts
    if not isinstance(first, torch.Tensor):
        raise TypeError(f"a batch is {type(batch).__name__}: give tensors, or tuples or dictionaries of tensors")
    return first


def _each(batch: Any, change: Callable[..., Any], *others: Any) -> Any:
    """The batch with each of its tensors changed, together with those of others."""
    if isinstance(batch, dict):
        return {name: _each(batch[name], change, *(one[name] for one in others)) for name in batch}
    if isinstance(batch, tuple | list):
        return type(batch)(_each(part, change, *rest) for part, *rest in zip(batch, *others, strict=True))
    return change(batch, *others)


def _with_record(batch: Any, record: Any) -> Any:
    """The record that is tried stands at the end: the given one, or the last, louder."""
    if record is not None:
        return _each(
            batch, lambda part, own: torch.cat([part[:-1], torch.as_tensor(own, dtype=part.dtype)[None]]), record
        )
    first = _first(batch)
    loud = torch.cat([first[:-1], first[-1:] * _LOUDER]) if first.is_floating_point() else first
    return _each(batch, lambda part: loud if part is first else part)
