"""What an Opacus training's accounting rests on, read off its optimizer and sampler.

Each check returns pairs ``(what, words)``: a key for programs, a sentence for people.
"""

from __future__ import annotations

import math
import platform
from typing import Any

from evr.errors import RecordError
from evr.randomness import fresh_entropy
from evr.records.constants import Constants

Finding = tuple[str, str]

_BY_HAND = 2**32
"""Torch seeds its generators with 53 fresh bits; a person types fewer (a fresh seed is below this with probability
2^-21).
"""
_UNSEEDED = 67280421310721  # what every torch.Generator() starts with that nobody seeded
_METHODS = ("clip_and_accumulate", "add_noise")


def batch_sampler(loader: Any) -> Any:
    """The sampler that draws a loader's batches; for a loader that splits them to save memory, the one that draws the
    whole batches.
    """
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
    """The probability of a record to be in a batch; for a sampler other than Poisson's, one over the number of
    batches.
    """
    return float(sampler.sample_rate) if is_poisson(sampler) else 1.0 / max(1, len(sampler))


def divisor(optimizer: Any, passes: int = 1) -> float:
    """What the noisy sum of all processes is divided by, after so many backward passes."""
    if optimizer.loss_reduction != "mean":
        return 1.0
    return float(optimizer.expected_batch_size * passes * getattr(optimizer, "world_size", 1))


def check_constants(constants: Constants, optimizer: Any, sampler: Any) -> None:
    """Refuse constants that this training does not have, before anything is written."""
    unlike = constants.unlike(divisor(optimizer), rate(sampler))
    if unlike:
        raise RecordError(
            f"this training does not have the constants that are given: {unlike}. Opacus takes "
            "both from the number of records: set optimizer.expected_batch_size to the divisor, "
            "and give make_private a DPDataLoader of the sampling probability"
        )


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


def breaches(optimizer: Any, sampler: Any) -> list[Finding]:
    """What is wrong with a training before, or between, its steps."""
    found: list[Finding] = []
    if not is_poisson(sampler):
        inner = type(getattr(sampler, "sampler", sampler)).__name__
        how = {"RandomSampler": "shuffles the data", "SequentialSampler": "takes the data in order"}
        found.append(
            (
                "sampling",
                f"the loader {how.get(inner, f'draws by {inner}')} and does not sample by Poisson, "
                "which is what is accounted for: leave poisson_sampling=True in make_private",
            )
        )
    if not is_clipping(optimizer):
        found.append(("clipping", f"clipping is switched off: the clipping norm is {optimizer.max_grad_norm!r}"))
    if "AdaClip" in type(optimizer).__name__:
        found.append(
            (
                "clipping",
                "adaptive clipping divides by the exact size of the batch, which is not private: clip at a fixed norm",
            )
        )
    if is_replaced(optimizer):
        found.append(("methods", f"one of the optimizer's methods {', '.join(_METHODS)} is not Opacus's own"))
    return found + seeded_by_hand(seeds(optimizer, sampler))


def notes(optimizer: Any, sampler: Any) -> list[Finding]:
    """What a reader of the record should know."""
    found: list[Finding] = []
    if not optimizer.secure_mode:
        found.append(("generator", "the noise is not from a cryptographic generator (secure_mode=False)"))
    if "FastGradientClipping" in type(optimizer).__name__:
        found.append(
            (
                "ghost",
                "gradients are clipped in the module, which the recorder does not see: its norm "
                "must be the optimizer's",
            )
        )
    if type(sampler).__name__ == "DistributedUniformWithReplacementSampler":
        found.append(
            ("sampler", "the distributed sampler leaves out batches that are empty; the ranks would no longer agree")
        )
    return found


def is_clipping(optimizer: Any) -> bool:
    """Whether the clipping norm is a positive, finite number."""
    return 0 < float(optimizer.max_grad_norm) < math.inf


def is_replaced(optimizer: Any) -> bool:
    """Whether clipping or noise is somebody else's code."""
    return any(
        name in vars(optimizer) or not str(getattr(type(optimizer), name).__module__).startswith("opacus.")
        for name in _METHODS
    )


def seeds(optimizer: Any, sampler: Any) -> dict[str, int | None]:
    """What the generators of noise and sampling were seeded with; None for a cryptographic one, which has no seed."""
    secure = bool(optimizer.secure_mode)
    return {
        "noise": None if secure else _seed(optimizer.generator, optimizer.params[0].device),
        "sampling": None if secure else _seed(getattr(sampler, "generator", None), None),
    }


def _seed(generator: Any, device: Any) -> int:
    import torch

    if generator is None and device is not None and device.type == "cuda":
        generator = torch.cuda.default_generators[device.index or 0]
    return int((generator or torch.default_generator).initial_seed())


def seeded_by_hand(found: dict[str, int | None]) -> list[Finding]:
    """Generators whose seed somebody chose: whoever reads the script knows the noise."""
    return [
        (
            "seed",
            f"the generator of the {what} has the seed {seed}, which looks chosen by hand, so it "
            "is no secret: call torch.seed(), or generator.seed(), before the training",
        )
        for what, seed in found.items()
        if seed is not None and (seed < _BY_HAND or seed == _UNSEEDED)
    ]


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
