"""Step 1, estimate: near-exact numbers, proved bounds on both sides, whole curves, the noise for a target."""

from evr._accounting import (
    Calibration,
    Enclosure,
    Estimate,
    FFTAccountant,
    OnlineEpsilon,
    PrivacyCurve,
    StrictAccountant,
    UpperBound,
    calibrate,
    enclose_delta,
    enclose_epsilon,
    estimate_delta,
    estimate_epsilon,
    online_epsilon,
    privacy_curve,
)
from evr._accounting.comparison import compare
from evr._sweeps import Sweep, sweep

__all__ = [
    "Calibration",
    "Enclosure",
    "Estimate",
    "FFTAccountant",
    "OnlineEpsilon",
    "PrivacyCurve",
    "StrictAccountant",
    "Sweep",
    "UpperBound",
    "calibrate",
    "compare",
    "enclose_delta",
    "enclose_epsilon",
    "estimate_delta",
    "estimate_epsilon",
    "online_epsilon",
    "privacy_curve",
    "sweep",
]
