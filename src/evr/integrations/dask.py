"""Workers in a Dask cluster: ``evr.verify(..., executor=executor("tcp://host:8786"))``, or ``--dask
ADDRESS`` of the command.

Summaries travel, samples do not. What is to be drawn goes to each worker once, with its tables, as
a task that Dask computes again where it is lost; a task names blocks and a stake. A block holds the
same numbers wherever it is drawn, and the driver absorbs summaries in the order of their blocks: so
workers may die, join or answer twice, and the answer is the same to the last bit. This rests on the
same software everywhere: a worker that has another one is refused by name, before its first sample.
"""

from __future__ import annotations

import concurrent.futures
import contextlib
import math
import pickle
import threading
import time
import uuid
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from itertools import count, islice
from typing import TYPE_CHECKING, Any

from evr.certification.build import differences, software
from evr.errors import ClusterError
from evr.integrations.dask_worker import Answers, Place, answers, carried, packed, stranger
from evr.verification.executors import Crowd

if TYPE_CHECKING:
    from distributed import Client
    from distributed import Future as Task

Call = tuple[Any, ...]

TIMEOUT = 10.0
"""Seconds that a scheduler, and its first worker, may take to answer."""

_EACH = 2  # tasks of a round for each thread: fewer leave threads without work at its end
_TASK_SECONDS = 1e-3  # about what a task costs the scheduler
_WORTH_SECONDS = 0.05  # what a task should take: beside its calls it costs everybody some 5 ms
_COUNTED_SECONDS = 1.0  # how long the number of threads is believed
_ENDS = ("finished", "error", "cancelled")  # of a task
_AHEAD = 1.1  # tasks under way for each core, where threads are more: one is on its way


def executor(client: Client | str, *, timeout: float = TIMEOUT) -> DaskExecutor:
    """An executor whose calls are made by the workers of a Dask cluster.

    Parameters
    ----------
    client
        A ``distributed.Client``, or the address of a scheduler.
    timeout
        Seconds that the scheduler, and the first worker, may take to answer.

    Raises
    ------
    ClusterError
        If nobody answers at the address, if there is no worker, or if one of them has another evr,
        NumPy, SciPy or drawing version than this process, or other vector instructions.

    Examples
    --------
    >>> import evr
    >>> from distributed import Client, LocalCluster
    >>> from evr.integrations import dask
    >>> training = evr.dpsgd(noise_multiplier=1.0, sampling_probability=1e-3, steps=100)
    >>> claim = dict(epsilon=0.5, delta=1.62e-11, tau=0.8, seed=1)
    >>> with LocalCluster(n_workers=1, processes=False, dashboard_address=":0") as cluster:
    ...     with Client(cluster) as client, dask.executor(client) as pool:
    ...         found = evr.verify(training, **claim, executor=pool)
    >>> here = evr.verify(training, **claim)
    >>> found.directions["remove"].log_wealth == here.directions["remove"].log_wealth
    True
    """
    try:
        from distributed import Client
        from distributed.comm.addressing import get_address_host_port
    except ImportError:
        raise ClusterError(
            "Dask is not installed here: pip install 'evr-dp[dask]' brings it"
        ) from None
    if isinstance(client, Client):
        return DaskExecutor(client, timeout)
    if not isinstance(client, str):
        raise TypeError(f"client={client!r} is neither a distributed.Client nor an address")
    try:
        if not client.startswith("inproc://"):
            get_address_host_port(client)  # a client of what is no address is never quite closed
        opened = Client(client, timeout=timeout, set_as_default=False)
    except (OSError, ValueError) as error:
        raise ClusterError(
            f"no Dask scheduler answers at {client!r} ({error}): start one (dask scheduler), or "
            "give the address that it prints, as in tcp://host:8786"
        ) from None
    try:
        return DaskExecutor(opened, timeout, owned=True)
    except BaseException:
        opened.close()
        raise


@dataclass(eq=False)
class _Batch:
    """The calls of a task, and who waits for their answers."""

    context: Task
    package: bytes
    futures: list[Future[Any]]
    task: Task | None = None  # when it is under way

    def wanted(self) -> bool:
        return not all(future.done() for future in self.futures)


class DaskExecutor(Crowd):
    """What ``executor`` makes: a round of calls becomes a few tasks for each thread of the cluster.

    Where workers have fewer cores than threads, they take turns: as many tasks are under way as
    there are cores, and the rest wait here. So they cost little more than fewer workers would, and
    little is begun in vain. Closing it closes the client if it was opened for it.
    """

    def __init__(self, client: Client, timeout: float = TIMEOUT, *, owned: bool = False) -> None:
        self._client, self._owned = client, owned
        self._address = str(client.scheduler.address)
        self._run, self._numbers = uuid.uuid4().hex[:12], count()
        self._context: tuple[Callable[..., Any], Task] | None = None
        self._lock, self._open = threading.RLock(), set[Future[Any]]()
        self._waiting, self._under_way = deque[_Batch](), 0
        self._places: dict[str, Place] = {}  # of workers that have answered
        self._counted = (0, -math.inf)
        self._room = math.inf  # for tasks under way
        self._seconds = 1.0  # of a processor, that a call took lately
        self._closed = self._gave_up = False
        self._greet(timeout)

    def _greet(self, timeout: float) -> None:
        """Wait for a worker; refuse those that would not draw the same."""

        def introduced() -> dict[str, str]:  # travels whole: a worker may have no such module
            from evr.certification.build import software

            return software()

        try:
            self._client.wait_for_workers(1, timeout=timeout)
            found = self._client.run(introduced, on_error="return")
        except OSError as error:
            raise ClusterError(
                f"the cluster at {self._address} has no worker that answers ({error}): start some "
                "(dask worker), or wait for them"
            ) from None
        for worker, answer in sorted(found.items()):
            if isinstance(answer, BaseException):
                raise ClusterError(
                    f"worker {worker} cannot say what it draws with ({type(answer).__name__}: "
                    f"{answer}): install evr {software()['evr']} there, or take the worker out"
                )
            if others := differences(answer, software()):
                raise stranger(worker, others)

    @property
    def threads(self) -> int:
        """Those that can run at a time: no more than there are cores."""
        usable, at = self._counted
        if time.monotonic() - at > _COUNTED_SECONDS:
            with self._connected():
                threads = self._client.nthreads()
            sharing = Counter[Place]()
            for worker, number in threads.items():
                sharing[self._places.get(worker, Place(worker, number))] += number
            usable = sum(min(number, place.cores) for place, number in sharing.items())
            crowded = usable < sum(threads.values())
            self._room = math.ceil(_AHEAD * usable) if crowded else math.inf
            self._counted = usable, time.monotonic()
        return max(1, usable)

    def submit_all(
        self, function: Callable[..., Any], calls: Sequence[Call], left: float = math.inf
    ) -> list[Future[Any]]:
        if self._closed:
            raise RuntimeError("cannot schedule new futures after shutdown")
        if not calls:
            return []
        coming = iter(calls)
        shares = [list(islice(coming, size)) for size in self._sizes(len(calls), left)]
        with self._connected():
            context = self._sent(function)
        batches = [_Batch(context, pickle.dumps(one), [Future() for _ in one]) for one in shares]
        for batch in batches:
            self._watch(batch)
        with self._lock:
            self._waiting.extend(batches)
        threading.Thread(target=self._collect, name="evr-dask", daemon=True).start()
        return [future for batch in batches for future in batch.futures]

    def _send(self) -> dict[Task, _Batch]:
        """Hand what waits to the scheduler, in order, as far as there is room."""
        with self._lock:
            ready = list[_Batch]()
            while self._waiting and self._under_way + len(ready) < self._room:
                if (batch := self._waiting.popleft()).wanted():
                    ready.append(batch)
            if not ready:
                return {}
            contexts, packages = [one.context for one in ready], [one.package for one in ready]
            # One group for each context: Dask then hands tasks out in order, one after the other.
            names = [(f"{context.key}-calls", next(self._numbers)) for context in contexts]
            with self._connected():
                tasks = self._client.map(answers, contexts, packages, key=names, pure=False)
            sent = dict(zip(tasks, ready, strict=True))
            for task, batch in sent.items():
                batch.task = task
            self._under_way += len(sent)
            return sent

    def _sizes(self, calls: int, left: float) -> list[int]:
        """How many calls each task makes: enough to keep threads busy with few tasks, and the
        scheduler no longer than a thread. Nothing depends on it but time.

        A round of ``n`` calls, ``b`` to a task, keeps the scheduler busy for ``n/b`` tasks and a
        thread for ``b`` calls: the greater of the two is least where they are the same. Where
        ``left`` calls are left, tasks get shorter: what threads have begun at the end is in vain.
        """
        balanced = math.sqrt(calls * _TASK_SECONDS / self._seconds)
        worth = _WORTH_SECONDS / self._seconds
        least, tasks = max(round(balanced), round(worth), 1), _EACH * self.threads
        sizes, done = list[int](), 0
        while done < calls:
            fair = math.ceil(min(calls, max(left - done, 0.0)) / tasks)
            sizes.append(min(calls - done, max(fair, least)))
            done += sizes[-1]
        return sizes

    def _sent(self, function: Callable[..., Any]) -> Task:
        """The function, in the cluster: the result of a task, so that it is made again if lost."""
        if self._context is None or self._context[0] is not function:
            package = pickle.dumps((software(), packed(function)))
            name = f"evr-{self._run}-{next(self._numbers)}"
            task = self._client.submit(carried, package, key=name, pure=False)
            self._context = function, task
        return self._context[1]

    def _watch(self, batch: _Batch) -> None:
        """Give its task up when nobody waits for any of its answers."""

        def gone(future: Future[Any]) -> None:
            with self._lock:
                self._open.discard(future)
                if future.cancelled() and batch.task is not None and not batch.wanted():
                    self._gave_up = True
                    batch.task.release()

        with self._lock:
            self._open.update(batch.futures)
        for future in batch.futures:
            future.add_done_callback(gone)

    def _collect(self) -> None:
        """Send what there is room for, hand out answers as they come, and send what waits."""
        from distributed import as_completed

        expected: dict[Task, _Batch] = {}
        try:
            expected |= self._send()
            coming = as_completed(list(expected), loop=self._client.loop)
            for arrived in coming.batches():
                states = {task: task.status for task in arrived}
                # of those with no end, the worker died: another one does it again
                over = {task: how for task, how in states.items() if how in _ENDS}
                batches = {task: expected.pop(task) for task in over}
                with self._lock:
                    self._under_way -= len(over)
                expected |= (more := self._send())
                coming.update([*more, *(states.keys() - over)])
                self._hand_out(over, batches)
        except BaseException as error:
            self._settle(list(self._open), error=error)
        finally:
            with self._lock:
                self._under_way -= len(expected)

    def _hand_out(self, over: dict[Task, str], batches: dict[Task, _Batch]) -> None:
        """Answer those who wait for tasks that are over: what came together, in one message."""
        done = [task for task, how in over.items() if how == "finished"]
        with self._connected():
            found: list[Answers] = self._client.gather(done) if done else []
        for task, one in zip(done, found, strict=True):
            self._seconds = max(one.seconds / len(one.found), 1e-6)
            if self._places.get(one.worker) != one.place:
                self._places[one.worker], self._counted = one.place, (0, -math.inf)
            self._settle(batches[task].futures, one.found)
        for task in over.keys() - done:
            self._settle(batches[task].futures, error=self._failure(task))

    def _failure(self, task: Task) -> BaseException:
        """Why there is no answer: the worker's own exception, unless the cluster is at fault."""
        try:
            with self._connected():
                found = task.exception() if task.status == "error" else None
                if found is None or type(found).__name__ == "KilledWorker":
                    task.result()
        except BaseException as error:
            return error
        assert found is not None
        return found

    def _settle(
        self,
        futures: list[Future[Any]],
        answers: list[Any] | None = None,
        error: BaseException | None = None,
    ) -> None:
        """Answer those that are waited for; a second answer, or one too late, changes nothing."""
        found = [None] * len(futures) if answers is None else answers
        with self._lock:
            for future, answer in zip(futures, found, strict=True):
                if future.done() or not future.set_running_or_notify_cancel():
                    continue
                if error is None:
                    future.set_result(answer)
                else:
                    future.set_exception(error)

    @contextlib.contextmanager
    def _connected(self) -> Iterator[None]:
        """Say in words what happened to the cluster."""
        from distributed import CancelledError, KilledWorker

        try:
            if self._client.status != "running":
                raise ConnectionError(f"the client is {self._client.status}")
            yield
        except KilledWorker as error:
            raise ClusterError(
                f"several workers of the cluster at {self._address} died of the same blocks, the "
                f"last one was {error.last_worker.address}: are they short of memory?"
            ) from None
        except (OSError, CancelledError) as error:
            raise ClusterError(
                f"the connection to the Dask scheduler at {self._address} is lost ({error})"
            ) from None

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Take no more calls, and wait for those under way or give them up; leave the cluster."""
        self._closed = True
        with self._lock:
            under_way = list(self._open)
        if cancel_futures:
            for future in under_way:
                future.cancel()
        if wait:
            concurrent.futures.wait(under_way)
            if self._gave_up:
                self._wait_for_workers()
        self._context = None
        if self._owned:
            self._client.close(timeout=TIMEOUT)

    def _wait_for_workers(self) -> None:
        """Until they have put down what was given up: Dask complains of workers that are stopped
        with a task in hand. A block takes them seconds at the most; who takes longer is left alone.
        """
        run = f"evr-{self._run}-"  # part of the names of its tasks

        async def at_rest(dask_worker: Any) -> None:  # travels whole
            import asyncio

            while any(run in str(task.key) for task in dask_worker.state.executing):
                await asyncio.sleep(0.01)

        def ask() -> None:
            with contextlib.suppress(OSError):  # who is gone is at rest, too
                self._client.run(at_rest, on_error="ignore")

        if self._client.status == "running":
            asking = threading.Thread(target=ask, name="evr-dask-rest", daemon=True)
            asking.start()
            asking.join(TIMEOUT)
