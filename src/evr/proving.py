"""Step 2, verify: claims proved or refuted, and what a proved curve says about attackers."""

from evr._kernel.verdict.results import DirectionReport, Guarantee, Progress, Verdict, Verification
from evr._proving.api import verify
from evr._proving.audit import Audit, audit
from evr._proving.choosing import Forecast
from evr._proving.refuting import Refutation, refute
from evr._proving.risk import Risk, risk

__all__ = [
    "Audit",
    "DirectionReport",
    "Forecast",
    "Guarantee",
    "Progress",
    "Refutation",
    "Risk",
    "Verdict",
    "Verification",
    "audit",
    "refute",
    "risk",
    "verify",
]
