"""Who works: any ``concurrent.futures.Executor``; threads by default."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from functools import partial
from typing import Any

from evr.validate import worker_count


class Lazily(Executor):
    """Does in the caller's thread what is asked for, when its result is: nothing is done in vain."""

    def submit(self, function: Callable[..., Any], /, *arguments: Any, **named: Any) -> Future[Any]:
        return _Lazy(partial(function, *arguments, **named))


class _Lazy(Future[Any]):
    def __init__(self, call: Callable[[], Any]) -> None:
        super().__init__()
        self._call = call

    def result(self, timeout: float | None = None) -> Any:
        return self._call()


def check_executor(executor: Executor | None) -> None:
    if executor is not None and not isinstance(executor, Executor):
        raise TypeError(
            f"executor={executor!r} is not a concurrent.futures.Executor; of a Dask client, "
            "evr.integrations.dask.executor(client) makes one"
        )


def check_at_work(executor: Executor | None) -> None:
    """Refuse what is no executor, and one that is closed or broken."""
    check_executor(executor)
    if executor is None:
        return
    try:
        executor.submit(int).result()
    except RuntimeError as error:  # closed, or broken
        raise ValueError(f"executor={executor!r} does not work: {error}") from None


@contextlib.contextmanager
def working(executor: Executor | None, workers: int | None) -> Iterator[Executor]:
    """The caller's executor, or threads that end with the block."""
    if executor is not None:
        yield executor
        return
    threads = worker_count(workers)
    if threads == 1:
        yield Lazily()
        return
    pool = ThreadPoolExecutor(threads, thread_name_prefix="evr")
    try:
        yield pool
    finally:
        pool.shutdown(wait=True, cancel_futures=True)
