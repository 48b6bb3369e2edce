"""evr: tight privacy accounting one can trust. Estimate, verify, release.

Names load when they are first used, so that importing the package costs next to nothing.
"""

from __future__ import annotations

import importlib
import sys
from types import ModuleType
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
    "MonteCarloAccountant": "evr.estimate",
    "verify": "evr.verify",
    "Verdict": "evr.verify",
    "Verification": "evr.verify",
    "Guarantee": "evr.verify",
    "release": "evr.release",
    "released": "evr.release",
    "certify": "evr.release",
    "replay": "evr.release",
    "resume": "evr.release",
    "Certificate": "evr.release",
    "Ledger": "evr.release",
    "Release": "evr.release",
    "AlreadyReleasedError": "evr.errors",
    "CertificateError": "evr.errors",
    "EvrError": "evr.errors",
    "LedgerError": "evr.errors",
    "NotReleasedError": "evr.errors",
    "SpecError": "evr.errors",
    "UnsupportedEventError": "evr.errors",
}

if TYPE_CHECKING:
    from evr.errors import (
        AlreadyReleasedError,
        CertificateError,
        EvrError,
        LedgerError,
        NotReleasedError,
        SpecError,
        UnsupportedEventError,
    )
    from evr.estimate import (
        Calibration,
        Estimate,
        FFTAccountant,
        MonteCarloAccountant,
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
    from evr.release import Certificate, Ledger, Release, release, released, resume
    from evr.release.certify import certify
    from evr.release.replay import replay
    from evr.verify import Guarantee, Verdict, Verification, verify

__all__ = [
    "AlreadyReleasedError",
    "Calibration",
    "Certificate",
    "CertificateError",
    "Composition",
    "Direction",
    "DominatingPair",
    "Estimate",
    "EvrError",
    "FFTAccountant",
    "Guarantee",
    "Ledger",
    "LedgerError",
    "Measure",
    "MonteCarloAccountant",
    "NotReleasedError",
    "OnlineEpsilon",
    "Pairs",
    "PrivacyCurve",
    "Release",
    "SpecError",
    "UnsupportedEventError",
    "UpperBound",
    "Verdict",
    "Verification",
    "calibrate",
    "certify",
    "dpsgd",
    "estimate_delta",
    "estimate_epsilon",
    "events",
    "online_epsilon",
    "privacy_curve",
    "register",
    "release",
    "released",
    "replay",
    "resume",
    "verify",
]


def __getattr__(name: str) -> Any:
    if name == "events":
        return importlib.import_module("evr.mechanisms.events")
    if name not in _HOMES:
        raise AttributeError(f"module 'evr' has no attribute {name!r}")
    return getattr(importlib.import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])


class _Package(ModuleType):
    """``evr.verify`` and ``evr.release`` are functions, and floors of the house: importing a floor must not hide its function."""

    def __setattr__(self, name: str, value: Any) -> None:
        if name in ("verify", "release") and isinstance(value, ModuleType):
            value = getattr(value, name)
        super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Package
