"""Every mechanism that evr knows, a line each, and the names of events in JSON.

Composition and sampling are in ``composition.py``.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import attr
from dp_accounting import dp_event

from evr.errors import UnsupportedEventError
from evr.mechanisms import (
    balls_in_bins,
    epochs,
    epsilon_delta,
    matrix_mechanism,
    min_sep,
    mixture,
    noise,
    randomized_response,
    schemes,
    truncated,
    users,
)
from evr.mechanisms.descriptor import Mechanism

MECHANISMS: dict[type[dp_event.DpEvent], Mechanism] = {
    mechanism.event: mechanism
    for mechanism in (
        *noise.MECHANISMS,
        randomized_response.MECHANISM,
        *epsilon_delta.MECHANISMS,
        mixture.MECHANISM,
        balls_in_bins.MECHANISM,
        balls_in_bins.REDRAWN,
        balls_in_bins.ALLOCATION,
        matrix_mechanism.CYCLIC_POISSON,
        min_sep.MECHANISM,
        matrix_mechanism.MECHANISM,
        epochs.TREE_AGGREGATION,
        epochs.SHUFFLED_BATCHES,
        truncated.MECHANISM,
        *users.MECHANISMS,
    )
}


def is_writable(event: type[dp_event.DpEvent]) -> bool:
    """Whether attrs made the class itself.

    Of a class that only inherits from such a one, attrs knows the inherited fields. The others would be left out of a
    certificate, and another event built from it than the one that ran.
    """
    return "__attrs_attrs__" in vars(event)


def written_fields(event: type[dp_event.DpEvent]) -> list[Any]:
    """The attrs fields of an event's class that it is built of, and by which it is written down."""
    return [one for one in attr.fields(event) if one.init] if is_writable(event) else []


def event_name(event_type: type[dp_event.DpEvent]) -> str:
    """The name of an event's class in JSON, with the module unless it is dp_accounting's or ours."""
    if event_type.__module__ in (dp_event.__name__, schemes.__name__):
        return event_type.__name__
    return f"{event_type.__module__}.{event_type.__qualname__}"


def event_classes() -> Mapping[str, type[dp_event.DpEvent]]:
    """Every class of events that may be built from JSON, by name.

    >>> event_classes()["GaussianDpEvent"](1.5)
    GaussianDpEvent(noise_multiplier=1.5)
    """
    return _named(tuple(MECHANISMS))


_SHARED = [
    value
    for module in (dp_event, schemes)
    for value in vars(module).values()
    if isinstance(value, type) and issubclass(value, dp_event.DpEvent) and value is not dp_event.DpEvent
]
"""The classes of dp_accounting and ours, as they were when evr was imported."""


@lru_cache(maxsize=4)
def _named(registered: tuple[type[dp_event.DpEvent], ...]) -> dict[str, type[dp_event.DpEvent]]:
    return {event_name(cls): cls for cls in [*_SHARED, *registered] if is_writable(cls)}


def known(event: Any, path: str = "event") -> Any:
    """An event whose class has the name and the fields of one of dp_accounting's or ours, made anew of that class; any
    other event as it is.

    Such twins come from another release of dp_accounting, from a module that was loaded twice, and from classes that
    were pickled by value. To take one for ours is sound as far as it means the same, which no code can see. It rests on
    three things. (1) A twin calls itself a ``DpEvent``, and dp_accounting's ``dp_event.py`` promises that the meaning
    of a class and of its parameters never changes; so the events of two releases with one name and the same fields mean
    the same. (2) A parameter may be added, and then the default may be a case that ours does not cover: that of
    ``DiscreteGaussianDpEvent.dimension`` is "unknown". So the fields have to be the very same, in a class that names
    all of them (attrs or dataclass). (3) Whoever derives a class from a known one means something else, whatever its
    name: it is not a twin. Registered classes make no
    such promise, and have no twins: one that is defined again is registered again.

    Raises
    ------
    UnsupportedEventError
        For an event with a known name and other fields.

    Examples
    --------
    >>> class GaussianDpEvent(dp_event.DpEvent):
    ...     pass
    >>> known(GaussianDpEvent())
    Traceback (most recent call last):
    ...
    evr.errors.UnsupportedEventError: unsupported GaussianDpEvent at event: ...
    """
    cls = type(event)
    if cls in MECHANISMS or not any(one.__name__ == "DpEvent" for one in cls.__mro__[1:]):
        return event
    ours = event_classes().get(cls.__name__)
    if ours is None or ours is cls:
        return event
    wanted = {one.alias for one in written_fields(ours)}
    found = _field_names(cls)
    if found is None or found.keys() != wanted or issubclass(cls, ours):
        raise UnsupportedEventError(
            f"unsupported {cls.__name__} at {path}: {event!r}. {_difference(cls, ours, found)}. If "
            f"it means the same as {ours.__module__}.{ours.__name__}, give that; if not, give its "
            "class another name and teach evr what it means (evr.register)",
            event,
        )
    return ours(**{alias: getattr(event, name) for alias, name in found.items()})


def _field_names(cls: type) -> dict[str, str] | None:
    """The attributes of a class by the names under which it is built of them, if it says so."""
    if "__attrs_attrs__" in vars(cls):
        return {one.alias: one.name for one in attr.fields(cls)}
    if "__dataclass_fields__" in vars(cls):
        return {one.name: one.name for one in dataclasses.fields(cls)}
    return None


def _difference(cls: type, ours: type[dp_event.DpEvent], found: dict[str, str] | None) -> str:
    """Why a class with a known name is not known."""
    if issubclass(cls, ours):
        return f"Its class is derived from {ours.__module__}.{ours.__name__}"
    wanted = ", ".join(sorted(one.alias for one in written_fields(ours))) or "none"
    if found is None:
        return f"Its class is made neither by attrs nor as a dataclass; wanted are fields {wanted}"
    return f"Its fields are {', '.join(sorted(found)) or 'none'}; wanted are {wanted}"
