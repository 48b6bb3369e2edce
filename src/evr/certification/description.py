"""A training in the words of whoever ran it: a title, the protected unit, and the numbers that people state.

Only the event is accounted for. Numbers that do not fit the event are refused; the others choose the words of a
statement, and nothing else.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from fractions import Fraction
from typing import Any, NamedTuple

from dp_accounting import dp_event

from evr import validate
from evr.certification.event_json import named
from evr.certification.event_words import counted, is_about_users
from evr.mechanisms.schemes import FixedBatchUsersDpEvent, PoissonSampledUsersDpEvent, RandomAllocationDpEvent
from evr.numbers import typed

DPSGD = "DP-SGD"
UNITS = ("example", "user", "client")
_SPELLED_OUT = 6  # phases of a training
NUMBERS = ("algorithm", "dataset_size", "batch_size", "epochs")
"""Fields that have to fit the event."""
KEYS = ("title", "unit", *NUMBERS)


def description_of(given: Mapping[str, Any] | None, event: dp_event.DpEvent) -> dict[str, Any]:
    """A description with all its keys, checked by itself and against the event.

    >>> step = dp_event.PoissonSampledDpEvent(256 / 60000, dp_event.GaussianDpEvent(1.1))
    >>> event = dp_event.SelfComposedDpEvent(step, 3516)
    >>> size = {"dataset_size": 60000, "batch_size": 256, "epochs": 15}
    >>> description_of(size, event)["algorithm"]
    'DP-SGD'
    >>> description_of({**size, "epochs": 14}, event)
    Traceback (most recent call last):
    ...
    ValueError: description: epochs=14.0 are 3,282 steps, and the event has 3,516
    """
    given = dict(given or {})
    for key in given.keys() - set(KEYS):
        raise ValueError(f"description: {key!r} is not one of {', '.join(map(repr, KEYS))}")
    whole = {key: given.get(key) for key in KEYS}
    if whole["title"] is not None:
        named(title=whole["title"])
    if whole["unit"] is not None:
        validate.one_of(UNITS[1:] if is_about_users(event) else UNITS, unit=whole["unit"])
    for key in ("dataset_size", "batch_size"):
        if whole[key] is not None:
            whole[key] = validate.positive_integer(**{key: whole[key]})
    if whole["epochs"] is not None:
        whole["epochs"] = validate.positive(epochs=whole["epochs"])
    if any(whole[key] is not None for key in NUMBERS):
        whole["algorithm"] = DPSGD if whole["algorithm"] is None else whole["algorithm"]
        validate.one_of((DPSGD,), algorithm=whole["algorithm"])
        _check(whole, event)
    return whole


class Phase(NamedTuple):
    """A run of equal steps of DP-SGD. ``batch`` is set for batches of a fixed size."""

    steps: int
    noise_multiplier: float
    rate: float
    batch: tuple[int, int] | None = None
    records_per_user: int | None = None
    user_norm: float | None = None
    participations: int | None = None


def phases_of(event: dp_event.DpEvent) -> list[Phase]:
    """The phases of a DP-SGD training; none if the event is another."""
    if isinstance(event, dp_event.ComposedDpEvent):
        parts = [phases_of(one) for one in event.events]
        return [phase for part in parts for phase in part] if all(parts) else []
    repeated = isinstance(event, dp_event.SelfComposedDpEvent)
    step, steps = (event.event, event.count) if repeated else (event, 1)
    if isinstance(step, RandomAllocationDpEvent):
        often, number = step.participations, step.iterations
        return [Phase(steps * number, step.noise_multiplier, often / number, participations=often)]
    rate, batch, noisy = getattr(step, "sampling_probability", 1.0), None, step
    if isinstance(step, dp_event.SampledWithoutReplacementDpEvent | FixedBatchUsersDpEvent):
        batch = (step.sample_size, step.source_dataset_size)
        rate = batch[0] / batch[1]
    if isinstance(step, dp_event.PoissonSampledDpEvent | dp_event.SampledWithoutReplacementDpEvent):
        noisy = step.event
    if not isinstance(noisy, dp_event.GaussianDpEvent | PoissonSampledUsersDpEvent | FixedBatchUsersDpEvent):
        return []
    owned = getattr(step, "records_per_user", None), getattr(step, "user_norm", None)
    return [Phase(steps, noisy.noise_multiplier, rate, batch, *owned)]


def _check(given: dict[str, Any], event: dp_event.DpEvent) -> None:
    """Raise if the numbers of a description do not fit the event."""
    phases = phases_of(event)
    if not phases:
        raise ValueError("description: the event is not that of DP-SGD, sampled Gaussian noise")
    size, batch, epochs = given["dataset_size"], given["batch_size"], given["epochs"]
    if (batch is not None or epochs is not None) and len(phases) > 1:
        raise ValueError(f"description: batch_size and epochs are of one phase, and the event has {len(phases)}")
    phase = phases[0]
    if batch is not None:
        if size is None:
            raise ValueError(f"description: batch_size={batch} needs dataset_size")
        if (phase.rate != batch / size and phase.participations is None) or phase.batch not in (None, (batch, size)):
            raise ValueError(
                f"description: batch_size={batch:,} of dataset_size={size:,} is not the sampling "
                f"of the event, {_sampling(phase)}"
            )
    if epochs is not None:
        rate = Fraction(phase.rate) if batch is None else Fraction(batch, size)
        steps = math.ceil(Fraction(epochs) / rate) if rate else 0
        if steps != phase.steps or phase.participations not in (None, epochs):
            raise ValueError(f"description: epochs={epochs!r} are {steps:,} steps, and the event has {phase.steps:,}")


def trained(event: dp_event.DpEvent, given: Mapping[str, Any]) -> str | None:
    """DP-SGD in the words of its description, or None where the event has to speak for itself."""
    phases = [] if given["algorithm"] is None else phases_of(event)
    if not 0 < len(phases) <= _SPELLED_OUT:
        return None
    return f"{DPSGD} ({'; then '.join(_phase(one, given) for one in phases)})"


def _phase(phase: Phase, given: Mapping[str, Any]) -> str:
    drawn = _sampling(phase)
    if given["batch_size"] is not None and phase.batch is None and phase.participations is None:
        owned = phase.records_per_user is not None or given["unit"] in (None, "example")
        unit = "records" if owned else f"{given['unit']}s"
        drawn = f"batches of {given['batch_size']:,} of {given['dataset_size']:,} {unit} by Poisson sampling"
    steps = counted(phase.steps, "step") if given["epochs"] is None else counted(given["epochs"], "epoch")
    noise = f"noise multiplier {typed(phase.noise_multiplier)}"
    most = phase.records_per_user
    owns = "" if most is None else f", at most {counted(most, 'record')} per user"
    if phase.user_norm is not None:
        owns += f", clipped together to {counted(phase.user_norm, 'clipping norm')}"
    return f"{drawn}, {steps}, {noise}{owns}"


def _sampling(phase: Phase) -> str:
    if phase.batch is not None:
        batch, size = phase.batch
        return f"batches of {batch:,} of {size:,} records without replacement"
    if phase.participations is not None:
        return f"each record in {phase.participations:,} batches of all, at random"
    if phase.rate == 1:
        return "full batches"
    return f"Poisson sampling with probability {typed(phase.rate)}"
