"""A worker, be it a thread, a process, a device or a machine, turns ``(work, block, samples, stake)`` into
sums, the same wherever the block is drawn.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

import numpy as np

from evr._basics.randomness import Stream
from evr._kernel.pairs import Floats
from evr._kernel.sampled.proposals import Proposal


class Summary(NamedTuple):
    """Sums over the samples of a block, in units of the threshold."""

    block: int
    samples: int  # how many of its samples count
    total: float
    squares: float
    clipped_total: float  # of the samples as they are bet on
    clipped_squares: float
    log_wealth: float  # by how much the logarithm of the wealth grows with the stake


SUMS = Summary._fields[1:]


def on_processor(work: "Work", block: int, samples: int, stake: float) -> Summary:
    """Draw a block, with the arrays that the proposal has."""
    drawn = work.proposal.draw(work.stream.block(block), work.block_size)
    values = check_samples(drawn.values(work.epsilon, work.log_unit), work.greatest)[:samples]
    return summarize(values, block, work.clip, work.mean, stake)


Backend: TypeAlias = Callable[["Work", int, int, float], Summary]
"""Turns work, a block, its number of samples and a stake into a summary."""
BACKENDS: dict[str, Backend] = {"cpu": on_processor}
"""Who can draw, by name. Other devices register themselves."""


@dataclass(frozen=True)
class Work:
    """What a worker needs to know besides the block, how many of its samples count, and the stake. Samples
    are divided by ``e^log_unit``; what is bet on is ``mean - min(sample, clip)``.
    """

    proposal: Proposal
    stream: Stream
    block_size: int
    epsilon: float  # where samples are taken: the claim's, less the rounding of losses
    log_unit: float
    greatest: float  # no sample can be above that
    clip: float
    mean: float
    backend: Backend = on_processor  # who draws: a function that a worker elsewhere imports by its name

    def __call__(self, block: int, samples: int, stake: float) -> Summary:
        return self.backend(self, block, samples, stake)


@np.errstate(over="ignore")  # a sum of squares beyond all floats is infinite: see ``variance_of``
def summarize(values: Floats, block: int, clip: float, mean: float, stake: float) -> Summary:
    clipped = np.minimum(values, clip)
    return Summary(
        block=block,
        samples=values.size,
        total=float(np.sum(values)),
        squares=float(np.sum(values * values)),
        clipped_total=float(np.sum(clipped)),
        clipped_squares=float(np.sum(clipped * clipped)),
        log_wealth=float(np.sum(np.log1p(stake * (mean - clipped)))) if stake > 0 else 0.0,
    )


def variance_of(total: float, squares: float, samples: int) -> float:
    """The variance that sums show; infinite where squares are no floats (samples of 1e150 thresholds)."""
    mean = total / samples
    return max(squares / samples - mean**2, 0.0) if math.isfinite(squares) else math.inf


def check_samples(values: Floats, greatest: float) -> Floats:
    """The samples, or an error if one is not a number or above its bound: then nothing may be believed."""
    most = float(values.max()) if values.size else 0.0
    if not most <= greatest or not math.isfinite(most):
        what = f"a sample is {most!r} times the threshold, its proved bound {greatest!r} times"
        raise ArithmeticError(f"{what}: a defect of evr, please report it")
    return values
