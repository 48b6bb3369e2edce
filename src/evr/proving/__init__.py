"""From a claim to its proof: choose what to draw from, then verify."""

from evr.planning.sampled import check_proposal
from evr.proving.api import prove, verify
from evr.proving.forecast import Announce, Forecast, forecast

__all__ = [
    "Announce",
    "Forecast",
    "check_proposal",
    "forecast",
    "prove",
    "verify",
]
