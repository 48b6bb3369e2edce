"""A Gaussian on Poisson batches that are cut off at a greatest size (docs/guarantees_relations.md, Section R3)."""

from __future__ import annotations

from fractions import Fraction

import scipy
from dp_accounting import dp_event

from evr import validate
from evr.laws import Direction, DominatingPair, Pairs
from evr.laws.exact import ExactGaussian, ExactTruncated, exact_sampled
from evr.laws.line import poisson
from evr.laws.line.either import EitherPair
from evr.laws.line.gaussian import GaussianPair
from evr.mechanisms.descriptor import NON_PRIVATE, Mechanism
from evr.mechanisms.relations import ZERO_OUT

MOST_RECORDS = 10**9


def pairs(event: dp_event.TruncatedSubsampledGaussianDpEvent) -> Pairs | dp_event.DpEvent:
    """Dominating pairs, or Poisson sampling where nothing is ever cut off."""
    size = validate.non_negative_integer(dataset_size=event.dataset_size)
    q = validate.probability(sampling_probability=event.sampling_probability)
    most = validate.non_negative_integer(truncated_batch_size=event.truncated_batch_size)
    noise = validate.noise_scale(noise_multiplier=event.noise_multiplier)
    if size > MOST_RECORDS:
        raise ValueError(
            f"dataset_size={size!r} is above {MOST_RECORDS:,}: its binomial probabilities would "
            "take too long to enclose"
        )
    if 0 in (size, q, most):
        return dp_event.NoOpDpEvent()
    if size <= most:
        return dp_event.PoissonSampledDpEvent(q, dp_event.GaussianDpEvent(noise))
    if noise == 0:
        return NON_PRIVATE
    doubled = GaussianPair(2 / noise)
    if q == 1:
        part, base = Fraction(most, size), ExactGaussian(4 / Fraction(noise) ** 2)
        return Pairs.each(
            lambda one: poisson.sampled(doubled, float(part), one), lambda one: exact_sampled(base, part, one)
        )
    binom = scipy.stats.binom
    cut = float(binom.sf(most - 1, size - 1, q))

    def law(one: Direction) -> DominatingPair:
        whole = poisson.sampled(GaussianPair(1 / noise), q, one)
        if cut == 0:
            # Where cutting off is less likely than the least positive float, it is left out of the pair, and not of the
            # exact law.
            return whole
        logs = float(binom.logcdf(most - 1, size - 1, q)), float(binom.logsf(most - 1, size - 1, q))
        share = min(float(binom.sf(most, size, q)) * most / (size * cut), q)
        return EitherPair(whole, poisson.sampled(doubled, share, one), *logs)

    return Pairs.each(law, lambda one: ExactTruncated(size, Fraction(q), most, Fraction(noise), one))


MECHANISM = Mechanism(
    dp_event.TruncatedSubsampledGaussianDpEvent,
    pairs,
    assumptions=(
        "each record was sampled independently with the stated probability, and of a batch that "
        "was too large a uniformly random part of the stated size was kept",
        "the larger of two neighbouring data sets has the stated number of records",
    ),
    takes_sampling=False,
    under={ZERO_OUT: None},
)
