"""From a ``BMinSepDpEvent`` to its laws."""

from __future__ import annotations

from dp_accounting import dp_event

from evr import validate
from evr.laws import Pairs
from evr.laws.patterns.min_sep import MinSep
from evr.laws.patterns.strategy import Strategy
from evr.mechanisms.descriptor import NON_PRIVATE, Mechanism
from evr.mechanisms.matrix_mechanism import require_separation, sampled_gaussians
from evr.mechanisms.relations import REPLACE_ONE
from evr.mechanisms.replaced import scheme
from evr.mechanisms.schemes import CONTRIBUTIONS, BallsInBinsDpEvent, BMinSepDpEvent


def pairs(event: BMinSepDpEvent) -> Pairs | dp_event.DpEvent:
    """Laws of a ``BMinSepDpEvent``, or the event that it amounts to.

    With ``min_sep`` of 1 it is Poisson sampling; from a warm start and with probability 1 it is balls in bins.
    """
    noise = validate.noise_scale(noise_multiplier=event.noise_multiplier)
    iterations = validate.positive_integer(iterations=event.iterations)
    separation = validate.positive_integer(min_sep=event.min_sep)
    probability = validate.probability(sampling_probability=event.sampling_probability)
    if not isinstance(event.warm_start, bool):
        raise TypeError(f"warm_start={event.warm_start!r} is not True or False")
    strategy = Strategy.of(event.strategy, iterations)
    require_separation(strategy, separation, "min_sep")
    if probability == 0:
        return dp_event.NoOpDpEvent()
    if noise == 0:
        return NON_PRIVATE
    if separation == 1:
        return sampled_gaussians(strategy, noise, 1, probability)
    if probability == 1 and event.warm_start:
        return BallsInBinsDpEvent(noise, iterations, separation, event.strategy)
    return Pairs.each(lambda one: MinSep(one, noise, separation, probability, event.warm_start, strategy))


MECHANISM = Mechanism(
    BMinSepDpEvent,
    pairs,
    assumptions=("each eligible record was in a batch independently with the stated probability", CONTRIBUTIONS),
    takes_sampling=False,
    under={REPLACE_ONE: scheme(pairs)},
)
