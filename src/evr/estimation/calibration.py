"""The least noise, or the most steps, that a target allows."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from scipy.optimize import brentq

from evr import validate
from evr.estimation.api import estimate_delta
from evr.estimation.results import Estimate
from evr.mechanisms.relations import Relation

_LEAST, _GREATEST = 1e-6, 1e9  # how far a parameter is looked for where nobody says


@dataclass(frozen=True)
class Calibration:
    """A parameter that meets the target, by the ``fft`` estimate.

    Attributes
    ----------
    parameter
        The value found: the least noise, or the most steps.
    epsilon
        The target's epsilon.
    delta
        Estimated delta at the parameter: at most the target's.
    evaluations, seconds
        What it took.
    """

    parameter: float
    epsilon: float
    delta: float
    evaluations: int
    seconds: float

    def __float__(self) -> float:
        return float(self.parameter)


def calibrate(
    make_event: Callable[[Any], Any],
    *,
    epsilon: float,
    delta: float,
    low: float | None = None,
    high: float | None = None,
    integer: bool = False,
    tolerance: float = 1e-8,
    neighboring_relation: Relation | None = None,
) -> Calibration:
    """The parameter at which ``make_event(parameter)`` just meets ``(epsilon, delta)``.

    Where estimates come from samples, delta is at most the target to within their standard error.
    Works for anything monotone: a noise multiplier (more is more private) or, with
    ``integer=True``, a number of steps (more is less private); which of the two is found out from
    the events themselves.

    Parameters
    ----------
    make_event
        From a parameter to a ``DpEvent``.
    epsilon, delta
        The target.
    low, high
        Ends of the search; found by doubling from 1 where not given.
    integer
        Search whole numbers, and return the largest (or least) that meets the target.
    tolerance
        Relative, on the parameter. The answer is on the private side.
    neighboring_relation
        As of ``evr.estimate_delta``.

    Returns
    -------
    Calibration
        The parameter on the private side, and the delta there.

    Raises
    ------
    ValueError
        If no parameter between the ends meets the target, or all do; and as of
        ``evr.estimate_delta``.

    Examples
    --------
    >>> import evr
    >>> found = evr.calibrate(
    ...     lambda s: evr.dpsgd(noise_multiplier=s, sampling_probability=0.01, steps=1000),
    ...     epsilon=1.0, delta=1e-6)
    >>> round(found.parameter, 4)
    1.5627
    """
    start = time.perf_counter()
    validate.function(make_event=make_event)
    epsilon = validate.non_negative(epsilon=epsilon)
    delta = validate.normal_delta(validate.open_probability(delta=delta))
    tolerance = validate.positive(tolerance=tolerance)
    values: dict[float, float] = {}
    errors: dict[float, float] = {}  # standard errors, relative, where estimates come from samples

    def gap(parameter: float) -> float:
        if parameter not in values:
            event = make_event(int(parameter) if integer else parameter)
            found = estimate_delta(event, epsilon, neighboring_relation=neighboring_relation)
            values[parameter] = float(found)
            if isinstance(found, Estimate) and found.standard_error:
                errors[parameter] = found.standard_error / found.value
        off = math.log(max(values[parameter], 1e-320)) - math.log(delta)
        known = errors.get(parameter, 0.0)
        return 0.0 if abs(off + known) <= known else off + known

    private, leaky = _bracket(gap, low, high, integer)
    if integer:
        while abs(private - leaky) > 1:
            middle = float((int(private) + int(leaky)) // 2)
            private, leaky = (middle, leaky) if gap(middle) <= 0 else (private, middle)
        best = private
    else:
        root = float(
            brentq(
                gap,
                min(private, leaky),
                max(private, leaky),
                xtol=1e-300,
                rtol=max(tolerance / 4, 1e-15),
            )
        )
        step = tolerance / 2 * root * (1 if private > leaky else -1)
        for _ in range(60):  # onto the private side
            if gap(root) <= 0:
                break
            root, step = root + step, 2 * step
        best = root if gap(root) <= 0 else private
    return Calibration(
        int(best) if integer else best,
        epsilon,
        values[best],
        len(values),
        time.perf_counter() - start,
    )


def _bracket(
    gap: Callable[[float], float], low: float | None, high: float | None, integer: bool
) -> tuple[float, float]:
    """A parameter that meets the target and one that does not, in this order."""
    if low is not None and high is not None:
        low, high = validate.positive(low=low), validate.positive(high=high)
        if not low < high:
            raise ValueError(f"low={low!r} is not below high={high!r}")
        ends = (low, high)
        if (gap(low) <= 0) == (gap(high) <= 0):
            state = "both meet" if gap(low) <= 0 else "neither meets"
            raise ValueError(
                f"low={low!r} and high={high!r}: {state} the target, so no parameter between is "
                "least; widen"
            )
        return ends if gap(low) <= 0 else (high, low)
    start = (
        validate.positive(low=low)
        if low is not None
        else validate.positive(high=high)
        if high is not None
        else 1.0
    )
    rising, falling = start, start
    met = gap(start) <= 0
    for _ in range(60):
        if high is None and rising <= _GREATEST:
            rising = rising * 2
            if (gap(rising) <= 0) != met:
                return (rising, rising / 2) if gap(rising) <= 0 else (rising / 2, rising)
            if (
                not met
                and gap(rising) > gap(start)
                and (low is not None or (integer and start <= 1))
            ):
                raise ValueError(
                    f"the least parameter, {start:g}, misses the target already, and greater "
                    "ones miss it by more: relax the target, or make each step more private"
                )
        if low is None and falling >= _LEAST and not (integer and falling <= 1):
            falling = max(1.0, falling // 2) if integer else falling / 2
            if (gap(falling) <= 0) != met:
                return (falling, start) if gap(falling) <= 0 else (start, falling)
    word = "meets" if met else "misses"
    raise ValueError(
        f"every parameter tried from {falling:.3g} to {rising:.3g} {word} the target: it does not "
        "depend on the parameter, or what meets it lies outside (low and high say where to look)"
    )
