"""Everything that evr knows about one mechanism: laws, a table in spec files, words in statements.

The file of each mechanism defines its ``MECHANISM``, and ``registry.py`` lists them.
``evr.register`` makes one of a mechanism of yours. Composition asks a descriptor for laws, spec
files ask it for fields, certificates for words and assumptions: none of them knows a mechanism by
name.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import attr
from dp_accounting import NeighboringRelation, dp_event

from evr.laws import Pairs
from evr.mechanisms.relations import ADD_OR_REMOVE, ZERO_OUT, not_under

Translator = Callable[[Any], Pairs | dp_event.DpEvent]

NON_PRIVATE = dp_event.NonPrivateDpEvent()
"""The event that stands for a mechanism without any privacy."""

KEYS = ("type", "kind", "repeat")
"""Names that mean something in files: the class of an event in JSON, two keys
of every spec table.
"""


@dataclass(frozen=True, eq=False)
class Mechanism:
    """One mechanism.

    Attributes
    ----------
    event
        A subclass of ``DpEvent``, made by attrs.
    laws
        The translator: the event's ``Pairs``, or another event that stands for it, which is
        ``NonPrivateDpEvent()`` if the mechanism has no privacy at all.
    kind
        Its name in spec files; by default the name of the event's class, ``NoisyAlarmDpEvent``
        being ``noisy_alarm``.
    fields
        Types and defaults (``...`` for none) of fields in a spec file, where the attrs fields of
        the class do not say them.
    words
        The event in words, as they stand in a statement: ``"a Gaussian mechanism (noise multiplier
        1)"``. By default the name of the class and the fields.
    assumptions
        What a statement assumes of whoever ran the mechanism, each a clause that follows "It
        assumes that". Without any, those of the event that stands for it.
    takes_sampling
        Whether its table in a spec file may have ``sampling_probability``. It may not where the
        event itself says who takes part.
    relation
        Under which relation of neighbours its laws hold, a function of the event. Without it, that
        of the event which stands for it, and adding or removing one record where laws are given.
        Laws under that relation serve zeroing out too, unless ``under`` says otherwise.
    under
        Translators for other relations; None refuses one.

    Examples
    --------
    >>> mechanism = Mechanism(dp_event.LaplaceDpEvent, lambda event: NON_PRIVATE)
    >>> mechanism.kind, [one.alias for one in mechanism.event_fields]
    ('laplace', ['noise_multiplier'])
    """

    event: type[dp_event.DpEvent]
    laws: Translator
    kind: str = ""
    fields: Mapping[str, tuple[Any, Any]] = field(default_factory=dict)
    words: Callable[[Any], str] | None = None
    assumptions: Sequence[str] = ()
    takes_sampling: bool = True
    relation: Callable[[Any], NeighboringRelation] | None = None
    under: Mapping[NeighboringRelation, Translator | None] = field(default_factory=dict)

    def laws_under(
        self, event: Any, relation: NeighboringRelation, *, settled: bool = False
    ) -> Pairs | dp_event.DpEvent:
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

    def __post_init__(self) -> None:
        name = getattr(self.event, "__name__", repr(self.event))
        if not (isinstance(self.event, type) and issubclass(self.event, dp_event.DpEvent)):
            raise TypeError(f"event_type={self.event!r} is not a subclass of DpEvent")
        for role in ("laws", "words", "relation"):
            value = getattr(self, role)
            if not callable(value) and (role == "laws" or value is not None):
                called = "translator" if role == "laws" else role
                raise TypeError(f"{called}={value!r} of {name} is not a function of the event")
        if self.kind and not re.fullmatch("[a-z][a-z0-9_]*", self.kind):
            raise ValueError(
                f"kind={self.kind!r} is not a name: give lower-case letters, digits and underscores"
            )
        if isinstance(self.assumptions, str) or not all(
            _is_clause(one) for one in self.assumptions
        ):
            raise ValueError(
                f"assumptions={self.assumptions!r} of {name} are not clauses: give a tuple of "
                "texts in one line each"
            )
        own = {one.alias for one in self.event_fields}
        if taken := own & set(KEYS):
            raise ValueError(
                f"{name} has a field {min(taken)!r}, which means something else in files: name it "
                "otherwise"
            )
        if unknown := self.fields.keys() - own:
            raise ValueError(
                f"fields: {name} has no field {min(unknown)!r}, but "
                f"{', '.join(sorted(own)) or 'none'}"
            )
        object.__setattr__(self, "kind", self.kind or "_".join(_parts(self.event)).lower())
        object.__setattr__(self, "assumptions", tuple(self.assumptions))

    @property
    def event_fields(self) -> list[Any]:
        """The attrs fields that an event is built of."""
        return written_fields(self.event)

    @property
    def name(self) -> str:
        """What it is called in words, if it has none of its own: ``"discrete Gaussian"``."""
        return " ".join(part if part in _PROPER else part.lower() for part in _parts(self.event))


_PROPER = ("Gaussian", "Gaussians", "Laplace", "Poisson")


def is_writable(event: type[dp_event.DpEvent]) -> bool:
    """Whether attrs made the class itself.

    Of a class that only inherits from such a one, attrs knows the inherited fields. The others
    would be left out of a certificate, and another event built from it than the one that ran.
    """
    return "__attrs_attrs__" in vars(event)


def written_fields(event: type[dp_event.DpEvent]) -> list[Any]:
    """The attrs fields of an event's class that it is built of, and by which it is written down."""
    return [one for one in attr.fields(event) if one.init] if is_writable(event) else []


def _is_clause(text: Any) -> bool:
    return isinstance(text, str) and text.strip() != "" and text.isprintable()


def _parts(event: type) -> list[str]:
    """The words of which the name of an event's class consists.

    >>> class BMinSepDpEvent: ...
    >>> _parts(BMinSepDpEvent)
    ['B', 'Min', 'Sep']
    """
    name = event.__name__.removesuffix("DpEvent").strip("_") or event.__name__
    return re.split(r"_|(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", name)
