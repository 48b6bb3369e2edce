"""From a ``MixtureOfGaussiansDpEvent`` to its pairs."""

from __future__ import annotations

import math
from fractions import Fraction
from functools import partial

from dp_accounting import dp_event

from evr import validate
from evr.laws import TRIVIAL_PAIR, Pairs
from evr.laws.exact import ExactGaussian, ExactMixture, ExactTwoSided
from evr.laws.line.gaussian import GaussianPair
from evr.laws.line.mixture import MixturePair
from evr.laws.line.two_sided import TwoSidedPair
from evr.mechanisms.descriptor import NON_PRIVATE, Mechanism
from evr.mechanisms.relations import REPLACE_ONE


def pairs(event: dp_event.MixtureOfGaussiansDpEvent, *, replaced: bool = False) -> Pairs | dp_event.DpEvent:
    """Dominating pairs of a ``MixtureOfGaussiansDpEvent``; under replace-one those of docs/guarantees_relations.md,
    R5.3.
    """
    deviation = validate.noise_scale(standard_deviation=event.standard_deviation)
    sensitivities = [
        validate.noise_scale(sensitivities=x) for x in validate.sequence(sensitivities=event.sensitivities)
    ]
    probabilities = [
        validate.probability(sampling_probs=x) for x in validate.sequence(sampling_probs=event.sampling_probs)
    ]
    if not sensitivities or len(sensitivities) != len(probabilities):
        raise ValueError(
            f"sensitivities has {len(sensitivities)} entries and sampling_probs "
            f"{len(probabilities)}: give as many of one as of the other, at least one"
        )
    if abs(math.fsum(probabilities) - 1) > 1e-9:
        raise ValueError(f"sampling_probs={list(event.sampling_probs)!r} does not sum to 1")
    chances: dict[float, Fraction] = {}
    for sensitivity, probability in zip(sensitivities, probabilities, strict=True):
        if probability > 0:
            chances[sensitivity] = chances.get(sensitivity, Fraction(0)) + Fraction(probability)
    if max(chances) == 0:
        return Pairs.both(TRIVIAL_PAIR)
    if deviation == 0:
        return NON_PRIVATE
    ordered, total = sorted(chances), sum(chances.values())
    means = tuple(validate.noise_scale(sensitivity_over_standard_deviation=s / deviation) for s in ordered)
    exact = tuple(Fraction(s) / Fraction(deviation) for s in ordered)
    if len(means) == 1:
        times = 2 if replaced else 1
        return Pairs.both(GaussianPair(times * means[0]), ExactGaussian((times * exact[0]) ** 2))
    weights = tuple(chances[s] / total for s in ordered)
    return mixed(means, exact, weights, replaced=replaced)


def mixed(
    means: tuple[float, ...], exact: tuple[Fraction, ...], weights: tuple[Fraction, ...], *, replaced: bool
) -> Pairs:
    """The pairs of a mixture of Gaussians whose means rise, in floats and exactly."""
    if replaced:
        return Pairs.both(TwoSidedPair(means, tuple(map(float, weights))), ExactTwoSided(Fraction(1), exact, weights))
    return Pairs.each(partial(MixturePair, means, tuple(map(float, weights))), partial(ExactMixture, exact, weights))


MECHANISM = Mechanism(dp_event.MixtureOfGaussiansDpEvent, pairs, under={REPLACE_ONE: partial(pairs, replaced=True)})
