"""Which claim an attempt tests: the pair that was given, or one that is found from an estimate."""

from __future__ import annotations

import math
from typing import Any

from evr import validate
from evr.errors import FalseClaimError
from evr.estimation import Estimate, UpperBound, calibrate, estimate_delta, estimate_epsilon
from evr.estimation.calibration import TIGHTEST, noise_of, other_noise
from evr.mechanisms import Composition
from evr.mechanisms.relations import Relation
from evr.numbers import round_up
from evr.proving.sampling import DEFAULT, LOOSEST, not_below, tau_of
from evr.verification import Claim

_LEAST = 1e-290 / LOOSEST  # of a delta that is not 0


def claimed(
    event: Composition, ran: Any, *, epsilon: float | None, delta: float | None, tau: float | None, refuses: bool
) -> Claim:
    """The claim to test. ``ran`` is the event as it was given; ``refuses`` says whether a pair that seems to be false
    is refused, or tested.
    """
    epsilon = None if epsilon is None else validate.level(epsilon=epsilon)
    tau = None if tau is None else validate.open_probability(tau=tau)
    if delta is None:
        if epsilon is None:
            raise ValueError("certify what? Give delta (epsilon is found), epsilon (delta is found), or both")
        return _with_delta(event, epsilon, DEFAULT if tau is None else tau)
    if epsilon is None:
        delta = validate.half_open_probability(delta=delta)
        if delta <= _LEAST:
            raise ValueError(
                f"delta={delta!r} is not above {_LEAST:g}: floats cannot tell such a claim from 0; "
                "claim a greater delta"
            )
        return _with_epsilon(event, delta, tau)
    delta = validate.probability(delta=delta)
    if tau is not None:
        return Claim(epsilon, delta, tau)
    found = estimate_delta(event, epsilon)
    if refuses and not_below(found) > TIGHTEST * delta:
        raise _false(event, epsilon, delta, found, ran)
    return Claim(epsilon, delta, tau_of(found, delta))


def _with_delta(event: Composition, epsilon: float, tau: float) -> Claim:
    """The least delta, over tau."""
    found = estimate_delta(event, epsilon)
    value = not_below(found) / tau
    if value > 0:
        digits = 5 + math.ceil(-math.log10(1.0 - tau))  # a thousandth of the slack, or less
        value = max(min(1.0, round_up(value, digits)), _LEAST)
    return Claim(epsilon, value, tau)


def _with_epsilon(event: Composition, delta: float, tau: float | None) -> Claim:
    """The least epsilon of three digits; without a tau, the estimate there leaves one, 0.99 at the most."""
    least = estimate_epsilon(event, delta if tau is None else tau * delta)
    if not math.isfinite(least.value):
        raise ValueError(
            f"no epsilon is enough for delta={delta!r}: some mechanism may fail with more than "
            "that; claim a greater delta"
        )
    epsilon = round_up(not_below(least), 3)
    if tau is not None:
        return Claim(epsilon, delta, tau)
    found = estimate_delta(event, epsilon)
    for _ in range(3):
        if not_below(found) <= DEFAULT * delta:
            break
        epsilon = round_up(epsilon * (1.0 + 1e-9), 3)
        found = estimate_delta(event, epsilon)
    return Claim(epsilon, delta, tau_of(found, delta))


def _false(event: Composition, epsilon: float, delta: float, found: Estimate | UpperBound, ran: Any) -> FalseClaimError:
    """The refusal of a pair that is false, or true by too little, with what would hold."""
    least = _with_epsilon(event, delta, None).epsilon
    wrong = "false" if found.value > delta else "true by too little to be verified"
    noise = _enough_noise(ran, epsilon, delta, event.relation)
    return FalseClaimError(
        f"epsilon={epsilon!r}, delta={delta!r}: this is {wrong}, for delta({epsilon!r}) is about "
        f"{found.value:.6g}; epsilon={least!r} at this delta would hold, or "
        f"delta={round_up(found.value / DEFAULT, 3)!r} at this epsilon"
        + ("" if noise is None else f", or this pair with noise_multiplier={noise!r}")
    )


def _enough_noise(ran: Any, epsilon: float, delta: float, relation: Relation) -> float | None:
    """A noise multiplier with which the pair could be verified; None where what ran is not one Gaussian mechanism,
    sampled and repeated.
    """
    with_noise = other_noise(ran)
    if with_noise is None:
        return None
    try:
        return calibrate(
            with_noise, epsilon=epsilon, delta=delta, low=noise_of(ran), neighboring_relation=relation
        ).value
    except ValueError:  # no noise is enough
        return None
