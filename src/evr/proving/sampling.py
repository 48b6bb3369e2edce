"""How samples are drawn, where a proof needs any."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import Executor
from dataclasses import dataclass, fields
from typing import Any

from evr import validate
from evr.methods import AUTO
from evr.randomness import seed_of
from evr.verification.executors import check_executor
from evr.verification.settings import Settings


def sampled_if_auto(method: str) -> str:
    """The method, or the sampled one that ``"auto"`` falls back to."""
    return "sequential" if validate.one_of(AUTO, method=method) == "auto" else method


@dataclass(frozen=True)
class Sampling:
    """The options of sampled methods, keywords of ``verify``, ``certify`` and ``release``.

    Attributes
    ----------
    seed
        For results that can be repeated; a guarantee wants fresh entropy, so leave it out.
    max_samples
        In each direction. The sequential verifier rejects when they are used up; the fixed one refuses to start if it
        needs more.
    proposal
        ``"capped"``, tilted; or ``"simple"``, the paper's simple Monte Carlo.
    device
        Who draws: ``"cpu"``; ``"cuda"``, an NVIDIA GPU (docs/guide/gpu.md); ``"auto"``, a GPU if one can be used, else
        the processor, and ``notes`` say so; or another name in ``evr.verification.summary.BACKENDS``.
    workers, executor
        Threads, or any ``concurrent.futures.Executor`` to do the work; the answer does not depend on it.
    """

    seed: int | None = None
    max_samples: int | None = None
    proposal: str = "capped"
    device: str = "cpu"
    workers: int | None = None
    executor: Executor | None = None

    @classmethod
    def of(cls, options: Mapping[str, Any]) -> Sampling:
        """From keywords; one that does not exist is named."""
        known = [one.name for one in fields(cls)]
        for name in options:
            if name not in known:
                raise TypeError(f"unexpected keyword argument {name!r}: the options of samples are {', '.join(known)}")
        return cls(**options)

    def __post_init__(self) -> None:
        object.__setattr__(self, "seed", seed_of(self.seed))
        if self.workers is not None:
            validate.positive_integer(workers=self.workers)
        check_executor(self.executor)
        self.settings("sequential")

    @property
    def is_wanted(self) -> bool:
        """Whether something is said that makes sense for samples only."""
        return self.seed is not None or self.settings("sequential") != Settings("sequential")

    def settings(self, method: str) -> Settings:
        """How to verify, by one of the proofs."""
        return Settings(method, self.proposal, self.max_samples, self.device)
