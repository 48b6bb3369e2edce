"""Every method of evr on one question, and how a peer's answer relates to evr's own."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from evr.errors import UnsupportedEventError
from evr.estimation.api import directions_of, estimate_delta, estimate_epsilon
from evr.estimation.inversion import solve_epsilon
from evr.estimation.results import Estimate, UpperBound
from evr.mechanisms import Composition
from evr.mechanisms.relations import Relation

_ROUNDING = 1e-9  # relative; a bound that misses by no more has only rounded


@dataclass(frozen=True)
class MethodResult:
    """What one method says.

    Attributes
    ----------
    method
        Its name.
    kind
        ``"estimate"`` or ``"upper bound"``.
    value
        The delta or epsilon; None if the method does not apply.
    seconds
        Time taken.
    reason
        Why there is no value.
    """

    method: str
    kind: str
    value: float | None
    seconds: float
    reason: str | None = None


def every_method(
    event: Any,
    *,
    epsilon: float | None = None,
    delta: float | None = None,
    direction: str | None = None,
    neighboring_relation: Relation | None = None,
) -> list[MethodResult]:
    """delta at ``epsilon``, or epsilon at ``delta`` (give one), by each method in turn."""
    where: dict[str, Any] = {
        "direction": direction,
        "neighboring_relation": neighboring_relation,
    }

    def estimated(method: str) -> Estimate | UpperBound:
        if epsilon is not None:
            return estimate_delta(event, epsilon, method=method, **where)
        assert delta is not None
        return estimate_epsilon(event, delta, method=method, **where)

    def bounded() -> float:
        composition = Composition.of(event, neighboring_relation)
        return _edgeworth_bound(composition, epsilon, delta, direction)

    return [
        _timed("fft", "estimate", lambda: estimated("fft").value),
        _timed("strict", "upper bound", lambda: estimated("strict").value),
        _timed("gdp", "estimate", lambda: estimated("gdp").value),
        _timed("edgeworth", "estimate", lambda: estimated("edgeworth").value),
        _timed("edgeworth", "upper bound", bounded),
        _timed("rdp", "upper bound", lambda: estimated("rdp").value),
        _timed("monte_carlo", "estimate", lambda: estimated("monte_carlo").value),
    ]


def _timed(method: str, kind: str, compute: Callable[[], float]) -> MethodResult:
    start = time.perf_counter()
    try:
        return MethodResult(method, kind, compute(), time.perf_counter() - start)
    except UnsupportedEventError as error:
        return MethodResult(method, kind, None, time.perf_counter() - start, str(error))


def _edgeworth_bound(
    composition: Composition, epsilon: float | None, delta: float | None, direction: str | None
) -> float:
    from evr.estimation.edgeworth import EdgeworthCurve

    curves = [
        EdgeworthCurve(composition.steps(one)) for one in directions_of(composition, direction)
    ]

    def bound(at: float) -> float:
        return max(curve.upper_delta(at) for curve in curves)

    if epsilon is not None:
        return bound(epsilon)
    assert delta is not None
    if delta in (0.0, 1.0):
        return 0.0 if delta == 1.0 or not composition.remove else math.inf
    return solve_epsilon(bound, delta)


def fails_as_bound(kind: str, value: float, ours: Estimate) -> bool:
    """Whether a value that claims to be a bound lies on the wrong side of evr's estimate by more
    than errors explain.
    """
    slack = max(ours.error or 0.0, _ROUNDING * ours.value)
    if kind == "upper bound":
        return value < ours.value - slack
    return kind == "lower bound" and value > ours.value + slack
