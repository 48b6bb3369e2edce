"""Step 1 of EVR: estimate ``(epsilon, delta)`` near-exactly, and the baselines to compare with."""

from evr.estimation.accountants import FFTAccountant
from evr.estimation.api import estimate_delta, estimate_epsilon, privacy_curve
from evr.estimation.calibration import Calibration, calibrate
from evr.estimation.curves import PrivacyCurve
from evr.estimation.mc_accountant import MonteCarloAccountant
from evr.estimation.online import OnlineEpsilon, online_epsilon
from evr.estimation.results import Estimate, UpperBound

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
