"""The options of sampled methods, and who draws: the caller's executor, or threads that end with the proof."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, TypedDict

from evr._basics import validate
from evr._basics.randomness import seed_of
from evr._kernel.sampled.driver import Lazily
from evr._kernel.verdict.settings import Settings


class SamplingOptions(TypedDict, total=False):
    """The keywords of ``Sampling``."""

    seed: int | None
    max_samples: int | None
    proposal: str
    device: str
    workers: int | None
    executor: Executor | None


@dataclass(frozen=True)
class Sampling:
    """The options of sampled methods: keywords of ``verify``, which describes them, of ``certify`` and ``release``."""

    seed: int | None = None
    max_samples: int | None = None
    proposal: str = "capped"
    device: str = "cpu"
    workers: int | None = None
    executor: Executor | None = None

    @classmethod
    def of(cls, options: Mapping[str, Any]) -> Sampling:
        """From keywords; one that does not exist is named."""
        known = SamplingOptions.__annotations__
        for name in options.keys() - known.keys():
            raise TypeError(f"unexpected keyword argument {name!r}: the options of samples are {', '.join(known)}")
        return cls(**options)

    def __post_init__(self) -> None:
        self.settings("sequential")
        object.__setattr__(self, "seed", seed_of(self.seed))
        validate.worker_count(self.workers)
        if self.executor is not None and not isinstance(self.executor, Executor):
            raise TypeError(
                f"executor={self.executor!r} is not a concurrent.futures.Executor; of a Dask client, "
                "evr.integrations.dask.executor(client) makes one"
            )

    def settings(self, method: str) -> Settings:
        """How to verify, by one of the proofs."""
        return Settings(method, self.proposal, self.max_samples, self.device)

    def check_at_work(self) -> None:
        """Refuse an executor that is closed or broken."""
        try:
            if self.executor is not None:
                self.executor.submit(int).result()
        except RuntimeError as error:
            raise ValueError(f"executor={self.executor!r} does not work: {error}") from None


@contextlib.contextmanager
def working(executor: Executor | None, workers: int | None) -> Iterator[Executor]:
    """The caller's executor, or threads that end with the block."""
    if executor is not None:
        yield executor
        return
    threads = validate.worker_count(workers)
    pool: Executor = Lazily() if threads == 1 else ThreadPoolExecutor(threads, thread_name_prefix="evr")
    try:
        yield pool
    finally:
        pool.shutdown(wait=True, cancel_futures=True)
