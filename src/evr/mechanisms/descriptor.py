"""Descriptors of mechanisms: their laws, and the relations of neighbours under which they hold.

``noise.py`` and ``training.py`` end with their ``MECHANISMS``; ``evr.register`` adds one of yours.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from dp_accounting import NeighboringRelation, dp_event

from evr.errors import UnsupportedEventError
from evr.laws import Pairs
from evr.mechanisms.relations import ADD_OR_REMOVE, ZERO_OUT, not_under

Laws: TypeAlias = Pairs | dp_event.DpEvent
"""The laws of a mechanism, or an event that stands for it."""
Translator: TypeAlias = Callable[[Any], Laws]

NON_PRIVATE = dp_event.NonPrivateDpEvent()
"""The event that stands for a mechanism without any privacy."""


def unsupported(node: object, path: str, why: str) -> UnsupportedEventError:
    return UnsupportedEventError(f"unsupported {type(node).__name__} at {path}: {why}", node)


@dataclass(frozen=True, eq=False)
class Mechanism:
    """One mechanism.

    Attributes
    ----------
    event
        A subclass of ``DpEvent``, made by attrs.
    laws
        The translator: the event's ``Pairs``, or another event that stands for it, which is ``NonPrivateDpEvent()`` if
        the mechanism has no privacy at all.
    takes_sampling
        Whether it may be applied to a sample of the records. It may not where the event itself says who takes part.
    relation
        Under which relation of neighbours its laws hold, a function of the event. Without it, that of the event which
        stands for it, and adding or removing one record where laws are given. Laws under that relation serve zeroing
        out too, unless ``under`` says otherwise.
    under
        Translators for other relations; None refuses one.
    unit
        Whose data its parameters bound: a record or a user. None where it may be either.
    """

    event: type[dp_event.DpEvent]
    laws: Translator
    takes_sampling: bool = True
    relation: Callable[[Any], NeighboringRelation] | None = None
    under: Mapping[NeighboringRelation, Translator | None] = field(default_factory=dict)
    unit: str | None = "record"

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
