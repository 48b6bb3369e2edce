"""From a case to the event that it describes."""

from __future__ import annotations

from typing import Any

from dp_accounting import dp_event

from evr import events


def event_of(case: dict[str, Any]) -> dp_event.DpEvent:
    """The composition of the case's parts."""
    parts = [dp_event.SelfComposedDpEvent(_step(part), part["count"]) for part in case["parts"]]
    return parts[0] if len(parts) == 1 else dp_event.ComposedDpEvent(parts)


def _step(part: dict[str, Any]) -> dp_event.DpEvent:
    kind, q = part["mechanism"], part.get("sampling_probability", 1.0)
    if kind == "gaussian_users":
        return events.PoissonSampledUsersDpEvent(part["noise_multiplier"], q, part["records_per_user"])
    step: dp_event.DpEvent
    if kind == "gaussian":
        step = dp_event.GaussianDpEvent(part["noise_multiplier"])
    elif kind == "laplace":
        step = dp_event.LaplaceDpEvent(part["noise_multiplier"])
    elif kind == "discrete_laplace":
        step = dp_event.DiscreteLaplaceDpEvent(part["noise_parameter"], part["sensitivity"])
    elif kind == "discrete_gaussian":
        step = events.DiscreteGaussianDpEvent(part["sigma"], part["sensitivity"])
    elif kind == "gaussian_mixture":
        step = dp_event.MixtureOfGaussiansDpEvent(part["standard_deviation"], part["values"], part["probabilities"])
    elif kind == "randomized_response":
        step = dp_event.RandomizedResponseDpEvent(part["noise_parameter"], part["num_buckets"])
    else:
        step = events.EpsilonDeltaDpEvent(part["epsilon"], part["delta"])
    return step if q == 1.0 else dp_event.PoissonSampledDpEvent(q, step)
