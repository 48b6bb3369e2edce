"""Which event is which pair: one line for each mechanism. Composition and sampling are in ``composition.py``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dp_accounting import dp_event

from evr.laws.line.pair import Pairs
from evr.mechanisms import (
    discrete_gaussian,
    discrete_laplace,
    epsilon_delta,
    events,
    gaussian,
    laplace,
    mixture,
    randomized_response,
)

Translator = Callable[[Any], Pairs | None]

MECHANISMS: dict[type[dp_event.DpEvent], Translator] = {
    dp_event.GaussianDpEvent: gaussian.pairs,
    dp_event.LaplaceDpEvent: laplace.pairs,
    dp_event.MixtureOfGaussiansDpEvent: mixture.pairs,
    dp_event.RandomizedResponseDpEvent: randomized_response.pairs,
    dp_event.DiscreteLaplaceDpEvent: discrete_laplace.pairs,
    events.DiscreteGaussianDpEvent: discrete_gaussian.pairs,
    events.EpsilonDeltaDpEvent: epsilon_delta.pairs,
}


def register(event_type: type[dp_event.DpEvent], translator: Translator) -> None:
    """Teach evr a mechanism: ``translator(event)`` returns its ``Pairs``, or None if it has no privacy at all.

    See ``docs/extending.md`` for a worked example.
    """
    if not (isinstance(event_type, type) and issubclass(event_type, dp_event.DpEvent)):
        raise TypeError(f"event_type={event_type!r} is not a subclass of DpEvent")
    MECHANISMS[event_type] = translator
