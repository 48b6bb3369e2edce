"""Who draws the samples of a proof: the caller's executor, or threads that end with the proof."""

import contextlib
from collections.abc import Iterator
from concurrent.futures import Executor, ThreadPoolExecutor

from evr._basics.validate import worker_count
from evr._kernel.sampled.driver import Lazily


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
    pool: Executor = Lazily() if threads == 1 else ThreadPoolExecutor(threads, thread_name_prefix="evr")
    try:
        yield pool
    finally:
        pool.shutdown(wait=True, cancel_futures=True)
