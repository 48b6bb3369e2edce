"""From a claim to its proof: choose what to draw from, then verify."""

from evr.proving.api import prove, verify
from evr.proving.without_samples import proved_delta

__all__ = ["prove", "proved_delta", "verify"]
