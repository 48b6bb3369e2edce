"""Samplers whose random numbers have places, so that a GPU and NumPy draw the same.

On a GPU ``cuda/steps.cu`` draws; the classes here prepare its tables, and draw the same numbers in
NumPy, a hundred thousand times slower: enough to replay what a GPU drew. docs/guarantees.md,
Section 6.9.
"""

from __future__ import annotations

import abc
from typing import Any, ClassVar, TypeVar

import numpy as np
from numpy.typing import NDArray

from evr.sampling.philox import Place
from evr.sampling.samplers.common import MOST_EXPONENT, StepSampler, Sums

TOGETHER = 8
"""Pairs of steps whose ratios are multiplied before a logarithm is taken, at the most."""

MOST_STEPS = 1 << 29
"""So that parts of a sample's numbers, of 32 bits, do not overlap."""

_AT_ONCE = 1 << 17  # numbers drawn at a time
_LONGEST = 1 << 14  # steps of a sample drawn at a time

Samples = NDArray[np.int64]
Number = TypeVar("Number", np.float64, np.int64)


class PlacedSampler(StepSampler):
    """Draws by place: sample ``i`` of a block is the same whoever draws it, with whatever
    others.
    """

    kernel: ClassVar[str]
    """Its function in ``steps.cu``."""

    @abc.abstractmethod
    def arguments(self) -> tuple[Any, ...]:
        """What the kernel takes besides places, sizes and sums: numbers and arrays."""

    @abc.abstractmethod
    def drawn(self, place: Place, samples: Samples, count: int) -> Sums:
        """Sums over ``count`` steps of these samples of a block."""

    def draw(self, generator: np.random.Generator, size: int, count: int) -> Sums:
        if count > MOST_STEPS:
            raise ValueError(f"{count} steps are more than the {MOST_STEPS} that have places")
        place = Place.of(generator)
        rows = max(1, _AT_ONCE // min(count, _LONGEST))
        parts = [
            self.drawn(place, np.arange(start, min(start + rows, size)), count)
            for start in range(0, size, rows)
        ]
        return Sums(
            np.concatenate([part.losses for part in parts]),
            np.concatenate([part.heights for part in parts]),
        )


def spans(count: int) -> list[tuple[int, int]]:
    """Steps that are drawn together, an even number but for the last."""
    return [(first, min(first + _LONGEST, count)) for first in range(0, count, _LONGEST)]


def pairs_together(greatest: float) -> int:
    """Pairs of ratios, of logarithms up to ``greatest``, whose product is a float."""
    return max(1, min(TOGETHER, int(MOST_EXPONENT / (2.0 * max(greatest, 1e-9)))))


def interleaved(one: NDArray[Number], other: NDArray[Number], steps: int) -> NDArray[Number]:
    """Columns of the two in turn, so many of them."""
    return np.stack((one, other), axis=2).reshape(len(one), -1)[:, :steps]
