"""Step 2 of EVR: tests of a claim with a proven false-positive rate."""

from evr.verification.claims import Claim, Terms
from evr.verification.results import DirectionReport, Guarantee, Progress, Verdict, Verification

__all__ = ["Claim", "DirectionReport", "Guarantee", "Progress", "Terms", "Verdict", "Verification"]
