"""What an event means under a relation of neighbours: its row of the table of meanings, and the hypotheses
and the unit of a whole tree. Statements, certificates, ``evr describe`` and docs/meaning.md rest on it.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, NamedTuple

from dp_accounting import NeighboringRelation, dp_event

from evr._kernel.events import relations
from evr._kernel.events.registry import (
    MECHANISMS,
    are_several,
    events_in,
    is_event,
    known,
    not_an_event,
    unsupported,
)
from evr._kernel.events.relations import (
    ADD_OR_REMOVE,
    NAMES,
    ZERO_OUT,
    Hypothesis,
    Meaning,
    Mechanism,
    Refused,
    Variant,
)
from evr._kernel.events.sampling import SAMPLED
from evr._kernel.events.table import HYPOTHESES, WRAPPERS, mechanism_of
from evr.errors import OtherRelationError
from evr.types import Unit


class Row(NamedTuple):
    """A row of the table: a mechanism or a variant of it, its class, and the answer under one relation."""

    subject: str
    event: type[dp_event.DpEvent]
    answer: Meaning | Refused


def rows() -> tuple[Row, ...]:
    """The whole table, registered mechanisms included."""
    return tuple(
        Row(variant.subject, mechanism.event, answer)
        for mechanism in (*MECHANISMS.values(), *WRAPPERS.values())
        for variant in mechanism.variants
        for answer in variant.answers.values()
    )


def row_of(event: Any, relation: NeighboringRelation, path: str = "event", *, settled: bool = False) -> Row:
    """The row of one event; a wrapper looks at what is inside where it matters. An unknown event is refused
    by name. ``settled``: it stands for another event, which has said itself under which relation it holds.
    """
    node = known(event, path)
    if not isinstance(node, dp_event.DpEvent):
        raise not_an_event(node, path)
    mechanism = mechanism_of(node)
    if mechanism is None:
        supported = ", ".join(sorted(cls.__name__ for cls in MECHANISMS))
        known_ones = f"Mechanisms that evr knows: {supported}, and what you register"
        remedy = "docs/guide/my_variant.md says what to give for variants"
        raise unsupported(node, path, f"{node!r}. {known_ones}; {remedy}")
    if (other := mechanism.stands_for(node, relation)) is not None:
        return row_of(other, relation, path, settled=settled)
    variant = _variant(mechanism, node)
    answer = variant.answers[relation]
    if settled and isinstance(answer, Refused) and variant.meanings:
        answer = replace(variant.meanings[0], relation=relation)
    return Row(variant.subject, mechanism.event, answer)


def relation_by_itself(event: Any) -> NeighboringRelation:
    """The relation where none was asked for: zero-out if some event has that instead of add-or-remove."""
    todo = [event]
    while todo:
        top = todo.pop()
        with contextlib.suppress(ValueError, TypeError):  # whoever goes through the tree says where
            if row_of(top, ADD_OR_REMOVE).answer.instead is not None:
                return ZERO_OUT
            mechanism = mechanism_of(top)
            other = mechanism and mechanism.stands_for(top, ADD_OR_REMOVE)
            todo += events_in(known(top)) if other is None else [other]
    return ADD_OR_REMOVE


def refusal(node: Any, answer: Refused, path: str = "event") -> OtherRelationError:
    """The error that says why there is no law under a relation, and what to do."""
    inner, name = getattr(node, "event", None), type(node).__name__
    what = f"{name} of {type(inner).__name__}" if is_event(inner) else name
    asked = f"{what} has no law under {relations.name_of(answer.relation)!r} adjacency here, at {path}"
    return OtherRelationError(f"{asked}: {answer.why}; {answer.remedy}", node)


def meanings_in(event: Any, relation: NeighboringRelation) -> Iterator[tuple[Row, Meaning]]:
    """The rows of a tree's events, in reading order, with their meanings; what is refused raises. For a
    registered mechanism without hypotheses of its own, the event speaks that stands for it.
    """
    todo = [(event, False)]
    while todo:
        top, settled = todo.pop()
        node = known(top)
        mechanism = mechanism_of(node)
        own = mechanism.hypotheses if mechanism else ()
        other = mechanism and mechanism.stands_for(node, relation)
        if other is not None and not own:
            todo.append((other, settled))
            continue
        row = row_of(node, relation, settled=settled)
        if isinstance(row.answer, Refused):
            raise refusal(node, row.answer)
        meaning = row.answer if other is None else replace(row.answer, hypotheses=own)
        shared = HYPOTHESES["one-sample"]
        if type(node) in SAMPLED and shared not in meaning.hypotheses and are_several(node.event):
            meaning = replace(meaning, hypotheses=(*meaning.hypotheses, shared))
        yield row, meaning
        todo += reversed([(one, settled) for one in events_in(node)])
        if meaning.pair is not None and not meaning.hypotheses:
            laws = meaning.pair(node)
            todo += [(laws, True)] if isinstance(laws, dp_event.DpEvent) else []


def hypotheses_of(event: Any, relation: NeighboringRelation) -> tuple[Hypothesis, ...]:
    """The hypotheses of a tree in the order of statements, each once: those of sampling and selection come
    first, and what several mechanisms share comes last.
    """
    around, inside = dict[Hypothesis, None](), dict[tuple[Hypothesis, ...], None]()
    for row, meaning in meanings_in(event, relation):
        if row.event in WRAPPERS:
            around |= dict.fromkeys(meaning.hypotheses)
        else:
            inside[meaning.hypotheses] = None
    return tuple(reversed(dict.fromkeys(reversed([*around, *itertools.chain(*inside)]))))


def unit_of(event: Any) -> str | None:
    """Whose data the parameters of a tree bound: ``"user"``, ``"record"``, or None if nothing says."""
    for relation in NAMES.values():
        with contextlib.suppress(OtherRelationError):
            units = {meaning.unit for _, meaning in meanings_in(event, relation)}
            return "user" if "user" in units else "record" if "record" in units else None
    return None


def units_about(bounded: str | None) -> tuple[str, ...]:
    """The units that a promise may have, by whose data the parameters bound; the first where nobody says.

    >>> units_about("user")
    ('user', 'client')
    """
    units = tuple(map(str, Unit))
    return units[2:] if bounded == "user" else units


def _variant(mechanism: Mechanism, node: Any) -> Variant:
    kinds = functools.cache(lambda: _kinds(events_in(node)))
    for one in mechanism.variants:
        if one.holds(node) and (one.inside is None or kinds() <= one.inside):
            return one
    name = type(node).__name__
    raise TypeError(f"the relation that {name} was registered with is not a NeighboringRelation")


def _kinds(events: list[Any]) -> set[str]:
    """The kinds of the mechanisms inside events; of a registered one, also whether a scheme stands for it."""
    found, todo = set[str](), list(events)
    while todo:
        node = known(todo.pop())
        mechanism = mechanism_of(node)
        if mechanism is None:  # is refused elsewhere, by name
            found.add("any")
        elif mechanism.variants[0].kind == "inside":
            todo += events_in(node)
        else:
            variant = _variant(mechanism, node)
            found.add(variant.kind)
            if mechanism.is_registered:
                laws = [one.pair(node) for one in variant.meanings if one.pair is not None]
                inner = [*events_in(node), *filter(is_event, laws)]
                found |= _kinds(inner) & {"scheme", "selection"}
    return found
