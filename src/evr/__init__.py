"""evr: tight privacy accounting you can trust. Estimate, verify, release.

Names load when they are first used, so that importing the package costs next to nothing.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from evr.version import __version__ as __version__

if TYPE_CHECKING:
    from evr import errors as errors
    from evr import events as events
    from evr import integrations as integrations
    from evr.certification import Certificate as Certificate
    from evr.certification import Ledger as Ledger
    from evr.certification.budget import Budget as Budget
    from evr.certification.replay import replay as replay
    from evr.described import register as register
    from evr.estimation import Estimate as Estimate
    from evr.estimation import FFTAccountant as FFTAccountant
    from evr.estimation import MonteCarloAccountant as MonteCarloAccountant
    from evr.estimation import StrictAccountant as StrictAccountant
    from evr.estimation import UpperBound as UpperBound
    from evr.estimation import calibrate as calibrate
    from evr.estimation import enclose_delta as enclose_delta
    from evr.estimation import enclose_epsilon as enclose_epsilon
    from evr.estimation import estimate_delta as estimate_delta
    from evr.estimation import estimate_epsilon as estimate_epsilon
    from evr.estimation import online_epsilon as online_epsilon
    from evr.estimation import privacy_curve as privacy_curve
    from evr.events import dpsgd as dpsgd
    from evr.gate import certify as certify
    from evr.gate import release as release
    from evr.gate import resume as resume
    from evr.proving import refute as refute
    from evr.proving import verify as verify
    from evr.proving.audit import audit as audit
    from evr.proving.risk import risk as risk
    from evr.records import Record as Record
    from evr.records import record as record
    from evr.searching import tuning as tuning
    from evr.spec import load as load
    from evr.sweeps import sweep as sweep
    from evr.verification import Guarantee as Guarantee
    from evr.verification import Verification as Verification

_NAMES = {
    "certification": "Certificate Ledger",
    "certification.budget": "Budget",
    "certification.replay": "replay",
    "described": "register",
    "estimation": "Estimate FFTAccountant MonteCarloAccountant StrictAccountant UpperBound calibrate enclose_delta "
    "enclose_epsilon estimate_delta estimate_epsilon online_epsilon privacy_curve",
    "events": "dpsgd",
    "gate": "certify release resume",
    "proving": "refute verify",
    "proving.audit": "audit",
    "proving.risk": "risk",
    "records": "Record record",
    "searching": "tuning",
    "spec": "load",
    "sweeps": "sweep",
    "verification": "Guarantee Verification",
}
_HOMES = {name: home for home, names in _NAMES.items() for name in names.split()}
_MODULES = ("errors", "events", "integrations")

__all__ = sorted([*_HOMES, "errors", "events"])


if not TYPE_CHECKING:  # a type checker would take any name for an attribute

    def __getattr__(name: str) -> Any:
        if name in _MODULES:
            return importlib.import_module(f"evr.{name}")
        if name not in _HOMES:
            raise AttributeError(f"module 'evr' has no attribute {name!r}")
        return getattr(importlib.import_module(f"evr.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
