"""Parts of laws in many dimensions on a GPU: which kernels of ``mixtures.cu`` draw each, with which
tables.
"""

from __future__ import annotations

import abc
from typing import Any

import numpy as np

from evr.bounds.replica_tables import OccupancyTable, RingTable
from evr.sampling.cuda.laws import Array, Bench, ChainOnDevice, Rows, linear, mean_exp
from evr.sampling.parts import OrderBins, OrderMinSep, Part, ScaledBins, ScaledChain, Shifted


class PartOnDevice(abc.ABC):
    """A part with its tables: what it adds to coordinates or pulses, and its density."""

    amount: float = 0.0
    """What its pulses are scaled by, where it has some."""

    def __init__(self, bench: Bench, part: Any, uses: Array) -> None:
        self.bench, self.part, self.uses = bench, part, uses
        self.prepare(bench.arrays.asarray)

    @abc.abstractmethod
    def prepare(self, sent: Any) -> None:
        """Send tables to the device."""

    def launch(self, kernel: str, rows: Rows, *numbers: Any) -> None:
        self.bench.launch(kernel, rows.number, *rows.named, rows.chosen, self.uses, *numbers)

    def pulse(self, rows: Rows, pulses: Array) -> None:  # noqa: B027 - most parts have none
        """Set pulses, where the law has some."""

    def move(self, rows: Rows, x: Array) -> None:  # noqa: B027 - pulses move noise instead
        """Move coordinates of the rows whose components have this part."""

    @abc.abstractmethod
    def log_density(self, x: Array, log_ratio: Array) -> Array:
        """Of each row."""


class TablePart(PartOnDevice):
    """Moves by one row of a table: ``table``, its rows' chances ``cumulated`` or all the same."""

    table: Array
    cumulated: Array | None = None

    def move(self, rows: Rows, x: Array) -> None:
        size, columns = self.table.shape
        even = self.cumulated is None
        chances = self.table if even else self.cumulated
        self.launch("add_table", rows, size, int(even), chances, columns, self.table, x)


class ScaledBinsOnDevice(TablePart):
    part: ScaledBins

    def prepare(self, sent: Any) -> None:
        law, scale = self.part.law, self.part.scale
        self.table = sent(scale * law.means(np.arange(law.bins)))
        self._halves = sent(np.broadcast_to(self.part.half_squares, law.bins).copy())

    def log_density(self, x: Array, log_ratio: Array) -> Array:
        return mean_exp(self.bench, x, self.part.scale, self._halves)


class OrderOnDevice(TablePart):
    """Whole orders from tables of all occupancies."""

    part: OrderBins

    def prepare(self, sent: Any) -> None:
        table = self.part.table
        assert isinstance(table, OccupancyTable)
        self.table = sent(self.part.law.pulled(table.occupancies.astype(float)))
        self.cumulated = sent(table.cumulated)

    def log_density(self, x: Array, log_ratio: Array) -> Array:
        return self.part.power * log_ratio - self.part.log_normaliser


class RingOnDevice(PartOnDevice):
    """Whole orders from a ring of bins."""

    part: OrderBins

    def prepare(self, sent: Any) -> None:
        table = self.part.table
        assert isinstance(table, RingTable)
        gram = table.law.means(np.arange(table.bins))
        self._numbers = (table.bins, table.near, table.order, table.start, table.next.shape[0])
        walk = (table.next, table.weights, table.values, table.staying.chances)
        rest = (table.left.astype(np.int32), gram, table.greatest)
        self._tables = tuple(sent(np.ascontiguousarray(x)) for x in (*walk, *rest))
        self._halves = sent(np.broadcast_to(self.part.law.energies / 2, table.bins).copy())

    def move(self, rows: Rows, x: Array) -> None:
        self.launch("add_ring", rows, *self._numbers, *self._tables, rows.refused, x)

    def log_density(self, x: Array, log_ratio: Array) -> Array:
        bins, rows = x.shape
        found, sums = self.bench.arrays.empty(rows), self.bench.arrays.empty_like(x)
        numbers = (bins, self._numbers[1] - 1, self.part.power)
        self.bench.launch("ring_powers", rows, rows, *numbers, x, self._halves, sums, found)
        return found - self.part.log_normaliser


class ShiftedOnDevice(TablePart):
    part: Shifted

    def prepare(self, sent: Any) -> None:
        law, shift = self.part.law, self.part.shift
        self.table = sent(shift * law.mean_coordinates[None, :])
        self._weights = sent(shift * law.weights)

    def log_density(self, x: Array, log_ratio: Array) -> Array:
        return linear(self.bench, x, self._weights) - self.part.half_square


class ScaledChainOnDevice(PartOnDevice):
    part: ScaledChain

    def prepare(self, sent: Any) -> None:
        self.amount = scale = self.part.scale
        chain = self.part.chain
        halves = scale * scale * self.part.law.energies / 2
        self._chain = ChainOnDevice(self.bench, chain, scale, halves)
        self._numbers = (chain.steps, chain.separation, chain.probability, int(chain.warm))

    def pulse(self, rows: Rows, pulses: Array) -> None:
        self.launch("chain_gaps", rows, *self._numbers, pulses)

    def log_density(self, x: Array, log_ratio: Array) -> Array:
        return self._chain.log_sum(x)


class OrderMinSepOnDevice(PartOnDevice):
    part: OrderMinSep
    amount = 1.0

    def prepare(self, sent: Any) -> None:
        table = self.part.table
        self._numbers = (table.steps, table.near, table.order, table.next.shape[0])
        walk = (table.starts, table.next, table.chances, table.recent, table.overlaps)
        rest = (table.values, table.staying.chances)
        self._tables = tuple(sent(np.ascontiguousarray(x)) for x in (*walk, *rest))

    def pulse(self, rows: Rows, pulses: Array) -> None:
        self.launch("chain_table", rows, *self._numbers, *self._tables, pulses)

    def log_density(self, x: Array, log_ratio: Array) -> Array:
        return self.part.power * log_ratio - self.part.log_normaliser


PARTS: dict[type[Part], type[PartOnDevice]] = {
    ScaledBins: ScaledBinsOnDevice,
    OrderBins: OrderOnDevice,
    Shifted: ShiftedOnDevice,
    ScaledChain: ScaledChainOnDevice,
    OrderMinSep: OrderMinSepOnDevice,
}
"""Who draws each part: one line for each."""


def part_on(part: Part, bench: Bench, uses: Array) -> PartOnDevice:
    """The part, with its tables on the device; ``uses`` says which components have it."""
    ring = isinstance(part, OrderBins) and isinstance(part.table, RingTable)
    return (RingOnDevice if ring else PARTS[type(part)])(bench, part, uses)
