"""Step 1 of EVR: estimate ``(epsilon, delta)`` near-exactly."""

from evr.estimation.accountants import FFTAccountant, MonteCarloAccountant, StrictAccountant
from evr.estimation.api import estimate_delta, estimate_epsilon, privacy_curve
from evr.estimation.calibration import Calibration, calibrate
from evr.estimation.enclosing import enclose_delta, enclose_epsilon
from evr.estimation.online import online_epsilon
from evr.estimation.results import Enclosure, Estimate, OnlineEpsilon, PrivacyCurve, UpperBound

__all__ = [
    "Calibration",
    "Enclosure",
    "Estimate",
    "FFTAccountant",
    "MonteCarloAccountant",
    "OnlineEpsilon",
    "PrivacyCurve",
    "StrictAccountant",
    "UpperBound",
    "calibrate",
    "enclose_delta",
    "enclose_epsilon",
    "estimate_delta",
    "estimate_epsilon",
    "online_epsilon",
    "privacy_curve",
]
