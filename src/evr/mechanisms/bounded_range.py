"""Choices among many: the exponential mechanism, whose losses have a bounded range, and permute-and-flip, of which only
pure differential privacy is used (docs/guarantees_state.md, G4 to G6).
"""

from __future__ import annotations

from fractions import Fraction

from dp_accounting import dp_event

from evr import validate
from evr.laws import TRIVIAL_PAIR, Pairs
from evr.laws.exact import ExactBoundedRange
from evr.laws.line.bounded_range import BoundedRangePair
from evr.mechanisms.descriptor import Mechanism
from evr.mechanisms.relations import REPLACE_ONE
from evr.mechanisms.schemes import EpsilonDeltaDpEvent, ExponentialMechanismDpEvent, PermuteAndFlipDpEvent

_GREATEST = 100.0  # beyond, a range says no more than pure differential privacy
_LEAST = 1e-12
_SCORES = "the sensitivity of the scores is that under the adjacency stated, and does not depend on the data"


def exponential(event: ExponentialMechanismDpEvent) -> Pairs | dp_event.DpEvent:
    """The laws of one choice; runs of equal ones are put together where steps are folded."""
    epsilon = validate.non_negative_or_infinite(epsilon=event.epsilon)
    if epsilon == 0:
        return Pairs.both(TRIVIAL_PAIR)
    if not _LEAST <= epsilon <= _GREATEST:
        return EpsilonDeltaDpEvent(epsilon, 0.0)
    return Pairs.both(BoundedRangePair(epsilon), ExactBoundedRange(Fraction(epsilon)))


def permute_and_flip(event: PermuteAndFlipDpEvent) -> dp_event.DpEvent:
    """Pure differential privacy."""
    return EpsilonDeltaDpEvent(validate.non_negative_or_infinite(epsilon=event.epsilon), 0.0)


MECHANISMS = (
    Mechanism(
        ExponentialMechanismDpEvent,
        exponential,
        assumptions=(
            "each choice was made with probabilities proportional to e^(epsilon score / (2 sensitivity)), or with "
            "Gumbel noise of that scale (without the 2 for monotone scores, and not under replace-one)",
            _SCORES,
        ),
        under={REPLACE_ONE: exponential},
        unit=None,
    ),
    Mechanism(
        PermuteAndFlipDpEvent,
        permute_and_flip,
        assumptions=(_SCORES,),
        under={REPLACE_ONE: permute_and_flip},
        unit=None,
    ),
)
