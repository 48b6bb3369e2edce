"""Events in words: what ran, and what a statement about it assumes of whoever ran it.

Words come from code only: those of evr's own events from ``TOLD``, those of a mechanism of somebody's own from its
description, those of any other from its name and fields.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from dp_accounting import NeighboringRelation, dp_event

from evr import validate
from evr.described import described, name_in_words
from evr.mechanisms import schemes
from evr.mechanisms.registry import MECHANISMS, written_fields
from evr.mechanisms.relations import ADD_OR_REMOVE, REPLACE_ONE, ZERO_OUT
from evr.mechanisms.sampling import NOISES
from evr.mechanisms.training import PARTITIONS
from evr.numbers import typed

_THREE = "the sampling probability, the number of steps and the divisor of the sums"
_UNRELATED = {
    ADD_OR_REMOVE: f"{_THREE} did not depend on the data, the number of records included",
    ZERO_OUT: f"the number of records is public, and {_THREE} depended on the data through it alone",
    REPLACE_ONE: f"{_THREE} depended on the data through the number of records alone",
}
"""R1.7 of docs/guarantees_relations.md, for Poisson sampling."""
_POISSON = (
    "each record was in each batch independently with the stated probability (Poisson sampling, not shuffled batches)"
)
_SCALAR = (
    "noise that is sampled and not Gaussian was added to one number, to which a record adds between minus and plus the "
    "sensitivity if it is in the batch, and nothing if not"
)
"""R6 of docs/guarantees_relations.md, under replace-one."""
_SELECTION = (
    "the runs had fresh noise and batches each, and their hyper-parameters were drawn anew for each run from a law "
    "that does not depend on the data",
    "a run was scored by its output, and by nothing else that depends on the data",
    "the number of runs was drawn from the stated law before the first of them, and neither it nor the other runs nor "
    "the time that they took was shown",
)
"""Of the best of several runs: Section T1 of docs/guarantees_selection.md."""
_ALONE = (
    "what a record adds to a sum was clipped and depended on that record and on earlier outputs only, not on who else "
    "was in the batch"
)
_CONTRIBUTIONS = f"{_ALONE} (no truncated batches, no division by the size of the batch as drawn)"
"""(H3) of Theorem 1 of docs/guarantees_highdim.md in a user's words: all schemes assume it."""
_INTEGERS = "the values were integers, and the sensitivity bounds what a record adds to them after all rounding"
_SCORES = "the sensitivity of the scores is that under the adjacency stated, and does not depend on the data"
_OWNED = "no user had more than the stated number of records in the data, by a rule that looked at that user alone"
_CLIPPED = (
    "each record's gradient was clipped to norm 1 times the clipping norm, and the sum was divided by a constant; "
    "where a norm per user is stated, the sum of a user's records in a batch was clipped to it too"
)
_RUNS = {0.0: "logarithmic", 1.0: "geometric", math.inf: "Poisson"}
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


class Told(NamedTuple):
    """How statements speak of a class of events: in words (by default its name and fields), where ``_FACTS`` or fields
    of the event stand in braces, and with clauses that follow "It assumes that".
    """

    words: str | Callable[[Any], str] | None = None
    assumptions: tuple[str, ...] = ()


TOLD: dict[type[dp_event.DpEvent], Told] = {
    dp_event.NoOpDpEvent: Told("nothing"),
    dp_event.PoissonSampledDpEvent: Told("Poisson sampling (sampling probability {rate}) of {inner}"),
    dp_event.SampledWithoutReplacementDpEvent: Told(
        "sampling without replacement ({sample_size:,} of {source_dataset_size:,} records) of {inner}",
        ("each batch was a uniformly random set of the stated size, drawn anew for each step (not shuffled batches)",),
    ),
    dp_event.RepeatAndSelectDpEvent: Told(
        "the best of a random number of runs ({runs}), each of them {inner}", _SELECTION
    ),
    schemes.BinomialSelectDpEvent: Told(
        "the best of a random number of runs (binomial law, at most {most_runs:,}, each with probability {chance}), "
        "each of them {inner}",
        _SELECTION,
    ),
    schemes.ThresholdSelectDpEvent: Told(
        "the first good one of several runs (after each that is not good, the last with probability {last}), "
        "each of them {inner}",
        _SELECTION,
    ),
    schemes.DiscreteGaussianDpEvent: Told(None, (_INTEGERS,)),
    schemes.SummedDiscreteGaussiansDpEvent: Told(None, (_INTEGERS,)),
    schemes.EpsilonDeltaDpEvent: Told(
        None, ("what is known to be private by itself is so under the adjacency stated",)
    ),
    dp_event.ZCDpEvent: Told(None, ("what is known to be zCDP is so under the adjacency stated, in both directions",)),
    schemes.ExponentialMechanismDpEvent: Told(
        None,
        (
            "each choice was made with probabilities proportional to e^(epsilon score / (2 sensitivity)), or with "
            "Gumbel noise of that scale (without the 2 for monotone scores, and not under replace-one)",
            _SCORES,
        ),
    ),
    schemes.PermuteAndFlipDpEvent: Told(None, (_SCORES,)),
    schemes.BallsInBinsDpEvent: Told(
        "balls in bins ({cycle_length:,} bins, drawn once, {iterations:,} iterations) of {noise}",
        (
            "each record was put into one bin, with equal chances and independently of all others, once for the whole "
            "training (not fixed-size batches of shuffled data)",
            _CONTRIBUTIONS,
        ),
    ),
    schemes.RedrawnBinsDpEvent: Told(
        "balls in bins ({cycle_length:,} bins, drawn anew in each of {epochs:,} epochs) of {noise}",
        (
            "each record was put into one bin in each epoch, with equal chances and independently of all others and of "
            "other epochs (not fixed-size batches of shuffled data)",
            _CONTRIBUTIONS,
        ),
    ),
    schemes.RandomAllocationDpEvent: Told(
        "random allocation (each record in {participations:,} of {iterations:,} iterations, drawn at random) "
        "of {noise}",
        (
            "each record took part in exactly the stated number of iterations, a uniformly random set of them, drawn "
            "independently of all other records (not shuffled batches of a fixed size)",
            _CONTRIBUTIONS,
        ),
    ),
    schemes.MatrixMechanismDpEvent: Told(
        "{iterations:,} iterations of {noise}, each record at least {min_sep:,} iterations apart{often}",
        ("no record took part more often, or at iterations closer to each other, than stated", _CONTRIBUTIONS),
    ),
    schemes.CyclicPoissonDpEvent: Told(
        "cyclic Poisson sampling ({cycle_length:,} {groups} groups in turn, sampling probability {rate}, "
        "{iterations:,} iterations) of {noise}",
        (
            "each record was in a batch of its group's turn independently with the stated probability, and its group "
            "came about as stated",
            _CONTRIBUTIONS,
        ),
    ),
    schemes.BMinSepDpEvent: Told(
        "{min_sep:,}-min-sep sampling (sampling probability {rate}, {start} start, {iterations:,} iterations) "
        "of {noise}",
        ("each eligible record was in a batch independently with the stated probability", _CONTRIBUTIONS),
    ),
    schemes.ShuffledBatchesDpEvent: Told(
        "{runs_over} of shuffled batches of {noise}",
        (
            "each record was in at most one batch of each epoch, and the order of the records and the sizes of the "
            "batches did not depend on what the records contain",
            _ALONE,
        ),
    ),
    dp_event.SingleEpochTreeAggregationDpEvent: Told(None, ("each record was in at most one step of all trees",)),
    dp_event.TruncatedSubsampledGaussianDpEvent: Told(
        None,
        (
            "each record was sampled independently with the stated probability, and of a batch that was too large a "
            "uniformly random part of the stated size was kept",
            "the larger of two neighbouring data sets has the stated number of records",
        ),
    ),
    schemes.PoissonSampledUsersDpEvent: Told(
        "Poisson sampling (sampling probability {rate}, at most {owned} per user{clipped}) of {noise}",
        (_OWNED, "each record was in each batch independently, with the stated probability", _CLIPPED),
    ),
    schemes.FixedBatchUsersDpEvent: Told(
        "sampling without replacement ({sample_size:,} of {source_dataset_size:,} records, at most {owned} per user) "
        "of {noise}",
        (
            _OWNED,
            "each batch was a uniformly random set of the stated size, drawn anew for each step, and a user with fewer "
            "records has empty ones in their places",
            _CLIPPED,
        ),
    ),
    schemes.UsersDpEvent: Told(
        "{inner}, for users of at most {owned}",
        (_OWNED, "what is said of a record below holds for each record of a user by itself"),
    ),
}


class _Facts(dict[str, Any]):
    """What may stand in braces: fields of an event, and what they mean in words."""

    def __init__(self, event: Any) -> None:
        self.event = event

    def __missing__(self, key: str) -> Any:
        return _FACTS[key](self.event) if key in _FACTS else getattr(self.event, key)


_FACTS: dict[str, Callable[[Any], str]] = {
    "inner": lambda event: describe(event.event),
    "rate": lambda event: typed(event.sampling_probability),
    "chance": lambda event: typed(event.probability),
    "last": lambda event: typed(event.stop_probability),
    "runs_over": lambda event: counted(event.epochs, "epoch"),
    "owned": lambda event: counted(event.records_per_user, "record"),
    "groups": lambda event: validate.one_of(PARTITIONS, partition=event.partition),
    "start": lambda event: "warm" if event.warm_start else "cold",
    "often": lambda event: "" if (most := event.max_participations) is None else f", at most {most:,} times",
    "clipped": lambda event: (
        ""
        if (norm := event.user_norm) is None
        else f", those of one user in a batch clipped together to {typed(norm)} clipping norms"
    ),
    "noise": lambda event: _noise(event.noise_multiplier, getattr(event, "strategy", schemes.IDENTITY)),
    "runs": lambda event: (
        f"{_RUNS[event.shape]} law, mean {typed(event.mean)}"
        if event.shape in _RUNS
        else f"truncated negative binomial law, mean {typed(event.mean)}, shape {typed(event.shape)}"
    ),
}


class _NoWords(ValueError):
    pass


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
    name, words = type(event).__name__, _told(type(event)).words or _by_fields
    try:
        text = words.format_map(_Facts(event)) if isinstance(words, str) else words(event)
    except _NoWords:
        raise
    except Exception as error:  # somebody else's function may raise anything
        raise _NoWords(f"{name} has no words for these values: {type(error).__name__}: {error}") from error
    if not isinstance(text, str) or not text.strip() or not text.isprintable():
        raise _NoWords(f"the words of {name} are {text!r}: they must be one line of text")
    return text


def counted(count: float, what: str) -> str:
    """A number of things.

    >>> counted(1, "step"), counted(2000, "step")
    ('1 step', '2,000 steps')
    """
    return f"{typed(count)} {what}{'' if count == 1 else 's'}"


def _noise(noise_multiplier: float, strategy: Any) -> str:
    """The mechanism of each step of a scheme. Of a long strategy the entries are left out (``is_abridged``).

    >>> print(_noise(1.5, (1.0, 0.5)))
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


def _by_fields(event: dp_event.DpEvent) -> str:
    name = name_in_words(type(event))
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


def _told(event_type: type[dp_event.DpEvent]) -> Told:
    own = described(event_type)
    return TOLD.get(event_type, Told()) if own.assumptions is None else Told(own.words, own.assumptions)


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


def assumptions(event: dp_event.DpEvent, *, relation: NeighboringRelation = ADD_OR_REMOVE) -> list[str]:
    """The assumptions of a statement about an event under a relation, each a clause that follows "that".

    >>> assumptions(dp_event.GaussianDpEvent(1.0))
    []
    """
    around: list[str] = []  # of sampling and selection
    inside: dict[type[dp_event.DpEvent], tuple[str, ...]] = {}
    for one in _spread(event):
        if type(one) in MECHANISMS:
            inside[type(one)] = _told(type(one)).assumptions
        elif isinstance(one, dp_event.PoissonSampledDpEvent) and one.sampling_probability != 1:
            scalar = relation is REPLACE_ONE and type(one.event) in NOISES[1:]
            around += [_POISSON, _UNRELATED[relation], *([_SCALAR] if scalar else [])]
        else:
            around += _told(type(one)).assumptions
    clauses = [*dict.fromkeys(around), *itertools.chain(*inside.values())]
    return list(reversed(dict.fromkeys(reversed(clauses))))  # what several share comes last


def _spread(tree: dp_event.DpEvent) -> Iterator[dp_event.DpEvent]:
    """Every event in a tree, and in what stands for an event without assumptions of its own."""
    stack = [tree]
    while stack:
        event = stack.pop()
        yield event
        inner: list[dp_event.DpEvent] = []
        for one in written_fields(type(event)):
            value = getattr(event, one.name)
            items = value if isinstance(value, list | tuple) else [value]
            inner += [item for item in items if isinstance(item, dp_event.DpEvent)]
        mechanism = MECHANISMS.get(type(event))
        if mechanism is not None and not _told(type(event)).assumptions:
            laws = mechanism.laws(event)
            inner += [laws] if isinstance(laws, dp_event.DpEvent) else []
        stack.extend(reversed(inner))
