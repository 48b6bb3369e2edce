"""The one loop of a sampled verification: rounds of blocks go out to workers, and summaries come back.
Workers are any ``concurrent.futures.Executor``, threads by default.

The stake of a round is fixed by the rounds before the one that precedes it, so two rounds are under way at a
time, and nobody waits. Summaries are added in the order of their blocks: the answer depends on neither the
number nor the speed of the workers.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from typing import Any

from evr._kernel.sampled.deciding import Ending, State, init, next_round, round_end
from evr._kernel.sampled.fixed import FixedTest, Test
from evr._kernel.sampled.plan import DrawPlan
from evr._kernel.sampled.proposals import Drawing
from evr._kernel.sampled.summary import Summary, Work
from evr._kernel.verdict.results import DirectionReport

OnBlock = Callable[["Driver", State], None]
"""Called before the first block and after each; what it does with that changes no answer."""


@dataclass(frozen=True)
class Driver:
    """Plays one direction's test."""

    direction: str
    plan: DrawPlan
    drawing: Drawing  # what the plan draws
    work: Work  # what workers do with a block
    test: Test  # what decides by their summaries
    unit: float  # the threshold, in which samples are measured
    most: int | None  # how many samples at the most

    def play(self, executor: Executor, on_block: OnBlock | None = None) -> DirectionReport:
        """Play until the test ends, or the samples are used up."""
        if on_block is not None:
            on_block(self, State())
        for state in self._states(executor):
            if on_block is not None:
                on_block(self, state)
            if (ending := self.ending(state)) is not None:
                return self.report(ending, state)
        raise AssertionError("the samples are used up, and the test has not ended")

    def ending(self, state: State) -> Ending | None:
        """How the test ends in this state, if it does."""
        ending = self.test.ending(state)
        if ending is None and self.most is not None and state.samples >= self.most:
            return Ending(False, f"stopped at the limit of {self.most:,} samples")
        return ending

    def _samples_of(self, block: int) -> int:
        size = self.work.block_size
        return size if self.most is None else max(0, min(size, self.most - block * size))

    def _states(self, executor: Executor) -> Iterator[State]:
        """The state after each block, in order; two rounds are under way."""
        under_way: deque[deque[Future[Summary]]] = deque()

        def send(first: int, end: int, stake: float) -> None:
            calls = [(one, n, stake) for one in range(first, end) if (n := self._samples_of(one))]
            under_way.append(deque(executor.submit(self.work, *call) for call in calls))

        state = init(self.test.stake)
        send(0, state.end, state.stakes[0])
        send(state.end, round_end(state.end), state.stakes[1])
        try:
            while under_way[0]:
                summary = under_way[0].popleft().result()
                wanted = state.blocks, self._samples_of(state.blocks)
                if (summary.block, summary.samples) != wanted:  # an executor may mix answers up
                    asked, answer = (f"{n} samples of block {one}" for one, n in (wanted, summary[:2]))
                    raise ArithmeticError(f"asked for {asked}, the executor answered with {answer}")
                state = next_round(self.test.stake, state.added(summary))
                yield state
                if not under_way[0]:
                    under_way.popleft()
                    send(state.end, round_end(state.end), state.stakes[1])
        finally:
            for future in chain.from_iterable(under_way):
                future.cancel()

    def report(self, ending: Ending, state: State) -> DirectionReport:
        """What is reported of a test that ended so."""
        plan, drawing, test, unit = self.plan, self.drawing, self.test, self.unit
        mean, error = state.mean_and_error()
        report = DirectionReport(
            direction=self.direction,
            accepted=ending.accepted,
            reason=ending.reason,
            samples=state.samples,
            blocks=state.blocks,
            block_size=plan.block_size,
            estimate=unit * mean,
            standard_error=unit * error,
            threshold=unit,
            bound=math.exp(min(drawing.log_greatest, 700.0)),
            trace=tuple((n, unit * m, unit * e, w) for n, m, e, w in state.trace),
        )
        if isinstance(test, FixedTest):
            own = replace(plan, clip=None, variance=1.0)
            return replace(report, second_moment=test.second_moment, correction=test.offset, plan=own)
        is_clipped = test.correction > 0
        return replace(
            report,
            log_wealth=state.log_wealth,
            log_target=test.log_target,
            second_moment=math.exp(min(drawing.log_moment(2.0), 700.0)),
            clip=test.clip * unit if is_clipped else None,
            correction=test.correction * unit,
            plan=plan if is_clipped else replace(plan, clip=None),
        )


class Lazily(Executor):
    """Does in the caller's thread what is asked for, when its result is: nothing is done in vain."""

    def submit(self, function: Callable[..., Any], /, *arguments: Any, **named: Any) -> Future[Any]:
        future: Any = Future()
        future.result = partial(function, *arguments, **named)
        return future
