"""Mechanisms, and the relations of neighbours under which they have laws (docs/guarantees_relations.md, Section R1).

``noise.py`` and ``training.py`` end with their ``MECHANISMS``; ``evr.register`` adds one of yours.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from dp_accounting import NeighboringRelation, dp_event

from evr.errors import OtherRelationError
from evr.laws import Pairs

ADD_OR_REMOVE = NeighboringRelation.ADD_OR_REMOVE_ONE
REPLACE_ONE = NeighboringRelation.REPLACE_ONE
ZERO_OUT = NeighboringRelation.REPLACE_SPECIAL

NAMES = {"add-or-remove": ADD_OR_REMOVE, "replace-one": REPLACE_ONE, "zero-out": ZERO_OUT}
"""Names of the relations in files and on the command line."""

Relation: TypeAlias = "NeighboringRelation | str"
"""A relation as callers give it: dp_accounting's, or its name."""


def relation_named(value: Relation) -> NeighboringRelation:
    if isinstance(value, NeighboringRelation):
        return value
    if isinstance(value, str) and value in NAMES:
        return NAMES[value]
    names = ", ".join(map(repr, NAMES))
    raise ValueError(f"neighboring_relation={value!r} is not known: give one of {names}, or dp_accounting's relation")


def name_of(relation: NeighboringRelation) -> str:
    return next(name for name, one in NAMES.items() if one is relation)


def not_under(what: str, asked: NeighboringRelation, event: object, only: NeighboringRelation) -> OtherRelationError:
    """The error that says under which relation there are laws."""
    name = name_of(only)
    remedy = f"it has one under {name!r}: neighboring_relation={name!r} (--adjacency {name})"
    return OtherRelationError(f"{what} has no law under {name_of(asked)!r} adjacency here; {remedy}", event, only)


Laws: TypeAlias = Pairs | dp_event.DpEvent
"""The laws of a mechanism, or an event that stands for it."""
Translator: TypeAlias = Callable[[Any], Laws]

NON_PRIVATE = dp_event.NonPrivateDpEvent()
"""The event that stands for a mechanism without any privacy."""


@dataclass(frozen=True, eq=False)
class Mechanism:
    """One mechanism: its class of events, made by attrs, and what evr knows of it.

    ``laws`` translates an event to its ``Pairs``, or to another event that stands for it, which is
    ``NonPrivateDpEvent()`` if the mechanism has no privacy at all. ``relation`` is a function from the event to the
    relation of neighbours under which they hold. Without it, that of the event which stands for it holds, and adding or
    removing one record where laws are given. Such laws serve zeroing out too, unless ``under`` says otherwise.
    """

    event: type[dp_event.DpEvent]
    laws: Translator
    takes_sampling: bool = True  # whether records may be sampled; not where the event itself says who takes part
    relation: Callable[[Any], NeighboringRelation] | None = None
    under: Mapping[NeighboringRelation, Translator | None] = field(default_factory=dict)  # None refuses a relation
    unit: str | None = "record"  # whose data its parameters bound: a record or a user; None where it may be either

    def laws_under(self, event: Any, relation: NeighboringRelation, *, settled: bool = False) -> Laws:
        """Its laws under a relation, or an error that says under which it has some.

        ``settled``: this event stands for another, which has said under which relation it holds.
        """
        if (translator := self.under.get(relation)) is not None:
            return translator(event)
        declared = None if self.relation is None or settled else self.relation(event)
        held = declared or ADD_OR_REMOVE
        serves = relation is held or (relation is ZERO_OUT and held is ADD_OR_REMOVE)
        if serves and relation not in self.under:
            return self.laws(event)
        laws = self.laws(event) if relation not in self.under and declared is None else ()
        if isinstance(laws, dp_event.DpEvent):
            return laws  # the event that stands for this one says under which relation it holds
        raise not_under(type(event).__name__, relation, event, held)
