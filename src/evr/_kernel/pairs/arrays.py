"""Arrays of NumPy, or of CuPy on a GPU, in the same code; ``kernels.cu`` has what arrays cannot do."""

import enum
import re
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

SOURCE = Path(__file__).with_name("kernels.cu")
"""Compiled for the GPU at hand by NVRTC, through CuPy."""

_KERNEL = re.compile(r"__global__ void (\w+)\(")
_THREADS = 128


def module_of(x: Any) -> Any:
    """The module whose array it is: NumPy, or CuPy."""
    return np if isinstance(x, np.ndarray) else sys.modules[type(x).__module__.partition(".")[0]]


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
