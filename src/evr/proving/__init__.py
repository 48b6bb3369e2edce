"""From a claim to its proof: choose what to draw from, then verify."""

from evr.proving.api import prove, verify
from evr.proving.planning import check_proposal
from evr.proving.without_samples import proved_delta

__all__ = ["check_proposal", "prove", "proved_delta", "verify"]
