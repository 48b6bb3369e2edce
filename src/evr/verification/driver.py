"""The one loop of a sampled verification: rounds of blocks go out, summaries come back and are added in order.

The stake of a round is fixed by the rounds before the one that precedes it, so two rounds are under way at a time, and
nobody waits. Summaries are added in the order of their blocks, whoever was first: the answer depends on neither the
number nor the speed of the workers.
"""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from evr.sampling import DrawPlan
from evr.sampling.drawing import Drawing
from evr.verification.deciding import Ending, State, Test, init, round_end, step
from evr.verification.results import Progress
from evr.verification.summary import Summary, Work

Hook = Callable[[Progress], None]
ProgressHook = Hook | bool
"""Called now and then; None shows a line on a terminal or in a notebook, True one anywhere, False nothing."""
Checkpoint = Callable[[str, dict[str, Any]], None]

_PROGRESS_SECONDS = 0.2
_CHECKPOINT_SECONDS = 2.0


@dataclass
class Driver:
    """Plays one direction's test."""

    direction: str
    plan: DrawPlan
    drawing: Drawing  # what the plan draws
    work: Work  # what workers do with a block
    test: Test  # what decides by their summaries
    unit: float  # the threshold, in which samples are measured
    most: int | None  # how many samples at the most
    run_id: str  # a digest of all that the numbers depend on: snapshots of another run are refused

    @cached_property
    def state(self) -> State:
        """After the blocks so far."""
        return init(self.test)

    def play(
        self,
        executor: Executor,
        *,
        progress: Hook | None = None,
        checkpoint: Checkpoint | None = None,
        resume: dict[str, Any] | None = None,
    ) -> Ending:
        """Play until the test ends, or the samples are used up; from a snapshot, if there is one."""
        start = shown = saved = time.perf_counter()
        if resume:
            self.state = self._resumed(resume)
        ending, drawn_before = self._ending(), self.state.samples
        for summary in self._summaries(executor) if ending is None else ():
            self._check(summary)
            self.state = step(self.test, self.state, summary)
            ending, now = self._ending(), time.perf_counter()
            if progress is not None and (ending or now - shown > _PROGRESS_SECONDS):
                progress(self._progress(now - start, self.state.samples - drawn_before))
                shown = now
            if checkpoint is not None and (ending or now - saved > _CHECKPOINT_SECONDS):
                checkpoint(self.direction, self.snapshot())
                saved = now
            if ending is not None:
                break
        assert ending is not None
        return ending

    def _check(self, summary: Summary) -> None:
        """Refuse a summary of another block: an executor may mix answers up."""
        wanted = self.state.blocks, self._samples_of(self.state.blocks)
        if (summary.block, summary.samples) != wanted:
            raise ArithmeticError(
                f"block {wanted[0]} with {wanted[1]} samples was asked for, and the executor "
                f"answered with {summary.samples} samples of block {summary.block}"
            )

    def _ending(self) -> Ending | None:
        ending = self.test.ending(self.state)
        if ending is None and self.most is not None and self.state.samples >= self.most:
            return Ending(False, f"stopped at the limit of {self.most:,} samples")
        return ending

    def _samples_of(self, block: int) -> int:
        size = self.work.block_size
        return size if self.most is None else max(0, min(size, self.most - block * size))

    def _summaries(self, executor: Executor) -> Iterator[Summary]:
        """Summaries of the blocks that are left, in order; two rounds are under way."""
        under_way: deque[deque[Future[Summary]]] = deque()

        def send(first: int, end: int, stake: float) -> None:
            wanted = [(one, n, stake) for one in range(first, end) if (n := self._samples_of(one))]
            under_way.append(deque(executor.submit(self.work, *call) for call in wanted))

        send(self.state.blocks, self.state.end, self.state.stakes[0])
        send(self.state.end, round_end(self.state.end), self.state.stakes[1])
        try:
            while under_way[0]:
                yield under_way[0].popleft().result()
                if not under_way[0]:
                    under_way.popleft()
                    send(self.state.end, round_end(self.state.end), self.state.stakes[1])
        finally:
            for one_round in under_way:
                for future in one_round:
                    future.cancel()

    def _progress(self, seconds: float, drawn: int) -> Progress:
        limit = math.inf if self.most is None else self.most
        left = min(self.test.samples_left(self.state), limit - self.state.samples)
        most = min(self.test.most_samples(self.state), limit)
        return Progress(
            direction=self.direction,
            samples=self.state.samples,
            max_samples=int(most) if math.isfinite(most) else None,
            estimate=self.unit * self.state.mean_and_error()[0],
            log_wealth=self.state.log_wealth,
            log_target=self.test.log_target,
            seconds=seconds,
            seconds_left=seconds / drawn * max(left, 0.0) if drawn and math.isfinite(left) else None,
        )

    def snapshot(self) -> dict[str, Any]:
        """All that continuing needs, in JSON's types."""
        return {"run": self.run_id, "state": self.state.to_json()}

    def _resumed(self, snapshot: dict[str, Any]) -> State:
        """The state of a snapshot. One of another run proves nothing here and is refused."""
        if snapshot.get("run") != self.run_id:
            raise ValueError(
                "this is a snapshot of another verification: event, claim, attempt, method, "
                "proposal, device and seed must be the same"
            )
        return State.from_json(snapshot["state"])
