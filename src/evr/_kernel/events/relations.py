"""The relations of neighbours by name (docs/guarantees_relations.md, R1), and what the table of meanings is
made of: what a mechanism means under a relation, or why it means nothing there.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from dp_accounting import NeighboringRelation, dp_event

from evr._kernel.pairs import Pairs

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
    remedy = f"give one of {', '.join(map(repr, NAMES))}, or dp_accounting's relation"
    raise ValueError(f"neighboring_relation={value!r} is not known: {remedy}")


def name_of(relation: NeighboringRelation) -> str:
    return next(name for name, one in NAMES.items() if one is relation)


Laws: TypeAlias = Pairs | dp_event.DpEvent
"""The laws of a mechanism, or an event that stands for it."""
Translator: TypeAlias = Callable[[Any], Laws]

NON_PRIVATE = dp_event.NonPrivateDpEvent()
"""The event that stands for a mechanism without any privacy."""


@dataclass(frozen=True)
class Hypothesis:
    """What is assumed of whoever ran a mechanism: an id for files, and what follows "It is assumed that"."""

    id: str
    sentence: str


@dataclass(frozen=True)
class Meaning:
    """What a mechanism means under a relation: whose data is protected (``"record"``, ``"user"``; None where
    it may be either), by which theorem, under which hypotheses. ``pair`` translates an event to its laws,
    None for what wraps other events; ``instead`` is the relation that is taken in place of this one where
    none was asked for.
    """

    relation: NeighboringRelation
    unit: str | None
    theorem: str
    hypotheses: tuple[Hypothesis, ...]
    pair: Translator | None = None
    instead: NeighboringRelation | None = None


@dataclass(frozen=True)
class Refused:
    """Why a mechanism has no law under a relation, and what to do. ``instead`` is as of ``Meaning``."""

    relation: NeighboringRelation
    why: str
    remedy: str
    instead: NeighboringRelation | None = None


@dataclass(frozen=True)
class Variant:
    """Some events of a class, with their answer under each relation: those for which ``holds`` is true and,
    of events that wrap others, whose mechanisms are all of a kind in ``inside``.

    ``kind`` is what wrappers have to know of a mechanism; ``meanings.md`` says which kinds there are.
    """

    subject: str
    kind: str
    answers: Mapping[NeighboringRelation, Meaning | Refused]
    holds: Callable[[Any], bool] = lambda event: True
    inside: frozenset[str] | None = None

    @property
    def meanings(self) -> list[Meaning]:
        return [one for one in self.answers.values() if isinstance(one, Meaning)]


@dataclass(frozen=True, eq=False)
class Mechanism:
    """A class of events and its variants, of which the first that fits an event counts. For a registered one
    that names no relation another event may stand (``stands_for``), which then answers; ``hypotheses`` are
    its own.
    """

    event: type[dp_event.DpEvent]
    variants: tuple[Variant, ...]
    hypotheses: tuple[Hypothesis, ...] = ()
    stands_for: Callable[[Any, NeighboringRelation], dp_event.DpEvent | None] = lambda event, relation: None
    is_registered: bool = False

    @property
    def takes_sampling(self) -> bool:
        """Whether records may be sampled; not where the event itself says who takes part."""
        return self.variants[0].kind != "scheme"
