"""The one loop of a verification: rounds of blocks go out, summaries come back and are absorbed in
order.

The stake of a round is fixed by the rounds before the one that precedes it, so two rounds can be
under way at a time, and nobody waits. Summaries are absorbed block by block in their order, whoever
was first: the answer depends on neither the number nor the speed of the workers.
"""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future
from dataclasses import dataclass, field
from itertools import takewhile
from typing import Any, NamedTuple, Protocol

from evr.verification.executors import submitted
from evr.verification.results import Progress
from evr.verification.summary import HISTOGRAM_EDGES, Summary, Work, variance_of

Hook = Callable[[Progress], None]
ProgressHook = Hook | bool
"""Called now and then; None shows a line on a terminal or in a notebook, True one anywhere, False
nothing.
"""
Checkpoint = Callable[[str, dict[str, Any]], None]

_MOST_BLOCKS = 256  # of a round
_TRACE = 240
_PROGRESS_SECONDS = 0.2
_CHECKPOINT_SECONDS = 2.0


class Ending(NamedTuple):
    """How a test ended."""

    accepted: bool
    reason: str


class Test(Protocol):
    """What a test decides: stakes, and when it is over."""

    @property
    def log_wealth(self) -> float:
        """``log`` of the wealth, 0 where nothing is bet."""

    @property
    def log_target(self) -> float:
        """What it has to reach."""

    def stake(self) -> float:
        """For the next round that has none, from all that was absorbed."""

    def absorb(self, summary: Summary) -> None:
        """The next block."""

    def ending(self) -> Ending | None:
        """How it ended, if it did."""

    def samples_left(self) -> float:
        """About how many more samples it takes."""

    def most_samples(self) -> float:
        """After how many it ends at the latest."""

    def snapshot(self) -> dict[str, Any]:
        """The state in JSON's types, exactly."""

    def restore(self, snapshot: dict[str, Any]) -> None:
        """Undo ``snapshot``."""


@dataclass(frozen=True)
class Hooks:
    """What is called along the way, and the state to continue from."""

    progress: Hook | None = None
    checkpoint: Checkpoint | None = None
    resume: dict[str, Any] | None = None


@dataclass
class Record:
    """What the report shows of a run: sums of unclipped samples, a trace, a histogram."""

    samples: int = 0
    blocks: int = 0
    total: float = 0.0
    squares: float = 0.0
    trace: list[tuple[int, float, float, float]] = field(default_factory=list)
    histogram: list[int] = field(default_factory=lambda: [0] * HISTOGRAM_EDGES.size)
    stride: int = 1

    def add(self, summary: Summary) -> None:
        self.samples += summary.samples
        self.blocks += 1
        self.total += summary.total
        self.squares += summary.squares
        self.histogram = [a + b for a, b in zip(self.histogram, summary.histogram, strict=True)]

    def mark(self, unit: float, log_wealth: float) -> None:
        if self.blocks % self.stride:
            return
        mean, error = self.mean_and_error()
        self.trace.append((self.samples, unit * mean, unit * error, log_wealth))
        if len(self.trace) > _TRACE:
            self.trace = self.trace[1::2]
            self.stride *= 2

    def mean_and_error(self) -> tuple[float, float]:
        if not self.samples:
            return math.nan, math.nan
        mean = self.total / self.samples
        variance = variance_of(self.total, self.squares, self.samples)
        return mean, math.sqrt(variance / self.samples) if math.isfinite(variance) else mean

    def snapshot(self) -> dict[str, Any]:
        return {
            "samples": self.samples,
            "blocks": self.blocks,
            "total": self.total.hex(),
            "squares": self.squares.hex(),
            "trace": [[n, *(x.hex() for x in rest)] for n, *rest in self.trace],
            "histogram": self.histogram,
            "stride": self.stride,
        }

    def restore(self, data: dict[str, Any]) -> None:
        self.samples, self.blocks, self.stride = (
            int(data[k]) for k in ("samples", "blocks", "stride")
        )
        self.total, self.squares = (float.fromhex(data[k]) for k in ("total", "squares"))
        self.trace = [
            (int(n), float.fromhex(a), float.fromhex(b), float.fromhex(c))
            for n, a, b, c in data["trace"]
        ]
        self.histogram = [int(n) for n in data["histogram"]]


def rounds() -> Iterator[tuple[int, int]]:
    """First block and end of each round: a quarter of all blocks before it, at least one."""
    first = 0
    while True:
        size = max(1, min(_MOST_BLOCKS, first // 4))
        yield first, first + size
        first += size


class Driver:
    """Plays one direction's test.

    Parameters
    ----------
    direction
        For progress and snapshots.
    work
        What workers do with a block.
    test
        What is decided by their summaries.
    unit
        The threshold, in which samples are measured.
    most
        Samples, at the most.
    run
        A digest of all that the numbers depend on: snapshots of another run are refused.
    """

    def __init__(
        self, direction: str, work: Work, test: Test, *, unit: float, most: int | None, run: str
    ) -> None:
        self.direction, self.work, self.test, self.unit = direction, work, test, unit
        self.most, self.run_id, self.record = most, run, Record()
        self._stakes: list[float] = []  # of the current round, and of the next

    def play(self, executor: Executor, hooks: Hooks) -> Ending:
        """Until the test ends, or the samples are used up."""
        start = time.perf_counter()
        if hooks.resume:
            self._continue_from(hooks.resume)
        ending = self._ending() if self.record.samples else None
        shown = saved = start
        drawn_before = self.record.samples
        for summary in self._summaries(executor) if ending is None else ():
            self._check(summary)
            self.test.absorb(summary)
            self.record.add(summary)
            self.record.mark(self.unit, self.test.log_wealth)
            ending, now = self._ending(), time.perf_counter()
            if hooks.progress is not None and (ending or now - shown > _PROGRESS_SECONDS):
                hooks.progress(self._progress(now - start, self.record.samples - drawn_before))
                shown = now
            if hooks.checkpoint is not None and (ending or now - saved > _CHECKPOINT_SECONDS):
                hooks.checkpoint(self.direction, self.snapshot())
                saved = now
            if ending is not None:
                break
        assert ending is not None
        return ending

    def _check(self, summary: Summary) -> None:
        """An executor that mixes answers up is not believed."""
        wanted = self.record.blocks, self._samples_of(self.record.blocks)
        if (summary.block, summary.samples) != wanted:
            raise ArithmeticError(
                f"block {wanted[0]} with {wanted[1]} samples was asked for, and the executor "
                f"answered with {summary.samples} samples of block {summary.block}"
            )

    def _ending(self) -> Ending | None:
        ending = self.test.ending()
        if ending is None and self.most is not None and self.record.samples >= self.most:
            return Ending(False, "max_samples is used up")
        return ending

    def _samples_of(self, block: int) -> int:
        size = self.work.block_size
        return size if self.most is None else max(0, min(size, self.most - block * size))

    def _summaries(self, executor: Executor) -> Iterator[Summary]:
        """Summaries of the blocks that are left, in order; two rounds are under way."""
        under_way: deque[deque[Future[Summary]]] = deque()
        coming = (x for x in rounds() if x[1] > self.record.blocks)

        def send(stake: float) -> None:
            first, end = next(coming)
            blocks = range(max(first, self.record.blocks), end)
            wanted = [(block, n, stake) for block in blocks if (n := self._samples_of(block)) > 0]
            ahead = blocks.start - self.record.blocks
            left = self._samples_left() / self.work.block_size - ahead
            under_way.append(deque(submitted(executor, self.work, wanted, left)))

        if not self._stakes:
            self._stakes = [self.test.stake()] * 2
        for stake in self._stakes:
            send(stake)
        try:
            while under_way[0]:
                yield under_way[0].popleft().result()
                if not under_way[0]:
                    under_way.popleft()
                    self._stakes = [self._stakes[1], self.test.stake()]
                    send(self._stakes[1])
        finally:
            for one_round in under_way:
                for future in one_round:
                    future.cancel()

    def _samples_left(self) -> float:
        left = self.test.samples_left()
        return left if self.most is None else min(left, self.most - self.record.samples)

    def _progress(self, seconds: float, drawn: int) -> Progress:
        left = self._samples_left()
        most = min(self.test.most_samples(), math.inf if self.most is None else self.most)
        return Progress(
            direction=self.direction,
            samples=self.record.samples,
            max_samples=int(most) if math.isfinite(most) else None,
            estimate=self.unit * self.record.mean_and_error()[0],
            log_wealth=self.test.log_wealth,
            log_target=self.test.log_target,
            seconds=seconds,
            seconds_left=seconds / drawn * max(left, 0.0)
            if drawn and math.isfinite(left)
            else None,
        )

    def snapshot(self) -> dict[str, Any]:
        """All that continuing needs, in JSON's types."""
        return {
            "run": self.run_id,
            "stakes": [stake.hex() for stake in self._stakes],
            "test": self.test.snapshot(),
            "record": self.record.snapshot(),
        }

    def _continue_from(self, snapshot: dict[str, Any]) -> None:
        """One of another run, whose wealth proves nothing here, is refused."""
        if snapshot.get("run") != self.run_id:
            raise ValueError(
                "this is a snapshot of another verification: event, claim, attempt, method, "
                "proposal, device and seed must be the same"
            )
        self.test.restore(snapshot["test"])
        self.record.restore(snapshot["record"])
        self._stakes = [float.fromhex(stake) for stake in snapshot["stakes"]]
        if self.record.blocks in (first for first, _ in _rounds_up_to(self.record.blocks)):
            self._stakes = [self._stakes[1], self.test.stake()]  # a round had just ended


def _rounds_up_to(block: int) -> Iterator[tuple[int, int]]:
    return takewhile(lambda one: one[0] <= block, rounds())
