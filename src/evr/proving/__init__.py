"""From a claim to its proof: choose what to draw from, then verify."""

from evr.proving.api import prove, verify
from evr.proving.choosing import Announce, Forecast, Sampling, forecast
from evr.proving.refuting import Refutation, refute

__all__ = ["Announce", "Forecast", "Refutation", "Sampling", "forecast", "prove", "refute", "verify"]
