"""Blocks of samples in order, drawn by several threads.

Block ``n`` comes from its own part of the stream, so what is drawn does not depend on the number of
threads; they run a few blocks ahead, so memory is that of a few blocks.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor

from evr import validate
from evr.randomness import Stream
from evr.sampling.proposals import Block, Proposal

DRAWING = 3
"""Version of what a seed draws: to be raised with every change of how proposals are chosen or drawn
from. In certificates.
"""


def worker_count(workers: int | None) -> int:
    """The number of threads asked for, or one for each processor that this process may use."""
    if workers is not None:
        return validate.positive_integer(workers=workers)
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def blocks(
    proposal: Proposal, stream: Stream, size: int, *, first: int = 0, workers: int | None = None
) -> Iterator[Block]:
    """Blocks ``first, first + 1, ...`` of ``size`` samples each, without end."""
    threads = worker_count(workers)

    def draw(number: int) -> Block:
        return proposal.draw(stream.block(number), size)

    if threads == 1:
        number = first
        while True:
            yield draw(number)
            number += 1
    pool = ThreadPoolExecutor(threads, thread_name_prefix="evr")
    try:
        pending: deque[Future[Block]] = deque(
            pool.submit(draw, first + i) for i in range(threads + 1)
        )
        number = first + len(pending)
        while True:
            yield pending.popleft().result()
            pending.append(pool.submit(draw, number))
            number += 1
    finally:
        pool.shutdown(wait=True, cancel_futures=True)
