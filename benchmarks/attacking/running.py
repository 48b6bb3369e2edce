"""Worker processes that attack cases one by one, and the file that their records go to."""

from __future__ import annotations

import contextlib
import json
import multiprocessing
import os
import resource
import time
import traceback
from collections.abc import Callable, Iterator
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any, Self

# bytes of address space for each worker: a wish for more is a failure, not a frozen machine
MEMORY = 6 * 2**30
# wall-clock seconds for each processor second that a case may take, before its worker is stopped
PATIENCE = 40


def records(path: Path) -> dict[int, dict[str, Any]]:
    """The records of a file by index; a last line that was cut off is left out."""
    found: dict[int, dict[str, Any]] = {}
    if path.exists():
        for line in path.read_text("utf-8").splitlines():
            with contextlib.suppress(ValueError):
                record = json.loads(line)
                found[record["index"]] = record
    return found


class Results:
    """A file of records, one a line, that reaches the disk before the next case starts."""

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        whole = not path.exists() or path.stat().st_size == 0 or path.read_bytes().endswith(b"\n")
        self._file = path.open("a", encoding="utf-8")
        if not whole:
            self._file.write("\n")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def add(self, record: dict[str, Any]) -> None:
        self._file.write(json.dumps(record) + "\n")
        self._file.flush()
        os.fsync(self._file.fileno())


def run(
    work: Callable[[int], dict[str, Any]], indices: list[int], workers: int, seconds: float
) -> Iterator[dict[str, Any]]:
    """``work(index)`` of every index in worker processes, as they finish.

    A worker that dies, or takes more than ``PATIENCE`` times the processor ``seconds`` that a case
    may take, is replaced; its record has the key ``"died"``.
    """
    waiting = list(reversed(indices))
    busy: dict[Connection, _Worker] = {}
    try:
        while waiting or busy:
            while waiting and len(busy) < workers:
                worker = _Worker(work)
                busy[worker.pipe] = worker
                worker.start(waiting.pop())
            for pipe in wait(list(busy), timeout=1.0):
                worker = busy[pipe]  # type: ignore[index]
                try:
                    record = worker.pipe.recv()
                except EOFError:
                    record = worker.obituary("its process ended")
                    del busy[worker.pipe]
                yield record
                if worker.pipe in busy and waiting:
                    worker.start(waiting.pop())
                elif worker.pipe in busy:
                    busy.pop(worker.pipe).stop()
            for worker in list(busy.values()):
                if time.monotonic() - worker.since > PATIENCE * seconds:
                    busy.pop(worker.pipe).stop()
                    yield worker.obituary(f"no answer within {PATIENCE * seconds:.0f} seconds")
    finally:
        for worker in busy.values():
            worker.stop()


class _Worker:
    """A process, the pipe to it, and what it is busy with."""

    def __init__(self, work: Callable[[int], dict[str, Any]]) -> None:
        context = multiprocessing.get_context("fork")
        self.pipe, theirs = context.Pipe()
        self._process = context.Process(target=_serve, args=(theirs, work), daemon=True)
        self._process.start()
        theirs.close()
        self.index, self.since = -1, time.monotonic()

    def start(self, index: int) -> None:
        self.index, self.since = index, time.monotonic()
        self.pipe.send(index)

    def stop(self) -> None:
        self._process.kill()
        self._process.join()
        self.pipe.close()

    def obituary(self, why: str) -> dict[str, Any]:
        return {"index": self.index, "died": why}


def _serve(pipe: Connection, work: Callable[[int], dict[str, Any]]) -> None:
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    while True:
        try:
            index = pipe.recv()
        except EOFError:
            return
        try:
            record = work(index)
        except Exception:
            record = {"index": index, "died": traceback.format_exc()}
        pipe.send(record)
