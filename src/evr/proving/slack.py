"""How far below its claim the truth is taken to be: what sampled methods are planned for. No guarantee rests on it."""

from __future__ import annotations

import contextlib

from evr.errors import AccuracyError
from evr.estimation import Estimate, UpperBound, estimate_delta
from evr.estimation.calibration import TIGHTEST
from evr.mechanisms import Composition
from evr.verification.claims import Claim

DEFAULT = 0.99  # tau where nothing better is known, and where a claim seems to be false
LOOSEST = 0.5  # the least tau that is chosen from an estimate: below, samples are few in any case


def not_below(found: Estimate | UpperBound) -> float:
    """The estimate, raised by its own error, so that a good one is not below the truth."""
    return found.value + (found.doubt or 0.0)


def tau_of(found: Estimate | UpperBound, delta: float) -> float:
    """Tau for a claim of ``delta`` whose truth is estimated.

    Examples
    --------
    >>> import evr
    >>> event = evr.dpsgd(noise_multiplier=1.0, sampling_probability=1e-3, steps=100)
    >>> found = evr.estimate_delta(event, epsilon=0.5)
    >>> round(tau_of(found, found.value / 0.8), 6)
    0.8
    """
    if not delta > 0.0 or found.value > delta:
        return DEFAULT
    return min(max(not_below(found) / delta, LOOSEST), TIGHTEST)


def likely_tau(composition: Composition, claim: Claim) -> float:
    """Tau from an estimate that is made here; the default where there is none."""
    with contextlib.suppress(AccuracyError):
        return tau_of(estimate_delta(composition, claim.epsilon), claim.delta)
    return DEFAULT
