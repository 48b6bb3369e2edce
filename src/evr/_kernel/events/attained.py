"""Which pairs some training of the description attains: a lower bound on their delta is one on the
mechanism's. What is not listed is not known to be attained (docs/guarantees_lower.md, Section L8, has the
proofs).
"""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

from dp_accounting import NeighboringRelation, dp_event

from evr._kernel.events import schemes
from evr._kernel.events.composition import Composition
from evr._kernel.events.registry import known
from evr._kernel.events.relations import ADD_OR_REMOVE, REPLACE_ONE, ZERO_OUT

_SAMPLED = (
    dp_event.GaussianDpEvent,
    dp_event.LaplaceDpEvent,
    dp_event.DiscreteLaplaceDpEvent,
    schemes.DiscreteGaussianDpEvent,
    dp_event.NoOpDpEvent,
)
"""What is attained also where records are sampled."""
_LEAST_WEIGHT = -184.0  # the logarithm of binomial weights that certainly stay where they are


class Attained(NamedTuple):
    """The relations under which the pair of an event is attained, and the condition on the event."""

    relations: tuple[NeighboringRelation, ...] = (ADD_OR_REMOVE, REPLACE_ONE, ZERO_OUT)
    condition: Callable[[Any], bool] = lambda event: True


def _keeps_weights(event: schemes.PoissonSampledUsersDpEvent) -> bool:
    q = event.sampling_probability
    return q == 1 or event.records_per_user * math.log(min(q, 1 - q)) > _LEAST_WEIGHT


def _has_whole_cycles(event: schemes.BallsInBinsDpEvent) -> bool:
    return (
        event.cycle_length > 1
        and event.iterations % event.cycle_length == 0
        and event.strategy == schemes.IDENTITY
    )


ATTAINED = {
    dp_event.GaussianDpEvent: Attained(),
    dp_event.LaplaceDpEvent: Attained(),
    dp_event.DiscreteLaplaceDpEvent: Attained(),
    schemes.DiscreteGaussianDpEvent: Attained(condition=lambda event: event.dimension == 1),
    dp_event.MixtureOfGaussiansDpEvent: Attained(),
    schemes.PoissonSampledUsersDpEvent: Attained(condition=_keeps_weights),
    dp_event.RandomizedResponseDpEvent: Attained((REPLACE_ONE, ZERO_OUT)),
    schemes.EpsilonDeltaDpEvent: Attained(),
    schemes.BallsInBinsDpEvent: Attained((ADD_OR_REMOVE, ZERO_OUT), _has_whole_cycles),
    schemes.RedrawnBinsDpEvent: Attained((ADD_OR_REMOVE, ZERO_OUT), lambda event: event.cycle_length > 1),
    dp_event.SampledWithoutReplacementDpEvent: Attained(
        (ADD_OR_REMOVE,), lambda event: type(event.event) is dp_event.GaussianDpEvent
    ),
    dp_event.NoOpDpEvent: Attained(),
}


def is_attained(event: Any, composition: Composition) -> bool:
    """Whether some mechanism that the event describes, and some neighbours, have just the laws of the
    composition, that of the event. A mechanism that counts as not private may still hide something: its pair
    is not attained.
    """
    if composition.is_non_private:
        return False
    todo = [(event, False)]  # and whether records are sampled
    while todo:
        node, sampled = todo.pop()
        node = known(node)
        if type(node) is dp_event.ComposedDpEvent:
            todo += [(child, sampled) for child in node.events]
        elif type(node) in (
            dp_event.SelfComposedDpEvent,
            schemes.ZeroOutDpEvent,
            dp_event.PoissonSampledDpEvent,
        ):
            todo.append((node.event, sampled or type(node) is dp_event.PoissonSampledDpEvent))
        else:
            entry = ATTAINED.get(type(node))
            if entry is None or composition.relation not in entry.relations or not entry.condition(node):
                return False
            if sampled and type(node) not in _SAMPLED:
                return False
    return True
