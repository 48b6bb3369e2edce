"""From events of balls in bins to their laws."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
from dp_accounting import dp_event

from evr import validate
from evr.laws import Pairs
from evr.laws.exact import ExactBins
from evr.laws.patterns.bins import CorrelatedBins, IndependentBins
from evr.laws.patterns.strategy import Strategy, noise_over
from evr.mechanisms.descriptor import NON_PRIVATE, Mechanism
from evr.mechanisms.relations import REPLACE_ONE
from evr.mechanisms.replaced import scheme
from evr.mechanisms.schemes import CONTRIBUTIONS, BallsInBinsDpEvent, RandomAllocationDpEvent, RedrawnBinsDpEvent

MOST_BINS = 10**6


def fixed(event: BallsInBinsDpEvent) -> Pairs | dp_event.DpEvent:
    """Laws of a ``BallsInBinsDpEvent``, a Gaussian if there is one bin."""
    noise = validate.noise_scale(noise_multiplier=event.noise_multiplier)
    iterations = validate.positive_integer(iterations=event.iterations)
    bins = _bins(event.cycle_length)
    strategy = Strategy.of(event.strategy, iterations)
    if noise == 0:
        return NON_PRIVATE
    if bins == 1:
        return dp_event.GaussianDpEvent(noise_over(noise, strategy.square_of(np.ones(iterations))))
    if strategy.bands == 1 and strategy.is_toeplitz:
        cycles = -(-iterations // bins)
        energy = cycles * (strategy.columns[0][0] / noise) ** 2
        exact = cycles * (Fraction(strategy.columns[0][0]) / Fraction(noise)) ** 2
        return Pairs.each(lambda one: IndependentBins(one, bins, energy), lambda one: ExactBins(one, bins, exact))
    return Pairs.each(lambda one: CorrelatedBins(one, noise, bins, strategy))


def redrawn(event: RedrawnBinsDpEvent) -> dp_event.DpEvent:
    """One epoch of bins, as often as there are epochs."""
    epochs, bins = validate.positive_integer(epochs=event.epochs), _bins(event.cycle_length)
    validate.noise_scale(noise_multiplier=event.noise_multiplier)
    return dp_event.SelfComposedDpEvent(BallsInBinsDpEvent(event.noise_multiplier, bins, bins), epochs)


def blocks(event: RandomAllocationDpEvent) -> dp_event.DpEvent:
    """One of ``m`` iterations for each participation, ``m`` being the iterations over the participations, rounded down
    or up (docs/guarantees_state.md, G7).
    """
    noise = validate.noise_scale(noise_multiplier=event.noise_multiplier)
    iterations = validate.positive_integer(iterations=event.iterations)
    participations = validate.positive_integer(participations=event.participations)
    if participations > iterations:
        raise ValueError(
            f"participations={participations!r} is above iterations={iterations!r}: a record takes part at most once "
            "in each iteration"
        )
    size, larger = divmod(iterations, participations)
    sizes = {size + 1: larger, size: participations - larger}
    return dp_event.ComposedDpEvent(
        [dp_event.SelfComposedDpEvent(BallsInBinsDpEvent(noise, m, m), n) for m, n in sizes.items() if n]
    )


def _bins(cycle_length: int) -> int:
    bins = validate.positive_integer(cycle_length=cycle_length)
    if bins > MOST_BINS:
        raise ValueError(f"cycle_length={bins!r} is above {MOST_BINS}: a sample would have too many coordinates")
    return bins


MECHANISM = Mechanism(
    BallsInBinsDpEvent,
    fixed,
    assumptions=(
        "each record was put into one bin, with equal chances and independently of all others, "
        "once for the whole training (not fixed-size batches of shuffled data)",
        CONTRIBUTIONS,
    ),
    takes_sampling=False,
    under={REPLACE_ONE: scheme(fixed)},
)

REDRAWN = Mechanism(
    RedrawnBinsDpEvent,
    redrawn,
    assumptions=(
        "each record was put into one bin in each epoch, with equal chances and independently of "
        "all others and of other epochs (not fixed-size batches of shuffled data)",
        CONTRIBUTIONS,
    ),
    takes_sampling=False,
)

ALLOCATION = Mechanism(
    RandomAllocationDpEvent,
    blocks,
    assumptions=(
        "each record took part in exactly the stated number of iterations, a uniformly random set of them, drawn "
        "independently of all other records (not shuffled batches of a fixed size)",
        CONTRIBUTIONS,
    ),
    takes_sampling=False,
)
