"""evr: tight privacy accounting one can trust. Estimate, verify, release.

Names load when they are first used, so that importing the package costs next to nothing.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

_HOMES = {
    "Composition": "evr.mechanisms",
    "Direction": "evr.mechanisms",
    "DominatingPair": "evr.mechanisms",
    "Measure": "evr.mechanisms",
    "Pairs": "evr.mechanisms",
    "register": "evr.mechanisms",
    "dpsgd": "evr.mechanisms.events",
    "EvrError": "evr.errors",
    "SpecError": "evr.errors",
    "UnsupportedEventError": "evr.errors",
}

if TYPE_CHECKING:
    from evr.errors import EvrError, SpecError, UnsupportedEventError
    from evr.mechanisms import Composition, Direction, DominatingPair, Measure, Pairs, events, register
    from evr.mechanisms.events import dpsgd

__all__ = [
    "Composition",
    "Direction",
    "DominatingPair",
    "EvrError",
    "Measure",
    "Pairs",
    "SpecError",
    "UnsupportedEventError",
    "dpsgd",
    "events",
    "register",
]


def __getattr__(name: str) -> Any:
    if name == "events":
        return importlib.import_module("evr.mechanisms.events")
    if name not in _HOMES:
        raise AttributeError(f"module 'evr' has no attribute {name!r}")
    return getattr(importlib.import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
