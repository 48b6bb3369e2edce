"""The kernels, compiled for the GPU at hand by NVRTC through CuPy, and called.

A block's samples stay on the device; sums leave it. The sums are added in a fixed order, so a run
repeats bit for bit on the same kind of GPU, as far as cuBLAS does.
"""

from __future__ import annotations

import contextlib
import re
import threading
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from evr.errors import DeviceError
from evr.laws import Floats
from evr.sampling.cuda.mixtures import MixtureOnDevice
from evr.sampling.mixtures import MixtureProposal
from evr.sampling.proposals import Proposal

_FOLDER = Path(__file__).parent
SOURCES = tuple(_FOLDER / name for name in ("numbers.cu", "sums.cu", "mixtures.cu"))
"""Compiled as one, in this order."""

_CHUNK, _COLUMNS, _BINS = 1024, 6, 43  # of `summarise`
_KERNEL = re.compile(r"__global__ void (\w+)\(")
_THREADS, _SUMMING_THREADS = 128, 256
_MOST_NUMBERS = 1 << 25  # of an array of coordinates
_ARRAYS = 128  # of them that memory should have room for: 8 for each of 16 threads
_NO_DEVICE, _OLD_DRIVER = 100, 35  # cudaErrorNoDevice, cudaErrorInsufficientDriver


class Terms(NamedTuple):
    """What a block's samples are summed up with: where they are taken, their unit, what is bet."""

    epsilon: float
    log_unit: float
    clip: float
    mean: float
    stake: float


@cache
def why_not() -> str | None:
    """Why no GPU can be used here, with the remedy, in words; None if one can.

    Examples
    --------
    >>> isinstance(why_not(), str | None)
    True
    """
    try:
        import cupy
    except ImportError as error:
        return (
            f"CuPy cannot be imported ({error}): pip install 'evr-dp[gpu]', or for a driver of "
            "CUDA 12 pip install cupy-cuda12x"
        )
    try:
        found = cupy.cuda.runtime.getDeviceCount()
    except cupy.cuda.runtime.CUDARuntimeError as error:
        if error.status == _OLD_DRIVER and not cupy.cuda.runtime.driverGetVersion():
            return (
                "there is no NVIDIA driver: if the machine has an NVIDIA GPU, install its driver, "
                "and see what nvidia-smi lists"
            )
        if error.status == _OLD_DRIVER:
            return (
                "the driver of the GPU is too old for this CuPy: update the driver, or install the "
                "CuPy made for it (cupy-cuda12x)"
            )
        found = 0 if error.status == _NO_DEVICE else None
        if found is None:
            return f"the GPU cannot be used ({error}): see what nvidia-smi says"
    if not found:
        return (
            "no NVIDIA GPU is visible: see what nvidia-smi lists, and whether CUDA_VISIBLE_DEVICES "
            "hides it"
        )
    return None


def draws(proposal: Proposal) -> bool:
    """Whether the GPU here draws this proposal."""
    return isinstance(proposal, MixtureProposal) and proposal.by_place and why_not() is None


def sums_of_block(
    proposal: Proposal, generator: np.random.Generator, size: int, samples: int, terms: Terms
) -> tuple[Floats, NDArray[np.int64]]:
    """Of the first samples of a block of that size: the sums of the samples, of their squares, of
    both clipped, of the growth of log wealth, and the greatest sample; and the histogram.
    """
    assert isinstance(proposal, MixtureProposal)
    gpu = _gpu()
    cupy = gpu.arrays
    with _in_words(cupy), _own_stream(cupy):
        losses, heights = cupy.zeros((2, samples))
        _mixture_on(gpu, proposal).draw(generator, samples, losses, heights)
        if proposal.line is not None:  # few steps, which the processor draws
            block = proposal.line.draw(generator, size)
            losses += cupy.asarray(block.losses[:samples])
            heights -= cupy.asarray(block.log_weights[:samples])
        rows = -(-samples // _CHUNK)
        sums, histogram = cupy.empty((rows, _COLUMNS)), cupy.zeros(_BINS, np.uint64)
        unit = terms.log_unit
        infinite = np.exp(np.log(proposal.infinite) - unit) if proposal.infinite else 0.0
        numbers = (terms.epsilon, -unit, infinite, *terms[2:])
        gpu.kernels["summarise"](
            (rows,),
            (_SUMMING_THREADS,),
            (*map(np.float64, numbers), np.int32(samples), losses, heights, sums, histogram),
        )
        table, counts = sums.get(), histogram.get()
    totals = table.sum(axis=0)
    totals[-1] = table[:, -1].max()
    return totals, counts.astype(np.int64)


class _Gpu:
    """The compiled kernels, and what the GPU can hold."""

    def __init__(self) -> None:
        import cupy

        self.arrays: Any = cupy
        with _in_words(cupy):
            properties = cupy.cuda.runtime.getDeviceProperties(cupy.cuda.Device().id)
            share = int(properties["totalGlobalMem"]) // (8 * _ARRAYS)
            self.most_numbers = min(_MOST_NUMBERS, 1 << (max(share, 1).bit_length() - 1))
            code = "".join(path.read_text() for path in SOURCES)
            module = cupy.RawModule(code=code, options=("-std=c++17",))
            self.kernels = {name: module.get_function(name) for name in _KERNEL.findall(code)}

    def launch(self, kernel: str, rows: int, *arguments: Any) -> None:
        """A thread for each row."""
        threads = (-(-rows // _THREADS),), (_THREADS,)
        self.kernels[kernel](*threads, tuple(_typed(x) for x in arguments))


def _typed(value: Any) -> Any:
    """A number as kernels take it."""
    if isinstance(value, int):
        return np.int32(value)
    return np.float64(value) if isinstance(value, float) else value


_lock = threading.Lock()
_here = threading.local()
_mixtures: WeakKeyDictionary[MixtureProposal, MixtureOnDevice] = WeakKeyDictionary()


def _gpu() -> _Gpu:
    with _lock:
        return _built_gpu()


@cache
def _built_gpu() -> _Gpu:
    return _Gpu()


def _mixture_on(gpu: _Gpu, proposal: MixtureProposal) -> MixtureOnDevice:
    """With its tables on the device: once for each proposal."""
    with _lock:
        if proposal not in _mixtures:
            _mixtures[proposal] = MixtureOnDevice(proposal, gpu)
            gpu.arrays.cuda.get_current_stream().synchronize()  # before another thread reads them
        return _mixtures[proposal]


@contextlib.contextmanager
def _own_stream(cupy: Any) -> Iterator[None]:
    """Each thread has a stream of its own, so that blocks of several threads overlap."""
    if not hasattr(_here, "stream"):
        _here.stream = cupy.cuda.Stream(non_blocking=True)
    with _here.stream:
        yield


@contextlib.contextmanager
def _in_words(cupy: Any) -> Iterator[None]:
    """What CUDA reports, with the remedy."""
    try:
        yield
    except cupy.cuda.memory.OutOfMemoryError as error:
        raise DeviceError(
            f"the memory of the GPU is used up ({error}): end other programs that use it, or take "
            "device='cpu'"
        ) from error
    except cupy.cuda.compiler.CompileException as error:
        raise DeviceError(
            f"the kernels do not compile for this GPU ({error}): install a newer CuPy, or take "
            "device='cpu'"
        ) from error
    except (cupy.cuda.runtime.CUDARuntimeError, cupy.cuda.driver.CUDADriverError) as error:
        raise DeviceError(
            f"the GPU failed ({error}): see what nvidia-smi says, or take device='cpu'"
        ) from error
