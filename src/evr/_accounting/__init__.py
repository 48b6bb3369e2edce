"""Step 1 of EVR: estimate ``(epsilon, delta)`` near-exactly."""

from evr._accounting.accountants import FFTAccountant, StrictAccountant
from evr._accounting.api import estimate_delta, estimate_epsilon, privacy_curve
from evr._accounting.calibration import Calibration, calibrate
from evr._accounting.enclosing import enclose_delta, enclose_epsilon
from evr._accounting.online import online_epsilon
from evr._estimate.results import Enclosure, Estimate, OnlineEpsilon, PrivacyCurve, UpperBound

__all__ = [
    "Calibration",
    "Enclosure",
    "Estimate",
    "FFTAccountant",
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
