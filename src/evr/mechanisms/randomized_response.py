"""Randomized response over ``num_buckets`` values, as ``RandomizedResponseDpEvent`` defines it.

The pair compares two different inputs; it is the same both ways. Under add/remove adjacency it covers the record's
answer being replaced by any other answer, a fixed "no answer" value included.
"""

from __future__ import annotations

import math
from fractions import Fraction

from dp_accounting import dp_event

from evr import validate
from evr.laws import TRIVIAL_PAIR, DiscretePair, Pairs
from evr.laws.exact import RationalOutcomes
from evr.mechanisms.descriptor import NON_PRIVATE, Mechanism
from evr.mechanisms.relations import REPLACE_ONE, ZERO_OUT


def pairs(event: dp_event.RandomizedResponseDpEvent) -> Pairs | dp_event.DpEvent:
    """Dominating pairs of a ``RandomizedResponseDpEvent``."""
    noise = validate.probability(noise_parameter=event.noise_parameter)
    buckets = validate.positive_integer(num_buckets=event.num_buckets)
    if buckets == 1:
        return Pairs.both(TRIVIAL_PAIR)
    if noise == 0:
        return NON_PRIVATE
    other = noise / buckets
    if other == 0:
        raise ValueError(f"noise_parameter={noise!r} over num_buckets={buckets!r} is below the least positive float")
    log_truth, log_other = math.log(1 - noise + other), math.log(other)
    # the difference of the two would lose digits when they are close
    loss = math.log1p((1 - noise) / other)
    log_p, log_q, losses = [log_other, log_truth], [log_truth, log_other], [-loss, loss]
    if buckets > 2:
        rest = math.log(other) + math.log(buckets - 2)
        log_p, log_q, losses = ([log_other, rest, log_truth], [log_truth, rest, log_other], [-loss, 0.0, loss])
    pair = DiscretePair.from_logs(log_p, log_q, losses=losses)
    return Pairs.both(pair, _exact(Fraction(noise), buckets))


def against_uniform(event: dp_event.RandomizedResponseDpEvent) -> Pairs | dp_event.DpEvent:
    """As ``pairs``, under zero-out: an answer against the uniform output."""
    noise = validate.probability(noise_parameter=event.noise_parameter)
    buckets = validate.positive_integer(num_buckets=event.num_buckets)
    if buckets == 1 or noise == 1:
        return Pairs.both(TRIVIAL_PAIR)
    if noise == 0:
        return NON_PRIVATE
    log_noise, log_rest = math.log(noise), math.log((buckets - 1) / buckets)
    truth = math.log1p((buckets - 1) * (1 - noise))  # the loss where the answer comes out
    with_record = [log_noise + log_rest, truth - math.log(buckets)]
    without = [log_rest, -math.log(buckets)]
    remove = DiscretePair.from_logs(with_record, without, losses=[log_noise, truth])
    add = DiscretePair.from_logs(without, with_record, losses=[-log_noise, -truth])
    share, other = Fraction(1, buckets), Fraction(noise) * (buckets - 1) / buckets
    held, absent = (other, 1 - other), (1 - share, share)
    return Pairs(remove, add, (RationalOutcomes(held, absent), RationalOutcomes(absent, held)))


def _exact(noise: Fraction, buckets: int) -> RationalOutcomes:
    other, rest = noise / buckets, noise * (buckets - 2) / buckets
    return RationalOutcomes((other, rest, 1 - noise + other), (1 - noise + other, rest, other))


MECHANISM = Mechanism(dp_event.RandomizedResponseDpEvent, pairs, under={REPLACE_ONE: pairs, ZERO_OUT: against_uniform})
