"""Events in words: what ran, and what a statement about it assumes of whoever ran it.

No file chooses the words: evr's own events have theirs in ``WORDS``, a registered mechanism brings its own, and any
other is described by its name and fields.
"""

import itertools
import math
import re
from collections.abc import Callable, Iterator
from typing import Any

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
"""For the best of several runs: Section T1 of docs/guarantees_selection.md."""
_ALONE = (
    "what a record adds to a sum was clipped and depended on that record and on earlier outputs only, not on who else "
    "was in the batch"
)
_CONTRIBUTIONS = f"{_ALONE} (no truncated batches, no division by the size of the batch as drawn)"
"""(H3) of Theorem 1 of docs/guarantees_highdim.md in a user's words: all schemes assume it."""
_ANEW = "each batch was a uniformly random set of the stated size, drawn anew for each step"
_INTEGERS = "the values were integers, and the sensitivity bounds what a record adds to them after all rounding"
_SCORES = "the sensitivity of the scores is that under the adjacency stated, and does not depend on the data"
_OWNED = "no user had more than the stated number of records in the data, by a rule that looked at that user alone"
_CLIPPED = (
    "each record's gradient was clipped to norm 1 times the clipping norm, and the sum was divided by a constant; "
    "where a norm per user is stated, the sum of a user's records in a batch was clipped to it too"
)
_RUNS = {0.0: "logarithmic", 1.0: "geometric", math.inf: "Poisson"}
_PARTS = 6  # as many parts of a composition are described one by one
_LONG = 2000  # if they take no more characters
LISTED = 12  # as many numbers of a list are written out
ABRIDGED = re.compile(", the first being |columns taken as given(?!:)")
"""Found in words that leave some of an event's numbers out, so that other events have the same words."""
USERS = (schemes.PoissonSampledUsersDpEvent, schemes.FixedBatchUsersDpEvent, schemes.UsersDpEvent)
_DISCRETE = (
    dp_event.DiscreteLaplaceDpEvent,
    dp_event.RandomizedResponseDpEvent,
    schemes.DiscreteGaussianDpEvent,
    schemes.SummedDiscreteGaussiansDpEvent,
)


WORDS: dict[type[dp_event.DpEvent], Callable[[Any], str]] = {
    dp_event.NoOpDpEvent: lambda one: "nothing",
    dp_event.PoissonSampledDpEvent: lambda one: f"Poisson sampling ({_rate(one)}) of {describe(one.event)}",
    dp_event.SampledWithoutReplacementDpEvent: lambda one: (
        f"sampling without replacement ({one.sample_size:,} of {one.source_dataset_size:,} records) of "
        f"{describe(one.event)}"
    ),
    dp_event.RepeatAndSelectDpEvent: lambda one: (
        f"the best of a random number of runs ({_RUNS.get(one.shape, 'truncated negative binomial')} law, mean "
        f"{typed(one.mean)}{_given(None if one.shape in _RUNS else one.shape, ', shape {}')}), each of them "
        f"{describe(one.event)}"
    ),
    schemes.BinomialSelectDpEvent: lambda one: (
        f"the best of a random number of runs (binomial law, at most {one.most_runs:,}, each with probability "
        f"{typed(one.probability)}), each of them {describe(one.event)}"
    ),
    schemes.ThresholdSelectDpEvent: lambda one: (
        "the first good one of several runs (after each that is not good, the last with probability "
        f"{typed(one.stop_probability)}), each of them {describe(one.event)}"
    ),
    schemes.BallsInBinsDpEvent: lambda one: (
        f"balls in bins ({one.cycle_length:,} bins, drawn once, {one.iterations:,} iterations) of {_noise(one)}"
    ),
    schemes.RedrawnBinsDpEvent: lambda one: (
        f"balls in bins ({one.cycle_length:,} bins, drawn anew in each of {one.epochs:,} epochs) of {_noise(one)}"
    ),
    schemes.RandomAllocationDpEvent: lambda one: (
        f"random allocation (each record in {one.participations:,} of {one.iterations:,} iterations, drawn at random) "
        f"of {_noise(one)}"
    ),
    schemes.MatrixMechanismDpEvent: lambda one: (
        f"{one.iterations:,} iterations of {_noise(one)}, each record at least {one.min_sep:,} iterations apart"
        f"{_given(one.max_participations, ', at most {} times')}"
    ),
    schemes.CyclicPoissonDpEvent: lambda one: (
        f"cyclic Poisson sampling ({one.cycle_length:,} {validate.one_of(PARTITIONS, partition=one.partition)} groups "
        f"in turn, {_rate(one)}, {one.iterations:,} iterations) of {_noise(one)}"
    ),
    schemes.BMinSepDpEvent: lambda one: (
        f"{one.min_sep:,}-min-sep sampling ({_rate(one)}, {'warm' if one.warm_start else 'cold'} start, "
        f"{one.iterations:,} iterations) of {_noise(one)}"
    ),
    schemes.ShuffledBatchesDpEvent: lambda one: f"{counted(one.epochs, 'epoch')} of shuffled batches of {_noise(one)}",
    schemes.PoissonSampledUsersDpEvent: lambda one: (
        f"Poisson sampling ({_rate(one)}, at most {counted(one.records_per_user, 'record')} per user"
        f"{_given(one.user_norm, ', those of one user in a batch clipped together to {} clipping norms')}) of "
        f"{_noise(one)}"
    ),
    schemes.FixedBatchUsersDpEvent: lambda one: (
        f"sampling without replacement ({one.sample_size:,} of {one.source_dataset_size:,} records, at most "
        f"{counted(one.records_per_user, 'record')} per user) of {_noise(one)}"
    ),
    schemes.UsersDpEvent: lambda one: (
        f"{describe(one.event)}, for users of at most {counted(one.records_per_user, 'record')}"
    ),
}
"""What ran, by the class of the event: by default the name of the class and its fields."""

ASSUMPTIONS: dict[type[dp_event.DpEvent], tuple[str, ...]] = {
    dp_event.SampledWithoutReplacementDpEvent: (f"{_ANEW} (not shuffled batches)",),
    dp_event.RepeatAndSelectDpEvent: _SELECTION,
    schemes.BinomialSelectDpEvent: _SELECTION,
    schemes.ThresholdSelectDpEvent: _SELECTION,
    schemes.DiscreteGaussianDpEvent: (_INTEGERS,),
    schemes.SummedDiscreteGaussiansDpEvent: (_INTEGERS,),
    schemes.EpsilonDeltaDpEvent: ("what is known to be private by itself is so under the adjacency stated",),
    dp_event.ZCDpEvent: ("what is known to be zCDP is so under the adjacency stated, in both directions",),
    schemes.ExponentialMechanismDpEvent: (
        "each choice was made with probabilities proportional to e^(epsilon score / (2 sensitivity)), or with "
        "Gumbel noise of that scale (without the 2 for monotone scores, and not under replace-one)",
        _SCORES,
    ),
    schemes.PermuteAndFlipDpEvent: (_SCORES,),
    schemes.BallsInBinsDpEvent: (
        "each record was put into one bin, with equal chances and independently of all others, once for the whole "
        "training (not fixed-size batches of shuffled data)",
        _CONTRIBUTIONS,
    ),
    schemes.RedrawnBinsDpEvent: (
        "each record was put into one bin in each epoch, with equal chances and independently of all others and of "
        "other epochs (not fixed-size batches of shuffled data)",
        _CONTRIBUTIONS,
    ),
    schemes.RandomAllocationDpEvent: (
        "each record took part in exactly the stated number of iterations, a uniformly random set of them, drawn "
        "independently of all other records (not shuffled batches of a fixed size)",
        _CONTRIBUTIONS,
    ),
    schemes.MatrixMechanismDpEvent: (
        "no record took part more often, or at iterations closer to each other, than stated",
        _CONTRIBUTIONS,
    ),
    schemes.CyclicPoissonDpEvent: (
        "each record was in a batch of its group's turn independently with the stated probability, and its group "
        "came about as stated",
        _CONTRIBUTIONS,
    ),
    schemes.BMinSepDpEvent: (
        "each eligible record was in a batch independently with the stated probability",
        _CONTRIBUTIONS,
    ),
    schemes.ShuffledBatchesDpEvent: (
        "each record was in at most one batch of each epoch, and the order of the records and the sizes of the "
        "batches did not depend on what the records contain",
        _ALONE,
    ),
    dp_event.SingleEpochTreeAggregationDpEvent: ("each record was in at most one step of all trees",),
    dp_event.TruncatedSubsampledGaussianDpEvent: (
        "each record was sampled independently with the stated probability, and of a batch that was too large a "
        "uniformly random part of the stated size was kept",
        "the larger of two neighbouring data sets has the stated number of records",
    ),
    schemes.PoissonSampledUsersDpEvent: (
        _OWNED,
        "each record was in each batch independently, with the stated probability",
        _CLIPPED,
    ),
    schemes.FixedBatchUsersDpEvent: (
        _OWNED,
        f"{_ANEW}, and a user with fewer records has empty ones in their places",
        _CLIPPED,
    ),
    schemes.UsersDpEvent: (_OWNED, "what is said of a record below holds for each record of a user by itself"),
}
"""What a statement assumes of whoever ran it, each a clause that follows "It assumes that"."""


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
        if len(parts) > _PARTS or sum(map(len, parts)) > _LONG:
            return f"{len(parts):,} mechanisms one after the other, the first being {parts[0]}"
        return f"({'; '.join(parts)})" if parts else "nothing"
    full = isinstance(event, dp_event.PoissonSampledDpEvent) and event.sampling_probability == 1
    if full or isinstance(event, schemes.ZeroOutDpEvent):
        return describe(event.event)  # the statement names the neighbours
    name, words = type(event).__name__, described(type(event)).words or WORDS.get(type(event), _by_fields)
    try:
        text = words(event)
    except Exception as error:  # somebody else's function may raise anything
        raise ValueError(f"{name} has no words for these values: {type(error).__name__}: {error}") from error
    if not isinstance(text, str) or not text.strip() or not text.isprintable():
        raise ValueError(f"the words of {name} are {text!r}: they must be one line of text")
    return text


def counted(count: float, what: str) -> str:
    """A number of things: ``1 step``, ``2,000 steps``."""
    return f"{typed(count)} {what}{'' if count == 1 else 's'}"


def _rate(event: Any) -> str:
    return f"sampling probability {typed(event.sampling_probability)}"


def _given(value: float | None, words: str) -> str:
    return "" if value is None else words.format(typed(value))


def _noise(event: Any) -> str:
    """The mechanism of each step of a scheme. The entries of a long strategy are left out (``ABRIDGED``)."""
    strategy, kind = getattr(event, "strategy", schemes.IDENTITY), ""
    if strategy and isinstance(strategy[0], list | tuple):
        kind = f"a strategy of {max(map(len, strategy))} bands, its columns taken as given"
    elif strategy and strategy != schemes.IDENTITY:
        entries = f": {', '.join(map(typed, strategy))}" if len(strategy) <= LISTED else ""
        kind = f"a Toeplitz strategy of {len(strategy)} bands, its columns taken as given{entries}"
    correlated = f", noise correlated by {kind}" if kind else ""
    return f"a Gaussian mechanism (noise multiplier {typed(event.noise_multiplier)}{correlated})"


def _by_fields(event: dp_event.DpEvent) -> str:
    name, own = name_in_words(type(event)), written_fields(type(event))
    article = "an" if name[:1].lower() in "aeiou" else "a"
    fields = [f"{one.alias.replace('_', ' ')} {_value(getattr(event, one.name))}" for one in own]
    return f"{article} {name.removesuffix(' mechanism')} mechanism" + (f" ({', '.join(fields)})" if fields else "")


def _value(value: Any) -> str:
    if isinstance(value, dp_event.DpEvent):
        return describe(value)
    if not isinstance(value, list | tuple):
        return typed(value)
    if len(value) > LISTED:
        return f"of {len(value):,} values, the first being {_value(value[0])}"
    return str(list(value))


def _inner(event: dp_event.DpEvent) -> list[dp_event.DpEvent]:
    """The events that an event is made of."""
    values = [getattr(event, one.name) for one in written_fields(type(event))]
    items = [item for value in values for item in (value if isinstance(value, list | tuple) else [value])]
    return [item for item in items if isinstance(item, dp_event.DpEvent)]


def is_discrete(event: dp_event.DpEvent) -> bool:
    """Whether all noise of the tree is drawn on the integers or from a finite set, without floating-point noise."""
    inner = _inner(event)
    return all(map(is_discrete, inner)) if inner else isinstance(event, _DISCRETE)


def is_about_users(event: dp_event.DpEvent) -> bool:
    """Whether the tree bounds what users add, not records. Trees that mix both have no laws."""
    return isinstance(event, USERS) or any(map(is_about_users, _inner(event)))


def assumptions(event: dp_event.DpEvent, *, relation: NeighboringRelation = ADD_OR_REMOVE) -> list[str]:
    """The assumptions of a statement about an event under a relation, each a clause that follows "that"."""
    around: list[str] = []  # of sampling and selection
    inside: dict[type[dp_event.DpEvent], tuple[str, ...]] = {}
    for one in _spread(event):
        if type(one) in MECHANISMS:
            inside[type(one)] = _assumed(type(one))
        elif isinstance(one, dp_event.PoissonSampledDpEvent) and one.sampling_probability != 1:
            scalar = relation is REPLACE_ONE and type(one.event) in NOISES[1:]
            around += [_POISSON, _UNRELATED[relation], *([_SCALAR] if scalar else [])]
        else:
            around += _assumed(type(one))
    clauses = [*dict.fromkeys(around), *itertools.chain(*inside.values())]
    return list(reversed(dict.fromkeys(reversed(clauses))))  # what several share comes last


def _assumed(event_type: type[dp_event.DpEvent]) -> tuple[str, ...]:
    own = described(event_type).assumptions
    return ASSUMPTIONS.get(event_type, ()) if own is None else own


def _spread(event: dp_event.DpEvent) -> Iterator[dp_event.DpEvent]:
    """Every event in a tree; a mechanism without assumptions that another event stands for has those of that event."""
    yield event
    for one in _inner(event):
        yield from _spread(one)
    mechanism = MECHANISMS.get(type(event))
    if mechanism is not None and not _assumed(type(event)):
        laws = mechanism.laws(event)
        if isinstance(laws, dp_event.DpEvent):
            yield from _spread(laws)
