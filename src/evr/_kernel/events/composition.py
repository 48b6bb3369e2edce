"""From a ``DpEvent`` tree to the laws of each direction with their counts.

``Walk`` names the mechanisms of a tree in reading order, a ``Composition`` counts them. An ordered pair of
neighbours has the same direction at every step, so each direction composes by itself, and the greater of the
two curves is taken at the end; directions are never mixed across steps.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple, TypeAlias

from dp_accounting import NeighboringRelation, dp_event

from evr._basics import validate
from evr._kernel.events import sampling
from evr._kernel.events.meaning import events_in, refusal, relation_by_itself, row_of, units_about
from evr._kernel.events.registry import MECHANISMS, in_both_orders, known, unsupported
from evr._kernel.events.relations import ADD_OR_REMOVE, Meaning, Refused, Relation, name_of, relation_named
from evr._kernel.events.schemes import AllocatedDpEvent, OneOfDpEvent
from evr._kernel.pairs import Direction, Pairs, Step, is_non_private, merged, simplify
from evr._kernel.pairs.grouping import grouped
from evr._kernel.pairs.nested import NestedLaw
from evr._kernel.pairs.selection import Selection
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
    """An event, its place and its count; a ``settled`` one stands for one that has said its relation."""

    event: Any
    path: str = "event"
    times: int = 1
    settled: bool = False

    def below(self, event: Any, name: str = "event", **changes: Any) -> Node:
        return self._replace(event=event, path=f"{self.path}.{name}", **changes)


class EndOfPart(NamedTuple):
    """Ends a sampled or selected part: its mechanisms are known now, and it is one mechanism itself."""

    part: sampling.Sampling | sampling.Selecting
    times: int


_Item: TypeAlias = Node | EndOfPart | Visited | Begin | End


class Walk:
    """Goes through event trees under a relation, which all have one unit."""

    def __init__(self, relation: NeighboringRelation, units: Mapping[str, str] | None = None) -> None:
        self.relation = relation
        self.units = dict(units or {})  # whose data is protected, and by which mechanism first
        self.inside = list[list[tuple[Pairs, int]]]()  # the mechanisms of each part around

    def visits(self, event: Any, path: str = "event") -> Iterator[Visited | Begin | End]:
        """The mechanisms in reading order, sampled ones whole, and where repetitions begin and end."""
        todo = list[_Item]([Node(event, path)])  # a stack: trees may be deeper than Python's
        while todo:
            item = todo.pop()
            if isinstance(item, Node):
                todo += reversed(self.opened(item))
                continue
            if isinstance(item, EndOfPart):
                item = Visited(item.part.pairs(self.inside.pop()), item.times)
            if not self.inside:
                yield item
            elif isinstance(item, Visited) and item.pairs is not None:
                self.inside[-1].append((item.pairs, item.times))

    def counts(self, event: Any, path: str = "event") -> list[tuple[Pairs, int]]:
        """Every mechanism of the tree with its multiplicity."""
        visits = (one for one in self.visits(event, path) if isinstance(one, Visited))
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
            return [node.below(event.event, times=1), EndOfPart(part, times)]
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
            return Visited(in_both_orders(found, event, self.relation, node.path), node.times)
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
                walked[id(child)] = tuple(walk.counts(child, f"{node.path}.events[{number}]"))
                self.units |= walk.units
        groups = Counter(walked[id(child)] for child in children)
        return [Visited(sampling.one_of(event, node.path, groups), node.times)]

    def _meaning(self, event: Any, node: Node) -> Meaning:
        """What an event means here, or an error that says why it means nothing."""
        answer = row_of(event, self.relation, node.path, settled=node.settled).answer
        if isinstance(answer, Refused):
            raise refusal(event, answer, node.path)
        if answer.unit is not None and not node.settled:
            self._check_unit(answer.unit, event, node.path)
        return answer

    def _check_unit(self, unit: str, event: Any, path: str) -> None:
        """Refuse a mechanism whose unit is not that of those before it."""
        self.units.setdefault(unit, type(event).__name__)
        if len(self.units) > 1:
            said = " and ".join(f"{name} bounds what one {one} adds" for one, name in self.units.items())
            remedy = "Describe every mechanism for users, or none"
            raise unsupported(event, path, f"{said}, and a guarantee has one unit. {remedy}")


@contextmanager
def _at(path: str) -> Iterator[None]:
    """Adds the place in the tree to errors about a value."""
    try:
        yield
    except UnsupportedEventError:
        raise
    except (ValueError, TypeError) as error:
        raise type(error)(f"{error} (at {path})" if path != "event" else str(error)) from None


@dataclass(frozen=True)
class Composition:
    """The steps of each direction: distinct laws, and how often each ran. Their order carries no meaning.
    ``relation`` says which data sets are neighbours, and ``unit`` whose data is protected: ``"record"``,
    ``"user"``, or None if nothing says. Compositions are equal if their laws and relations are.

    >>> from evr._dpsgd import dpsgd
    >>> composition = Composition.of(dpsgd(noise_multiplier=1.0, sampling_probability=0.01, steps=10**6))
    >>> [(step.count, type(step.law).__name__) for step in composition.steps(Direction.REMOVE)]
    [(1000000, 'SampledCurve')]
    """

    remove: tuple[Step, ...]
    add: tuple[Step, ...]
    relation: NeighboringRelation = ADD_OR_REMOVE
    unit: str | None = field(default=None, compare=False)

    @classmethod
    def of(
        cls,
        event: dp_event.DpEvent | Composition,
        neighboring_relation: Relation | None = None,
        unit: str | None = None,
    ) -> Composition:
        """Translate an event tree, or raise ``UnsupportedEventError`` that names the first sub-event without
        a pair. The relation is add-or-remove if none is given, or zero-out where the table of meanings has
        that instead. The ``unit``, if given, has to be one that the event's parameters bound.
        """
        relation = None if neighboring_relation is None else relation_named(neighboring_relation)
        found = event if isinstance(event, Composition) else cls._under(event, relation)
        if relation not in (None, found.relation):
            what = f"neighboring_relation={name_of(relation)!r}"
            raise ValueError(f"{what}, the composition is under {name_of(found.relation)!r}: make another")
        if unit is not None:
            validate.one_of(units_about(found.unit), unit=unit)
        return found

    @classmethod
    def _under(cls, event: dp_event.DpEvent, relation: NeighboringRelation | None) -> Composition:
        walk = Walk(relation or relation_by_itself(event))
        try:
            counts = walk.counts(event)
        except OtherRelationError as error:
            if relation is not None or walk.relation is ADD_OR_REMOVE:
                raise
            why = "No relation was asked for, and another mechanism here is under zero-out by itself"
            raise OtherRelationError(f"{error}. {why}", error.event) from None
        return replace(cls.from_counts(counts, walk.relation), unit=next(iter(walk.units), None))

    @classmethod
    def from_counts(
        cls, counts: Iterable[tuple[Pairs, int]], relation: NeighboringRelation = ADD_OR_REMOVE
    ) -> Composition:
        """The composition of mechanisms with their counts; in each direction equal laws are merged."""
        parts = list(counts)
        remove, add = (merged(parts, direction) for direction in Direction)
        return cls(remove, add, relation)

    def steps(self, direction: Direction | str) -> tuple[Step, ...]:
        return self.remove if Direction(direction) is Direction.REMOVE else self.add

    def simplified(self, direction: Direction | str) -> tuple[Step, ...]:
        """The same composition in fewer steps."""
        return simplify(self.steps(direction))

    def exact(self, direction: Direction | str) -> tuple[Step, ...]:
        """As ``simplified``, with very many kinds grouped to the safe side, for proofs of upper bounds. A law
        that is not known exactly is refused by name.
        """
        for step in self.steps(direction):
            _ = step.exact_law
        return grouped(self.simplified(direction))

    def directions(self, direction: str | None = None) -> tuple[Direction, ...]:
        """The direction asked for, or both, or one where they are the same."""
        if direction is not None:
            return (Direction(validate.one_of(Direction, direction=direction)),)
        return (Direction.REMOVE,) if self.is_symmetric else (Direction.REMOVE, Direction.ADD)

    def exact_directions(self, direction: str | None = None) -> dict[Direction, tuple[Step, ...]]:
        """The exact laws of the direction asked for, or of both, or of one where they are the same laws."""
        return {one: self.exact(one) for one in self.directions(direction)}

    @cached_property
    def is_non_private(self) -> bool:
        """Whether some mechanism has no privacy at all."""
        return any(is_non_private(step.law) for step in self.remove)

    @cached_property
    def is_never_drawn(self) -> bool:
        """Whether some step is the best of several runs, or made of compositions: no sample can be drawn."""
        return any(isinstance(step.law, Selection | NestedLaw) for step in self.remove)

    def check_drawn(self) -> None:
        """Refuse what no sample can be drawn of."""
        if self.is_never_drawn:
            what, why = "mechanisms on one sample, or in random groups, are", "the law of their composition"
            if any(isinstance(step.law, Selection) for step in self.remove):
                what = "a selection among several runs is"
                why = "the curve of one run, and no sample is drawn of it"
            remedy = "use method='strict', and leave the options of samples out"
            raise UnsupportedEventError(f"{what} proved from {why}: {remedy}")

    @cached_property
    def is_symmetric(self) -> bool:
        """Whether both directions are the same composition, so that one computation serves both."""
        return Counter(self.simplified(Direction.REMOVE)) == Counter(self.simplified(Direction.ADD))
