"""Blocks of samples in order, drawn by several threads.

Block ``n`` comes from its own part of the stream, so what is drawn does not depend on the number of threads; they run a
few blocks ahead, so memory is that of a few blocks.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor

from evr import validate
from evr.randomness import Stream
from evr.sampling import Block, Proposal


def blocks(
    proposal: Proposal, stream: Stream, size: int, *, first: int = 0, workers: int | None = None
) -> Iterator[Block]:
    """Blocks ``first, first + 1, ...`` of ``size`` samples each, without end."""
    threads = validate.worker_count(workers)

    def draw(number: int) -> Block:
        return proposal.draw(stream.block(number), size)

    if threads == 1:
        number = first
        while True:
            yield draw(number)
            number += 1
    pool = ThreadPoolExecutor(threads, thread_name_prefix="evr")
    try:
        pending: deque[Future[Block]] = deque(pool.submit(draw, first + i) for i in range(threads + 1))
        number = first + len(pending)
        while True:
            yield pending.popleft().result()
            pending.append(pool.submit(draw, number))
            number += 1
    finally:
        pool.shutdown(wait=True, cancel_futures=True)
