"""Every mechanism that evr knows, which events of other modules mean the same, and what is inside of one."""

import dataclasses
from collections import deque
from collections.abc import Iterator
from typing import Any

import attr
from dp_accounting import dp_event

from evr._basics import validate
from evr._kernel.events import schemes
from evr._kernel.events.relations import Mechanism
from evr.errors import UnsupportedEventError

MECHANISMS: dict[type[dp_event.DpEvent], Mechanism] = {}
"""By their classes: those of the table of meanings, which adds them, and registered ones."""


def unsupported(node: object, path: str, why: str) -> UnsupportedEventError:
    return UnsupportedEventError(f"unsupported {type(node).__name__} at {path}: {why}", node)


def not_an_event(node: object, path: str = "event") -> TypeError:
    """The error that says what to give instead, in one line."""
    cls = type(node)
    if cls.__module__.partition(".")[0] == "jax_privacy":
        remedy = "give evr.events.from_jax_privacy(config) of its configuration"
        return TypeError(f"{cls.__name__} of JAX Privacy at {path} is not a DpEvent: {remedy}")
    why = f"{validate.shown(node)} at {path} is not a DpEvent (it is a {cls.__name__})"
    return TypeError(f"{why}: give one of dp_accounting's, or what evr.dpsgd(...) returns")


def is_writable(event: type[dp_event.DpEvent]) -> bool:
    """Whether attrs made the class itself: of one that only inherits from such a class, attrs knows inherited
    fields alone, and a certificate would leave the others out.
    """
    return "__attrs_attrs__" in vars(event)


def written_fields(event: type[dp_event.DpEvent]) -> list[Any]:
    """The attrs fields of an event's class that it is built of, and by which it is written down."""
    return [one for one in attr.fields(event) if one.init] if is_writable(event) else []


SHARED = {
    name: value
    for module in (dp_event, schemes)
    for name, value in vars(module).items()
    if isinstance(value, type) and issubclass(value, dp_event.DpEvent) and value is not dp_event.DpEvent
    if is_writable(value)
}
"""The classes of dp_accounting and ours by name, as they were when evr was imported."""


def is_event(value: object) -> bool:
    """Whether a value calls itself a ``DpEvent``, of whichever release."""
    return any(one.__name__ == "DpEvent" for one in type(value).__mro__[1:])


def known(event: Any, path: str = "event") -> Any:
    """An event whose class has the name and the fields of one of dp_accounting's or ours, made anew of that
    class (docs/guarantees.md, 1.7); any other event as it is. One with a known name and other fields is
    refused.

    >>> class GaussianDpEvent(dp_event.DpEvent):
    ...     pass
    >>> known(GaussianDpEvent())
    Traceback (most recent call last):
    ...
    evr.errors.UnsupportedEventError: unsupported GaussianDpEvent at event: ...
    """
    cls = type(event)
    if cls in MECHANISMS or not is_event(event):
        return event
    ours = SHARED.get(cls.__name__)
    if ours is schemes.RandomAllocationDpEvent and "event" in (_field_names(cls) or ()):
        ours = schemes.AllocatedDpEvent  # dp_accounting's event of that name
    if ours is None or ours is cls:
        return event
    wanted, found = {one.alias for one in written_fields(ours)}, _field_names(cls)
    if found is not None and found.keys() == wanted and not issubclass(cls, ours):
        return ours(**{alias: getattr(event, name) for alias, name in found.items()})
    name = f"{ours.__module__}.{ours.__name__}"
    listed = [", ".join(sorted(names)) or "none" for names in (found or ["unknown"], wanted)]
    why = f"Its fields are {listed[0]}; wanted are {listed[1]}"
    if issubclass(cls, ours):
        why = f"Its class is derived from {name}"
    remedy = f"If it means the same as {name}, give that; if not, give its class another name (evr.register)"
    raise unsupported(event, path, f"{event!r}. {why}. {remedy}")


def _field_names(cls: type) -> dict[str, str] | None:
    """The attributes of a class by the names under which it is built of them, if it says so."""
    if "__attrs_attrs__" in vars(cls):
        return {one.alias: one.name for one in attr.fields(cls)}
    if "__dataclass_fields__" in vars(cls):
        return {one.name: one.name for one in dataclasses.fields(cls)}
    return None


_SEVERAL = (list, tuple, set, frozenset, deque)


def events_in(node: Any) -> list[Any]:
    """The events that an event is made of, in reading order."""
    if isinstance(node, dp_event.ComposedDpEvent | schemes.OneOfDpEvent):
        if isinstance(node.events, Iterator):
            raise TypeError(f"events={validate.shown(node.events)} can be read only once: give a list")
        return validate.sequence(events=node.events)
    values = [getattr(node, one.name) for one in written_fields(type(node))]
    items = [item for value in values for item in (value if isinstance(value, _SEVERAL) else [value])]
    return [item for item in items if is_event(item)]


def are_several(event: Any) -> bool:
    """Whether an event holds several mechanisms, or one several times, at any depth."""
    todo = [event]
    while todo:
        node = known(todo.pop())
        inner = events_in(node)
        repeats = getattr(node, "count", 1), getattr(node, "num_steps", 1)
        if len(inner) > 1 or (inner and repeats != (1, 1)):
            return True
        todo += inner
    return False
