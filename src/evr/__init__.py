"""evr: tight privacy accounting you can trust. Estimate, verify, release.

Names load when they are first used, so that importing the package costs next to nothing.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from evr._basics.version import __version__ as __version__

if TYPE_CHECKING:
    from evr import accounting as accounting
    from evr import budgets as budgets
    from evr import certificates as certificates
    from evr import errors as errors
    from evr import events as events
    from evr import integrations as integrations
    from evr import proving as proving
    from evr import types as types
    from evr._accounting import Estimate as Estimate
    from evr._accounting import FFTAccountant as FFTAccountant
    from evr._accounting import StrictAccountant as StrictAccountant
    from evr._accounting import UpperBound as UpperBound
    from evr._accounting import calibrate as calibrate
    from evr._accounting import enclose_delta as enclose_delta
    from evr._accounting import enclose_epsilon as enclose_epsilon
    from evr._accounting import estimate_delta as estimate_delta
    from evr._accounting import estimate_epsilon as estimate_epsilon
    from evr._accounting import online_epsilon as online_epsilon
    from evr._accounting import privacy_curve as privacy_curve
    from evr._certificate.certificate import Certificate as Certificate
    from evr._certificate.replay import replay as replay
    from evr._described import register as register
    from evr._dpsgd import dpsgd as dpsgd
    from evr._kernel.verdict.results import Guarantee as Guarantee
    from evr._kernel.verdict.results import Verification as Verification
    from evr._proving.api import verify as verify
    from evr._proving.audit import audit as audit
    from evr._proving.refuting import refute as refute
    from evr._proving.risk import risk as risk
    from evr._records import Record as Record
    from evr._records import record as record
    from evr._release.budget import Budget as Budget
    from evr._release.gate import certify as certify
    from evr._release.gate import release as release
    from evr._release.gate import resume as resume
    from evr._release.ledger import Ledger as Ledger
    from evr._spec import load as load
    from evr._sweeps import sweep as sweep
    from evr._tuning import tuning as tuning

_NAMES = {
    "_certificate.certificate": "Certificate",
    "_certificate.replay": "replay",
    "_described": "register",
    "_dpsgd": "dpsgd",
    "_accounting": "Estimate FFTAccountant StrictAccountant UpperBound calibrate enclose_delta enclose_epsilon "
    "estimate_delta estimate_epsilon online_epsilon privacy_curve",
    "_kernel.verdict.results": "Guarantee Verification",
    "_proving.api": "verify",
    "_proving.audit": "audit",
    "_proving.refuting": "refute",
    "_proving.risk": "risk",
    "_records": "Record record",
    "_release.budget": "Budget",
    "_release.gate": "certify release resume",
    "_release.ledger": "Ledger",
    "_spec": "load",
    "_sweeps": "sweep",
    "_tuning": "tuning",
}
_HOMES = {name: home for home, names in _NAMES.items() for name in names.split()}
_MODULES = ("accounting", "budgets", "certificates", "errors", "events", "integrations", "proving", "types")

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
