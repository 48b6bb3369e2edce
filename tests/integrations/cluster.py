"""A Dask cluster of processes, for tests: one scheduler, and workers that can be killed.

``python cluster.py scheduler`` and ``python cluster.py worker ADDRESS`` are its parts.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import distributed

import evr

PATIENCE = 120.0
"""Seconds that a process may take to be there, on a machine that is busy with other things."""


def until(condition: Callable[[], object]) -> None:
    """Wait for a condition; fail where it does not come."""
    end = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.02)


class Cluster:
    """A scheduler and its workers; all of them end with the block."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._processes: list[subprocess.Popen[bytes]] = []
        self.scheduler: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Cluster:
        return self

    def __exit__(self, *_: object) -> None:
        for process in self._processes:
            process.kill()
            process.wait()

    def ready(self) -> Cluster:
        """The cluster with its scheduler; a fresh one with two workers if there is none."""
        if self.scheduler is None or self.scheduler.poll() is not None:
            told = self._folder / f"address-{len(self._processes)}"
            self.scheduler = self._start("scheduler", str(told))
            until(told.exists)
            self.address = told.read_text()
            self.worker()
            self.worker()
        return self

    def worker(self) -> None:
        """Start one more worker; it joins when it is there."""
        self._start("worker", self.address)

    def _start(self, *what: str) -> subprocess.Popen[bytes]:
        paths = [str(Path(evr.__file__).parents[1]), os.environ.get("PYTHONPATH", "")]
        log = (self._folder / f"log-{len(self._processes)}").open("wb")
        process = subprocess.Popen(
            [sys.executable, __file__, *what],
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))},
            cwd=self._folder,
            stdout=log,
            stderr=log,
        )
        log.close()
        self._processes.append(process)
        return process


async def scheduler(told: str) -> None:
    async with distributed.Scheduler(host="127.0.0.1", port=0, dashboard=False, dashboard_address=":0") as one:
        beside = Path(f"{told}.new")
        beside.write_text(one.address)
        beside.rename(told)
        await one.finished()


async def worker(address: str) -> None:
    async with distributed.Worker(address, nthreads=1, dashboard=False, dashboard_address=":0", memory_limit=0) as one:
        await one.finished()


if __name__ == "__main__":
    asyncio.run({"scheduler": scheduler, "worker": worker}[sys.argv[1]](*sys.argv[2:]))
