"""Step 1 of EVR: estimate ``(epsilon, delta)`` near-exactly."""

from evr.estimation.accountants import FFTAccountant, MonteCarloAccountant, StrictAccountant
from evr.estimation.api import estimate_delta, estimate_epsilon, privacy_curve
from evr.estimation.calibration import Calibration, calibrate
from evr.estimation.online import online_epsilon
from evr.estimation.results import Estimate, OnlineEpsilon, PrivacyCurve, UpperBound

__all__ = [
    "Calibration",
    "Estimate",
    "FFTAccountant",
    "MonteCarloAccountant",
    "OnlineEpsilon",
    "PrivacyCurve",
    "StrictAccountant",
    "UpperBound",
    "calibrate",
    "estimate_delta",
    "estimate_epsilon",
    "online_epsilon",
    "privacy_curve",
]
