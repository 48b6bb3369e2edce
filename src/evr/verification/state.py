"""A test as pure functions: ``init`` makes a state, ``step`` adds one block to it, ``ending`` says whether it is over.

The state is a tuple of numbers. Its JSON, with floats in exact hexadecimal, is the snapshot that a run continues from.
The report is made from the same sums that the test decides by.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from evr.verification.summary import Summary, variance_of

if TYPE_CHECKING:
    from evr.verification.fixed import FixedTest
    from evr.verification.sequential import SequentialTest

Test: TypeAlias = "SequentialTest | FixedTest"
"""Decides by the state alone: it places the ``stake`` of the next round that has none and says how the test is
``ending``. Samples are bet on as ``mean - min(sample, clip)``, in units of the threshold.
"""

MOST_BLOCKS = 256
"""The most blocks of a round."""

_TRACE = 240  # rows


class Ending(NamedTuple):
    """How a test ended."""

    accepted: bool
    reason: str


class State(NamedTuple):
    """All that the next block and the report need: sums as in ``Summary``, in units of the threshold."""

    samples: int = 0
    blocks: int = 0
    total: float = 0.0
    squares: float = 0.0
    clipped_total: float = 0.0
    clipped_squares: float = 0.0
    log_wealth: float = 0.0
    trace: tuple[tuple[int, float, float, float], ...] = ()  # (samples, mean, standard error, log wealth)
    stride: int = 1  # the trace has a row after so many blocks
    stakes: tuple[float, float] = (0.0, 0.0)  # of the current round and of the next
    end: int = 1  # the first block after the current round

    def added(self, summary: Summary) -> State:
        """The state with the sums of one more block."""
        found = self._replace(
            samples=self.samples + summary.samples,
            blocks=self.blocks + 1,
            total=self.total + summary.total,
            squares=self.squares + summary.squares,
            clipped_total=self.clipped_total + summary.clipped_total,
            clipped_squares=self.clipped_squares + summary.clipped_squares,
            log_wealth=self.log_wealth + summary.log_wealth,
        )
        if found.blocks % found.stride:
            return found
        rows = (*found.trace, (found.samples, *found.mean_and_error(), found.log_wealth))
        if len(rows) <= _TRACE:
            return found._replace(trace=rows)
        return found._replace(trace=rows[1::2], stride=2 * found.stride)

    def mean_and_error(self) -> tuple[float, float]:
        """The mean of the samples and its standard error, or the mean where floats lose count of the squares."""
        if not self.samples:
            return math.nan, math.nan
        mean = self.total / self.samples
        variance = variance_of(self.total, self.squares, self.samples)
        return mean, math.sqrt(variance / self.samples) if math.isfinite(variance) else mean

    @property
    def clipped_mean(self) -> float:
        """The mean of the clipped samples."""
        return self.clipped_total / self.samples

    @property
    def clipped_variance(self) -> float:
        """The variance of the clipped samples."""
        return variance_of(self.clipped_total, self.clipped_squares, self.samples)

    def to_json(self) -> dict[str, Any]:
        """The state in JSON's types, exactly."""
        return {name: _written(value) for name, value in self._asdict().items()}

    @classmethod
    def from_json(cls, document: dict[str, Any]) -> State:
        """The state that ``to_json`` wrote."""
        return cls(**{name: _read(value) for name, value in document.items()})


def init(test: Test) -> State:
    """The state before the first block: the first two rounds have the same stake."""
    stake = test.stake(State())
    return State(stakes=(stake, stake))


def step(test: Test, state: State, summary: Summary) -> State:
    """The state after one more block."""
    return turned(test, state.added(summary))


def turned(test: Test, state: State) -> State:
    """The state in its next round, if a round has just ended: the stake of the round after it is placed now."""
    if state.blocks < state.end:
        return state
    return state._replace(stakes=(state.stakes[1], test.stake(state)), end=round_end(state.end))


def round_end(first: int) -> int:
    """Where the round ends that begins with this block: a round has a quarter of all blocks before it, at least one."""
    return first + max(1, min(MOST_BLOCKS, first // 4))


def _written(value: Any) -> Any:
    if isinstance(value, tuple):
        return [_written(one) for one in value]
    return value.hex() if isinstance(value, float) else value


def _read(value: Any) -> Any:
    if isinstance(value, list):
        return tuple(_read(one) for one in value)
    return float.fromhex(value) if isinstance(value, str) else value
