"""From a claim to its proof: choose what to draw from, then verify."""

from evr.proving.api import prove, verify
from evr.proving.choosing import Announce, Forecast, Sampling, forecast

__all__ = ["Announce", "Forecast", "Sampling", "forecast", "prove", "verify"]
