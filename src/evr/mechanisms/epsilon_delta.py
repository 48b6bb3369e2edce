"""A mechanism known only to be ``(epsilon, delta)``-DP: the tight pair of Kairouz, Oh and Viswanath (2015)."""

from __future__ import annotations

import math
from fractions import Fraction

from dp_accounting import dp_event

from evr import validate
from evr.laws import DiscretePair, Pairs
from evr.laws.exact import ExactEpsilonDelta
from evr.mechanisms.descriptor import NON_PRIVATE, Mechanism
from evr.mechanisms.relations import REPLACE_ONE
from evr.mechanisms.schemes import EpsilonDeltaDpEvent


def pairs(event: EpsilonDeltaDpEvent) -> Pairs | dp_event.DpEvent:
    """Dominating pairs of an ``EpsilonDeltaDpEvent``."""
    epsilon = validate.non_negative_or_infinite(epsilon=event.epsilon)
    delta = validate.probability(delta=event.delta)
    if delta == 1 or math.isinf(epsilon):
        return NON_PRIVATE
    rest = math.log1p(-delta)
    high, low = (rest - math.log1p(math.exp(-epsilon)), rest - epsilon - math.log1p(math.exp(-epsilon)))
    fails = math.log(delta) if delta > 0 else -math.inf
    pair = DiscretePair.from_logs(
        [-math.inf, low, high, fails], [fails, high, low, -math.inf], losses=[-math.inf, -epsilon, epsilon, math.inf]
    )
    return Pairs.both(pair, ExactEpsilonDelta(Fraction(epsilon), Fraction(delta)))


MECHANISM = Mechanism(
    EpsilonDeltaDpEvent,
    pairs,
    assumptions=("what is known to be private by itself is so under the adjacency stated",),
    under={REPLACE_ONE: pairs},
    unit=None,
)
