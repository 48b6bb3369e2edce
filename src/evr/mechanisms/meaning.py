"""What an event means under a relation of neighbours: its row of the table of meanings (``evr.mechanisms.table``), and
the hypotheses and the unit of a whole tree. Statements, certificates, ``evr describe`` and docs/meaning.md rest on it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, NamedTuple

from dp_accounting import NeighboringRelation, dp_event

from evr import validate
from evr.errors import OtherRelationError
from evr.mechanisms.hypotheses import HYPOTHESES as HYPOTHESES
from evr.mechanisms.registry import MECHANISMS, known, not_an_event, unsupported, written_fields
from evr.mechanisms.relations import Answer, Hypothesis, Meaning, Mechanism, Refused, Variant, name_of
from evr.mechanisms.table import BUILT_IN, WRAPPERS

_PLAIN = {
    dp_event.ComposedDpEvent: "guarantees 1.2",
    dp_event.SelfComposedDpEvent: "guarantees 1.2",
    dp_event.NoOpDpEvent: "guarantees 1.1",
    dp_event.NonPrivateDpEvent: "guarantees 1.1",
}
"""Events that mean the same under every relation, and assume nothing."""


class Row(NamedTuple):
    """A row of the table: a mechanism or a variant of it, its class of events, and the answer under one relation."""

    subject: str
    event: type[dp_event.DpEvent]
    answer: Answer


def rows() -> tuple[Row, ...]:
    """The whole table, registered mechanisms included."""
    return tuple(
        Row(variant.subject, mechanism.event, answer)
        for mechanism in (*MECHANISMS.values(), *WRAPPERS.values())
        for variant in mechanism.variants
        for answer in variant.answers.values()
    )


def row_of(event: Any, relation: NeighboringRelation, path: str = "event") -> Row:
    """The row of one event; a wrapper looks at what is inside where it matters. An unknown event is refused by name."""
    node = known(event, path)
    if type(node) in _PLAIN:
        return Row(type(node).__name__, type(node), Meaning(relation, None, _PLAIN[type(node)], ()))
    mechanism = _mechanism(node, path)
    variant = _variant(mechanism, node)
    answer, standing = variant.answers[relation], mechanism.stands_for.get(relation)
    if standing is not None and standing.pair is not None and isinstance(standing.pair(node), dp_event.DpEvent):
        answer = standing
    return Row(variant.subject, mechanism.event, answer)


def meaning_of(event: Any, relation: NeighboringRelation) -> Answer:
    """What one event means under a relation, or why it is refused."""
    return row_of(event, relation).answer


def settled(row: Row, node: Any, relation: NeighboringRelation) -> Meaning:
    """The meaning of an event that stands for another, which has said itself under which relation it holds."""
    if isinstance(row.answer, Meaning):
        return row.answer
    answers = _variant(_mechanism(node, ""), node).answers.values()
    held = next((one for one in answers if isinstance(one, Meaning)), None)
    if held is None:
        raise refusal(node, row.answer, "event")
    return replace(held, relation=relation)


def refusal(node: Any, answer: Answer, path: str) -> OtherRelationError:
    """The error that says why there is no law under a relation, and what to do."""
    inner, name = getattr(node, "event", None), type(node).__name__
    what = f"{name} of {type(inner).__name__}" if isinstance(inner, dp_event.DpEvent) else name
    asked = f"{what} has no law under {name_of(answer.relation)!r} adjacency here, at {path}"
    if isinstance(answer, Meaning):
        return OtherRelationError(f"{asked} unless it is asked for", node, answer.instead)
    return OtherRelationError(f"{asked}: {answer.why}; {answer.remedy}", node, answer.instead)


def rows_in(event: Any, relation: NeighboringRelation) -> Iterator[Row]:
    """The rows of all events of a tree, in reading order; of a registered mechanism that says nothing itself, also that
    of the event which stands for it. What is refused raises.
    """
    todo = [(event, False)]
    while todo:
        top, is_settled = todo.pop()
        node = known(top)
        row = row_of(node, relation)
        if isinstance(row.answer, Refused) and not is_settled:
            raise refusal(node, row.answer, "event")
        meaning, inner = settled(row, node, relation), [(one, is_settled) for one in events_in(node)]
        mechanism = MECHANISMS.get(row.event)
        silent = mechanism is not None and not mechanism.speaks and meaning.pair is not None
        if silent and isinstance(laws := meaning.pair(node), dp_event.DpEvent):
            meaning = replace(meaning, hypotheses=())
            inner.append((laws, is_settled or mechanism.settles))
        yield row._replace(answer=meaning)
        todo += reversed(inner)


def hypotheses_of(event: Any, relation: NeighboringRelation) -> tuple[Hypothesis, ...]:
    """The hypotheses of a tree in the order of statements, each once: those of sampling and selection come first, and
    what several mechanisms share comes last.
    """
    around: dict[str, tuple[Hypothesis, ...]] = {}
    inside: dict[str, tuple[Hypothesis, ...]] = {}
    for row in rows_in(event, relation):
        assert isinstance(row.answer, Meaning)
        (around if row.event in WRAPPERS else inside)[row.subject] = row.answer.hypotheses
    listed = [*dict.fromkeys(sum(around.values(), ())), *sum(inside.values(), ())]
    return tuple(reversed(dict.fromkeys(reversed(listed))))


def unit_of(event: Any) -> str | None:
    """Whose data the parameters of a tree bound: ``"user"``, ``"record"``, or None if nothing says."""
    found, todo = set[str | None](), [event]
    while todo:
        node = known(todo.pop())
        if type(node) not in _PLAIN:
            answers = _variant(_mechanism(node, "event"), node).answers.values()
            found |= {one.unit for one in answers if isinstance(one, Meaning)}
        todo += events_in(node)
    return next((unit for unit in ("user", "record") if unit in found), None)


def events_in(node: Any) -> list[Any]:
    """The events that an event is made of, in reading order."""
    if isinstance(node, dp_event.ComposedDpEvent):
        if isinstance(node.events, Iterator):
            raise TypeError(f"events={validate.shown(node.events)} can be read only once: give a list")
        return validate.sequence(events=node.events)
    values = [getattr(node, one.name) for one in written_fields(type(node))]
    items = [item for value in values for item in (value if isinstance(value, list | tuple) else [value])]
    return [item for item in items if isinstance(item, dp_event.DpEvent)]


def _mechanism(node: Any, path: str) -> Mechanism:
    if not isinstance(node, dp_event.DpEvent):
        raise not_an_event(node, path)
    found = WRAPPERS.get(type(node)) or MECHANISMS.get(type(node))
    if found is None:
        supported = ", ".join(sorted(cls.__name__ for cls in MECHANISMS))
        raise unsupported(node, path, f"{node!r}. Mechanisms that evr knows: {supported}, and what you register")
    return found


def _variant(mechanism: Mechanism, node: Any) -> Variant:
    for one in mechanism.variants:
        if one.holds(node) and (one.inside is None or _kinds(events_in(node)) <= one.inside):
            return one
    raise TypeError(f"the relation that {type(node).__name__} was registered with is not a NeighboringRelation")


def _kinds(events: list[Any]) -> set[str]:
    """The kinds of the mechanisms that events are made of; of a registered one, also whether a scheme stands for it."""
    found, todo = set[str](), list(events)
    while todo:
        node = known(todo.pop())
        mechanism = WRAPPERS.get(type(node)) or MECHANISMS.get(type(node))
        if type(node) in _PLAIN or (mechanism is not None and mechanism.variants[0].kind == "inside"):
            todo += events_in(node)
        elif mechanism is not None:
            variant = _variant(mechanism, node)
            found.add(variant.kind)
            if mechanism.event not in BUILT_IN and mechanism.event not in WRAPPERS:
                pairs = {one.pair for one in variant.answers.values() if isinstance(one, Meaning)}
                laws = [pair(node) for pair in pairs if pair is not None]
                found |= _kinds([one for one in laws if isinstance(one, dp_event.DpEvent)]) & {"scheme", "selection"}
    return found
