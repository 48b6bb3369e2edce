"""Which event is which pair: one line for each mechanism. Composition and sampling are in ``composition.py``.

A translator returns the pairs of its event, or another event that stands for it (a scheme that amounts to Poisson
sampling, say), or None for a mechanism without privacy.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dp_accounting import dp_event

from evr.laws import Pairs
from evr.mechanisms import (
    balls_in_bins,
    discrete_gaussian,
    discrete_laplace,
    epsilon_delta,
    events,
    gaussian,
    laplace,
    matrix_mechanism,
    min_sep,
    mixture,
    randomized_response,
)

Translator = Callable[[Any], Pairs | dp_event.DpEvent | None]

MECHANISMS: dict[type[dp_event.DpEvent], Translator] = {
    dp_event.GaussianDpEvent: gaussian.pairs,
    dp_event.LaplaceDpEvent: laplace.pairs,
    dp_event.MixtureOfGaussiansDpEvent: mixture.pairs,
    dp_event.RandomizedResponseDpEvent: randomized_response.pairs,
    dp_event.DiscreteLaplaceDpEvent: discrete_laplace.pairs,
    events.DiscreteGaussianDpEvent: discrete_gaussian.pairs,
    events.EpsilonDeltaDpEvent: epsilon_delta.pairs,
    events.BallsInBinsDpEvent: balls_in_bins.fixed,
    events.RedrawnBinsDpEvent: balls_in_bins.redrawn,
    events.CyclicPoissonDpEvent: matrix_mechanism.cyclic_poisson,
    events.BMinSepDpEvent: min_sep.pairs,
    events.MatrixMechanismDpEvent: matrix_mechanism.matrix_mechanism,
}


def register(event_type: type[dp_event.DpEvent], translator: Translator) -> None:
    """Teach evr a mechanism: ``translator(event)`` returns its ``Pairs``, another event that stands for it, or None if
    it has no privacy at all.

    See ``docs/extending.md`` for a worked example.
    """
    if not (isinstance(event_type, type) and issubclass(event_type, dp_event.DpEvent)):
        raise TypeError(f"event_type={event_type!r} is not a subclass of DpEvent")
    MECHANISMS[event_type] = translator
