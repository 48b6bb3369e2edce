"""Randomized response over ``num_buckets`` values, as ``RandomizedResponseDpEvent`` defines it.

The pair compares two different inputs; it is the same both ways. Under add/remove adjacency it
covers the record's answer being replaced by any other answer, a fixed "no answer" value included.
"""

from __future__ import annotations

import math
from fractions import Fraction

from dp_accounting import dp_event

from evr import validate
from evr.laws.exact import ExactPairs, RationalOutcomes
from evr.laws.line.discrete import TRIVIAL_PAIR, DiscretePair
from evr.laws.line.pair import Pairs
from evr.mechanisms.descriptor import Mechanism


def pairs(event: dp_event.RandomizedResponseDpEvent) -> Pairs | None:
    """Dominating pairs of a ``RandomizedResponseDpEvent``; None stands for a mechanism without
    privacy.
    """
    noise = validate.probability(noise_parameter=event.noise_parameter)
    buckets = validate.positive_integer(num_buckets=event.num_buckets)
    if buckets == 1:
        return Pairs(TRIVIAL_PAIR, TRIVIAL_PAIR)
    if noise == 0:
        return None
    other = noise / buckets
    if other == 0:
        raise ValueError(
            f"noise_parameter={noise!r} over num_buckets={buckets!r} is below the least positive "
            "float"
        )
    log_truth, log_other = math.log(1 - noise + other), math.log(other)
    loss = math.log1p(
        (1 - noise) / other
    )  # the difference of the two would lose digits when they are close
    log_p, log_q, losses = [log_other, log_truth], [log_truth, log_other], [-loss, loss]
    if buckets > 2:
        rest = math.log(other) + math.log(buckets - 2)
        log_p, log_q, losses = (
            [log_other, rest, log_truth],
            [log_truth, rest, log_other],
            [-loss, 0.0, loss],
        )
    pair = DiscretePair.from_logs(log_p, log_q, losses=losses)
    return Pairs(pair, pair, ExactPairs.both(_exact(Fraction(noise), buckets)))


def _exact(noise: Fraction, buckets: int) -> RationalOutcomes:
    other, rest = noise / buckets, noise * (buckets - 2) / buckets
    return RationalOutcomes((other, rest, 1 - noise + other), (1 - noise + other, rest, other))


MECHANISM = Mechanism(dp_event.RandomizedResponseDpEvent, pairs)
