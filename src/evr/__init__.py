"""evr: tight privacy accounting one can trust. Estimate, verify, release.

Names load when they are first used, so that importing the package costs next to nothing.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from evr.version import __version__ as __version__

_HOMES = {
    "Composition": "evr.mechanisms",
    "Mechanism": "evr.mechanisms.descriptor",
    "Direction": "evr.laws",
    "DominatingPair": "evr.laws",
    "Measure": "evr.laws",
    "Pairs": "evr.laws",
    "register": "evr.described",
    "dpsgd": "evr.events",
    "opacus_history": "evr.events",
    "load": "evr.spec",
    "Estimate": "evr.estimation",
    "UpperBound": "evr.estimation",
    "PrivacyCurve": "evr.estimation",
    "Calibration": "evr.estimation",
    "OnlineEpsilon": "evr.estimation",
    "estimate_delta": "evr.estimation",
    "estimate_epsilon": "evr.estimation",
    "privacy_curve": "evr.estimation",
    "online_epsilon": "evr.estimation",
    "calibrate": "evr.estimation",
    "FFTAccountant": "evr.estimation",
    "MonteCarloAccountant": "evr.estimation",
    "verify": "evr.proving",
    "risk": "evr.proving.risk",
    "audit": "evr.proving.audit",
    "Forecast": "evr.proving",
    "Progress": "evr.verification",
    "Verdict": "evr.verification",
    "Verification": "evr.verification",
    "DirectionReport": "evr.verification",
    "Guarantee": "evr.verification",
    "release": "evr.gate",
    "released": "evr.gate",
    "certify": "evr.gate.certify",
    "replay": "evr.certification.replay",
    "Replay": "evr.certification.replay",
    "resume": "evr.gate",
    "Certificate": "evr.certification",
    "Ledger": "evr.certification",
    "Release": "evr.gate",
    "PrivacyFilter": "evr.bounds.filters",
    "BudgetExceededError": "evr.errors",
    "Record": "evr.records",
    "Recorder": "evr.records",
    "record": "evr.records",
    "Recording": "evr.records",
    "write_report": "evr.report.page",
    "AccuracyError": "evr.errors",
    "AlreadyReleasedError": "evr.errors",
    "CertificateError": "evr.errors",
    "EvrError": "evr.errors",
    "LedgerError": "evr.errors",
    "NotReleasedError": "evr.errors",
    "RecordError": "evr.errors",
    "SpecError": "evr.errors",
    "UnsupportedEventError": "evr.errors",
}

if TYPE_CHECKING:
    from evr import events as events
    from evr.bounds.filters import PrivacyFilter
    from evr.certification import Certificate, Ledger
    from evr.certification.replay import Replay, replay
    from evr.described import register
    from evr.errors import (
        AccuracyError,
        AlreadyReleasedError,
        BudgetExceededError,
        CertificateError,
        EvrError,
        LedgerError,
        NotReleasedError,
        RecordError,
        SpecError,
        UnsupportedEventError,
    )
    from evr.estimation import (
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
    from evr.events import dpsgd, opacus_history
    from evr.gate import Release, release, released, resume
    from evr.gate.certify import certify
    from evr.laws import Direction, DominatingPair, Measure, Pairs
    from evr.mechanisms import Composition
    from evr.mechanisms.descriptor import Mechanism
    from evr.proving import Forecast, verify
    from evr.proving.audit import audit
    from evr.proving.risk import risk
    from evr.records import Record, Recorder, Recording, record
    from evr.report.page import write_report
    from evr.spec import load
    from evr.verification import DirectionReport, Guarantee, Progress, Verdict, Verification

__all__ = [
    "AccuracyError",
    "AlreadyReleasedError",
    "BudgetExceededError",
    "Calibration",
    "Certificate",
    "CertificateError",
    "Composition",
    "Direction",
    "DirectionReport",
    "DominatingPair",
    "Estimate",
    "EvrError",
    "FFTAccountant",
    "Forecast",
    "Guarantee",
    "Ledger",
    "LedgerError",
    "Measure",
    "Mechanism",
    "MonteCarloAccountant",
    "NotReleasedError",
    "OnlineEpsilon",
    "Pairs",
    "PrivacyCurve",
    "PrivacyFilter",
    "Progress",
    "Record",
    "RecordError",
    "Recorder",
    "Recording",
    "Release",
    "Replay",
    "SpecError",
    "UnsupportedEventError",
    "UpperBound",
    "Verdict",
    "Verification",
    "audit",
    "calibrate",
    "certify",
    "dpsgd",
    "estimate_delta",
    "estimate_epsilon",
    "events",
    "load",
    "online_epsilon",
    "opacus_history",
    "privacy_curve",
    "record",
    "register",
    "release",
    "released",
    "replay",
    "resume",
    "risk",
    "verify",
    "write_report",
]


if not TYPE_CHECKING:  # a type checker would take any name for an attribute

    def __getattr__(name: str) -> Any:
        if name == "events":
            return importlib.import_module("evr.events")
        if name == "integrations":
            return importlib.import_module("evr.integrations")
        if name not in _HOMES:
            raise AttributeError(f"module 'evr' has no attribute {name!r}")
        return getattr(importlib.import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
