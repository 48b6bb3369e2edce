"""``enclose_delta``, ``enclose_epsilon``: two proved numbers, one from below and one from above."""

from __future__ import annotations

import time
from fractions import Fraction
from typing import Any

from evr._basics import validate
from evr._estimate.results import Enclosure
from evr._kernel.events import Composition
from evr._kernel.events.attained import is_attained
from evr._kernel.events.relations import Relation


def enclose_delta(
    event: Any,
    epsilon: float,
    *,
    direction: str | None = None,
    neighboring_relation: Relation | None = None,
    unit: str | None = None,
    tolerance: float = 5e-4,
) -> Enclosure:
    """Enclose delta(epsilon) of everything that ran between two proved numbers.

    Given that the event describes what ran, ensures ``delta(epsilon) <= upper`` for every training of the description
    (docs/guarantees_strict.md); and, where the result is ``attained``, ``delta(epsilon) >= lower`` for some training of
    the description on some pair of neighbours, all steps' outputs taken as released (docs/guarantees_lower.md).

    Parameters
    ----------
    event
        A ``DpEvent`` tree.
    epsilon
        At least 0, and finite.
    direction, neighboring_relation, unit
        As of ``evr.estimate_delta``.
    tolerance
        How far either bound may be from delta, as a share of it.

    Returns
    -------
    Enclosure
        Both bounds, and what the lower one is about.

    Raises
    ------
    UnsupportedEventError
        If some mechanism has no exact law here, or none under the relation, or is a selection among several runs.
    AccuracyError, ValueError, TypeError
        As of ``evr.estimate_delta``.

    Examples
    --------
    >>> import evr
    >>> event = evr.dpsgd(noise_multiplier=1.0, sampling_probability=1e-3, steps=1000)
    >>> print(evr.enclose_delta(event, epsilon=0.5))
    [2.05...e-10, 2.05...e-10]
    """
    composition = Composition.of(event, neighboring_relation, unit)
    return _enclosed("delta", event, composition, validate.level(epsilon=epsilon), direction, tolerance)


def enclose_epsilon(
    event: Any,
    delta: float,
    *,
    direction: str | None = None,
    neighboring_relation: Relation | None = None,
    unit: str | None = None,
    tolerance: float = 5e-4,
) -> Enclosure:
    """Enclose the least epsilon for a delta between two proved numbers.

    Given that the event describes what ran, ensures ``delta(upper) <= delta``; and, where the result is ``attained``,
    that no epsilon below ``lower`` is enough for some training of the description.

    Parameters
    ----------
    delta
        Above 0 and below 1.
    event, direction, neighboring_relation, unit, tolerance
        As of ``evr.enclose_delta``.

    Returns
    -------
    Enclosure
        Both bounds; the upper one is infinite where no epsilon is enough.

    Raises
    ------
    UnsupportedEventError, AccuracyError, ValueError, TypeError
        As of ``evr.enclose_delta``.

    Examples
    --------
    >>> import evr
    >>> event = evr.dpsgd(noise_multiplier=1.0, sampling_probability=1e-3, steps=1000)
    >>> print(evr.enclose_epsilon(event, delta=1e-9))
    [0.4111..., 0.4111...]
    """
    composition = Composition.of(event, neighboring_relation, unit)
    return _enclosed("epsilon", event, composition, validate.open_probability(delta=delta), direction, tolerance)


def _enclosed(
    wanted: str, event: Any, composition: Composition, at: float, direction: str | None, tolerance: float
) -> Enclosure:
    from evr._kernel.strict import rounded_up
    from evr._plan.directions import strict_delta, strict_delta_below, strict_epsilon, strict_epsilon_below

    start = time.perf_counter()
    given = (composition, at, direction, tolerance)
    if wanted == "delta":
        (lower, _), winner = strict_delta_below(*given)
        upper, _ = strict_delta(*given)
    else:
        least, winner = strict_epsilon_below(*given)
        lower, (upper, _) = Fraction(least), strict_epsilon(*given)
    return Enclosure(
        lower=max(0.0, -rounded_up(-lower)),
        upper=upper,
        attained=is_attained(event, composition),
        direction=winner.value,
        seconds=time.perf_counter() - start,
    )
