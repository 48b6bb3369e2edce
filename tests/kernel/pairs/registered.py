"""A mechanism of somebody else's, registered for one test."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import attr
from dp_accounting import dp_event

import evr
from evr._kernel.events import MECHANISMS
from evr._kernel.pairs import Pairs


@attr.s(frozen=True, slots=True, auto_attribs=True)
class OwnDpEvent(dp_event.DpEvent):
    number: int = 0


@contextmanager
def registered(pairs: Pairs) -> Iterator[OwnDpEvent]:
    """The event of a mechanism with these laws."""
    evr.register(OwnDpEvent, lambda event: pairs)
    try:
        yield OwnDpEvent()
    finally:
        del MECHANISMS[OwnDpEvent]
