"""Training schemes in words, as they stand in a statement."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from dp_accounting import dp_event

from evr import validate
from evr.mechanisms.schemes import (
    IDENTITY,
    BallsInBinsDpEvent,
    BinomialSelectDpEvent,
    BMinSepDpEvent,
    CyclicPoissonDpEvent,
    DiscreteGaussianDpEvent,
    FixedBatchUsersDpEvent,
    MatrixMechanismDpEvent,
    PoissonSampledUsersDpEvent,
    RandomAllocationDpEvent,
    RedrawnBinsDpEvent,
    ShuffledBatchesDpEvent,
    SummedDiscreteGaussiansDpEvent,
    ThresholdSelectDpEvent,
    UsersDpEvent,
)
from evr.mechanisms.training import PARTITIONS
from evr.numbers import typed

LISTED = 12
"""Numbers of a list that words write out."""


def noise_in_words(noise_multiplier: float, strategy: Any = IDENTITY) -> str:
    """The mechanism of each step of a scheme, as it stands in a statement. Of a long strategy the entries are left out
    (``is_abridged``).

    >>> print(noise_in_words(1.5, (1.0, 0.5)))
    a Gaussian mechanism (noise multiplier 1.5, noise correlated by a Toeplitz strategy of 2 bands,
    its columns taken as given: 1, 0.5)
    """
    kind = ""
    if strategy and isinstance(strategy[0], list | tuple):
        kind = f"a strategy of {max(map(len, strategy))} bands, its columns taken as given"
    elif strategy and strategy != IDENTITY:
        entries = f": {', '.join(map(typed, strategy))}" if len(strategy) <= LISTED else ""
        kind = f"a Toeplitz strategy of {len(strategy)} bands, its columns taken as given{entries}"
    correlated = f", noise correlated by {kind}" if kind else ""
    return f"a Gaussian mechanism (noise multiplier {typed(noise_multiplier)}{correlated})"


def _fixed_in_words(event: BallsInBinsDpEvent) -> str:
    drawn = f"{event.cycle_length:,} bins, drawn once, {event.iterations:,} iterations"
    return f"balls in bins ({drawn}) of {noise_in_words(event.noise_multiplier, event.strategy)}"


def _redrawn_in_words(event: RedrawnBinsDpEvent) -> str:
    drawn = f"{event.cycle_length:,} bins, drawn anew in each of {event.epochs:,} epochs"
    return f"balls in bins ({drawn}) of {noise_in_words(event.noise_multiplier)}"


def _matrix_in_words(event: MatrixMechanismDpEvent) -> str:
    most = event.max_participations
    often = "" if most is None else f", at most {most:,} times"
    return (
        f"{event.iterations:,} iterations of "
        f"{noise_in_words(event.noise_multiplier, event.strategy)}, each record at least "
        f"{event.min_sep:,} iterations apart{often}"
    )


def _cyclic_in_words(event: CyclicPoissonDpEvent) -> str:
    groups = f"{event.cycle_length:,} {validate.one_of(PARTITIONS, partition=event.partition)} groups in turn"
    probability = typed(event.sampling_probability)
    chance = f"sampling probability {probability}, {event.iterations:,} iterations"
    return f"cyclic Poisson sampling ({groups}, {chance}) of {noise_in_words(event.noise_multiplier, event.strategy)}"


def _min_sep_in_words(event: BMinSepDpEvent) -> str:
    chance = f"sampling probability {typed(event.sampling_probability)}, {'warm' if event.warm_start else 'cold'} start"
    return (
        f"{event.min_sep:,}-min-sep sampling ({chance}, {event.iterations:,} iterations) "
        f"of {noise_in_words(event.noise_multiplier, event.strategy)}"
    )


def _shuffled_in_words(event: ShuffledBatchesDpEvent) -> str:
    epochs = f"{event.epochs:,} {'epoch' if event.epochs == 1 else 'epochs'}"
    noise = typed(event.noise_multiplier)
    return f"{epochs} of shuffled batches of a Gaussian mechanism (noise multiplier {noise})"


def _users_in_words(event: PoissonSampledUsersDpEvent) -> str:
    norm = event.user_norm
    clipped = "" if norm is None else f", those of one user in a batch clipped together to {typed(norm)} clipping norms"
    return (
        f"Poisson sampling (sampling probability {typed(event.sampling_probability)}, {_owned(event)}{clipped}) "
        f"of {noise_in_words(event.noise_multiplier)}"
    )


def _allocation_in_words(event: RandomAllocationDpEvent) -> str:
    drawn = f"each record in {event.participations:,} of {event.iterations:,} iterations, drawn at random"
    return f"random allocation ({drawn}) of {noise_in_words(event.noise_multiplier)}"


_DISCRETE = (
    dp_event.DiscreteLaplaceDpEvent,
    dp_event.RandomizedResponseDpEvent,
    DiscreteGaussianDpEvent,
    SummedDiscreteGaussiansDpEvent,
)


def is_discrete(event: dp_event.DpEvent) -> bool:
    """Whether all noise of the tree is drawn on the integers or from a finite set, so that nothing is left to
    floating-point noise.
    """
    if isinstance(event, dp_event.ComposedDpEvent):
        return bool(event.events) and all(map(is_discrete, event.events))
    return isinstance(event, _DISCRETE) if not hasattr(event, "event") else is_discrete(event.event)


def _fixed_batches_in_words(event: FixedBatchUsersDpEvent) -> str:
    drawn = f"{event.sample_size:,} of {event.source_dataset_size:,} records, {_owned(event)}"
    return f"sampling without replacement ({drawn}) of {noise_in_words(event.noise_multiplier)}"


def _split_in_words(event: UsersDpEvent) -> str:
    inner = SCHEMES.get(type(event.event))
    scheme = type(event.event).__name__ if inner is None else inner(event.event)
    most = event.records_per_user
    return f"{scheme}, for users of at most {most:,} record{'' if most == 1 else 's'}"


def _owned(event: Any) -> str:
    most = event.records_per_user
    return f"at most {most:,} record{'' if most == 1 else 's'} per user"


USERS = (PoissonSampledUsersDpEvent, FixedBatchUsersDpEvent, UsersDpEvent)


_LAWS = {0.0: "logarithmic", 1.0: "geometric", math.inf: "Poisson"}


def selection_in_words(event: Any) -> str:
    """Which of several runs is released, as it stands in a statement.

    >>> selection_in_words(dp_event.RepeatAndSelectDpEvent(dp_event.NoOpDpEvent(), 20, 1))
    'the best of a random number of runs (geometric law, mean 20)'
    """
    if isinstance(event, ThresholdSelectDpEvent):
        chance = typed(event.stop_probability)
        return f"the first good one of several runs (after each that is not good, the last with probability {chance})"
    if isinstance(event, BinomialSelectDpEvent):
        law = f"binomial law, at most {event.most_runs:,}, each with probability {typed(event.probability)}"
    elif (name := _LAWS.get(event.shape)) is not None:
        law = f"{name} law, mean {typed(event.mean)}"
    else:
        law = f"truncated negative binomial law, mean {typed(event.mean)}, shape {typed(event.shape)}"
    return f"the best of a random number of runs ({law})"


def is_about_users(event: dp_event.DpEvent) -> bool:
    """Whether the tree bounds what users add, not records. Trees that mix both have no laws."""
    while True:
        if isinstance(event, dp_event.ComposedDpEvent):
            return any(map(is_about_users, event.events))
        if isinstance(event, USERS):
            return True
        if not hasattr(event, "event"):
            return False
        event = event.event


SCHEMES: dict[type[dp_event.DpEvent], Callable[[Any], str]] = {
    BallsInBinsDpEvent: _fixed_in_words,
    RedrawnBinsDpEvent: _redrawn_in_words,
    MatrixMechanismDpEvent: _matrix_in_words,
    CyclicPoissonDpEvent: _cyclic_in_words,
    BMinSepDpEvent: _min_sep_in_words,
    ShuffledBatchesDpEvent: _shuffled_in_words,
    PoissonSampledUsersDpEvent: _users_in_words,
    RandomAllocationDpEvent: _allocation_in_words,
    FixedBatchUsersDpEvent: _fixed_batches_in_words,
    UsersDpEvent: _split_in_words,
}
"""The words of each scheme; those of other mechanisms are their names and fields."""
