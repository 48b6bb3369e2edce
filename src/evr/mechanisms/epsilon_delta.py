"""Mechanisms of which a guarantee is known: ``(epsilon, delta)``-DP, whose tight pair is that of Kairouz, Oh and
Viswanath (2015), zCDP, and choices among many (docs/guarantees_state.md, G3 to G6).
"""

from __future__ import annotations

import math
from fractions import Fraction

from dp_accounting import dp_event

from evr import validate
from evr.laws import TRIVIAL_PAIR, Pairs
from evr.laws.exact import ExactBoundedRange, ExactConcentrated, ExactEpsilonDelta
from evr.laws.line.laplace import BoundedRangePair
from evr.mechanisms.descriptor import NON_PRIVATE, Mechanism
from evr.mechanisms.relations import REPLACE_ONE
from evr.mechanisms.schemes import EpsilonDeltaDpEvent, ExponentialMechanismDpEvent, PermuteAndFlipDpEvent

_LEAST_RHO, _GREATEST_RHO = 1e-24, 1e3
_LEAST_RANGE, _GREATEST_RANGE = 1e-12, 100.0


def pairs(event: EpsilonDeltaDpEvent) -> Pairs | dp_event.DpEvent:
    epsilon = validate.non_negative_or_infinite(epsilon=event.epsilon)
    delta = validate.probability(delta=event.delta)
    if delta == 1 or math.isinf(epsilon):
        return NON_PRIVATE
    exact = ExactEpsilonDelta(Fraction(epsilon), Fraction(delta))
    return Pairs.both(exact.in_floats(), exact)


def concentrated(event: dp_event.ZCDpEvent) -> Pairs | dp_event.DpEvent:
    """One pair for both directions; several such guarantees are added where steps are folded."""
    rho = validate.non_negative_or_infinite(rho=event.rho)
    xi = validate.non_negative_or_infinite(xi=event.xi)
    if max(rho, xi) > _GREATEST_RHO:
        return NON_PRIVATE
    if rho == xi == 0:
        return Pairs.both(TRIVIAL_PAIR)
    exact = ExactConcentrated(Fraction(max(rho, _LEAST_RHO)), Fraction(xi))
    return Pairs.both(exact.in_floats(), exact)


def exponential(event: ExponentialMechanismDpEvent) -> Pairs | dp_event.DpEvent:
    """The laws of one choice; runs of equal ones are put together where steps are folded."""
    epsilon = validate.non_negative_or_infinite(epsilon=event.epsilon)
    if not _LEAST_RANGE <= epsilon <= _GREATEST_RANGE:  # the range says no more than pure differential privacy
        return EpsilonDeltaDpEvent(epsilon, 0.0)
    return Pairs.both(BoundedRangePair(epsilon), ExactBoundedRange(Fraction(epsilon)))


def pure(event: PermuteAndFlipDpEvent) -> dp_event.DpEvent:
    """Its range is up to twice its epsilon: pure differential privacy is what holds."""
    return EpsilonDeltaDpEvent(event.epsilon, 0.0)


MECHANISMS = tuple(
    Mechanism(event, laws, under={REPLACE_ONE: laws}, unit=None)
    for event, laws in (
        (EpsilonDeltaDpEvent, pairs),
        (dp_event.ZCDpEvent, concentrated),
        (ExponentialMechanismDpEvent, exponential),
        (PermuteAndFlipDpEvent, pure),
    )
)
