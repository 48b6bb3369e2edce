"""Workers in a Dask cluster: ``evr.verify(..., executor=dask.executor(client))``.

Dask's own executor does the work. This module adds two things: the plan of what is to be drawn travels once, as a task
that Dask computes again where it is lost; and a worker with other software, which might draw other numbers in the same
blocks, is refused by name before its first sample.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable
from concurrent.futures import Executor, Future
from functools import lru_cache
from typing import TYPE_CHECKING, Any, cast

from evr._certificate.build import differences, software
from evr.errors import ClusterError

if TYPE_CHECKING:
    from distributed import Client


def executor(client: Client) -> DaskExecutor:
    """An executor whose calls are made by the workers of a Dask cluster.

    Raises
    ------
    ClusterError
        If there is no worker, or if one has another evr, NumPy, SciPy or drawing version than this process, or other
        vector instructions.

    Examples
    --------
    >>> import evr
    >>> from distributed import Client, LocalCluster
    >>> training = evr.dpsgd(noise_multiplier=1.0, sampling_probability=1e-3, steps=100)
    >>> claim = dict(epsilon=0.5, delta=1.62e-11, tau=0.8, method="sequential", seed=1)
    >>> with LocalCluster(n_workers=1, processes=False, dashboard_address=":0") as cluster:
    ...     with Client(cluster) as client, executor(client) as pool:
    ...         found = evr.verify(training, **claim, executor=pool)
    >>> here = evr.verify(training, **claim)
    >>> found.directions["remove"].log_wealth == here.directions["remove"].log_wealth
    True
    """

    def introduced() -> dict[str, str]:  # travels whole: a worker may have no such module
        from evr._certificate.build import software

        return software()

    answers = client.run(introduced, on_error="return")
    if not answers:
        raise ClusterError(f"the cluster at {client.scheduler.address} has no worker: start some")
    for worker, answer in sorted(answers.items()):
        if isinstance(answer, BaseException):
            why = f"{type(answer).__name__}: {answer}"
            remedy = f"install evr {software()['evr']} there, or take the worker out"
            raise ClusterError(f"worker {worker} cannot say what it draws with ({why}): {remedy}")
        _check(worker, answer, software())
    return DaskExecutor(client)


class DaskExecutor(Executor):
    """Dask's executor, with a function that travels only once."""

    def __init__(self, client: Client) -> None:
        self._client, self._pool = client, client.get_executor(pure=False)
        self._sent: tuple[Callable[..., Any], Any] | None = None

    def submit(self, function: Callable[..., Any], /, *arguments: Any, **named: Any) -> Future[Any]:
        if self._sent is None or self._sent[0] is not function:
            import cloudpickle  # which also sends what a notebook defines

            package = pickle.dumps((software(), cloudpickle.dumps(function)))
            self._sent = function, self._client.submit(bytes, package, pure=False)
        return cast(Future[Any], self._pool.submit(_called, self._sent[1], *arguments, **named))

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Take no more calls, and wait for those under way or give them up."""
        self._sent = None
        self._pool.shutdown(wait=wait and not cancel_futures)


def _called(package: bytes, *arguments: Any, **named: Any) -> Any:
    return _unpacked(package)(*arguments, **named)


@lru_cache(maxsize=8)
def _unpacked(package: bytes) -> Callable[..., Any]:
    """The function that workers call, built once for each process; workers that joined late are checked here."""
    driver, function = pickle.loads(package)
    _check("that joined", software(), driver)
    return cast(Callable[..., Any], pickle.loads(function))


def _check(worker: str, its: dict[str, str], ours: dict[str, str]) -> None:
    if others := differences(its, ours):
        remedy = "its samples may not come out the same, so install the same there, or take the worker out"
        raise ClusterError(f"worker {worker} draws with {others[0]}: {remedy}")
