"""Events in words: what ran, and what a statement about it assumes.

Words come from code only: those of compositions, of sampling and of training schemes from here, those of a mechanism of
somebody's own from its description, those of any other from its name and fields.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

from dp_accounting import NeighboringRelation, dp_event

from evr import validate
from evr.certification.assumed import ASSUMED, SELECTION
from evr.described import described, name_in_words
from evr.mechanisms import schemes
from evr.mechanisms.registry import MECHANISMS, written_fields
from evr.mechanisms.relations import ADD_OR_REMOVE, REPLACE_ONE, ZERO_OUT
from evr.mechanisms.sampling import NOISES, SELECTED
from evr.mechanisms.training import PARTITIONS
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
_LISTED = 12  # numbers of a list that are written out
USERS = (schemes.PoissonSampledUsersDpEvent, schemes.FixedBatchUsersDpEvent, schemes.UsersDpEvent)
_DISCRETE = (
    dp_event.DiscreteLaplaceDpEvent,
    dp_event.RandomizedResponseDpEvent,
    schemes.DiscreteGaussianDpEvent,
    schemes.SummedDiscreteGaussiansDpEvent,
)
_RUNS = {0.0: "logarithmic", 1.0: "geometric", math.inf: "Poisson"}

SCHEMES: dict[type[dp_event.DpEvent], str] = {
    dp_event.PoissonSampledDpEvent: "Poisson sampling (sampling probability {rate}) of {inner}",
    dp_event.SampledWithoutReplacementDpEvent: (
        "sampling without replacement ({0.sample_size:,} of {0.source_dataset_size:,} records) of {inner}"
    ),
    schemes.BallsInBinsDpEvent: (
        "balls in bins ({0.cycle_length:,} bins, drawn once, {0.iterations:,} iterations) of {noise}"
    ),
    schemes.RedrawnBinsDpEvent: (
        "balls in bins ({0.cycle_length:,} bins, drawn anew in each of {0.epochs:,} epochs) of {noise}"
    ),
    schemes.MatrixMechanismDpEvent: (
        "{0.iterations:,} iterations of {noise}, each record at least {0.min_sep:,} iterations apart{often}"
    ),
    schemes.CyclicPoissonDpEvent: (
        "cyclic Poisson sampling ({0.cycle_length:,} {groups} groups in turn, sampling probability {rate}, "
        "{0.iterations:,} iterations) of {noise}"
    ),
    schemes.BMinSepDpEvent: (
        "{0.min_sep:,}-min-sep sampling (sampling probability {rate}, {start} start, {0.iterations:,} iterations) "
        "of {noise}"
    ),
    schemes.ShuffledBatchesDpEvent: "{epochs} of shuffled batches of {noise}",
    schemes.PoissonSampledUsersDpEvent: (
        "Poisson sampling (sampling probability {rate}, at most {owned} per user{clipped}) of {noise}"
    ),
    schemes.RandomAllocationDpEvent: (
        "random allocation (each record in {0.participations:,} of {0.iterations:,} iterations, drawn at random) "
        "of {noise}"
    ),
    schemes.FixedBatchUsersDpEvent: (
        "sampling without replacement ({0.sample_size:,} of {0.source_dataset_size:,} records, at most {owned} per "
        "user) of {noise}"
    ),
    schemes.UsersDpEvent: "{inner}, for users of at most {owned}",
    dp_event.RepeatAndSelectDpEvent: "the best of a random number of runs ({runs}), each of them {inner}",
    schemes.BinomialSelectDpEvent: (
        "the best of a random number of runs (binomial law, at most {0.most_runs:,}, each with probability {chance}), "
        "each of them {inner}"
    ),
    schemes.ThresholdSelectDpEvent: (
        "the first good one of several runs (after each that is not good, the last with probability {last}), "
        "each of them {inner}"
    ),
}
"""Sampling, training schemes and selections: ``0`` is the event, ``inner`` the event in it, ``_FACTS`` has the rest."""

_FACTS: dict[str, Callable[[Any], str]] = {
    "rate": lambda event: typed(event.sampling_probability),
    "noise": lambda event: noise_in_words(event.noise_multiplier, getattr(event, "strategy", schemes.IDENTITY)),
    "often": lambda event: "" if (most := event.max_participations) is None else f", at most {most:,} times",
    "groups": lambda event: validate.one_of(PARTITIONS, partition=event.partition),
    "start": lambda event: "warm" if event.warm_start else "cold",
    "epochs": lambda event: counted(event.epochs, "epoch"),
    "owned": lambda event: counted(event.records_per_user, "record"),
    "clipped": lambda event: (
        ""
        if (norm := event.user_norm) is None
        else f", those of one user in a batch clipped together to {typed(norm)} clipping norms"
    ),
    "runs": lambda event: (
        f"{_RUNS[event.shape]} law, mean {typed(event.mean)}"
        if event.shape in _RUNS
        else f"truncated negative binomial law, mean {typed(event.mean)}, shape {typed(event.shape)}"
    ),
    "chance": lambda event: typed(event.probability),
    "last": lambda event: typed(event.stop_probability),
}


def describe(event: dp_event.DpEvent) -> str:
    """An event tree in words.

    >>> step = dp_event.PoissonSampledDpEvent(0.001, dp_event.GaussianDpEvent(1.0))
    >>> print(describe(dp_event.SelfComposedDpEvent(step, 1000)))
    1,000 times Poisson sampling (sampling probability 0.001) of a Gaussian mechanism (noise
    multiplier 1)
    >>> print(describe(dp_event.RepeatAndSelectDpEvent(dp_event.GaussianDpEvent(2.0), 20, 1)))
    the best of a random number of runs (geometric law, mean 20), each of them a Gaussian mechanism (noise multiplier 2)
    """
    if isinstance(event, dp_event.SelfComposedDpEvent):
        return ("" if event.count == 1 else f"{event.count:,} times ") + describe(event.event)
    if isinstance(event, dp_event.ComposedDpEvent):
        parts = [describe(one) for one in event.events]
        if _too_many(parts):
            return f"{len(parts):,} mechanisms one after the other, the first being {parts[0]}"
        return f"({'; '.join(parts)})" if parts else "nothing"
    full = isinstance(event, dp_event.PoissonSampledDpEvent) and event.sampling_probability == 1
    if full or isinstance(event, schemes.ZeroOutDpEvent):
        return describe(event.event)  # the statement names the neighbours
    if isinstance(event, dp_event.NoOpDpEvent):
        return "nothing"
    return _own_words(event)


def _own_words(event: dp_event.DpEvent) -> str:
    """The words of one mechanism: those that were registered, those of a scheme, or its name and fields."""
    name, words, scheme = type(event).__name__, described(type(event)).words, SCHEMES.get(type(event), "")
    if words is None and not scheme:
        return _by_fields(event, name_in_words(type(event)))
    inner = describe(event.event) if "{inner}" in scheme else ""
    try:
        facts = {key: fact(event) for key, fact in _FACTS.items() if f"{{{key}}}" in scheme}
        text = words(event) if words else scheme.format(event, inner=inner, **facts)
    except Exception as error:  # somebody else's function may raise anything
        raise ValueError(f"{name} has no words for these values: {type(error).__name__}: {error}") from error
    if not isinstance(text, str) or not text.strip() or not text.isprintable():
        raise ValueError(f"the words of {name} are {text!r}: they must be one line of text")
    return text


def noise_in_words(noise_multiplier: float, strategy: Any) -> str:
    """The mechanism of each step of a scheme. Of a long strategy the entries are left out (``is_abridged``).

    >>> print(noise_in_words(1.5, (1.0, 0.5)))
    a Gaussian mechanism (noise multiplier 1.5, noise correlated by a Toeplitz strategy of 2 bands,
    its columns taken as given: 1, 0.5)
    """
    kind = ""
    if strategy and isinstance(strategy[0], list | tuple):
        kind = f"a strategy of {max(map(len, strategy))} bands, its columns taken as given"
    elif strategy and strategy != schemes.IDENTITY:
        entries = f": {', '.join(map(typed, strategy))}" if len(strategy) <= _LISTED else ""
        kind = f"a Toeplitz strategy of {len(strategy)} bands, its columns taken as given{entries}"
    correlated = f", noise correlated by {kind}" if kind else ""
    return f"a Gaussian mechanism (noise multiplier {typed(noise_multiplier)}{correlated})"


def counted(count: float, what: str) -> str:
    """A number of things.

    >>> counted(1, "step"), counted(2000, "step")
    ('1 step', '2,000 steps')
    """
    return f"{typed(count)} {what}{'' if count == 1 else 's'}"


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
    if len(value) > _LISTED:
        return f"of {len(value):,} values, the first being {_value(value[0])}"
    return str(list(value))


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
    values = [getattr(event, one.name) for one in written_fields(type(event))]
    lists = [value for value in values if isinstance(value, list | tuple)]
    left_out = any(len(value) > _LISTED or any(isinstance(one, list | tuple) for one in value) for value in lists)
    return left_out or any(is_abridged(value) for value in values if isinstance(value, dp_event.DpEvent))


def _below(event: dp_event.DpEvent) -> list[dp_event.DpEvent]:
    """The events that a composition, a sampling or a scheme is made of."""
    inner = getattr(event, "event", None)
    return list(event.events) if isinstance(event, dp_event.ComposedDpEvent) else [] if inner is None else [inner]


def is_discrete(event: dp_event.DpEvent) -> bool:
    """Whether all noise of the tree is drawn on the integers or from a finite set, so that nothing is left to
    floating-point noise.
    """
    below = _below(event)
    return all(map(is_discrete, below)) if below else isinstance(event, _DISCRETE)


def is_about_users(event: dp_event.DpEvent) -> bool:
    """Whether the tree bounds what users add, not records. Trees that mix both have no laws."""
    return isinstance(event, USERS) or any(map(is_about_users, _below(event)))


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
