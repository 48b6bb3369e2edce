"""Which data sets are neighbours: three relations and their names (docs/guarantees_relations.md, Section R1)."""

from __future__ import annotations

from typing import TypeAlias

from dp_accounting import NeighboringRelation

from evr.errors import OtherRelationError

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


def not_under(
    what: str, relation: NeighboringRelation, event: object, only: NeighboringRelation | None = None
) -> OtherRelationError:
    """The error that says under which relation there are laws, if under any."""
    name = None if only is None else name_of(only)
    remedy = f"; it has one under {name!r}: neighboring_relation={name!r} (--adjacency {name})" if name else ""
    return OtherRelationError(f"{what} has no law under {name_of(relation)!r} adjacency here{remedy}", event, only)
