"""Goes through ``DpEvent`` trees, and names their mechanisms in reading order."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple, TypeAlias

from dp_accounting import NeighboringRelation, dp_event

from evr._basics import validate
from evr._kernel.events import sampling
from evr._kernel.events.meaning import refusal, row_of, unit_of
from evr._kernel.events.registry import MECHANISMS, events_in, known, unsupported
from evr._kernel.events.relations import ADD_OR_REMOVE, REPLACE_ONE, Meaning, Refused
from evr._kernel.events.schemes import AllocatedDpEvent, OneOfDpEvent
from evr._kernel.pairs import Pairs
from evr.errors import OtherRelationError, UnsupportedEventError


class Visited(NamedTuple):
    """A mechanism and how often it runs, all repetitions counted; ``pairs`` is None if it costs nothing."""

    pairs: Pairs | None
    times: int


class Begin(NamedTuple):
    """Begins a part that is repeated, up to the matching ``End``."""

    repeats: int
    path: str


class End(NamedTuple):
    """A repetition ends."""


class Node(NamedTuple):
    """An event, its path and its count; a ``settled`` one stands for one that has said its relation, and
    whose data it bounds.
    """

    event: Any
    path: str = "event"
    times: int = 1
    settled: bool = False

    def below(self, event: Any, name: str = "event", **changes: Any) -> Node:
        return self._replace(event=event, path=f"{self.path}.{name}", **changes)


class EndOfPart(NamedTuple):
    """Ends a sampled or selected part: its mechanisms are known now, and it is one mechanism itself. Of those
    ``instead`` it is made, if there are any.
    """

    part: sampling.Sampling | sampling.Selecting
    times: int
    instead: list[tuple[Pairs, int]] | None


_Item: TypeAlias = Node | EndOfPart | Visited | Begin | End


class Walk:
    """Goes through event trees under a relation, which all have one unit."""

    def __init__(self, relation: NeighboringRelation, units: Mapping[str, str] | None = None) -> None:
        self.relation = relation
        self.units = dict(units or {})  # whose data is protected, and by which mechanism first
        self.inside = list[list[tuple[Pairs, int]]]()  # the mechanisms of each part around

    def visits(self, event: Any) -> Iterator[Visited | Begin | End]:
        """The mechanisms in reading order, sampled ones whole, and where repetitions begin and end."""
        # a stack: trees may be deeper than Python's
        todo: list[_Item] = [event if isinstance(event, Node) else Node(event)]
        while todo:
            item = todo.pop()
            if isinstance(item, Node):
                todo += reversed(self.opened(item))
                continue
            if isinstance(item, EndOfPart):
                inner = self.inside.pop()
                item = Visited(item.part.pairs(inner if item.instead is None else item.instead), item.times)
            if not self.inside:
                yield item
            elif isinstance(item, Visited) and item.pairs is not None:
                self.inside[-1].append((item.pairs, item.times))

    def counts(self, event: Any) -> list[tuple[Pairs, int]]:
        """Every mechanism of the tree with its multiplicity."""
        visits = (one for one in self.visits(event) if isinstance(one, Visited))
        return [(one.pairs, one.times) for one in visits if one.pairs is not None]

    def opened(self, node: Node) -> list[_Item]:
        """What is at a node: nodes below, mechanisms, and where repetitions and parts begin and end."""
        path, times = node.path, node.times
        event = known(node.event, path)
        if type(event) is dp_event.SelfComposedDpEvent:
            with _at(path):
                repeats = validate.positive_integer(count=event.count)
                times = validate.positive_integer(count=times * repeats)
            return [Begin(repeats, path), node.below(event.event, times=times), End()]
        if type(event) is dp_event.ComposedDpEvent:
            with _at(path):
                return [node.below(child, f"events[{i}]") for i, child in enumerate(events_in(event))]
        if type(event) is dp_event.NoOpDpEvent:
            return [Visited(None, times)]
        if type(event) is dp_event.NonPrivateDpEvent:
            return [Visited(sampling.NON_PRIVATE_PAIRS, times)]
        if type(event) in (*sampling.SELECTED, *sampling.SAMPLED):
            with _at(path):
                part = sampling.part_of(event, path, self.relation)
            self._meaning(event, node)
            if part is None:
                return [node.below(event.event)]
            self.inside.append([])
            inner = node.below(event.event, times=1)
            return [inner, EndOfPart(part, times, _norms(inner) if part.takes_norms else None)]
        if type(event) in (OneOfDpEvent, AllocatedDpEvent):
            self._meaning(event, node)
            with _at(path):
                return self._grouped(event, node)
        return [self._translated(event, node)]

    def _translated(self, event: Any, node: Node) -> _Item:
        """A mechanism with its pairs, or the event that stands for it, or what a wrapper holds."""
        mechanism = MECHANISMS.get(type(event))
        with _at(node.path):
            other = mechanism and mechanism.stands_for(event, self.relation)
        if other is not None:
            return node._replace(event=other)
        translator = self._meaning(event, node).pair
        if translator is None:
            return node.below(event.event)
        with _at(node.path):
            found = translator(event)
        if isinstance(found, dp_event.DpEvent):
            return node._replace(event=found, settled=True)
        if isinstance(found, Pairs):
            self._check_symmetric(found, event, node.path)
            return Visited(found, node.times)
        why = f"the translator of {type(event).__name__} at {node.path} returned {validate.shown(found)}"
        raise TypeError(f"{why}: let it return Pairs, or an event (NonPrivateDpEvent() if it has no privacy)")

    def _grouped(self, event: Any, node: Node) -> list[_Item]:
        """One of several groups, each a tree of its own; or groups that stand for an allocation."""
        if type(event) is AllocatedDpEvent:
            return [node._replace(event=sampling.blocks_of(event))]
        children = sampling.groups_of(event)
        if len(children) == 1:
            return [node.below(children[0], "events[0]")]
        walked = dict[int, tuple[tuple[Pairs, int], ...]]()  # many groups may be one object
        for number, child in enumerate(children):
            if id(child) not in walked:
                walk = Walk(self.relation, self.units)
                below = node.below(child, f"events[{number}]", times=1)
                walked[id(child)] = tuple(walk.counts(below))
                self.units |= walk.units
        groups = Counter(walked[id(child)] for child in children)
        found = sampling.one_of(event, node.path, groups)
        self._check_symmetric(found, event, node.path)
        return [Visited(found, node.times)]

    def _meaning(self, event: Any, node: Node) -> Meaning:
        """What an event means here, or an error that says why it means nothing."""
        answer = row_of(event, self.relation, node.path, settled=node.settled).answer
        if isinstance(answer, Refused):
            raise refusal(event, answer, node.path)
        own = MECHANISMS.get(type(event))
        # laws that somebody registered may be made of those of other events, which say whose data they bound
        unit = (own and own.is_registered and unit_of(event)) or answer.unit
        if unit is not None and not node.settled:
            self._check_unit(unit, event, node.path)
        return answer

    def _check_symmetric(self, pairs: Pairs | None, event: Any, path: str) -> None:
        """Refuse different laws of the directions under replace-one (guarantees_relations, R1.3)."""
        if self.relation is REPLACE_ONE and pairs is not None and pairs.remove != pairs.add:
            why = "its two directions differ, and a record and its replacement may change places"
            raise unsupported(event, path, f"{why}. Give Pairs.both(law), with a law above both")

    def _check_unit(self, unit: str, event: Any, path: str) -> None:
        """Refuse a mechanism whose unit is not that of those before it."""
        self.units.setdefault(unit, type(event).__name__)
        if len(self.units) > 1:
            said = " and ".join(f"{name} bounds what one {one} adds" for one, name in self.units.items())
            remedy = "Describe every mechanism for users, or none"
            raise unsupported(event, path, f"{said}, and a guarantee has one unit. {remedy}")


def _norms(node: Node) -> list[tuple[Pairs, int]]:
    """The laws that say what a record adds."""
    try:
        return Walk(ADD_OR_REMOVE).counts(node)
    except OtherRelationError as error:
        why = "Sampled under replace-one, a record adds what its law under 'add-or-remove' says"
        raise OtherRelationError(f"{error}. {why}: register that, too", error.event) from None


@contextmanager
def _at(path: str) -> Iterator[None]:
    """Adds the path in the tree to errors about a value."""
    try:
        yield
    except UnsupportedEventError:
        raise
    except (ValueError, TypeError) as error:
        raise type(error)(f"{error} (at {path})" if path != "event" else str(error)) from None
