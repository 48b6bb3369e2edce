"""What an Opacus training's accounting rests on, read off its optimizer and sampler. Findings are pairs ``(what,
words)``: a key for programs, a sentence for people.
"""

from __future__ import annotations

import math
import platform
from collections.abc import Iterator
from typing import Any

from evr.randomness import fresh_entropy

Finding = tuple[str, str]

_BY_HAND = 2**32  # torch seeds with 53 fresh bits: a fresh seed is below this with probability 2^-21
_UNSEEDED = 67280421310721  # what every torch.Generator() starts with that nobody seeded


def batch_sampler(loader: Any) -> Any:
    """The sampler that draws a loader's batches, whole ones where the loader splits them to save memory."""
    sampler = getattr(loader, "batch_sampler", None)
    if sampler is None:
        raise TypeError(
            f"{type(loader).__name__} has no batch sampler: give the data loader that make_private returned"
        )
    return sampler.sampler if type(sampler).__name__ == "BatchSplittingSampler" else sampler


def is_poisson(sampler: Any) -> bool:
    """Whether each record is drawn by its own coin."""
    from opacus.utils.uniform_sampler import DistributedUniformWithReplacementSampler, UniformWithReplacementSampler

    return isinstance(sampler, UniformWithReplacementSampler | DistributedUniformWithReplacementSampler)


def rate(sampler: Any) -> float:
    """The probability of a record to be in a batch; for any other sampler, one over the number of batches."""
    return float(sampler.sample_rate) if is_poisson(sampler) else 1.0 / max(1, len(sampler))


def divisor(optimizer: Any, passes: int = 1) -> float:
    """What the noisy sum of all processes is divided by, after so many backward passes."""
    if optimizer.loss_reduction != "mean":
        return 1.0
    return float(optimizer.expected_batch_size * passes * getattr(optimizer, "world_size", 1))


def described(optimizer: Any, sampler: Any) -> dict[str, Any]:
    """The conditions of a training, for its record."""
    import opacus
    import torch

    return {
        "python": platform.python_version(),
        "torch": str(torch.__version__),
        "opacus": str(opacus.__version__),
        "optimizer": type(optimizer).__name__,
        "sampler": type(sampler).__name__,
        "poisson": is_poisson(sampler),
        "sampling_probability": rate(sampler),
        "divisor": divisor(optimizer),
        "batches_per_epoch": len(sampler),
        "secure": bool(optimizer.secure_mode),
    }


def breaches(optimizer: Any, sampler: Any) -> Iterator[Finding]:
    """What is wrong with a training before, or between, its steps."""
    if not is_poisson(sampler):
        inner = type(getattr(sampler, "sampler", sampler)).__name__
        yield (
            "sampling",
            f"the loader draws by {inner} and does not sample by Poisson, which is what is accounted for: leave "
            "poisson_sampling=True in make_private",
        )
    if not 0 < float(optimizer.max_grad_norm) < math.inf:
        yield "clipping", f"clipping is switched off: the clipping norm is {optimizer.max_grad_norm!r}"
    if "AdaClip" in type(optimizer).__name__:
        words = "adaptive clipping divides by the exact size of the batch, which is not private: clip at a fixed norm"
        yield "clipping", words
    for name in ("clip_and_accumulate", "add_noise"):
        if name in vars(optimizer) or not str(getattr(type(optimizer), name).__module__).startswith("opacus."):
            yield "methods", f"the optimizer's method {name} is not Opacus's own"
    for what, seed in _seeds(optimizer, sampler).items():
        if seed < _BY_HAND or seed == _UNSEEDED:
            yield (
                "seed",
                f"the generator of the {what} has the seed {seed}, which looks chosen by hand, so it is no secret: "
                "call torch.seed(), or generator.seed(), before the training",
            )


def _seeds(optimizer: Any, sampler: Any) -> dict[str, int]:
    """The seeds of the generators of noise and sampling; none of cryptographic ones, which have no seed."""
    import torch

    if optimizer.secure_mode:
        return {}
    noise, device = optimizer.generator, optimizer.params[0].device
    if noise is None and device.type == "cuda":
        noise = torch.cuda.default_generators[device.index or 0]
    found = {"noise": noise, "sampling": getattr(sampler, "generator", None)}
    return {what: int((one or torch.default_generator).initial_seed()) for what, one in found.items()}


def notes(optimizer: Any, sampler: Any) -> Iterator[Finding]:
    """What a reader of the record should know."""
    if not optimizer.secure_mode:
        yield "generator", "the noise is not from a cryptographic generator (secure_mode=False)"
    if "FastGradientClipping" in type(optimizer).__name__:
        words = "gradients are clipped in the module, which the recorder does not see: its norm must be the optimizer's"
        yield "ghost", words
    if type(sampler).__name__ == "DistributedUniformWithReplacementSampler":
        yield "sampler", "the distributed sampler leaves out batches that are empty; the ranks would no longer agree"


def batch_size(optimizer: Any) -> int | None:
    """How many records the gradients in the optimizer are of; None where it does not keep gradients of each."""
    gradients = getattr(optimizer.params[0], "grad_sample", None)
    if gradients is None:
        return None
    return sum(len(part) for part in gradients) if isinstance(gradients, list) else len(gradients)


def versions(optimizer: Any) -> int:
    """A number that changes whenever somebody writes to a parameter."""
    return sum(p._version for p in optimizer.params)


def place() -> tuple[int, int, str | None]:
    """Rank, number of processes and the run's name, which all of them share."""
    import torch.distributed as group

    if not (group.is_available() and group.is_initialized()) or group.get_world_size() == 1:
        return 0, 1, None
    name = [f"{fresh_entropy():x}"[:32]]
    group.broadcast_object_list(name, src=0)
    return group.get_rank(), group.get_world_size(), name[0]
