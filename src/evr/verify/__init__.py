"""Step 2 of EVR: verify an estimate by Monte Carlo with a proven false-positive rate."""

from evr.verify.api import verify
from evr.verify.claims import Claim, Terms
from evr.verify.results import DirectionReport, Guarantee, Progress, Verdict, Verification

__all__ = ["Claim", "DirectionReport", "Guarantee", "Progress", "Terms", "Verdict", "Verification", "verify"]
