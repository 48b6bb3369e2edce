"""The claim that an attempt is made at: the pair that is asked for, or the least one that is likely to be proved. A
pair that is false is refused, with what would hold.
"""

import contextlib
import math
from typing import Any

from evr._accounting import Estimate, UpperBound, calibrate, estimate_delta, estimate_epsilon
from evr._accounting.calibration import TIGHTEST, Goal
from evr._accounting.noise import noise_of, other_noise
from evr._basics import validate
from evr._basics.numbers import below, round_up
from evr._kernel.events import Composition
from evr._kernel.verdict.settings import Claim
from evr._proving.choosing import DEFAULT, LOOSEST, not_below, tau_of
from evr._proving.refuting import refute
from evr.errors import FalseClaimError

_LEAST = 1e-290 / LOOSEST  # of a delta that is not 0


def claimed(
    event: Composition, epsilon: float | None, delta: float | None, risk: dict[str, float], tau: float | None, ran: Any
) -> Claim:
    """The claim to test: a pair, or one from which a risk follows. If it seems to be false, it is refused with what
    would hold for the event as it was given, ``ran``; where that is None, it is tested.
    """
    if risk:
        goal = Goal.of(epsilon, delta, **risk)
        epsilon = goal.nearest(event, None)
        delta = goal.delta(epsilon)
    epsilon = None if epsilon is None else validate.level(epsilon=epsilon)
    tau = None if tau is None else validate.open_probability(tau=tau)
    if delta is None:
        if epsilon is None:
            raise ValueError("certify what? Give delta (epsilon is found), epsilon (delta is found), or both")
        tau = DEFAULT if tau is None else tau
        least = not_below(estimate_delta(event, epsilon)) / tau
        digits = 5 + math.ceil(-math.log10(1.0 - tau))  # a thousandth of the slack, or less
        return Claim(epsilon, max(min(1.0, round_up(least, digits)), _LEAST) if least > 0 else least, tau)
    if epsilon is None:
        delta = validate.half_open_probability(delta=delta)
        if delta <= _LEAST:
            raise ValueError(f"delta={delta!r} is not above {_LEAST:g}: floats cannot tell it from 0; claim more")
        return _with_epsilon(event, delta, tau)
    delta = validate.probability(delta=delta)
    if tau is not None:
        return Claim(epsilon, delta, tau)
    found = estimate_delta(event, epsilon)
    if ran is not None and not_below(found) > TIGHTEST * delta:
        raise _false_claim(event, epsilon, delta, found, ran, risk)
    return Claim(epsilon, delta, tau_of(found, delta))


def _with_epsilon(event: Composition, delta: float, tau: float | None) -> Claim:
    """The least epsilon of three digits; without a tau, the estimate there leaves one, 0.99 at the most."""
    failing = estimate_delta(event, math.inf).value
    if failing > (TIGHTEST if tau is None else tau) * delta:
        why = f"no epsilon lets delta={delta!r} be verified, for mechanisms fail with a chance of {failing:.6g}"
        enough = round_up(failing / (tau or DEFAULT), 3)
        raise ValueError(f"{why}: " + (f"claim delta={enough!r} or more" if enough < 1 else "give them noise"))
    least = estimate_epsilon(event, delta if tau is None else tau * delta)
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


def _false_claim(
    event: Composition, epsilon: float, delta: float, found: Estimate | UpperBound, ran: Any, risk: dict[str, float]
) -> FalseClaimError:
    """The refusal of a pair that is false, or true by too little, with what would hold."""
    is_false = found.value - (found.doubt or 0.0) > delta
    known = "seems to be false" if is_false else "is true by too little to be verified, if it is true"
    known += f", for delta({epsilon!r}) is about {found.value:.6g}"
    if found.value > delta:
        with contextlib.suppress(ValueError):  # a law without an exact form
            refutation = refute(ran, epsilon=epsilon, delta=delta, neighboring_relation=event.relation)
            if refutation.refuted:
                known = f"is false, for delta({epsilon!r}) is at least {below(refutation.lower, 6)}"
                known += " for some training of this description, as is proved"
    ways = [f"delta={round_up(found.value / DEFAULT, 3)!r} at this epsilon"]
    with contextlib.suppress(ValueError):  # no epsilon may be enough
        ways.insert(0, f"epsilon={_with_epsilon(event, delta, None).epsilon!r} at this delta")
    ways[0] += " would hold"
    if (with_noise := other_noise(ran)) is not None:  # what ran is one Gaussian mechanism, sampled and repeated
        with contextlib.suppress(ValueError):  # no noise is enough
            asked: dict[str, Any] = risk or {"epsilon": epsilon, "delta": delta}
            noise = calibrate(with_noise, **asked, neighboring_relation=event.relation, low=noise_of(ran)).value
            ways.append(f"this {'risk' if risk else 'pair'} with noise_multiplier={noise!r}")
    what = f"epsilon={epsilon!r}, delta={delta!r}: this {known}"
    if risk:
        what = f"{', '.join(f'{name}={rate!r}' for name, rate in risk.items())} would follow from {what}"
    return FalseClaimError(f"{what}; {', or '.join(ways)}")
