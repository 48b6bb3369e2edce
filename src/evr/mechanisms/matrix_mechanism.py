"""From events of matrix mechanisms that are compositions of Gaussians to those events.

A fixed group of cyclic Poisson sampling, and a matrix mechanism without amplification, need no law of their own:
docs/guarantees_highdim.md, Section 3.
"""

from __future__ import annotations

import itertools

from dp_accounting import NeighboringRelation, dp_event

from evr import validate
from evr.laws.patterns.strategy import Strategy, noise_over, square_sensitivity
from evr.mechanisms.descriptor import NON_PRIVATE, Mechanism
from evr.mechanisms.schemes import CONTRIBUTIONS, BallsInBinsDpEvent, CyclicPoissonDpEvent, MatrixMechanismDpEvent

PARTITIONS = ("fixed", "independent")


def matrix_mechanism(event: MatrixMechanismDpEvent) -> dp_event.DpEvent:
    """One Gaussian, of the noise over the sensitivity."""
    noise = validate.noise_scale(noise_multiplier=event.noise_multiplier)
    iterations = validate.positive_integer(iterations=event.iterations)
    separation = validate.positive_integer(min_sep=event.min_sep)
    most = event.max_participations
    most = None if most is None else validate.positive_integer(max_participations=most)
    strategy = Strategy.of(event.strategy, iterations, signs=True)
    if noise == 0:
        return NON_PRIVATE
    return dp_event.GaussianDpEvent(noise_over(noise, square_sensitivity(strategy, separation, most)))


def cyclic_poisson(event: CyclicPoissonDpEvent) -> dp_event.DpEvent:
    """The Poisson-sampled Gaussians of one group.

    Where the group of a record is random, this is an upper bound (Jensen's inequality).
    """
    noise = validate.noise_scale(noise_multiplier=event.noise_multiplier)
    iterations = validate.positive_integer(iterations=event.iterations)
    cycle = validate.positive_integer(cycle_length=event.cycle_length)
    probability = validate.probability(sampling_probability=event.sampling_probability)
    partition = validate.one_of(PARTITIONS, partition=event.partition)
    strategy = Strategy.of(event.strategy, iterations)
    if probability == 0:
        return dp_event.NoOpDpEvent()
    if noise == 0:
        return NON_PRIVATE
    if partition == "independent" and probability == 1 and cycle > 1:
        return BallsInBinsDpEvent(noise, iterations, cycle, event.strategy)
    require_separation(strategy, cycle, "cycle_length")
    return sampled_gaussians(strategy, noise, cycle, probability)


def require_separation(strategy: Strategy, separation: int, field: str) -> None:
    """Refuse more bands than steps between two participations: their columns would overlap."""
    if strategy.bands > separation:
        raise ValueError(
            f"strategy has {strategy.bands} bands and {field}={separation}: contributions of one "
            f"record would share noise, and the law does not factor. Use at most {separation} "
            f"bands, or a greater {field}"
        )


def sampled_gaussians(strategy: Strategy, noise: float, cycle: int, probability: float) -> dp_event.DpEvent:
    """A Poisson-sampled Gaussian for each cycle, by the greatest norm of a column in it; equal ones together."""
    squares = [float(strategy.squares[first : first + cycle].max()) for first in range(0, strategy.size, cycle)]
    multipliers = [noise_over(noise, strategy.not_below(x, strategy.bands)) for x in squares]
    events: list[dp_event.DpEvent] = []
    for multiplier, equal in itertools.groupby(multipliers):
        step = dp_event.PoissonSampledDpEvent(probability, dp_event.GaussianDpEvent(multiplier))
        events.append(dp_event.SelfComposedDpEvent(step, len(list(equal))))
    return events[0] if len(events) == 1 else dp_event.ComposedDpEvent(events)


def _cyclic_relation(event: CyclicPoissonDpEvent) -> NeighboringRelation:
    """With groups of a fixed size, adding a record would move others (docs/guarantees_highdim.md, Section 3)."""
    moved = event.partition == "fixed" and event.cycle_length > 1
    return NeighboringRelation.REPLACE_SPECIAL if moved else NeighboringRelation.ADD_OR_REMOVE_ONE


MECHANISM = Mechanism(
    MatrixMechanismDpEvent,
    matrix_mechanism,
    assumptions=("no record took part more often, or at iterations closer to each other, than stated", CONTRIBUTIONS),
    takes_sampling=False,
)

CYCLIC_POISSON = Mechanism(
    CyclicPoissonDpEvent,
    cyclic_poisson,
    assumptions=(
        "each record was in a batch of its group's turn independently with the stated probability, "
        "and its group came about as stated",
        CONTRIBUTIONS,
    ),
    takes_sampling=False,
    relation=_cyclic_relation,
    under={NeighboringRelation.REPLACE_ONE: cyclic_poisson},
)
