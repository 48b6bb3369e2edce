"""Step 2 of EVR: tests of a claim with a proven false-positive rate."""

from evr.verification.results import DirectionReport, Guarantee, Progress, Verdict, Verification
from evr.verification.settings import Claim, Terms

__all__ = ["Claim", "DirectionReport", "Guarantee", "Progress", "Terms", "Verdict", "Verification"]
