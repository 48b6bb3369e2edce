"""From a ``DpEvent`` tree to the laws of each direction with their counts.

An ordered pair of neighbours has the same direction at every step, so each direction composes by itself, and
the greater of the two curves is taken at the end; directions are never mixed across steps.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from functools import cached_property

from dp_accounting import NeighboringRelation, dp_event

from evr._basics import validate
from evr._kernel.events.meaning import relation_by_itself, units_about
from evr._kernel.events.relations import ADD_OR_REMOVE, Relation, name_of, relation_named
from evr._kernel.events.walk import Walk
from evr._kernel.pairs import Direction, Pairs, Step, is_non_private, merge_equal, simplify
from evr._kernel.pairs.grouping import grouped
from evr._kernel.pairs.nested import NestedLaw
from evr._kernel.pairs.selection import Selection
from evr.errors import OtherRelationError, UnsupportedEventError


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
        mechanisms = list(counts)
        remove, add = (merge_equal(mechanisms, direction) for direction in Direction)
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
        return any(is_non_private(step.law) for step in (*self.remove, *self.add))

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
