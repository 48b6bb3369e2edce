"""From a ``DpEvent`` tree to the laws of each direction with their counts.

``walk`` names the mechanisms of a tree in reading order, and where repetitions begin and end. A ``Composition`` counts
them. An ordered pair of neighbours has the same direction at every step, so each direction composes by itself; the
greater of the two curves is taken at the end, and directions are never mixed across steps.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, TypeAlias

from dp_accounting import NeighboringRelation, dp_event

from evr import validate
from evr.errors import OtherRelationError, UnsupportedEventError
from evr.laws import NON_PRIVATE_PAIR, Direction, Pairs, Step, merged, simplify
from evr.laws.selection import Selection
from evr.mechanisms.registry import MECHANISMS, known, not_an_event, unsupported
from evr.mechanisms.relations import ADD_OR_REMOVE, REPLACE_ONE, ZERO_OUT, Relation, name_of, not_under, relation_named
from evr.mechanisms.sampling import NON_PRIVATE_PAIRS, SAMPLED, SELECTED, Sampling, Selecting, part_of, sampled_already
from evr.mechanisms.schemes import ZeroOutDpEvent


class Visited(NamedTuple):
    """A mechanism and how often it runs, all repetitions counted; ``pairs`` is None where it costs nothing."""

    pairs: Pairs | None
    times: int


class Begin(NamedTuple):
    """Begins a part that is repeated, up to the matching ``End``."""

    repeats: int
    path: str


class End(NamedTuple):
    """A repetition ends."""


class _Place(NamedTuple):
    """An event of the tree: where it is, how often it runs, and which sampled or selected part it belongs to."""

    event: Any
    path: str = "event"
    times: int = 1
    around: Sampling | Selecting | None = None
    settled: bool = False  # as of `Mechanism.laws_under`

    def below(self, event: Any, name: str = "event", **changes: Any) -> _Place:
        return self._replace(event=event, path=f"{self.path}.{name}", **changes)


class _Part(NamedTuple):
    """Ends a sampled or selected part: its mechanisms are known now, and it is one mechanism itself."""

    part: Sampling | Selecting
    times: int


_Found: TypeAlias = "_Place | _Part | Visited | Begin | End"


def walk(event: Any, relation: NeighboringRelation = ADD_OR_REMOVE) -> Iterator[Visited | Begin | End]:
    """The mechanisms in reading order, and where repetitions begin and end. Sampled ones are named once, whole."""
    walking, todo = _Walk(relation), list[_Found]([_Place(event)])  # a stack: trees may be deeper than Python's
    while todo:
        found = todo.pop()
        if isinstance(found, _Place):
            todo += reversed(walking.opened(found))
            continue
        if isinstance(found, _Part):
            found = Visited(found.part.pairs(walking.inside.pop()), found.times)
        if not walking.inside:
            yield found
        elif isinstance(found, Visited) and found.pairs is not None:
            walking.inside[-1].append((found.pairs, found.times))


def leaves(event: Any, relation: NeighboringRelation = ADD_OR_REMOVE) -> Iterator[tuple[Pairs, int]]:
    """Every mechanism of the tree with its multiplicity."""
    for visit in walk(event, relation):
        if isinstance(visit, Visited) and visit.pairs is not None:
            yield visit.pairs, visit.times


class _Walk:
    def __init__(self, relation: NeighboringRelation) -> None:
        self.relation = relation
        self.units: dict[str, str] = {}  # whose data is protected, and by which mechanism first
        self.inside: list[list[tuple[Pairs, int]]] = []  # the mechanisms of each sampled or selected part around

    def opened(self, place: _Place) -> list[_Found]:
        """The parts of an event: places, mechanisms, and where repetitions begin and end."""
        _, path, times, around, settled = place
        node = known(place.event, path)
        if type(node) is dp_event.SelfComposedDpEvent:
            with _at(path):
                repeats = validate.positive_integer(count=node.count)
                times = validate.positive_integer(count=times * repeats)
            return [Begin(repeats, path), place.below(node.event, times=times), End()]
        if type(node) is dp_event.ComposedDpEvent:
            with _at(path):
                events = validate.sequence(events=node.events)
            return [place.below(child, f"events[{i}]") for i, child in enumerate(events)]
        if type(node) is ZeroOutDpEvent:
            if self.relation is not ZERO_OUT:
                raise not_under(f"{type(node).__name__} at {path}", self.relation, node, ZERO_OUT)
            return [place.below(node.event)]
        if type(node) in (*SELECTED, *SAMPLED):
            with _at(path):
                part = part_of(node, path, self.relation, around)
            if part is None:
                return [place.below(node.event)]
            if isinstance(part, Sampling) and not settled:  # records are sampled, whatever the mechanism is about
                self._check_unit("record", node, path)
            self.inside.append([])
            return [place.below(node.event, times=1, around=part), _Part(part, times)]
        if type(node) is dp_event.NoOpDpEvent:
            return [Visited(None, times)]
        if type(node) is dp_event.NonPrivateDpEvent:
            return [Visited(NON_PRIVATE_PAIRS, times)]
        return [self._translated(node, place)]

    def _translated(self, node: Any, place: _Place) -> _Found:
        """The pairs of a mechanism, or the place of an event that stands for it."""
        _, path, times, around, settled = place
        if not isinstance(node, dp_event.DpEvent):
            raise not_an_event(node, path)
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
            why = f"the translator of {type(node).__name__} at {path} returned {validate.shown(found)}"
            raise TypeError(f"{why}: let it return Pairs, or an event (NonPrivateDpEvent() if it has no privacy)")
        if isinstance(found, Pairs):
            return Visited(found, times)
        return place._replace(event=found, settled=settled or mechanism.relation is not None)

    def _check_unit(self, unit: str, node: Any, path: str) -> None:
        """Refuse a mechanism whose unit is not that of those before it."""
        self.units.setdefault(unit, type(node).__name__)
        if len(self.units) > 1:
            said = " and ".join(f"{name} bounds what one {one} adds" for one, name in self.units.items())
            why = f"{said}, and a guarantee has one unit. Describe every mechanism for users, or none"
            raise unsupported(node, path, why)


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
    """The steps of each direction: distinct laws, and how often each ran. Order carries no meaning here.
    ``relation`` says which data sets are neighbours.

    >>> from evr.events import dpsgd
    >>> composition = Composition.of(dpsgd(noise_multiplier=1.0, sampling_probability=0.01, steps=10**6))
    >>> [(step.count, type(step.law).__name__) for step in composition.steps(Direction.REMOVE)]
    [(1000000, 'SampledPair')]
    """

    remove: tuple[Step, ...]
    add: tuple[Step, ...]
    relation: NeighboringRelation = ADD_OR_REMOVE

    @classmethod
    def of(cls, event: dp_event.DpEvent | Composition, neighboring_relation: Relation | None = None) -> Composition:
        """Translate an event tree, or raise ``UnsupportedEventError`` that names the first sub-event without a pair.
        The relation is add-or-remove if none is given, or zero-out where some mechanism knows no other.
        """
        relation = None if neighboring_relation is None else relation_named(neighboring_relation)
        if isinstance(event, Composition):
            if relation not in (None, event.relation):
                asked, given = name_of(relation), name_of(event.relation)
                raise ValueError(f"neighboring_relation={asked!r}, the composition is under {given!r}: make another")
            return event
        try:
            return cls.from_counts(leaves(event, relation or ADD_OR_REMOVE), relation or ADD_OR_REMOVE)
        except OtherRelationError as error:
            if relation is not None or error.only is not ZERO_OUT:
                raise
            return cls.from_counts(leaves(event, ZERO_OUT), ZERO_OUT)

    @classmethod
    def from_counts(
        cls, counts: Iterable[tuple[Pairs, int]], relation: NeighboringRelation = ADD_OR_REMOVE
    ) -> Composition:
        """The composition of mechanisms with their counts; equal laws are merged, in each direction by itself."""
        parts = list(counts)
        remove, add = (merged(parts, direction) for direction in Direction)
        return cls(remove, add, relation)

    def steps(self, direction: Direction | str) -> tuple[Step, ...]:
        return self.remove if Direction(direction) is Direction.REMOVE else self.add

    def simplified(self, direction: Direction | str) -> tuple[Step, ...]:
        """The same composition in fewer steps."""
        return simplify(self.steps(direction))

    def exact(self, direction: Direction | str) -> tuple[Step, ...]:
        """As ``simplified``, for strict proofs: a law that is not known exactly is refused by name."""
        steps = self.simplified(direction)
        for step in steps:
            _ = step.exact_law
        return steps

    def exact_directions(self, direction: str | None = None) -> dict[Direction, tuple[Step, ...]]:
        """The exact laws of the direction asked for, or of both, or of one where they are the same laws."""
        if direction is not None:
            one = Direction(validate.one_of(("remove", "add"), direction=direction))
            return {one: self.exact(one)}
        steps = {one: self.exact(one) for one in Direction}
        if self.is_symmetric:
            del steps[Direction.ADD]
        return steps

    @cached_property
    def is_non_private(self) -> bool:
        """Whether some mechanism has no privacy at all."""
        return any(step.law == NON_PRIVATE_PAIR for step in self.remove)

    @cached_property
    def has_selection(self) -> bool:
        """Whether some step is the best of several runs, which no sample can be drawn of."""
        return any(isinstance(step.law, Selection) for step in self.remove)

    def check_drawn(self) -> None:
        """Refuse what no sample can be drawn of."""
        if self.has_selection:
            why = "a selection among several runs is proved from the curve of one run, and no sample is drawn of it"
            raise UnsupportedEventError(f"{why}: use method='strict', and leave the options of samples out")

    @cached_property
    def is_symmetric(self) -> bool:
        """Whether both directions are the same composition, so that one computation serves both."""
        return Counter(self.simplified(Direction.REMOVE)) == Counter(self.simplified(Direction.ADD))
