"""What the optimizer and the sampler of an Opacus training show: what is known, and what breaks the accounting."""

import hashlib
import math
import platform
from collections import deque
from collections.abc import Iterator
from typing import Any, Literal

Kind = Literal["note", "breach"]

_OPTIMIZERS = (
    *("DPOptimizer", "DPOptimizerFastGradientClipping", "DPPerLayerOptimizer", "DistributedDPOptimizer"),
    *("DistributedDPOptimizerFastGradientClipping", "SimpleDistributedPerLayerOptimizer"),
    "AdaClipDPOptimizer",  # whose steps are breaches
)
"""The optimizers of Opacus 1.6 whose steps are known here. FSDPOptimizerFastGradientClipping is not one of them."""

_SAMPLERS = ("UniformWithReplacementSampler", "DistributedUniformWithReplacementSampler")
_BY_HAND = 2**32  # torch seeds with 53 fresh bits: a fresh seed is below this with probability 2^-21
_UNSEEDED = 67280421310721  # the seed of every torch.Generator() that nobody seeded


def check_optimizer(optimizer: Any) -> None:
    """Raise ``TypeError`` unless the optimizer is one of Opacus's whose steps are known."""
    try:
        from opacus.optimizers import DPOptimizer
    except ImportError:
        raise ImportError("evr.record observes Opacus trainings: pip install evr-dp[opacus]") from None
    name = type(optimizer).__name__
    if not isinstance(optimizer, DPOptimizer):
        raise TypeError(f"{name} is not recorded: give the optimizer that make_private returned")
    if name not in _OPTIMIZERS or not type(optimizer).__module__.startswith("opacus."):
        raise TypeError(f"{name} is not recorded: evr knows what a step of {', '.join(_OPTIMIZERS[:-1])} does")


class Observed:
    """Stands before a batch sampler and tells the sizes of the batches that it draws, in ``drawn``, until a step uses
    them. Everything else is the sampler's.
    """

    def __init__(self, sampler: Any) -> None:
        self.observed = sampler
        self.drawn: deque[int] = deque()
        self.dropped = False  # whether a batch of no records was drawn and not used

    def __getattr__(self, name: str) -> Any:
        return getattr(self.observed, name)

    @property  # type: ignore[misc]
    def __class__(self) -> Any:  # the length of a loader that splits batches depends on it
        return type(self.observed)

    def __len__(self) -> int:
        return len(self.observed)

    def __iter__(self) -> Iterator[Any]:
        self.epoch_ends()
        for batch in self.observed:
            self.drawn.append(len(batch))
            yield batch

    def epoch_ends(self) -> None:
        """What was drawn and not used will not be."""
        self.dropped |= 0 in self.drawn
        self.drawn.clear()


def holder(loader: Any) -> tuple[Any, str]:
    """What holds the sampler that draws a loader's batches, whole ones where the loader splits them to save memory."""
    sampler = getattr(loader, "batch_sampler", None)
    if sampler is None:
        raise TypeError(f"{type(loader).__name__} has no batch sampler: give the loader that make_private returned")
    return (sampler, "sampler") if type(sampler).__name__ == "BatchSplittingSampler" else (loader, "batch_sampler")


def observe(loader: Any) -> Observed:
    """The sampler of a loader, observed from now on; the loader draws by it."""
    owner, name = holder(loader)
    if not isinstance(vars(owner)[name], Observed):
        vars(owner)[name] = Observed(vars(owner)[name])  # DataLoader refuses to assign it
    observed: Observed = vars(owner)[name]
    return observed


def divisor(optimizer: Any, passes: int = 1) -> float:
    """The divisor of the noisy sum of all processes, after so many backward passes."""
    if optimizer.loss_reduction != "mean":
        return 1.0
    return float(optimizer.expected_batch_size * passes * getattr(optimizer, "world_size", 1))


def _is_poisson(sampler: Any) -> bool:
    """Whether it is one of Opacus's Poisson samplers, and no other class made of one."""
    kind = type(sampler)
    return kind.__name__ in _SAMPLERS and kind.__module__ == "opacus.utils.uniform_sampler"


def rate(sampler: Any) -> float:
    """The probability that a record is in a batch; for other than Poisson samplers, one over the number of batches."""
    return float(sampler.sample_rate) if _is_poisson(sampler) else 1.0 / max(1, len(sampler))


def conditions(optimizer: Any, sampler: Any) -> dict[str, Any]:
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
        "sampling_probability": rate(sampler),
        "divisor": divisor(optimizer),
        "batches_per_epoch": len(sampler),
        "secure": bool(optimizer.secure_mode),
    }


def findings(optimizer: Any, sampler: Any) -> Iterator[tuple[Kind, str, str]]:
    """What an optimizer and a sampler show before a step: breaches of the accounting, and notes for its readers."""
    name = type(optimizer).__name__
    if not _is_poisson(sampler):
        inner = type(getattr(sampler, "sampler", sampler)).__name__
        words = f"the loader draws by {inner} and does not sample by Poisson, which is what is accounted for"
        yield "breach", "sampling", f"{words}: leave poisson_sampling=True in make_private"
    if place()[1] > 1 and "Distributed" not in name:
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
    if type(sampler).__name__ == _SAMPLERS[1]:
        words = "the distributed sampler leaves out batches that are empty; the ranks would no longer agree"
        yield "note", "sampler", words


def _seeds(optimizer: Any, sampler: Any) -> dict[str, int]:
    """The seeds of the generators of noise and sampling. Cryptographic ones have none."""
    import torch

    if optimizer.secure_mode:
        return {}
    found = {"noise": _noise(optimizer), "sampling": getattr(sampler, "generator", None) or torch.default_generator}
    return {what: int(one.initial_seed()) for what, one in found.items()}


def _noise(optimizer: Any) -> Any:
    """The generator that the noise is drawn from."""
    import torch

    device = optimizer.params[0].device
    if optimizer.generator is None and device.type == "cuda":
        return torch.cuda.default_generators[device.index or 0]
    return optimizer.generator or torch.default_generator


def noise_state(optimizer: Any) -> bytes:
    """A digest of the state that the next noise is drawn from; empty for a cryptographic generator."""
    if optimizer.secure_mode:
        return b""
    return hashlib.blake2b(_noise(optimizer).get_state().numpy().tobytes(), digest_size=16).digest()


def batch_size(optimizer: Any) -> int | None:
    """The number of records whose gradients the optimizer holds; None where it keeps no gradients of each."""
    gradients = getattr(optimizer.params[0], "grad_sample", None)
    if gradients is None:
        return None
    return sum(len(part) for part in gradients) if isinstance(gradients, list) else len(gradients)


def versions(optimizer: Any) -> int:
    """A number that changes whenever somebody writes to a parameter."""
    return sum(p._version for p in optimizer.params)


def place() -> tuple[int, int]:
    """The rank, and the number of processes."""
    import torch.distributed as group

    alone = not (group.is_available() and group.is_initialized())
    return (0, 1) if alone else (group.get_rank(), group.get_world_size())


def total(parameter: Any) -> float:
    """A number that noise on the parameter changes."""
    return float(parameter.detach().double().sum())


def counted(accountant: Any) -> int:
    """The steps that an accountant has counted."""
    return sum(steps for *_, steps in getattr(accountant, "history", ()))


def accountant_of(optimizer: Any, engine: Any) -> Any:
    """The accountant that counts the optimizer's steps; None if nobody does."""
    if engine is not None:
        return engine.accountant
    if optimizer.step_hook is None or hasattr(optimizer.step_hook, "accountant"):  # evr's says whose it is
        return getattr(optimizer.step_hook, "accountant", None)
    raise TypeError(
        "steps that were taken before would go unseen: give evr.record(..., engine=engine), or let "
        'PrivacyEngine(accountant="evr") count'
    )
