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
    "Estimate": "evr.estimate",
    "UpperBound": "evr.estimate",
    "PrivacyCurve": "evr.estimate",
    "Calibration": "evr.estimate",
    "OnlineEpsilon": "evr.estimate",
    "estimate_delta": "evr.estimate",
    "estimate_epsilon": "evr.estimate",
    "privacy_curve": "evr.estimate",
    "online_epsilon": "evr.estimate",
    "calibrate": "evr.estimate",
    "FFTAccountant": "evr.estimate",
    "EvrError": "evr.errors",
    "SpecError": "evr.errors",
    "UnsupportedEventError": "evr.errors",
}

if TYPE_CHECKING:
    from evr.errors import EvrError, SpecError, UnsupportedEventError
    from evr.estimate import (
        Calibration,
        Estimate,
        FFTAccountant,
        OnlineEpsilon,
        PrivacyCurve,
        UpperBound,
        calibrate,
        estimate_delta,
        estimate_epsilon,
        online_epsilon,
        privacy_curve,
    )
    from evr.mechanisms import Composition, Direction, DominatingPair, Measure, Pairs, events, register
    from evr.mechanisms.events import dpsgd

__all__ = [
    "Calibration",
    "Composition",
    "Direction",
    "DominatingPair",
    "Estimate",
    "EvrError",
    "FFTAccountant",
    "Measure",
    "OnlineEpsilon",
    "Pairs",
    "PrivacyCurve",
    "SpecError",
    "UnsupportedEventError",
    "UpperBound",
    "calibrate",
    "dpsgd",
    "estimate_delta",
    "estimate_epsilon",
    "events",
    "online_epsilon",
    "privacy_curve",
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
