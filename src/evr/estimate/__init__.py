"""Step 1 of EVR: estimate ``(epsilon, delta)`` near-exactly, and the baselines to compare with."""

from evr.estimate.accountants import FFTAccountant
from evr.estimate.api import PrivacyCurve, estimate_delta, estimate_epsilon, privacy_curve
from evr.estimate.calibration import Calibration, calibrate
from evr.estimate.mc_accountant import MonteCarloAccountant
from evr.estimate.online import OnlineEpsilon, online_epsilon
from evr.estimate.results import Estimate, UpperBound

__all__ = [
    "Calibration",
    "Estimate",
    "FFTAccountant",
    "MonteCarloAccountant",
    "OnlineEpsilon",
    "PrivacyCurve",
    "UpperBound",
    "calibrate",
    "estimate_delta",
    "estimate_epsilon",
    "online_epsilon",
    "privacy_curve",
]
