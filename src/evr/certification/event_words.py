"""Events in words: what ran, and what a statement about it assumes.

Words come from code only: those of a scheme from ``scheme_words.py``, those of a mechanism of somebody's own from its
description, those of compositions and of sampling from here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from dp_accounting import NeighboringRelation, dp_event

from evr.certification.assumed import ASSUMED, SELECTION
from evr.certification.scheme_words import LISTED, SCHEMES, selection_in_words
from evr.described import described, name_in_words
from evr.mechanisms.registry import MECHANISMS, written_fields
from evr.mechanisms.relations import ADD_OR_REMOVE, REPLACE_ONE, ZERO_OUT
from evr.mechanisms.sampling import NOISES, SELECTED
from evr.mechanisms.schemes import ZeroOutDpEvent
from evr.numbers import typed

_SAMPLED = (
    "each record was in each batch independently with the stated probability (Poisson sampling, not shuffled batches)"
)
_THREE = "the sampling probability, the number of steps and the divisor of the sums"
_UNRELATED = {
    ADD_OR_REMOVE: f"{_THREE} did not depend on the data, the number of records included",
    ZERO_OUT: (f"the number of records is public, and {_THREE} depended on the data through it alone"),
    REPLACE_ONE: f"{_THREE} depended on the data through the number of records alone",
}
"""R1.7 of docs/guarantees_relations.md, for Poisson sampling."""
_SCALAR = (
    "noise that is sampled and not Gaussian was added to one number, to which a record adds between minus and plus the "
    "sensitivity if it is in the batch, and nothing if not"
)
"""R6 of docs/guarantees_relations.md, under replace-one."""
_DRAWN = "each batch was a uniformly random set of the stated size, drawn anew for each step (not shuffled batches)"
_PARTS = 6  # of a composition that are described one by one
_LONG = 2000  # characters of them


def describe(event: dp_event.DpEvent) -> str:
    """An event tree in words.

    >>> step = dp_event.PoissonSampledDpEvent(0.001, dp_event.GaussianDpEvent(1.0))
    >>> print(describe(dp_event.SelfComposedDpEvent(step, 1000)))
    1,000 times Poisson sampling (sampling probability 0.001) of a Gaussian mechanism (noise
    multiplier 1)
    """
    if isinstance(event, dp_event.SelfComposedDpEvent):
        return ("" if event.count == 1 else f"{event.count:,} times ") + describe(event.event)
    if isinstance(event, dp_event.ComposedDpEvent):
        parts = [describe(one) for one in event.events]
        if _too_many(parts):
            return f"{len(parts):,} mechanisms one after the other, the first being {parts[0]}"
        return f"({'; '.join(parts)})" if parts else "nothing"
    if isinstance(event, dp_event.PoissonSampledDpEvent):
        if event.sampling_probability == 1:
            return describe(event.event)
        q = typed(event.sampling_probability)
        return f"Poisson sampling (sampling probability {q}) of {describe(event.event)}"
    if isinstance(event, dp_event.SampledWithoutReplacementDpEvent):
        sizes = f"{event.sample_size:,} of {event.source_dataset_size:,} records"
        return f"sampling without replacement ({sizes}) of {describe(event.event)}"
    if isinstance(event, SELECTED):
        return f"{selection_in_words(event)}, each of them {describe(event.event)}"
    if isinstance(event, ZeroOutDpEvent):
        return describe(event.event)  # the statement names the neighbours
    if isinstance(event, dp_event.NoOpDpEvent):
        return "nothing"
    words = described(type(event)).words or SCHEMES.get(type(event))
    if words is None:
        return _by_fields(event, name_in_words(type(event)))
    return _own_words(event, words)


def _too_many(parts: list[str]) -> bool:
    return len(parts) > _PARTS or sum(map(len, parts)) > _LONG


def is_abridged(event: dp_event.DpEvent) -> bool:
    """Whether ``describe`` leaves some of an event's numbers out, so that other events have the same words.

    >>> step = dp_event.GaussianDpEvent(1.0)
    >>> is_abridged(dp_event.ComposedDpEvent([step] * 6)), is_abridged(
    ...     dp_event.ComposedDpEvent([step] * 7))
    (False, True)
    """
    if isinstance(event, dp_event.ComposedDpEvent):
        parts = list(event.events)
        if len(parts) > _PARTS or any(map(is_abridged, parts)):
            return True  # the rest would be slow for a hostile tree
        return _too_many([describe(one) for one in parts])
    return any(_is_left_out(getattr(event, one.name)) for one in written_fields(type(event)))


def _is_left_out(value: Any) -> bool:
    if isinstance(value, dp_event.DpEvent):
        return is_abridged(value)
    if not isinstance(value, list | tuple):
        return False
    return len(value) > LISTED or any(isinstance(one, list | tuple) for one in value)


def _own_words(event: dp_event.DpEvent, words: Callable[[Any], str]) -> str:
    name = type(event).__name__
    try:
        text = words(event)
    except Exception as error:  # somebody else's function may raise anything
        raise ValueError(f"{name} has no words for these values: {type(error).__name__}: {error}") from error
    if not isinstance(text, str) or not text.strip() or not text.isprintable():
        raise ValueError(f"the words of {name} are {text!r}: they must be one line of text")
    return text


def _by_fields(event: dp_event.DpEvent, name: str) -> str:
    article = "an" if name[:1].lower() in "aeiou" else "a"
    fields = [
        f"{one.alias.replace('_', ' ')} {_value(getattr(event, one.name))}" for one in written_fields(type(event))
    ]
    return f"{article} {name.removesuffix(' mechanism')} mechanism" + (f" ({', '.join(fields)})" if fields else "")


def _value(value: Any) -> str:
    if isinstance(value, dp_event.DpEvent):
        return describe(value)
    if not isinstance(value, list | tuple):
        return typed(value)
    if len(value) > LISTED:
        return f"of {len(value):,} values, the first being {_value(value[0])}"
    return str(list(value))


def assumptions(*events: dp_event.DpEvent, relation: NeighboringRelation = ADD_OR_REMOVE) -> list[str]:
    """The assumptions of statements about events under a relation, each a clause that follows "that".

    >>> assumptions(dp_event.GaussianDpEvent(1.0))
    []
    """
    sampling: dict[str, None] = {}
    mechanisms = []
    for one in _spread(events):
        if isinstance(one, dp_event.PoissonSampledDpEvent) and one.sampling_probability != 1:
            sampling[_SAMPLED] = None
            sampling[_UNRELATED[relation]] = None
            if relation is REPLACE_ONE and type(one.event) in NOISES[1:]:
                sampling[_SCALAR] = None
        elif isinstance(one, dp_event.SampledWithoutReplacementDpEvent):
            sampling[_DRAWN] = None
        elif isinstance(one, SELECTED):
            sampling.update(dict.fromkeys(SELECTION))
        elif type(one) in MECHANISMS:
            mechanisms.append(type(one))
    clauses = [*sampling] + [clause for mechanism in dict.fromkeys(mechanisms) for clause in _assumed(mechanism)]
    return list(reversed(dict.fromkeys(reversed(clauses))))  # what several share comes last


def _assumed(event_type: type[dp_event.DpEvent]) -> tuple[str, ...]:
    own = described(event_type).assumptions
    return ASSUMED.get(event_type, ()) if own is None else own


def _spread(events: tuple[dp_event.DpEvent, ...]) -> Iterator[dp_event.DpEvent]:
    """Every event in the trees, and in what stands for an event without assumptions of its own."""
    stack = list(reversed(events))
    while stack:
        event = stack.pop()
        yield event
        inner: list[dp_event.DpEvent] = []
        for one in written_fields(type(event)):
            value = getattr(event, one.name)
            items = value if isinstance(value, list | tuple) else [value]
            inner += [item for item in items if isinstance(item, dp_event.DpEvent)]
        mechanism = MECHANISMS.get(type(event))
        if mechanism is not None and not _assumed(type(event)):
            laws = mechanism.laws(event)
            inner += [laws] if isinstance(laws, dp_event.DpEvent) else []
        stack.extend(reversed(inner))
