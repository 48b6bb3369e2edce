"""What samplers share: sums over steps, sizes that fit into the cache, products of likelihood
ratios.
"""

from __future__ import annotations

import abc
import math
from typing import ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from evr.bounds.cells import CellTable
from evr.bounds.tilt import Tilt
from evr.laws import DominatingPair, Floats

Indices = NDArray[np.int64]

CACHE = 1 << 15  # numbers drawn at a time: 256 KiB
MOST_STEPS = 1 << 13  # steps of a sample drawn at a time
MOST_EXPONENT = 600.0  # of a product of likelihood ratios, with room below the greatest float


class Sums(NamedTuple):
    """For each sample, the sum of the losses and the sum of the heights of its steps."""

    losses: Floats
    heights: Floats


class StepSampler(abc.ABC):
    """Draws sums over equal steps of ``P' = e^{h(loss)} P / M``."""

    name: ClassVar[str]
    version: ClassVar[int]
    """To be raised with every change of what a seed draws; plans name it."""
    outcomes_per_step: ClassVar[float]
    """How many outcomes of a multinomial draw cost as much as a step."""

    log_normaliser: float | None = None
    """``log M``, where it is known exactly."""

    @classmethod
    @abc.abstractmethod
    def serves(cls, pair: DominatingPair, tilt: Tilt) -> bool:
        """Whether it draws exactly this law."""

    @abc.abstractmethod
    def __init__(
        self, pair: DominatingPair, tilt: Tilt, table: CellTable | None = None
    ) -> None: ...

    @abc.abstractmethod
    def draw(self, generator: np.random.Generator, size: int, count: int) -> Sums:
        """Sums over ``count`` steps for ``size`` independent samples."""

    def cost(self, count: int) -> int:
        """What ``count`` steps cost, in steps that are drawn one by one."""
        return count


def log_of_products(ratios: Floats, greatest: float) -> Floats:
    """Row sums of ``log`` of a matrix, by products of as many entries as cannot overflow. Destroys
    nothing.
    """
    columns = ratios.shape[1]
    if columns == 1:
        return np.log(ratios[:, 0])
    together = (
        max(1, min(columns, int(MOST_EXPONENT / max(abs(greatest), 1e-9))))
        if math.isfinite(greatest)
        else 1
    )
    if together >= columns:
        return np.log(np.multiply.reduce(ratios, axis=1))
    starts = np.arange(0, columns, together)
    return np.log(np.multiply.reduceat(ratios, starts, axis=1)).sum(axis=1)


def matrices(size: int, count: int, numbers: int = CACHE) -> list[tuple[int, int, int]]:
    """Rows and numbers of steps of matrices of at most so many numbers."""
    rows = max(1, min(size, numbers // min(count, MOST_STEPS)))
    return [
        (start, min(start + rows, size), min(MOST_STEPS, count - first))
        for start in range(0, size, rows)
        for first in range(0, count, MOST_STEPS)
    ]
