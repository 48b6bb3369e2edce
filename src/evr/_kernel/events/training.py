"""Training schemes: from their events to laws in many dimensions, or to events of Gaussian mechanisms that
stand for them (docs/guarantees_highdim.md, Section 3, where nothing else is said).
"""

import itertools
from collections.abc import Callable, Iterable
from fractions import Fraction
from functools import partial, wraps
from typing import Any

import attr
import numpy as np
from dp_accounting import dp_event

from evr._basics import validate
from evr._kernel.events import schemes
from evr._kernel.events.relations import NON_PRIVATE, Laws, Translator
from evr._kernel.order import ceil_div
from evr._kernel.pairs import Pairs, as_floats, exact
from evr._kernel.pairs.patterns.bins import CorrelatedBins
from evr._kernel.pairs.patterns.law import PatternLaw, ReplacedPatterns
from evr._kernel.pairs.patterns.min_sep import MinSep
from evr._kernel.pairs.patterns.strategy import Strategy, noise_over, square_sensitivity

MOST_BINS, MOST_SIZE = 10**6, 10**9  # bins; records of a data set
PARTITIONS = ("fixed", "independent")
_RULES: dict[str, Callable[..., Any]] = {
    "noise_multiplier": validate.noise_scale,
    "sampling_probability": validate.probability,
    **dict.fromkeys(
        ("iterations", "cycle_length", "epochs", "participations", "min_sep", "source_dataset_size"),
        validate.positive_integer,
    ),
    **dict.fromkeys(("dataset_size", "truncated_batch_size", "sample_size"), validate.non_negative_integer),
    "partition": partial(validate.one_of, PARTITIONS),
}
_TAKING_PART = ("sampling_probability", "dataset_size", "truncated_batch_size", "sample_size")  # 0: nobody


def scheme(laws: Callable[..., Laws]) -> Callable[..., Laws]:
    """Checks each number of an event by the rule for its name before ``laws``. A scheme in which nobody takes
    part costs nothing, and one without noise has no privacy.
    """

    @wraps(laws)
    def translated(event: Any, **options: Any) -> Laws:
        names = [one.name for one in attr.fields(type(event)) if one.name in _RULES]
        event = attr.evolve(event, **{name: _RULES[name](**{name: getattr(event, name)}) for name in names})
        if any(getattr(event, name) == 0 for name in names if name in _TAKING_PART):
            return dp_event.NoOpDpEvent()
        return NON_PRIVATE if event.noise_multiplier == 0 else laws(event, **options)

    return translated


@scheme
def balls_in_bins(event: schemes.BallsInBinsDpEvent) -> Laws:
    """Laws of a ``BallsInBinsDpEvent``, a Gaussian if there is one bin."""
    noise, bins = event.noise_multiplier, event.cycle_length
    if bins > MOST_BINS:
        why = "a sample would have too many coordinates"
        raise ValueError(f"cycle_length={bins!r} is above {MOST_BINS}: {why}")
    strategy = Strategy.of(event.strategy, event.iterations)
    if bins == 1:
        return dp_event.GaussianDpEvent(noise_over(noise, strategy.square_of(np.ones(event.iterations))))
    if strategy.bands == 1 and strategy.is_toeplitz:
        cycles, entry = ceil_div(event.iterations, bins), Fraction(strategy.columns[0][0])
        energy = cycles * (entry / Fraction(noise)) ** 2
        return Pairs.each(lambda one: exact.ExactBins(one, bins, energy))
    return Pairs.each(lambda one: CorrelatedBins(one, noise, bins, strategy))


@scheme
def redrawn_bins(event: schemes.RedrawnBinsDpEvent) -> dp_event.DpEvent:
    """One epoch of bins, as often as there are epochs."""
    bins = event.cycle_length
    return dp_event.SelfComposedDpEvent(
        schemes.BallsInBinsDpEvent(event.noise_multiplier, bins, bins), event.epochs
    )


@scheme
def allocation(event: schemes.RandomAllocationDpEvent) -> dp_event.DpEvent:
    """Gaussian noise for the chosen iterations (guarantees_state, G7)."""
    if event.participations > event.iterations:
        raise ValueError(f"participations={event.participations!r} is above iterations={event.iterations!r}")
    noise = dp_event.GaussianDpEvent(event.noise_multiplier)
    return schemes.AllocatedDpEvent(noise, event.participations, event.iterations)


@scheme
def matrix_mechanism(event: schemes.MatrixMechanismDpEvent) -> dp_event.DpEvent:
    """One Gaussian, of the noise over the sensitivity."""
    most = event.max_participations
    most = None if most is None else validate.positive_integer(max_participations=most)
    strategy = Strategy.of(event.strategy, event.iterations, signs=True)
    square = square_sensitivity(strategy, event.min_sep, most)
    return dp_event.GaussianDpEvent(noise_over(event.noise_multiplier, square))


@scheme
def cyclic_poisson(event: schemes.CyclicPoissonDpEvent) -> dp_event.DpEvent:
    """The Poisson-sampled Gaussians of one group, or one of the groups where they are random and noise is
    independent (guarantees_nested, G2.2). With correlated noise one group is an upper bound (Jensen's
    inequality).
    """
    noise, cycle, probability = event.noise_multiplier, event.cycle_length, event.sampling_probability
    strategy = Strategy.of(event.strategy, event.iterations)
    if event.partition == "independent" and cycle > 1:
        if probability == 1:
            return schemes.BallsInBinsDpEvent(noise, event.iterations, cycle, event.strategy)
        if strategy.bands == 1 and cycle <= MOST_BINS:
            return _random_groups(strategy, noise, cycle, probability)
    _require_separation(strategy, cycle, "cycle_length")
    return _sampled_gaussians(strategy, noise, cycle, probability)


@scheme
def min_sep(event: schemes.BMinSepDpEvent) -> Laws:
    """With ``min_sep`` 1 it is Poisson sampling; from a warm start with probability 1, balls in bins."""
    noise, separation, probability = event.noise_multiplier, event.min_sep, event.sampling_probability
    if not isinstance(event.warm_start, bool):
        raise TypeError(f"warm_start={event.warm_start!r} is not True or False")
    strategy = Strategy.of(event.strategy, event.iterations)
    _require_separation(strategy, separation, "min_sep")
    if separation == 1:
        return _sampled_gaussians(strategy, noise, 1, probability)
    if probability == 1 and event.warm_start:
        return schemes.BallsInBinsDpEvent(noise, event.iterations, separation, event.strategy)
    return Pairs.each(lambda one: MinSep(one, noise, separation, probability, event.warm_start, strategy))


def _require_separation(strategy: Strategy, separation: int, field: str) -> None:
    """Refuse more bands than steps between two participations: their columns would overlap."""
    if strategy.bands > separation:
        why = f"strategy has {strategy.bands} bands and {field}={separation}"
        remedy = f"Use at most {separation} bands, or a greater {field}"
        raise ValueError(
            f"{why}: contributions of a record share noise, and the law does not factor. {remedy}"
        )


def _random_groups(strategy: Strategy, noise: float, cycle: int, probability: float) -> dp_event.DpEvent:
    """One of the groups, each of them the Poisson-sampled Gaussians of its turns."""
    turns = [tuple(strategy.squares[first::cycle].tolist()) for first in range(cycle)]
    groups: dict[tuple[float, ...], dp_event.DpEvent] = {(): dp_event.NoOpDpEvent()}
    groups |= {one: _of_squares(strategy, noise, one, probability) for one in dict.fromkeys(turns) if one}
    return schemes.OneOfDpEvent([groups[one] for one in turns])


def _sampled_gaussians(strategy: Strategy, noise: float, cycle: int, probability: float) -> dp_event.DpEvent:
    """A Poisson-sampled Gaussian for each cycle, by the greatest norm of a column in it."""
    squares = np.maximum.reduceat(strategy.squares, range(0, strategy.size, cycle))
    return _of_squares(strategy, noise, squares.tolist(), probability)


def _of_squares(
    strategy: Strategy, noise: float, squares: Iterable[float], probability: float
) -> dp_event.DpEvent:
    """Poisson-sampled Gaussians, equal ones together."""
    multipliers = [noise_over(noise, strategy.not_below(x, strategy.bands)) for x in squares]
    events: list[dp_event.DpEvent] = []
    for multiplier, equal in itertools.groupby(multipliers):
        step = dp_event.PoissonSampledDpEvent(probability, dp_event.GaussianDpEvent(multiplier))
        events.append(dp_event.SelfComposedDpEvent(step, len(list(equal))))
    return events[0] if len(events) == 1 else dp_event.ComposedDpEvent(events)


@scheme
def shuffled_batches(event: schemes.ShuffledBatchesDpEvent) -> dp_event.DpEvent:
    """A Gaussian mechanism for each epoch (docs/guarantees.md, 1.6)."""
    return dp_event.SelfComposedDpEvent(dp_event.GaussianDpEvent(event.noise_multiplier), event.epochs)


@scheme
def tree_aggregation(event: dp_event.SingleEpochTreeAggregationDpEvent) -> dp_event.DpEvent:
    """The Gaussian mechanisms of a record's nodes: as many as a tree is deep (guarantees_relations, R1.5)."""
    counts = event.step_counts if isinstance(event.step_counts, Iterable) else [event.step_counts]
    steps = [validate.non_negative_integer(step_counts=one) for one in counts]
    if not steps:
        raise ValueError("step_counts=[] names no tree: give the number of steps of each")
    depth = max(steps).bit_length()  # ceil(log2(steps + 1)): nodes from a leaf to the root
    if depth == 0:
        return dp_event.NoOpDpEvent()
    return dp_event.SelfComposedDpEvent(dp_event.GaussianDpEvent(event.noise_multiplier), depth)


@scheme
def truncated(event: dp_event.TruncatedSubsampledGaussianDpEvent) -> Laws:
    """A Gaussian on Poisson batches that are cut off at a greatest size (guarantees_relations, R3)."""
    size, most = event.dataset_size, event.truncated_batch_size
    q, noise = event.sampling_probability, event.noise_multiplier
    if size > MOST_SIZE:
        why = "binomial laws would take too long to enclose"
        raise ValueError(f"dataset_size={size!r} is above {MOST_SIZE:,}: {why}")
    if size <= most:
        return dp_event.PoissonSampledDpEvent(q, dp_event.GaussianDpEvent(noise))
    if q == 1:
        doubled, share = exact.ExactGaussian(4 / Fraction(noise) ** 2), Fraction(most, size)
        return Pairs.each(lambda one: exact.exact_sampled(doubled, share, one))
    return Pairs.each(partial(exact.ExactTruncated, size, Fraction(q), most, Fraction(noise)))


def mirrored(laws: Translator, event: dp_event.DpEvent) -> Laws:
    """Laws in many dimensions under replace-one, known by samples only (guarantees_relations, R8); of random
    groups, which have none there, the laws of fixed ones.
    """
    found = laws(event)
    if isinstance(found, schemes.OneOfDpEvent):
        found = laws(attr.evolve(event, partition="fixed"))
    if isinstance(found, dp_event.DpEvent):
        return found
    base = as_floats(found.remove)
    assert isinstance(base, PatternLaw)
    return Pairs.both(ReplacedPatterns(base))
