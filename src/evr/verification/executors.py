"""Who works: any ``concurrent.futures.Executor``; threads by default."""

from __future__ import annotations

import abc
import contextlib
import functools
import math
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from typing import Any

from evr.validate import worker_count


class Lazily(Executor):
    """Does in the caller's thread what is asked for, when its result is:
    nothing is done in vain.
    """

    def submit(self, function: Callable[..., Any], /, *arguments: Any, **named: Any) -> Future[Any]:
        return _Lazy(function, arguments, named)


class _Lazy(Future[Any]):
    def __init__(self, function: Callable[..., Any], arguments: Any, named: Any) -> None:
        super().__init__()
        self._call = (function, arguments, named)

    def result(self, timeout: float | None = None) -> Any:
        function, arguments, named = self._call
        return function(*arguments, **named)


class Crowd(Executor, abc.ABC):
    """An executor that takes a round of calls at a time: so a cluster sends them in a few messages
    instead of one for each.
    """

    @property
    @abc.abstractmethod
    def threads(self) -> int:
        """How many calls it makes at a time, about."""

    @abc.abstractmethod
    def submit_all(
        self,
        function: Callable[..., Any],
        calls: Sequence[tuple[Any, ...]],
        left: float = math.inf,
    ) -> list[Future[Any]]:
        """A future for each tuple of arguments, in their order; about ``left`` of these, and of
        calls to come, will be waited for.
        """

    def submit(self, function: Callable[..., Any], /, *arguments: Any, **named: Any) -> Future[Any]:
        called = functools.partial(function, **named) if named else function
        return self.submit_all(called, [arguments])[0]


def submitted(
    executor: Executor,
    function: Callable[..., Any],
    calls: Sequence[tuple[Any, ...]],
    left: float = math.inf,
) -> list[Future[Any]]:
    """Futures of a round of calls, in their order; about ``left`` will be waited for, from here."""
    if isinstance(executor, Crowd):
        return executor.submit_all(function, calls, left)
    return [executor.submit(function, *call) for call in calls]


def at_a_time(executor: Executor | None, workers: int | None) -> int:
    """About how many calls are made at a time."""
    return executor.threads if isinstance(executor, Crowd) else worker_count(workers)


def check_executor(executor: Executor | None) -> None:
    """Refuse what is no executor."""
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
