"""The GPU at hand: whether it can be used, and proposals whose arrays are on it.

A block's samples stay on the device; sums leave it. A run repeats bit for bit on the same kind of GPU, as far as CuPy's
reductions and cuBLAS do. Nothing imports CuPy before it is needed.
"""

import contextlib
import enum
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from evr._basics.randomness import Stream
from evr._devices import kernels
from evr._kernel.sampled.mixtures import MixtureProposal
from evr._kernel.sampled.proposals import Proposal
from evr._kernel.sampled.summary import Summary, Work, on_processor
from evr.errors import DeviceError

_MOST_NUMBERS = 1 << 26  # the largest array of coordinates
_ARRAYS = 256  # so many such arrays should fit into memory: 16 for each of 16 threads
_NO_DEVICE, _OLD_DRIVER = 100, 35  # cudaErrorNoDevice, cudaErrorInsufficientDriver


@cache
def why_not() -> str | None:
    """Why no GPU can be used here, with the remedy, in words; None if one can."""
    try:
        import cupy
    except ImportError as error:
        install = "pip install 'evr-dp[gpu]', or for a driver of CUDA 12 pip install cupy-cuda12x"
        return f"CuPy cannot be imported ({error}): {install}"
    try:
        if cupy.cuda.runtime.getDeviceCount():
            return None
    except cupy.cuda.runtime.CUDARuntimeError as error:
        if error.status == _OLD_DRIVER:
            install = "install or update the driver, or install the CuPy made for it (cupy-cuda12x)"
            return f"the NVIDIA driver is missing, or too old for this CuPy: {install}"
        if error.status != _NO_DEVICE:
            return f"the GPU cannot be used ({error}): see what nvidia-smi says"
    return "no NVIDIA GPU is visible: see what nvidia-smi lists, and whether CUDA_VISIBLE_DEVICES hides it"


def on_gpu(work: Work, block: int, samples: int, stake: float) -> Summary:
    """Draw a block on a GPU; where none is at hand, the same numbers with NumPy, for a replay."""
    if not draws(work.proposal):
        return on_processor(work, block, samples, stake)
    with at_work():
        return on_processor(replace(work, proposal=on_device(work.proposal)), block, samples, stake)


def draws(proposal: Proposal) -> bool:
    """Whether the GPU here draws this proposal."""
    return isinstance(proposal, MixtureProposal) and proposal.plan.by_place and why_not() is None


_lock = threading.Lock()
_here = threading.local()
_there: WeakKeyDictionary[Proposal, MixtureProposal] = WeakKeyDictionary()


def on_device(proposal: Proposal) -> MixtureProposal:
    """The proposal with its tables on the GPU: once for each."""
    import cupy

    assert isinstance(proposal, MixtureProposal)
    with _lock:
        if proposal not in _there:
            kernels.serve(cupy.ndarray, cupy)
            cupy.get_default_memory_pool().free_all_blocks()  # what earlier runs left; libraries want memory, too
            share = int(cupy.cuda.Device().mem_info[1]) // (8 * _ARRAYS)
            _there[proposal] = moved(proposal, cupy, min(_MOST_NUMBERS, max(share, 1)))
            cupy.cuda.get_current_stream().synchronize()  # before another thread reads them
        return _there[proposal]


def moved(proposal: MixtureProposal, xp: Any, at_once: int) -> MixtureProposal:
    """The proposal with arrays of another module."""
    proposal.draw(Stream(0, "tables").block(0), 64)  # which makes all tables that drawing needs
    found = object.__new__(MixtureProposal)
    found.__dict__.update(vars(proposal), xp=xp, at_once=at_once)
    found.laws = sent(proposal.laws, xp.asarray)
    return found


def sent(thing: Any, asarray: Callable[[Any], Any], known: dict[int, Any] | None = None) -> Any:
    """A copy of a law, a table or a part whose arrays are made anew by ``asarray``."""
    known = {} if known is None else known
    if id(thing) not in known:
        if isinstance(thing, np.ndarray):
            known[id(thing)] = asarray(np.ascontiguousarray(thing))
        elif isinstance(thing, list):
            known[id(thing)] = [sent(x, asarray, known) for x in thing]
        elif type(thing).__module__.startswith("evr.") and not isinstance(thing, enum.Enum):
            known[id(thing)] = copied = object.__new__(type(thing))
            for name, value in vars(thing).items():
                copied.__dict__[name] = sent(value, asarray, known)
        else:
            return thing
    return known[id(thing)]


@contextlib.contextmanager
def at_work() -> Iterator[None]:
    """Each thread has a stream of its own, so that blocks of several threads overlap."""
    import cupy

    cuda = cupy.cuda
    try:
        if not hasattr(_here, "stream"):
            _here.stream = cuda.Stream(non_blocking=True)
        with _here.stream:
            yield
    except cuda.memory.OutOfMemoryError as error:
        remedy = "end other programs that use it, or take device='cpu'"
        raise DeviceError(f"the memory of the GPU is used up ({error}): {remedy}") from error
    except (cuda.compiler.CompileException, cuda.runtime.CUDARuntimeError, cuda.driver.CUDADriverError) as error:
        remedy = "see what nvidia-smi says, install a newer CuPy, or take device='cpu'"
        raise DeviceError(f"the GPU failed ({error}): {remedy}") from error
