"""Laws in many dimensions on a GPU: what draws their coordinates without the record, and computes
likelihood ratios.

Coordinates are arrays of ``dimension`` by ``rows``; a row is a copy of a law in a sample.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np

from evr.laws.law import Floats
from evr.laws.mixture.bins import CorrelatedBins, IndependentBins
from evr.laws.mixture.law import MixtureLaw
from evr.laws.mixture.min_sep import Chain, MinSep
from evr.sampling.philox import Place

Array = Any
"""Of CuPy, or of NumPy in tests."""


class Bench(Protocol):
    """Where arrays are and kernels run."""

    @property
    def arrays(self) -> Any:
        """The module that makes arrays."""

    @property
    def most_numbers(self) -> int:
        """How many numbers an array of coordinates should have at the most."""

    def launch(self, kernel: str, rows: int, *arguments: Any) -> None:
        """A kernel of ``mixtures.cu``, a thread for each row."""


class Pulsing(Protocol):
    """A part, as far as a law has to know it."""

    def pulse(self, rows: Rows, pulses: Array) -> None:
        """Set pulses, where it has some."""


class Rows:
    """The rows of one law in some samples of a block; which component each sample has, and which
    samples are refused.
    """

    def __init__(self, place: Place, count: int, first: int, chosen: Array, refused: Array) -> None:
        samples = chosen.size
        self.number, self.samples = samples * count, samples
        self.chosen, self.refused = chosen, refused
        self.named = (*map(np.uint32, (*place.key, place.block)), self.number, samples, count)
        self.named += (np.uint32(first),)


class BinsOnDevice:
    """Bins of independent noise, or correlated by a factor of their Gram matrix."""

    def __init__(self, bench: Bench, law: IndependentBins | CorrelatedBins) -> None:
        self._bench, self._size = bench, law.bins
        if isinstance(law, IndependentBins):
            self._deviation, self._factor = math.sqrt(law.energy), None
            halves = np.full(law.bins, law.energy / 2)
        else:
            self._deviation, self._factor = 1.0, bench.arrays.asarray(law.factor)
            halves = law.energies / 2
        self._halves = bench.arrays.asarray(halves)

    def coordinates(self, rows: Rows, parts: Sequence[Pulsing], amounts: Array) -> Array:
        x = self._bench.arrays.empty((self._size, rows.number))
        numbers = (self._size, self._deviation, x)
        self._bench.launch("coordinates", rows.number, *rows.named, *numbers)
        return x if self._factor is None else self._factor @ x

    def log_ratio(self, x: Array) -> Array:
        return mean_exp(self._bench, x, 1.0, self._halves)


class MinSepOnDevice:
    """b-min-sep patterns: pulses move the noise before it is correlated."""

    def __init__(self, bench: Bench, law: MinSep) -> None:
        strategy, self._bench, self._size = law.strategy, bench, law.dimension
        self._chain = ChainOnDevice(bench, law.chain, 1.0, law.energies / 2)
        self._bands, self._band = strategy.bands, bench.arrays.asarray(strategy.band / law.noise)
        transposed = (np.ascontiguousarray(part.T / law.noise) for part in strategy.parts)
        self._transposed = [bench.arrays.asarray(part) for part in transposed]

    def coordinates(self, rows: Rows, parts: Sequence[Pulsing], amounts: Array) -> Array:
        xp, shape = self._bench.arrays, (self._size, rows.number)
        noise, pulses = xp.empty(shape), xp.zeros(shape, np.uint8)
        self._bench.launch("coordinates", rows.number, *rows.named, self._size, 1.0, noise)
        for part in parts:
            part.pulse(rows, pulses)
        numbers = (rows.number, rows.samples, rows.chosen, amounts, self._size, self._bands)
        self._bench.launch("add_pulses", rows.number, *numbers, self._band, pulses, noise)
        x, start = xp.empty(shape), 0
        for part in self._transposed:
            columns, height = part.shape
            x[start : start + columns] = part @ noise[start : start + height]
            start += columns
        return x

    def log_ratio(self, x: Array) -> Array:
        return self._chain.log_sum(x)


class ChainOnDevice:
    """``Chain.log_sum`` with one scale and its halves."""

    def __init__(self, bench: Bench, chain: Chain, scale: float, halves: Floats) -> None:
        self._bench, self._chain, self._scale = bench, chain, scale
        self._halves = bench.arrays.asarray(halves)

    def log_sum(self, x: Array) -> Array:
        chain, rows, xp = self._chain, x.shape[1], self._bench.arrays
        ring, found = xp.empty((chain.separation, rows)), xp.empty(rows)
        numbers = (chain.steps, chain.separation, chain.probability, int(chain.warm))
        self._bench.launch(
            "chain_sum", rows, rows, *numbers, x, self._scale, self._halves, ring, found
        )
        return found


def kernels_of(law: MixtureLaw, bench: Bench) -> BinsOnDevice | MinSepOnDevice:
    """What draws a law without its record, and computes ratios."""
    if isinstance(law, MinSep):
        return MinSepOnDevice(bench, law)
    assert isinstance(law, IndependentBins | CorrelatedBins)
    return BinsOnDevice(bench, law)


def mean_exp(bench: Bench, x: Array, scale: float, halves: Array) -> Array:
    """``log`` of the mean over coordinates of ``e^{scale x - halves}``."""
    dimension, rows = x.shape
    found = bench.arrays.empty(rows)
    bench.launch("mean_exp", rows, rows, dimension, x, scale, halves, found)
    return found


def linear(bench: Bench, x: Array, weights: Array) -> Array:
    """Of each row, the sum of its coordinates with these weights."""
    dimension, rows = x.shape
    found = bench.arrays.empty(rows)
    bench.launch("linear", rows, rows, dimension, x, weights, found)
    return found
