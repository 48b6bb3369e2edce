"""Training schemes: from their events to laws in many dimensions, or to events of Gaussian mechanisms that stand for
them (docs/guarantees_highdim.md, Section 3, where nothing else is said).
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable
from fractions import Fraction
from functools import partial, wraps
from typing import Any

import attr
import numpy as np
import scipy
from dp_accounting import NeighboringRelation, dp_event

from evr import validate
from evr.laws import Direction, DominatingPair, Pairs
from evr.laws.exact import ExactBins, ExactGaussian, ExactTruncated, exact_sampled
from evr.laws.line import poisson
from evr.laws.line.gaussian import GaussianPair
from evr.laws.patterns.bins import CorrelatedBins, IndependentBins
from evr.laws.patterns.law import PatternLaw, ReplacedPatterns
from evr.laws.patterns.min_sep import MinSep
from evr.laws.patterns.strategy import Strategy, noise_over, square_sensitivity
from evr.mechanisms import schemes
from evr.mechanisms.descriptor import NON_PRIVATE, Mechanism, Translator
from evr.mechanisms.relations import ADD_OR_REMOVE, REPLACE_ONE, ZERO_OUT

MOST_BINS = 10**6
MOST_RECORDS = 10**9
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
_TAKING_PART = ("sampling_probability", "dataset_size", "truncated_batch_size", "sample_size")  # 0: nobody does


def scheme(laws: Callable[..., Pairs | dp_event.DpEvent]) -> Callable[..., Pairs | dp_event.DpEvent]:
    """The translator of a scheme. Each number is checked by the rule for its name, which is the same in all schemes. A
    scheme in which nobody takes part costs nothing, and one without noise has no privacy.
    """

    @wraps(laws)
    def translated(event: Any, **options: Any) -> Pairs | dp_event.DpEvent:
        names = [one.name for one in attr.fields(type(event)) if one.name in _RULES]
        event = attr.evolve(event, **{name: _RULES[name](**{name: getattr(event, name)}) for name in names})
        if any(getattr(event, name) == 0 for name in names if name in _TAKING_PART):
            return dp_event.NoOpDpEvent()
        return NON_PRIVATE if event.noise_multiplier == 0 else laws(event, **options)

    return translated


@scheme
def balls_in_bins(event: schemes.BallsInBinsDpEvent) -> Pairs | dp_event.DpEvent:
    """Laws of a ``BallsInBinsDpEvent``, a Gaussian if there is one bin."""
    noise, bins = event.noise_multiplier, event.cycle_length
    if bins > MOST_BINS:
        raise ValueError(f"cycle_length={bins!r} is above {MOST_BINS}: a sample would have too many coordinates")
    strategy = Strategy.of(event.strategy, event.iterations)
    if bins == 1:
        return dp_event.GaussianDpEvent(noise_over(noise, strategy.square_of(np.ones(event.iterations))))
    if strategy.bands == 1 and strategy.is_toeplitz:
        cycles, entry = -(-event.iterations // bins), strategy.columns[0][0]
        exact = cycles * (Fraction(entry) / Fraction(noise)) ** 2
        energy = cycles * (entry / noise) ** 2
        return Pairs.each(lambda one: IndependentBins(one, bins, energy), lambda one: ExactBins(one, bins, exact))
    return Pairs.each(lambda one: CorrelatedBins(one, noise, bins, strategy))


@scheme
def redrawn_bins(event: schemes.RedrawnBinsDpEvent) -> dp_event.DpEvent:
    """One epoch of bins, as often as there are epochs."""
    bins = event.cycle_length
    return dp_event.SelfComposedDpEvent(schemes.BallsInBinsDpEvent(event.noise_multiplier, bins, bins), event.epochs)


@scheme
def allocation(event: schemes.RandomAllocationDpEvent) -> dp_event.DpEvent:
    """One of ``m`` iterations for each participation, ``m`` being the iterations over the participations, rounded down
    or up (docs/guarantees_state.md, G7).
    """
    if event.participations > event.iterations:
        raise ValueError(f"participations={event.participations!r} is above iterations={event.iterations!r}")
    size, larger = divmod(event.iterations, event.participations)
    sizes = {size + 1: larger, size: event.participations - larger}
    blocks = {schemes.BallsInBinsDpEvent(event.noise_multiplier, m, m): count for m, count in sizes.items() if count}
    return dp_event.ComposedDpEvent([dp_event.SelfComposedDpEvent(one, count) for one, count in blocks.items()])


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
    """The Poisson-sampled Gaussians of one group.

    Where the group of a record is random, this is an upper bound (Jensen's inequality).
    """
    noise, cycle, probability = event.noise_multiplier, event.cycle_length, event.sampling_probability
    strategy = Strategy.of(event.strategy, event.iterations)
    if event.partition == "independent" and probability == 1 and cycle > 1:
        return schemes.BallsInBinsDpEvent(noise, event.iterations, cycle, event.strategy)
    _require_separation(strategy, cycle, "cycle_length")
    return _sampled_gaussians(strategy, noise, cycle, probability)


@scheme
def min_sep(event: schemes.BMinSepDpEvent) -> Pairs | dp_event.DpEvent:
    """Laws of a ``BMinSepDpEvent``, or the event that it amounts to.

    With ``min_sep`` of 1 it is Poisson sampling; from a warm start and with probability 1 it is balls in bins.
    """
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
        raise ValueError(
            f"strategy has {strategy.bands} bands and {field}={separation}: contributions of one record would share "
            f"noise, and the law does not factor. Use at most {separation} bands, or a greater {field}"
        )


def _sampled_gaussians(strategy: Strategy, noise: float, cycle: int, probability: float) -> dp_event.DpEvent:
    """A Poisson-sampled Gaussian for each cycle, by the greatest norm of a column in it; equal ones together."""
    squares = [float(strategy.squares[first : first + cycle].max()) for first in range(0, strategy.size, cycle)]
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
    """The Gaussian mechanisms of one record's nodes: as many as a tree is deep (docs/guarantees_relations.md, R1.5)."""
    counts = event.step_counts if isinstance(event.step_counts, Iterable) else [event.step_counts]
    steps = [validate.non_negative_integer(step_counts=one) for one in counts]
    if not steps:
        raise ValueError("step_counts=[] names no tree: give the number of steps of each")
    depth = max(steps).bit_length()  # ceil(log2(steps + 1)): nodes from a leaf to the root
    if depth == 0:
        return dp_event.NoOpDpEvent()
    return dp_event.SelfComposedDpEvent(dp_event.GaussianDpEvent(event.noise_multiplier), depth)


@scheme
def truncated(event: dp_event.TruncatedSubsampledGaussianDpEvent) -> Pairs | dp_event.DpEvent:
    """A Gaussian on Poisson batches that are cut off at a greatest size (docs/guarantees_relations.md, R3)."""
    size, most = event.dataset_size, event.truncated_batch_size
    q, noise = event.sampling_probability, event.noise_multiplier
    if size > MOST_RECORDS:
        raise ValueError(
            f"dataset_size={size!r} is above {MOST_RECORDS:,}: binomial laws would take too long to enclose"
        )
    if size <= most:
        return dp_event.PoissonSampledDpEvent(q, dp_event.GaussianDpEvent(noise))
    doubled = GaussianPair(2 / noise)
    if q == 1:
        part, base = Fraction(most, size), ExactGaussian(4 / Fraction(noise) ** 2)
        return Pairs.each(partial(poisson.sampled, doubled, float(part)), partial(exact_sampled, base, part))
    binomial = scipy.stats.binom  # loaded where it is needed
    cut = float(binomial.sf(most - 1, size - 1, q))

    def law(one: Direction) -> DominatingPair:
        whole = poisson.sampled(GaussianPair(1 / noise), q, one)
        if cut == 0:
            # Where cutting off is less likely than the least positive float, it is left out of the pair, and not of the
            # exact law.
            return whole
        logs = float(binomial.logcdf(most - 1, size - 1, q)), float(binomial.logsf(most - 1, size - 1, q))
        share = min(float(binomial.sf(most, size, q)) * most / (size * cut), q)
        return poisson.EitherPair((whole, poisson.sampled(doubled, share, one)), logs)

    return Pairs.each(law, partial(ExactTruncated, size, Fraction(q), most, Fraction(noise)))


def replaced(laws: Translator, event: dp_event.DpEvent) -> Pairs | dp_event.DpEvent:
    """Laws in many dimensions under replace-one, known by samples only (docs/guarantees_relations.md, R8)."""
    found = laws(event)
    if isinstance(found, dp_event.DpEvent):
        return found
    assert isinstance(found.remove, PatternLaw)
    return Pairs.both(ReplacedPatterns(found.remove))


def _cyclic_relation(event: schemes.CyclicPoissonDpEvent) -> NeighboringRelation:
    """With groups of a fixed size, adding a record would move others."""
    return ZERO_OUT if event.partition == "fixed" and event.cycle_length > 1 else ADD_OR_REMOVE


def _zero_out(event: dp_event.DpEvent) -> NeighboringRelation:
    """With one record more, others would move to other batches or leaves."""
    return ZERO_OUT


_scheme = partial(Mechanism, takes_sampling=False)

SPLIT = {
    mechanism.event: mechanism
    for mechanism in (
        _scheme(schemes.BallsInBinsDpEvent, balls_in_bins, under={REPLACE_ONE: partial(replaced, balls_in_bins)}),
        _scheme(schemes.RedrawnBinsDpEvent, redrawn_bins),
        _scheme(
            schemes.CyclicPoissonDpEvent, cyclic_poisson, relation=_cyclic_relation, under={REPLACE_ONE: cyclic_poisson}
        ),
        _scheme(schemes.MatrixMechanismDpEvent, matrix_mechanism),
        _scheme(schemes.BMinSepDpEvent, min_sep, under={REPLACE_ONE: partial(replaced, min_sep)}),
    )
}
"""Schemes that may be about users."""

MECHANISMS = (
    *SPLIT.values(),
    _scheme(schemes.RandomAllocationDpEvent, allocation),
    _scheme(dp_event.SingleEpochTreeAggregationDpEvent, tree_aggregation, relation=_zero_out),
    _scheme(
        schemes.ShuffledBatchesDpEvent, shuffled_batches, relation=_zero_out, under={REPLACE_ONE: shuffled_batches}
    ),
    _scheme(dp_event.TruncatedSubsampledGaussianDpEvent, truncated, under={ZERO_OUT: None}),
)
