"""A mixture of components on a GPU: whose rows are drawn, what they lose, and their weights.

The same orders are carried out by NumPy's arrays and kernels compiled for the processor in tests.
"""

from __future__ import annotations

import numpy as np

from evr.laws.mixture.law import MixtureLaw
from evr.sampling.cuda.laws import Array, Bench, Rows, kernels_of
from evr.sampling.cuda.parts import part_on
from evr.sampling.mixtures import MixtureProposal
from evr.sampling.parts import Part
from evr.sampling.placed_parts import Places


class MixtureOnDevice:
    """A proposal with its tables on the device.

    Parameters
    ----------
    proposal
        Drawn by place.
    bench
        Who draws.
    """

    def __init__(self, proposal: MixtureProposal, bench: Bench) -> None:
        self._bench, self._laws = bench, len(proposal.laws)
        self._cumulated = bench.arrays.asarray(np.cumsum(proposal.weights)[:-1])
        self._log_weights = bench.arrays.asarray(np.log(proposal.weights))
        self._own = [
            LawOnDevice(bench, law, count, [parts[index] for parts in proposal.parts])
            for index, (law, count) in enumerate(proposal.laws)
        ]
        numbers = sum(law.dimension * count for law, count in proposal.laws)
        self._together = max(1, bench.most_numbers // numbers)

    def draw(
        self, generator: np.random.Generator, samples: int, losses: Array, heights: Array
    ) -> None:
        """Add what the first samples of a block lose, and the logarithms of what weights are
        divided by.
        """
        places = Places.of(generator, self._laws)
        for first in range(0, samples, self._together):
            span = slice(first, min(first + self._together, samples))
            self._draw(places, first, losses[span], heights[span])

    def _draw(self, places: Places, first: int, losses: Array, heights: Array) -> None:
        bench, size = self._bench, losses.size
        chosen, refused = bench.arrays.empty(size, np.int32), bench.arrays.zeros(size, np.uint8)
        every = Rows(places.components, 1, first, chosen, refused)
        components = self._log_weights.size
        bench.launch("choose", size, *every.named, components, self._cumulated, chosen)
        densities = bench.arrays.zeros((components, size))
        lost, log_null = bench.arrays.zeros((2, size))
        for own, place in zip(self._own, places.laws, strict=True):
            log_ratio = bench.arrays.zeros(size)
            own.draw(Rows(place, own.count, first, chosen, refused), log_ratio, densities)
            remove = own.law.direction.value == "remove"
            lost += log_ratio if remove else -log_ratio
            log_null += log_ratio if remove else 0.0
        numbers = (components, self._log_weights, densities, lost, log_null, refused)
        bench.launch("settle", size, size, *numbers, losses, heights)


class LawOnDevice:
    """A law and the parts that components draw of it."""

    def __init__(self, bench: Bench, law: MixtureLaw, count: int, parts: list[Part]) -> None:
        self.law, self.count, self._bench = law, count, bench
        self._kernels = kernels_of(law, bench)
        self._parts, amounts = [], np.zeros(len(parts))
        for part in {id(part): part for part in parts}.values():
            components = [c for c, one in enumerate(parts) if one is part]
            uses = np.zeros(len(parts), np.uint8)
            uses[components] = 1
            own = part_on(part, bench, bench.arrays.asarray(uses))
            amounts[components] = own.amount
            self._parts.append((own, components))
        self._amounts = bench.arrays.asarray(amounts)

    def draw(self, rows: Rows, log_ratio: Array, densities: Array) -> None:
        """Add ``log L`` of each sample, and the logarithm of each component's density."""
        parts = [part for part, _ in self._parts]
        x = self._kernels.coordinates(rows, parts, self._amounts)
        for part in parts:
            part.move(rows, x)
        ratios = self._kernels.log_ratio(x)
        self._add(rows, ratios, log_ratio)
        for part, components in self._parts:
            each = part.log_density(x, ratios)
            for component in components:
                self._add(rows, each, densities[component])

    def _add(self, rows: Rows, each: Array, sums: Array) -> None:
        """Numbers of rows to sums of samples."""
        self._bench.launch("add_copies", rows.samples, rows.samples, self.count, each, sums)
