"""What whoever ran a training says of it: a title, the protected unit, and the numbers that people state.

Numbers that do not fit the event are refused; the others choose the words of a statement, and nothing else.
"""

import math
from collections.abc import Callable, Mapping
from fractions import Fraction
from functools import partial
from typing import Any, NamedTuple

from dp_accounting import dp_event

from evr._basics import validate
from evr._basics.numbers import typed
from evr._certificate.event_json import named
from evr._certificate.sections import DescriptionSection
from evr._kernel.events.meaning import unit_of, units_about
from evr._kernel.events.schemes import FixedBatchUsersDpEvent, PoissonSampledUsersDpEvent, RandomAllocationDpEvent
from evr._wording.events import counted
from evr.types import Unit

DPSGD = "DP-SGD"
UNITS = tuple(map(str, Unit))
RECORDS = (None, Unit.RECORD, Unit.EXAMPLE)  # units that are one record
_NUMBERS = ("algorithm", "dataset_size", "batch_size", "epochs")  # which have to fit the event
_SPELLED_OUT = 6  # phases of a training


def description_of(given: Mapping[str, Any], event: dp_event.DpEvent) -> DescriptionSection:
    """A description, checked by itself and against the event.

    >>> step = dp_event.PoissonSampledDpEvent(256 / 60000, dp_event.GaussianDpEvent(1.1))
    >>> event = dp_event.SelfComposedDpEvent(step, 3516)
    >>> size = {"dataset_size": 60000, "batch_size": 256, "epochs": 15}
    >>> description_of(size, event).algorithm
    'DP-SGD'
    >>> description_of({**size, "epochs": 14}, event)
    Traceback (most recent call last):
    ...
    ValueError: description: epochs=14.0 are 3,282 steps, and the event has 3,516
    """
    checks: dict[str, Callable[..., Any]] = {
        "algorithm": partial(validate.one_of, (DPSGD,)),
        "title": named,
        "unit": partial(validate.one_of, units_of(event)),
        "dataset_size": validate.positive_integer,
        "batch_size": validate.positive_integer,
        "epochs": validate.positive,
        "false_positive_rate": validate.open_probability,
    }
    for key in given.keys() - checks.keys():
        raise ValueError(f"description: {key!r} is not one of {', '.join(map(repr, checks))}")
    said = {key: checks[key](**{key: value}) for key, value in given.items() if value is not None}
    if said.keys() & set(_NUMBERS):
        said["algorithm"] = DPSGD
    found = DescriptionSection(**said)
    if found.algorithm is not None:
        _check(found, event)
    return found


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


def _check(given: DescriptionSection, event: dp_event.DpEvent) -> None:
    """Raise if the numbers of a description do not fit the event."""
    phases = phases_of(event)
    if not phases:
        raise ValueError("description: the event is not that of DP-SGD, sampled Gaussian noise")
    size, batch, epochs = given.dataset_size, given.batch_size, given.epochs
    if (batch is not None or epochs is not None) and len(phases) > 1:
        raise ValueError(f"description: batch_size and epochs are of one phase, and the event has {len(phases)}")
    phase = phases[0]
    if batch is not None:
        if size is None:
            raise ValueError(f"description: batch_size={batch} needs dataset_size")
        if (phase.rate != batch / size and phase.participations is None) or phase.batch not in (None, (batch, size)):
            wrong = f"description: batch_size={batch:,} of dataset_size={size:,} is not the sampling of the event"
            raise ValueError(f"{wrong}, {_sampling(phase)}")
    if epochs is not None:
        rate = Fraction(phase.rate) if batch is None else Fraction(batch, size)
        steps = math.ceil(Fraction(epochs) / rate) if rate else 0
        if steps != phase.steps or phase.participations not in (None, epochs):
            raise ValueError(f"description: epochs={epochs!r} are {steps:,} steps, and the event has {phase.steps:,}")


def trained(event: dp_event.DpEvent, given: DescriptionSection) -> str | None:
    """DP-SGD in the words of its description, or None where the event has to speak for itself."""
    phases = [] if given.algorithm is None else phases_of(event)
    if not 0 < len(phases) <= _SPELLED_OUT:
        return None
    return f"{DPSGD} ({'; then '.join(_phase(one, given) for one in phases)})"


def _phase(phase: Phase, given: DescriptionSection) -> str:
    drawn = _sampling(phase)
    size = given.dataset_size or 0
    batch = given.batch_size or (round(phase.rate * size) if phase.rate < 1 else 0)
    if size and phase.rate == batch / size and phase.batch is None and phase.participations is None:
        owned = phase.records_per_user is not None or given.unit in RECORDS
        unit = "records" if owned else f"{given.unit}s"
        drawn = f"batches of {batch:,} of {size:,} {unit} by Poisson sampling"
    steps = counted(phase.steps, "step") if given.epochs is None else counted(given.epochs, "epoch")
    noise = f"noise multiplier {typed(phase.noise_multiplier)}"
    owns = "" if phase.records_per_user is None else f", at most {counted(phase.records_per_user, 'record')} per user"
    if phase.user_norm is not None:
        owns += f", clipped together to {counted(phase.user_norm, 'clipping norm')}"
    return f"{drawn}, {steps}, {noise}{owns}"


def _sampling(phase: Phase) -> str:
    if phase.batch is not None:
        return "batches of {:,} of {:,} records without replacement".format(*phase.batch)
    if phase.participations is not None:
        return f"each record in {phase.participations:,} batches of all, at random"
    if phase.rate == 1:
        return "full batches"
    return f"Poisson sampling with probability {typed(phase.rate)}"


def protected(event: dp_event.DpEvent, given: str | None) -> str:
    """The unit of what a certificate or a budget promises about an event: a record (an example is one), a user or a
    client. Promises about different units do not compose.
    """
    named = units_of(event)[0] if given is None else validate.one_of(units_of(event), unit=given)
    return "record" if named in RECORDS else named


def is_about_users(event: dp_event.DpEvent) -> bool:
    """Whether the event bounds what users add, not records."""
    return unit_of(event) == "user"


def units_of(event: dp_event.DpEvent) -> tuple[str, ...]:
    """The units that a promise about an event may have; the first where nobody says."""
    return units_about(unit_of(event))
