"""The kernels of a GPU on a processor: compiled for it, one thread after the other."""

import ctypes
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from evr.sampling.cuda import SOURCES

HERE = Path(__file__).parent


class HostBench:
    """Stands for a GPU: arrays of NumPy, kernels of ``on_host.cpp``."""

    arrays, most_numbers = np, 3000  # so that blocks are drawn in a few spans

    def __init__(self, folder: Path) -> None:
        if shutil.which("g++") is None:
            pytest.skip("no C++ compiler here")
        target = folder / "kernels.so"
        named = [f'-D{path.stem.upper()}="{path}"' for path in SOURCES]
        flags = ["-O1", "-shared", "-fPIC", "-w", *named]
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
    if isinstance(value, np.ndarray):
        assert value.flags.c_contiguous
        return ctypes.c_void_p(value.ctypes.data)
    if isinstance(value, float):
        return ctypes.c_double(value)
    return ctypes.c_uint(int(value))
