"""How files and statements speak of a mechanism and of neighbours; and ``evr.register``, which teaches evr a mechanism
of yours. No law rests on what is here.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from dp_accounting import NeighboringRelation, dp_event

from evr._basics import validate
from evr._kernel.events import schemes
from evr._kernel.events.registry import MECHANISMS, SHARED, is_writable, written_fields
from evr._kernel.events.relations import ADD_OR_REMOVE, REPLACE_ONE, ZERO_OUT, Hypothesis, Mechanism, Translator
from evr._kernel.events.table import registered

DPSGD = "dpsgd"
"""The one kind in spec files without an event of its own: a sampled Gaussian mechanism, many times."""
KEYS = ("type", "kind", "repeat")
"""Names that mean something in files: the class of an event in JSON, two keys of every spec table."""

_PROPER = {one.lower(): one for one in ("Gaussian", "Gaussians", "Laplace", "Poisson", "zCDP")}
_STRATEGY = {"strategy": (Any, schemes.IDENTITY)}


class Description(NamedTuple):
    """One mechanism in files and words. The words of evr's own mechanisms are in ``evr._wording.events``."""

    kind: str
    fields: Mapping[str, tuple[Any, Any]] = {}
    words: Callable[[Any], str] | None = None


_FIELDS: dict[type[dp_event.DpEvent], Mapping[str, tuple[Any, Any]]] = {
    dp_event.DiscreteLaplaceDpEvent: {"sensitivity": (int, 1)},
    dp_event.SingleEpochTreeAggregationDpEvent: {"step_counts": (int | list[int], ...)},
    schemes.BallsInBinsDpEvent: _STRATEGY,
    schemes.CyclicPoissonDpEvent: _STRATEGY,
    schemes.BMinSepDpEvent: _STRATEGY,
    schemes.MatrixMechanismDpEvent: {"strategy": (Any, ...)},
}
_OWN: dict[Mechanism | None, Description] = {}
"""Descriptions given to ``register``."""

ADJACENCIES = {
    ADD_OR_REMOVE: "add-or-remove-one adjacency",
    REPLACE_ONE: (
        "replace-one adjacency (a record is replaced by any other, which changes a sum by up to "
        "twice the norm of one record)"
    ),
    ZERO_OUT: "zero-out adjacency (a record is replaced by one that contributes nothing)",
}
OF_USERS = {
    ADD_OR_REMOVE: "add-or-remove-one adjacency (all records of one user come or go)",
    REPLACE_ONE: "replace-one adjacency (all records of one user are replaced by others, no more than stated)",
    ZERO_OUT: "zero-out adjacency (all records of one user are replaced by ones that contribute nothing)",
}
"""The relations in words, as they stand in a statement, where records and where users are protected."""


def described(event_type: type[dp_event.DpEvent]) -> Description:
    """How files and statements speak of events of a class, whether it is registered or not."""
    own = _OWN.get(MECHANISMS.get(event_type))
    return own or Description(_kind(event_type), _FIELDS.get(event_type, {}))


def event_name(event_type: type[dp_event.DpEvent]) -> str:
    """The name of an event's class in JSON, with the module unless it is dp_accounting's or ours."""
    if event_type.__module__ in (dp_event.__name__, schemes.__name__):
        return event_type.__name__
    return f"{event_type.__module__}.{event_type.__qualname__}"


def event_class(name: str) -> type[dp_event.DpEvent] | None:
    """The class of events that JSON names so; None if there is none that may be built."""
    own = (cls for cls in MECHANISMS if is_writable(cls) and event_name(cls) == name)
    return SHARED.get(name) or next(own, None)


def adjacency(relation: NeighboringRelation, *, users: bool = False) -> str:
    """A relation in words."""
    return (OF_USERS if users else ADJACENCIES)[relation]


def name_in_words(event_type: type[dp_event.DpEvent]) -> str:
    """The name of a class of events that has no words of its own: ``"discrete Gaussian"``."""
    return " ".join(_PROPER.get(part, part) for part in _kind(event_type).split("_"))


def register(
    event_type: type[dp_event.DpEvent],
    translator: Translator,
    *,
    kind: str | None = None,
    fields: Mapping[str, tuple[Any, Any]] | None = None,
    words: Callable[[Any], str] | None = None,
    assumptions: Sequence[str] = (),
    takes_sampling: bool = True,
    adds_noise_to_a_sum: bool = False,
    relation: Callable[[Any], NeighboringRelation] | None = None,
    under: Mapping[NeighboringRelation, Translator | None] | None = None,
) -> None:
    """Teach evr a mechanism: it composes, and spec files, certificates and statements know it.

    Parameters
    ----------
    event_type
        A subclass of ``DpEvent`` of your own, made by attrs. It takes the place of one of the same name and module.
    translator
        ``translator(event)`` returns its ``Pairs``, or another event that stands for it, which is
        ``NonPrivateDpEvent()`` if the mechanism has no privacy at all.
    kind, fields, takes_sampling
        Its table in a spec file: the name (by default that of the class, ``noisy_alarm``), types and defaults where the
        class does not say them, and whether the table may have ``sampling_probability``.
    words, assumptions
        Its part of a statement: a function from the event to words, and hypotheses, clauses that follow "It is assumed
        that". Whoever replays a certificate makes its words anew, and has to register the same mechanism.
    adds_noise_to_a_sum
        Whether its output is noise added to a sum of what each record contributes by itself, so that an empty record is
        as good as an absent one. Without it, Poisson sampling of it is refused under zero-out and replace-one.
    relation
        A function from the event to the relation of neighbours, if that is not adding or removing one record.
    under
        Translators for other relations, by relation; None refuses one that the laws would serve.

    Raises
    ------
    TypeError, ValueError
        If ``event_type`` is not a class of events, or has a meaning already, or ``kind`` is taken.

    Examples
    --------
    `docs/extending.md` has one from the first line to a statement.
    """
    if not (isinstance(event_type, type) and issubclass(event_type, dp_event.DpEvent)):
        raise TypeError(f"event_type={event_type!r} is not a subclass of DpEvent")
    name = event_type.__name__
    validate.function(translator=translator)
    for role, value in (("words", words), ("relation", relation)):
        if value is not None:
            validate.function(**{role: value})
    clauses = [isinstance(one, str) and one.strip() and one.isprintable() for one in assumptions]
    if isinstance(assumptions, str) or not all(clauses):
        raise ValueError(f"assumptions={assumptions!r} are not clauses: give a tuple of texts in one line each")
    description = Description(kind or _kind(event_type), fields or {}, words)
    if not re.fullmatch("[a-z][a-z0-9_]*", description.kind):
        raise ValueError(f"kind={description.kind!r} is not a name: give lower-case letters, digits and underscores")
    own = {one.alias for one in written_fields(event_type)}
    if taken := own & set(KEYS):
        raise ValueError(f"{name} has a field {min(taken)!r}, which means something else in files: name it otherwise")
    if unknown := description.fields.keys() - own:
        raise ValueError(f"fields: {name} has no field {min(unknown)!r}, but {', '.join(sorted(own)) or 'none'}")
    others = {cls: one for cls, one in MECHANISMS.items() if event_name(cls) != event_name(event_type)}
    kinds = {DPSGD: "DP-SGD"} | {described(cls).kind: cls.__name__ for cls in others}
    if description.kind in kinds:
        raise ValueError(f"kind={description.kind!r} is taken by {kinds[description.kind]}: give {name} another")
    ids = [f"{description.kind.replace('_', '-')}-{number}" for number in range(1, len(assumptions) + 1)]
    hypotheses = tuple(map(Hypothesis, ids, assumptions))
    kind_of_law = "scheme" if not takes_sampling else "own" if adds_noise_to_a_sum else "any"
    mechanism = registered(event_type, translator, hypotheses, kind_of_law, relation, under or {})
    for older in MECHANISMS.keys() - others.keys():
        _OWN.pop(MECHANISMS.pop(older), None)
    MECHANISMS[event_type], _OWN[mechanism] = mechanism, description


def _kind(event_type: type) -> str:
    """The name of a class in a spec file: ``b_min_sep`` for ``BMinSepDpEvent``."""
    name = event_type.__name__.removesuffix("DpEvent").strip("_") or event_type.__name__
    return "zcdp" if name == "ZC" else re.sub("(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name).lower()
