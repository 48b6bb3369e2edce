"""What workers of a Dask cluster do for ``evr.integrations.dask``: unpack what is called, make the
calls, and say how long they took and where they were made.
"""

from __future__ import annotations

import contextlib
import ctypes
import io
import os
import pickle
import socket
import threading
import time
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

from evr.certification.build import differences, software
from evr.errors import ClusterError
from evr.sampling import Proposal

_LOCK = threading.Lock()
_MOST_BYTES = 2**23  # of tables that travel: Dask warns of more
_KEPT_BYTES = 2**26  # that a worker keeps for its next block
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3  # of glibc's malloc.h


class Place(NamedTuple):
    """Cores that some workers share."""

    name: str
    cores: int


class Answers(NamedTuple):
    """To the calls of a task, with the processor seconds that they took: on a machine with more
    workers than cores they take longer, and so does all else.
    """

    found: list[Any]
    seconds: float
    worker: str
    place: Place


def carried(package: bytes) -> bytes:
    """What is called, in the cluster."""
    return package


def answers(context: bytes, package: bytes) -> Answers:
    """Make a batch of calls.

    A task that is given up meanwhile ends with the call that it is at. If somebody has come to want
    it again, Dask does it again.
    """
    from distributed import Reschedule, get_worker

    with _LOCK:
        function = unpacked(context)
    worker = get_worker()
    name, found = worker.get_current_task(), []
    start = time.thread_time()
    for call in pickle.loads(package):
        task = worker.state.tasks.get(name)
        if task is None or task.state == "cancelled":
            raise Reschedule
        found.append(function(*call))
    return Answers(found, time.thread_time() - start, worker.address, place(worker.address))


@lru_cache(maxsize=1)
def place(address: str) -> Place:
    """Where the worker of this address is. Those that the system gives different cores, or an
    allowance of their own (jobs of a queue, containers), are in different places of one machine.
    """
    from dask.system import cpu_count
    from distributed.comm import get_address_host

    machine = f"{get_address_host(address)} {socket.gethostname()}"
    cores = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []
    allowance = ""
    with contextlib.suppress(OSError):  # Linux has it
        allowance = Path("/proc/self/cgroup").read_text()
    return Place(f"{machine} {cores} {allowance}", cpu_count())


def packed(function: object) -> bytes:
    """A function as it is. By itself, a proposal travels as its plan; composing its outcomes
    again took each worker as long as it took the driver. Larger tables are made by each worker.
    """
    import cloudpickle

    class Whole(cloudpickle.Pickler):
        def reducer_override(self, one: Any) -> Any:
            if isinstance(one, Proposal):
                return object.__new__, (type(one),), one.__dict__
            return super().reducer_override(one)

    Whole(file := io.BytesIO()).dump(function)
    whole = file.getvalue()
    return whole if len(whole) <= _MOST_BYTES else bytes(cloudpickle.dumps(function))


@lru_cache(maxsize=8)
def unpacked(context: bytes) -> Callable[..., Any]:
    """What is called, once for each process; refused where samples would not come out the same."""
    driver, function = pickle.loads(context)
    if others := differences(software(), driver):
        from distributed import get_worker

        raise stranger(get_worker().address, others)
    _keep_memory()
    found: Callable[..., Any] = pickle.loads(function)
    return found


def stranger(worker: str, others: list[str]) -> ClusterError:
    """A worker that draws with other software."""
    return ClusterError(
        f"worker {worker} draws with {others[0]}: its samples may not come out the same, so "
        "install the same there, or take the worker out"
    )


def _keep_memory() -> None:
    """Keep some memory between blocks.

    Dask starts its workers such that glibc gives every larger array back to the system when it is
    freed; asking for it again took half of a worker's time. Other systems have no such setting.
    """
    with contextlib.suppress(OSError, AttributeError, TypeError):
        mallopt = ctypes.CDLL(None).mallopt
        mallopt(_M_MMAP_THRESHOLD, _KEPT_BYTES // 2)
        mallopt(_M_TRIM_THRESHOLD, _KEPT_BYTES)
