"""Events in words: what ran.

No file chooses the words: evr's own events have theirs in ``WORDS``, a registered mechanism brings its own, and any
other is described by its name and fields.
"""

import math
import re
from collections.abc import Callable
from typing import Any

from dp_accounting import dp_event

from evr._basics import validate
from evr._basics.numbers import typed
from evr._described import described, name_in_words
from evr._kernel.events import schemes
from evr._kernel.events.registry import events_in, written_fields
from evr._kernel.events.training import PARTITIONS

_RUNS = {0.0: "logarithmic", 1.0: "geometric", math.inf: "Poisson"}
_PARTS = 6  # as many parts of a composition are described one by one
_LONG = 2000  # if they take no more characters
LISTED = 12  # as many numbers of a list are written out
ABRIDGED = re.compile(", the first being |columns taken as given(?!:)")
"""Found in words that leave some of an event's numbers out, so that other events have the same words."""
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
    dp_event.SampledWithReplacementDpEvent: lambda one: (
        f"sampling with replacement ({counted(one.sample_size, 'draw')} from {one.source_dataset_size:,} records) of "
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
    schemes.OneOfDpEvent: lambda one: (
        f"one of {counted(len(one.events), 'group')} for each record, drawn at random: {_groups(one.events)}"
    ),
    schemes.AllocatedDpEvent: lambda one: (
        f"random allocation (each record in {one.num_selected:,} of {one.num_steps:,} steps, drawn at random) of "
        f"{describe(one.event)}"
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
    schemes.AdaptiveClippingDpEvent: lambda one: (
        f"a Gaussian mechanism with adaptive clipping (noise multiplier {typed(one.noise_multiplier)}, noise of "
        f"deviation {typed(one.clipped_count_stddev)} on the count of clipped records)"
    ),
    schemes.AboveThresholdDpEvent: lambda one: f"AboveThreshold (epsilon {typed(one.epsilon)})",
    schemes.ParallelDpEvent: lambda one: (
        f"the runs of each of several disjoint parts of the data ({describe(one.event)})"
    ),
    schemes.UsersDpEvent: lambda one: (
        f"{describe(one.event)}, for users of at most {counted(one.records_per_user, 'record')}"
    ),
}
"""What ran, by the class of the event: by default the name of the class and its fields."""


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


def _groups(events: list[dp_event.DpEvent]) -> str:
    """The mechanisms of groups, those of equal ones together."""
    numbers = dict[str, int]()
    for words in map(describe, events):
        numbers[words] = numbers.get(words, 0) + 1
    parts = [f"{counted(number, 'group')} of {words}" for words, number in numbers.items()]
    if len(parts) > _PARTS or sum(map(len, parts)) > _LONG:
        return f"{len(parts):,} kinds of groups, the first being {parts[0]}"
    return "; ".join(parts)


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


def is_discrete(event: dp_event.DpEvent) -> bool:
    """Whether all noise of the tree is drawn on the integers or from a finite set, without floating-point noise."""
    inner = events_in(event)
    return all(map(is_discrete, inner)) if inner else isinstance(event, _DISCRETE)
