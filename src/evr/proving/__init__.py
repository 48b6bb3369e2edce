"""From a claim to its proof: choose what to draw from, then verify."""

from evr.proving.api import prove, verify
from evr.proving.forecast import Announce, Forecast, forecast
from evr.proving.sampling import Sampling

__all__ = ["Announce", "Forecast", "Sampling", "forecast", "prove", "verify"]
