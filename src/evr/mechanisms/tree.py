"""The one walker of event trees: ``walk`` names the mechanisms of a ``DpEvent`` in reading order, and says where
repetitions begin and end. ``leaves`` counts them.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple, TypeAlias

from dp_accounting import NeighboringRelation, dp_event

from evr import validate
from evr.errors import UnsupportedEventError
from evr.laws import Pairs
from evr.mechanisms.descriptor import unsupported
from evr.mechanisms.registry import MECHANISMS, known
from evr.mechanisms.relations import ADD_OR_REMOVE, REPLACE_ONE, ZERO_OUT, not_under
from evr.mechanisms.sampling import NON_PRIVATE_PAIRS, SAMPLED, SELECTED, Sampling, Selecting, part_of, sampled_already
from evr.mechanisms.schemes import ZeroOutDpEvent


class Visited(NamedTuple):
    """A mechanism that runs, in all repetitions together so many times; None is one that costs nothing."""

    pairs: Pairs | None
    times: int


class Begin(NamedTuple):
    """Begins a part that is repeated, up to the matching ``End``."""

    repeats: int
    path: str


class End(NamedTuple):
    """A repetition ends."""


def walk(event: Any, relation: NeighboringRelation = ADD_OR_REMOVE) -> Iterator[Visited | Begin | End]:
    """The mechanisms in reading order, and where repetitions begin and end. Sampled ones are named once, whole.

    Walks into parts are on a stack of their own: trees may be deeper than Python's.
    """
    stack: list[tuple[_Walking, list[Visited | Begin | End] | None, bool]]
    stack, answer = [(_Walk(relation).through(event, _Place("event")), None, False)], None
    while stack:
        walking, inside, is_apart = stack[-1]
        try:
            found, answer = walking.send(answer), None
        except StopIteration:
            stack.pop()
            answer = inside if is_apart else None
            continue
        if isinstance(found, _Into):
            stack.append((found.walking, [] if found.apart else inside, found.apart))
        elif inside is None:
            yield found
        else:
            inside.append(found)


class _Into(NamedTuple):
    """A walk through a part: goes on in the walk around it, or ``apart`` is its answer."""

    walking: _Walking
    apart: bool = False


_Walking: TypeAlias = "Generator[Visited | Begin | End | _Into, list[Visited | Begin | End] | None, None]"


class _Place(NamedTuple):
    """Where in a tree an event is, how often it runs there, and what it is a part of."""

    path: str
    times: int = 1
    around: Sampling | Selecting | None = None
    settled: bool = False  # as of `Mechanism.laws_under`

    def below(self, name: str = "event") -> _Place:
        return self._replace(path=f"{self.path}.{name}")


class _Walk:
    def __init__(self, relation: NeighboringRelation) -> None:
        self.relation = relation
        self.units: dict[str, str] = {}  # whose data each mechanism protects, and which is the first

    def through(self, event: Any, place: _Place) -> _Walking:
        path, times, around, settled = place
        node = known(event, path)
        if type(node) is dp_event.SelfComposedDpEvent:
            with _at(path):
                repeats = validate.positive_integer(count=node.count)
                times = validate.positive_integer(count=times * repeats)
            yield Begin(repeats, path)
            yield _Into(self.through(node.event, place.below()._replace(times=times)))
            yield End()
        elif type(node) is dp_event.ComposedDpEvent:
            with _at(path):
                events = validate.sequence(events=node.events)
            for i, child in enumerate(events):
                yield _Into(self.through(child, place.below(f"events[{i}]")))
        elif type(node) is ZeroOutDpEvent:
            if self.relation is not ZERO_OUT:
                raise not_under(f"{type(node).__name__} at {path}", self.relation, node, ZERO_OUT)
            yield _Into(self.through(node.event, place.below()))
        elif type(node) in (*SELECTED, *SAMPLED):
            with _at(path):
                part = part_of(node, path, self.relation, around)
            if part is None:
                yield _Into(self.through(node.event, place.below()))
                return
            if isinstance(part, Sampling) and not settled:  # records are sampled, whatever the mechanism is about
                self._check_unit("record", node, path)
            inside = yield _Into(self.through(node.event, place.below()._replace(times=1, around=part)), apart=True)
            yield Visited(part.pairs(list(_counted(iter(inside or [])))), times)
        else:
            found, settled = self._translated(node, place)
            if isinstance(found, dp_event.DpEvent):  # an event that stands for this one
                yield _Into(self.through(found, place._replace(settled=settled)))
            else:
                yield Visited(found, times)

    def _translated(self, node: Any, place: _Place) -> tuple[Pairs | dp_event.DpEvent | None, bool]:
        """The pairs of a mechanism, an event that stands for it, or None if it is free; and whether that is settled."""
        path, _, around, settled = place
        if type(node) is dp_event.NoOpDpEvent:
            return None, settled
        if type(node) is dp_event.NonPrivateDpEvent:
            return NON_PRIVATE_PAIRS, settled
        if not isinstance(node, dp_event.DpEvent):
            raise TypeError(
                f"{validate.shown(node)} at {path} is not a DpEvent (it is a {type(node).__name__}): give one of "
                "dp_accounting's events, or what evr.dpsgd(...) or evr.events.from_jax_privacy(plan) returns"
            )
        mechanism = MECHANISMS.get(type(node))
        if mechanism is None:
            supported = ", ".join(sorted(cls.__name__ for cls in MECHANISMS))
            raise unsupported(node, path, f"{node!r}. Mechanisms that evr knows: {supported}, and what you register")
        if isinstance(around, Sampling) and not mechanism.takes_sampling:
            raise sampled_already(node, path)
        if mechanism.unit is not None and not settled:
            self._check_unit(mechanism.unit, node, path)
        if isinstance(around, Sampling) and self.relation is REPLACE_ONE:
            around.check_replaced(node)
        with _at(path):
            found = mechanism.laws_under(node, self.relation, settled=settled)
        if not isinstance(found, Pairs | dp_event.DpEvent):
            raise TypeError(
                f"the translator of {type(node).__name__} at {path} returned {validate.shown(found)}: let it return "
                "Pairs, or an event that stands for this one (NonPrivateDpEvent() if it has no privacy)"
            )
        return found, settled or mechanism.relation is not None

    def _check_unit(self, unit: str, node: Any, path: str) -> None:
        """Refuse a mechanism whose unit is not that of those before it."""
        self.units.setdefault(unit, type(node).__name__)
        if len(self.units) > 1:
            said = " and ".join(f"{name} bounds what one {one} adds" for one, name in self.units.items())
            why = f"{said}, and a guarantee has one unit. Describe every mechanism for users, or none"
            raise unsupported(node, path, why)


def leaves(event: Any, relation: NeighboringRelation = ADD_OR_REMOVE) -> Iterator[tuple[Pairs, int]]:
    """Every mechanism of the tree with its multiplicity."""
    return _counted(walk(event, relation))


def _counted(visits: Iterator[Visited | Begin | End]) -> Iterator[tuple[Pairs, int]]:
    for visit in visits:
        if isinstance(visit, Visited) and visit.pairs is not None:
            yield visit.pairs, visit.times


@contextmanager
def _at(path: str) -> Iterator[None]:
    """An error about a value also says where in the tree it is."""
    try:
        yield
    except UnsupportedEventError:
        raise
    except (ValueError, TypeError) as error:
        raise type(error)(f"{error} (at {path})" if path != "event" else str(error)) from None
