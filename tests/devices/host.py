"""A GPU on a processor: kernels compiled for it, one thread after the other, and arrays that are as
strict as CuPy's.
"""

import ctypes
import shutil
import subprocess
import types
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from evr._devices.kernels import SOURCE

HERE = Path(__file__).parent


class Array(np.lib.mixins.NDArrayOperatorsMixin):
    """Stands for an array of CuPy: it meets no array of NumPy, and becomes none by itself."""

    def __init__(self, held: Any) -> None:
        self.held = held

    def __array__(self, *given: Any, **named: Any) -> np.ndarray:
        raise TypeError("no array becomes one of NumPy by itself")

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **named: Any) -> Any:
        assert method == "__call__", f"CuPy has no {ufunc.__name__}.{method}"
        return _worn(ufunc(*map(_bare, inputs), **{k: _bare(x) for k, x in named.items()}))

    def __array_function__(self, function: Any, _: Any, given: Any, named: Any) -> Any:
        return _worn(function(*_bare(given), **{k: _bare(x) for k, x in named.items()}))

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        found = getattr(self.held, name)
        if not callable(found):
            return _worn(found)
        assert name in METHODS, f"is there a {name} of CuPy's arrays?"
        return lambda *given, **named: _worn(found(*map(_bare, given), **named))

    def __getitem__(self, key: Any) -> Any:
        return _worn(np.asarray(self.held[_bare(key)]))

    def __setitem__(self, key: Any, value: Any) -> None:
        self.held[_bare(key)] = _bare(value)

    def __len__(self) -> int:
        return len(self.held)

    def __iter__(self) -> Any:
        return (Array(row) for row in self.held)

    def __float__(self) -> float:
        return float(self.held)


METHODS = {"sum", "max", "mean", "astype", "reshape", "take", "any", "tolist"}
MODULE = types.ModuleType("strict_arrays")


def _bare(value: Any) -> Any:
    if isinstance(value, tuple | list):
        return type(value)(_bare(x) for x in value)
    if isinstance(value, np.ndarray) and value.ndim:
        raise TypeError("an array of NumPy meets one that is not")
    return value.held if isinstance(value, Array) else value


def _worn(value: Any) -> Any:
    if isinstance(value, tuple) and any(isinstance(x, np.ndarray) for x in value):
        return tuple(_worn(x) for x in value)
    return Array(value) if isinstance(value, np.ndarray | np.generic) else value


def _maker(name: str) -> Any:
    return lambda *given, **named: Array(getattr(np, name)(*map(_bare, given), **named))


for _name in ("zeros", "empty", "full", "arange", "concatenate", "ascontiguousarray"):
    setattr(MODULE, _name, _maker(_name))
setattr(MODULE, "asarray", lambda x: x if isinstance(x, Array) else Array(x))  # noqa: B010


class HostBench:
    """Stands for a GPU: kernels of ``on_host.cpp``."""

    arrays = MODULE

    def __init__(self, folder: Path) -> None:
        if shutil.which("g++") is None:
            pytest.skip("no C++ compiler here")
        target = folder / "kernels.so"
        flags = ["-O1", "-shared", "-fPIC", "-w", f'-DKERNELS="{SOURCE}"']
        subprocess.run(["g++", *flags, str(HERE / "on_host.cpp"), "-o", str(target)], check=True)
        self.library = ctypes.CDLL(str(target))

    def launch(self, kernel: str, rows: int, *arguments: Any) -> None:
        function, passed = self.library[kernel], [_passed(x) for x in arguments]
        function.restype = None
        for row in range(rows):
            self.library.at(row)
            function(*passed)


def _passed(value: Any) -> Any:
    """Numbers as they are, arrays by address."""
    if isinstance(value, Array):
        assert value.held.flags.c_contiguous
        return ctypes.c_void_p(value.held.ctypes.data)
    assert not isinstance(value, np.ndarray)
    return ctypes.c_double(value) if isinstance(value, float) else ctypes.c_uint(int(value))
