"""``estimate_delta``, ``estimate_epsilon``, ``privacy_curve``: any composition, both directions, every method."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from evr._accounting.curves import deltas_of, estimated_epsilon
from evr._basics import validate
from evr._estimate.results import Count, Estimate, PrivacyCurve, UpperBound, counter
from evr._kernel.events import Composition
from evr._kernel.events.relations import Relation
from evr.types import EstimateMethod


def estimate_delta(
    event: Any,
    epsilon: float,
    *,
    method: str = "fft",
    direction: str | None = None,
    neighboring_relation: Relation | None = None,
    unit: str | None = None,
    **options: Any,
) -> Estimate | UpperBound:
    """Estimate delta(epsilon) of everything that ran.

    Parameters
    ----------
    event
        A ``DpEvent`` tree, or a ``Composition``.
    epsilon
        At least 0; may be infinite.
    method
        ``"fft"`` (near-exact; where a law has no pair on a line, weighted samples instead, and the estimate has a
        standard error), ``"strict"`` (an upper bound proved in exact arithmetic, near-exact too), ``"rdp"`` (an upper
        bound, up to rounding), ``"monte_carlo"``.
    direction
        ``"remove"`` or ``"add"``; by default the greater of the two.
    neighboring_relation
        ``"add-or-remove"`` (the default; ``"zero-out"`` where the event knows no other), ``"replace-one"`` or
        ``"zero-out"``, or a ``dp_accounting.NeighboringRelation``.
    unit
        Whose data is protected: ``"record"``, ``"example"``, ``"user"`` or ``"client"``. It changes no number; an event
        whose parameters bound what a user adds says nothing about records, and refuses them.
    options
        Of ``method="monte_carlo"``: ``samples``, ``relative_error``, ``proposal``, ``seed``, ``workers``. Of
        ``"strict"``: ``tolerance``, by how much of delta the bound may exceed it (5e-4).

    Returns
    -------
    Estimate or UpperBound
        The latter for ``"strict"`` and ``"rdp"``.

    Raises
    ------
    UnsupportedEventError
        If some mechanism has no law here, or none under the relation; it is named.
    AccuracyError
        If floats cannot tell delta.
    ValueError, TypeError
        If a value is out of its range, or no number.

    Examples
    --------
    >>> import evr
    >>> event = evr.dpsgd(noise_multiplier=1.0, sampling_probability=1e-3, steps=1000)
    >>> f"{evr.estimate_delta(event, epsilon=0.5).value:.4e}"
    '2.0582e-10'
    """
    epsilon = validate.level_or_infinite(epsilon=epsilon)
    composition = partial(Composition.of, event, neighboring_relation, unit)
    return _estimated("delta", event, epsilon, method, direction, composition, options)


def estimate_epsilon(
    event: Any,
    delta: float,
    *,
    method: str = "fft",
    direction: str | None = None,
    neighboring_relation: Relation | None = None,
    unit: str | None = None,
    guess: float | None = None,
    **options: Any,
) -> Estimate | UpperBound:
    """Estimate the least epsilon >= 0 at which delta(epsilon) is at most ``delta``.

    Parameters
    ----------
    delta
        From 0 to 1.
    event, method, direction, neighboring_relation, unit, options
        As of ``estimate_delta``.
    guess
        Where to look first, if that is known: it saves time.

    Returns
    -------
    Estimate or UpperBound
        The latter for ``"strict"`` and ``"rdp"``. Infinite where no epsilon is enough.

    Raises
    ------
    UnsupportedEventError, AccuracyError, ValueError, TypeError
        As of ``estimate_delta``.

    Examples
    --------
    >>> import evr
    >>> event = evr.dpsgd(noise_multiplier=1.0, sampling_probability=1e-3, steps=1000)
    >>> round(evr.estimate_epsilon(event, delta=1e-9).value, 4)
    0.4111
    """
    delta = validate.probability(delta=delta)
    if method in ("fft", "strict"):
        validate.normal_delta(delta)
    guess = None if guess is None else validate.positive(guess=guess)
    composition = partial(Composition.of, event, neighboring_relation, unit)
    return _estimated("epsilon", event, delta, method, direction, composition, options, guess)


def _estimated(
    wanted: str,
    event: Any,
    at: float,
    method: str,
    direction: str | None,
    composed: Callable[[], Composition],
    options: dict[str, Any],
    guess: float | None = None,
) -> Estimate | UpperBound:
    start = time.perf_counter()
    validate.one_of(EstimateMethod, method=method)
    composition = composed()
    found: Estimate | UpperBound
    if method == "monte_carlo":
        from evr._estimate.monte_carlo import monte_carlo_delta, monte_carlo_epsilon

        ask = monte_carlo_delta if wanted == "delta" else monte_carlo_epsilon
        found = ask(composition, at, direction, **options)
    elif method == "strict":
        from evr._plan.directions import strict_delta, strict_epsilon

        proved = strict_delta if wanted == "delta" else strict_epsilon
        bound, winning = proved(composition, at, direction, **options)
        found = UpperBound(bound, "strict", winning.value)
    elif options:
        raise TypeError(
            f"method={method!r} takes no option {sorted(options)[0]!r}: options belong to 'monte_carlo' and 'strict'"
        )
    elif method == "rdp":
        from evr._estimate.rdp import bound_by_moments

        found = UpperBound(bound_by_moments(composition, event, at, wanted, direction), "rdp", direction or "both")
    elif wanted == "delta":
        found = deltas_of(composition, direction)(at)
    else:
        found = estimated_epsilon(composition, at, guess, direction)
    return replace(found, seconds=time.perf_counter() - start)


def privacy_curve(
    event: Any,
    epsilons: Iterable[float],
    *,
    method: str = "fft",
    direction: str | None = None,
    neighboring_relation: Relation | None = None,
    unit: str | None = None,
    progress: Count | bool | None = None,
) -> PrivacyCurve:
    """Deltas for many epsilons, one pass: transforms made for one epsilon serve its neighbours.

    Parameters
    ----------
    epsilons
        Any numbers >= 0, in any order.
    event, method, direction, neighboring_relation, unit
        As of ``estimate_delta``.
    progress
        ``progress(done, total)`` is called as the work goes on; True shows a line.

    Returns
    -------
    PrivacyCurve
        The points in the order of ``epsilons``.

    Raises
    ------
    UnsupportedEventError, AccuracyError, ValueError, TypeError
        As of ``estimate_delta``.

    Examples
    --------
    >>> import evr
    >>> event = evr.dpsgd(noise_multiplier=70, sampling_probability=1, steps=1200)
    >>> curve = evr.privacy_curve(event, [0, 1, 2])
    >>> [f"{d:.3e}" for d in curve.deltas]
    ['1.954e-01', '6.396e-03', '7.772e-06']
    """
    start = time.perf_counter()
    points = [validate.level_or_infinite(epsilon=epsilon) for epsilon in validate.sequence(epsilons=epsilons)]
    falling, count = sorted(set(points), reverse=True), counter(progress)  # a transform serves smaller epsilons
    at: Callable[[float], Estimate | UpperBound]
    composition = Composition.of(event, neighboring_relation, unit)
    if method == "fft":
        at = deltas_of(composition, direction, falling)
    else:
        at = partial(
            estimate_delta,
            event,
            method=method,
            direction=direction,
            neighboring_relation=neighboring_relation,
            unit=unit,
        )
    estimates: dict[float, Estimate | UpperBound] = {}
    for done, epsilon in enumerate(falling, start=1):
        estimates[epsilon] = at(epsilon)
        count(done, len(falling))
    return PrivacyCurve(
        np.array(points),
        np.array([estimates[e].value for e in points]),
        tuple(estimates[e].direction for e in points),
        method,
        time.perf_counter() - start,
    )
