"""Other people's training libraries: each integration is one file, and is imported only by who asks for it."""

from __future__ import annotations

from importlib import import_module
from types import ModuleType

_FILES = ("canaries", "dask", "opacus", "sensitivity")


def __getattr__(name: str) -> ModuleType:
    if name not in _FILES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return import_module(f"{__name__}.{name}")
