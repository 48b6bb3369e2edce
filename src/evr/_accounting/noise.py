"""Events by their noise: the same event with other noise."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import attrs
from dp_accounting.dp_event import (
    DpEvent,
    GaussianDpEvent,
    PoissonSampledDpEvent,
    SampledWithoutReplacementDpEvent,
    SelfComposedDpEvent,
)

_AROUND = (SelfComposedDpEvent, PoissonSampledDpEvent, SampledWithoutReplacementDpEvent)
_NOISE = ("noise_multiplier", "sigma", "standard_deviation")  # fields that are a deviation


def other_noise(event: Any) -> Callable[[float], Any] | None:
    """The event by its noise multiplier; None where it is not one Gaussian mechanism, sampled and repeated."""
    around = []
    while isinstance(event, _AROUND):
        around.append(event)
        event = event.event
    if not isinstance(event, GaussianDpEvent) or not event.noise_multiplier > 0:
        return None

    def with_noise(noise: float) -> DpEvent:
        found: DpEvent = GaussianDpEvent(noise)
        for outer in reversed(around):
            found = attrs.evolve(outer, event=found)
        return found

    return with_noise


def noise_of(event: Any) -> float:
    """The noise multiplier of such an event."""
    while isinstance(event, _AROUND):
        event = event.event
    return float(event.noise_multiplier)


def scaled_noise(event: Any, factor: float) -> DpEvent:
    """The event with all its noise multiplied, each number rounded to twelve digits; what has no noise is refused."""
    if hasattr(event, "events"):
        return attrs.evolve(event, events=[scaled_noise(one, factor) for one in event.events])
    if hasattr(event, "event"):
        return attrs.evolve(event, event=scaled_noise(event.event, factor))
    for name in _NOISE:
        if hasattr(event, name):
            return attrs.evolve(event, **{name: float(f"{factor * getattr(event, name):.12g}")})
    raise ValueError(f"{event!r} has no noise to scale: calibrate the mechanisms that have, for what the rest leaves")


def noise_in(event: Any) -> list[float]:
    """The noise of each mechanism of an event, in reading order, as ``scaled_noise`` finds it."""
    inside = getattr(event, "events", [event.event] if hasattr(event, "event") else [])
    own = [float(getattr(event, name)) for name in _NOISE if hasattr(event, name)]
    return [noise for one in inside for noise in noise_in(one)] if inside else own
