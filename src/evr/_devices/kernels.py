"""What a GPU does by kernels of its own (``kernels.cu``), where array code would be slow: functions of ``_kernel`` that
are dispatched by the type of an array.
"""

import re
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from evr._basics.randomness import for_purpose
from evr._kernel.pairs.law import module_of
from evr._kernel.pairs.patterns.law import log_mean_exp
from evr._kernel.pairs.patterns.min_sep import Chain, log_chain_sum
from evr._kernel.sampled.chain_table import ChainTable, draw_chain
from evr._kernel.sampled.philox import COORDINATES, Counter, RowNumbers, coordinates_at, words_at
from evr._kernel.sampled.ring_table import RingTable, draw_ring, log_ring_power

SOURCE = Path(__file__).with_name("kernels.cu")
"""Compiled for the GPU at hand by NVRTC, through CuPy."""

_KERNEL = re.compile(r"__global__ void (\w+)\(")
_THREADS = 128


def serve(array: type, module: Any) -> None:
    """Arrays of this type, which the module makes, are computed with by the kernels here."""
    module_of.register(array, lambda _: module)
    log_mean_exp.register(array, _log_mean_exp)
    log_ring_power.register(array, _log_ring_power)
    log_chain_sum.register(array, _log_chain_sum)
    words_at.register(array, _words_at)
    coordinates_at.register(array, _coordinates_at)
    draw_ring.register(array, _draw_ring)
    draw_chain.register(array, _draw_chain)


def launch(kernel: str, rows: int, *arguments: Any) -> None:
    """A kernel on the GPU here, a thread for each row; integers are passed as of 32 bits."""
    typed = (np.uint32(x) if isinstance(x, int) else np.float64(x) if isinstance(x, float) else x for x in arguments)
    _compiled()[kernel]((-(-rows // _THREADS),), (_THREADS,), tuple(typed))


@cache
def _compiled() -> dict[str, Any]:
    import cupy

    code = SOURCE.read_text()
    module = cupy.RawModule(code=code, options=("-std=c++17", "--fmad=false"))
    return {name: module.get_function(name) for name in _KERNEL.findall(code)}


def _log_mean_exp(x: Any, halves: Any, scale: float = 1.0) -> Any:
    return _log_mean_power(x, halves, scale, 1, 1)


def _log_ring_power(x: Any, halves: Any, length: int, power: int) -> Any:
    return _log_mean_power(x, halves, 1.0, length, power)


def _log_mean_power(x: Any, halves: Any, scale: float, length: int, power: int) -> Any:
    """``log`` of the mean over a ring of a power of the mean of ``length`` terms ``e^{scale x - halves}`` in a row."""
    xp, (rows, bins) = module_of(x), x.shape
    later, found = xp.empty(x.size if 2 * length > bins else 0), xp.empty(rows)
    sizes = (rows, bins, length, power, float(scale))
    launch("log_mean_power", rows, *sizes, xp.ascontiguousarray(x), halves, int(halves.size > 1), later, found)
    return found


def _log_chain_sum(values: Any, chain: Chain, scale: float, halves: Any) -> Any:
    xp, size = module_of(values), values.shape[1]
    ring, found = xp.empty((chain.separation, size)), xp.empty(size)
    numbers = (chain.steps, chain.separation, chain.probability, int(chain.warm))
    launch("chain_sum", size, size, *numbers, xp.ascontiguousarray(values), scale, halves, ring, found)
    return found


def _numbers(counter: Counter, samples: Any, purpose: int, first: int) -> tuple[Any, ...]:
    """The arguments of a kernel that draws from the first call on."""
    return purpose, counter.block, *counter.key, samples, first


def _words_at(samples: Any, counter: Counter, purpose: int, first: int = 0, calls: int = 1) -> tuple[Any, Any]:
    found, rows = module_of(samples).empty((2, samples.size, calls), np.uint64), samples.size * calls
    launch("words", rows, rows, *_numbers(counter, samples, purpose, first), calls, *found)
    return found[0], found[1]


def _coordinates_at(rows: Any, counter: Counter, columns: int) -> Any:
    found, pairs = module_of(rows).empty((rows.size, columns)), (columns + 1) // 2
    size = rows.size * pairs
    launch("normals", size, size, *_numbers(counter, rows, COORDINATES, 0), pairs, columns, found)
    return found


def _draw_ring(values: Any, table: RingTable, numbers: RowNumbers, size: int) -> tuple[Any, Any, Any]:
    """The replicas that NumPy draws."""
    later: Any = for_purpose(numbers, 1)  # type: ignore[arg-type]
    first = later.integers(0, table.bins, size)
    xp = module_of(first)
    occupied, attraction = xp.zeros((size, table.bins)), xp.empty(size)
    sizes = (table.order, table.near, table.length, table.bins, table.left.size, table.start)
    tables = (table.left, table.next, table.weights, values, table.unmoved, table.greatest)
    own = _numbers(numbers.counter, numbers.rows, numbers.purpose, numbers.take(2 * table.order))
    launch("ring_draw", size, size, *own, *sizes, *tables, first, occupied, attraction)
    return occupied, attraction, later


def _draw_chain(state: Any, table: ChainTable, numbers: RowNumbers) -> Any:
    pulses = module_of(state).empty((state.size, table.steps))
    sizes = (table.order, table.near, table.steps, table.chances.shape[0])
    tables = (table.next, table.chances, table.values, table.staying, table.recent, table.overlaps)
    own = _numbers(numbers.counter, numbers.rows, numbers.purpose, numbers.take(table.steps))
    launch("chain_draw", state.size, state.size, *own, *sizes, state, *tables, pulses)
    return pulses
