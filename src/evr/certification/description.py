"""What a training was, as whoever ran it describes it: a title, the unit that is protected, and the
numbers that people state.

None of it is believed. The numbers have to fit the event, which alone is accounted for: a
description that does not is refused. They only ever choose the words of a statement.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from fractions import Fraction
from typing import Any

from dp_accounting import dp_event

from evr import validate
from evr.certification.text_rules import NAME_IN_WORDS, is_name
from evr.numbers import typed

DPSGD = "DP-SGD"
UNITS = ("example", "user", "client")
_SPELLED_OUT = 6  # phases of a training
NUMBERS = ("algorithm", "dataset_size", "batch_size", "epochs")
"""What has to fit the event."""
KEYS = ("title", "unit", *NUMBERS)


def description_of(given: Mapping[str, Any] | None, event: dp_event.DpEvent) -> dict[str, Any]:
    """A description with all its keys, checked by itself and against the event.

    >>> from evr.mechanisms.registry import MECHANISMS
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
    if whole["title"] is not None and not is_name(whole["title"]):
        shown = validate.shown(whole["title"])
        raise ValueError(f"description: title={shown} is not a title: {NAME_IN_WORDS}")
    if whole["unit"] is not None:
        validate.one_of(UNITS, unit=whole["unit"])
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


def _check(given: dict[str, Any], event: dp_event.DpEvent) -> None:
    """Raise if the numbers of a description do not fit the event."""
    phases = _phases(event)
    if phases is None:
        raise ValueError("description: the event is not that of DP-SGD, sampled Gaussian noise")
    size, batch, epochs = given["dataset_size"], given["batch_size"], given["epochs"]
    if (batch is not None or epochs is not None) and len(phases) > 1:
        raise ValueError(
            f"description: batch_size and epochs are of one phase, and the event has {len(phases)}"
        )
    (step, count), *_ = phases
    if batch is not None:
        if size is None:
            raise ValueError(f"description: batch_size={batch} needs dataset_size")
        if isinstance(step, dp_event.SampledWithoutReplacementDpEvent):
            fits = (step.sample_size, step.source_dataset_size) == (batch, size)
        else:
            fits = _rate(step) == batch / size
        if not fits:
            raise ValueError(
                f"description: batch_size={batch:,} of dataset_size={size:,} is not the sampling "
                f"of the event, {_sampling(step)}"
            )
    if epochs is not None:
        rate = Fraction(_rate(step)) if batch is None else Fraction(batch, size)
        steps = math.ceil(Fraction(epochs) / rate) if rate else 0
        if steps != count:
            raise ValueError(
                f"description: epochs={epochs!r} are {steps:,} steps, and the event has {count:,}"
            )


def trained(event: dp_event.DpEvent, given: Mapping[str, Any]) -> str | None:
    """DP-SGD in the words of its description, or None where the event has to speak for itself."""
    phases = _phases(event)
    if given["algorithm"] is None or phases is None or len(phases) > _SPELLED_OUT:
        return None
    unit = f"{given['unit']}s" if given["unit"] not in (None, "example") else "records"
    return f"{DPSGD} ({'; then '.join(_phase(*one, given, unit) for one in phases)})"


def _phase(step: Any, count: int, given: Mapping[str, Any], unit: str) -> str:
    drawn = _sampling(step)
    if given["batch_size"] is not None:
        how = (
            "by Poisson sampling"
            if isinstance(step, dp_event.PoissonSampledDpEvent)
            else "without replacement"
        )
        drawn = f"batches of {given['batch_size']:,} of {given['dataset_size']:,} {unit} {how}"
    steps = f"{count:,} {'step' if count == 1 else 'steps'}"
    if given["epochs"] is not None:
        steps = f"{typed(given['epochs'])} {'epoch' if given['epochs'] == 1 else 'epochs'}"
    noise = step if isinstance(step, dp_event.GaussianDpEvent) else step.event
    return f"{drawn}, {steps}, noise multiplier {typed(noise.noise_multiplier)}"


def _sampling(step: Any) -> str:
    if isinstance(step, dp_event.SampledWithoutReplacementDpEvent):
        return (
            f"batches of {step.sample_size:,} of {step.source_dataset_size:,} records without "
            "replacement"
        )
    rate = _rate(step)
    return "full batches" if rate == 1 else f"Poisson sampling with probability {typed(rate)}"


def _rate(step: Any) -> float:
    """How likely a record is in a batch."""
    if isinstance(step, dp_event.SampledWithoutReplacementDpEvent):
        return step.sample_size / step.source_dataset_size
    if isinstance(step, dp_event.PoissonSampledDpEvent):
        return float(step.sampling_probability)
    return 1.0


def _phases(event: dp_event.DpEvent) -> list[tuple[dp_event.DpEvent, int]] | None:
    """The steps of a DP-SGD training, each with its count; None if the event is another."""
    parts = event.events if isinstance(event, dp_event.ComposedDpEvent) else [event]
    found = []
    for part in parts:
        step, count = part, 1
        if isinstance(part, dp_event.SelfComposedDpEvent):
            step, count = part.event, part.count
        sampled = isinstance(
            step, dp_event.PoissonSampledDpEvent | dp_event.SampledWithoutReplacementDpEvent
        )
        if not isinstance(step.event if sampled else step, dp_event.GaussianDpEvent):
            return None
        found.append((step, count))
    return found or None
