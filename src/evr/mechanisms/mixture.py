"""From a ``MixtureOfGaussiansDpEvent`` to its pairs."""

from __future__ import annotations

import math
from fractions import Fraction

from dp_accounting import dp_event

from evr import validate
from evr.laws import TRIVIAL_PAIR, Direction, Pairs
from evr.laws.exact import ExactGaussian, ExactLaw, ExactMixture
from evr.laws.line.gaussian import GaussianPair
from evr.laws.line.mixture import MixturePair
from evr.mechanisms.descriptor import NON_PRIVATE, Mechanism


def pairs(event: dp_event.MixtureOfGaussiansDpEvent) -> Pairs | dp_event.DpEvent:
    """Dominating pairs of a ``MixtureOfGaussiansDpEvent``."""
    deviation = validate.noise_scale(standard_deviation=event.standard_deviation)
    sensitivities = [
        validate.noise_scale(sensitivities=x)
        for x in validate.sequence(sensitivities=event.sensitivities)
    ]
    probabilities = [
        validate.probability(sampling_probs=x)
        for x in validate.sequence(sampling_probs=event.sampling_probs)
    ]
    if not sensitivities or len(sensitivities) != len(probabilities):
        raise ValueError(
            f"sensitivities has {len(sensitivities)} entries and sampling_probs "
            f"{len(probabilities)}: give as many of one as of the other, at least one"
        )
    if abs(math.fsum(probabilities) - 1) > 1e-9:
        raise ValueError(f"sampling_probs={list(event.sampling_probs)!r} does not sum to 1")
    merged: dict[float, float] = {}
    for sensitivity, probability in zip(sensitivities, probabilities, strict=True):
        if probability > 0:
            merged[sensitivity] = merged.get(sensitivity, 0.0) + probability
    if max(merged) == 0:
        return Pairs.both(TRIVIAL_PAIR)
    if deviation == 0:
        return NON_PRIVATE
    total = math.fsum(merged.values())
    means = tuple(
        validate.noise_scale(sensitivity_over_standard_deviation=s / deviation)
        for s in sorted(merged)
    )
    weights = tuple(merged[s] / total for s in sorted(merged))
    exact = _exact(deviation, sensitivities, probabilities)
    if len(means) == 1:
        return Pairs(GaussianPair(means[0]), GaussianPair(means[0]), exact)
    remove, add = (MixturePair(means, weights, direction) for direction in Direction)
    return Pairs(remove, add, exact)


def _exact(
    deviation: float, sensitivities: list[float], probabilities: list[float]
) -> tuple[ExactLaw, ExactLaw]:
    """The laws by the event's own numbers; probabilities are divided by their exact sum."""
    merged: dict[Fraction, Fraction] = {}
    for sensitivity, probability in zip(sensitivities, probabilities, strict=True):
        if probability > 0:
            mean = Fraction(sensitivity) / Fraction(deviation)
            merged[mean] = merged.get(mean, Fraction(0)) + Fraction(probability)
    means, total = tuple(sorted(merged)), sum(merged.values())
    weights = tuple(merged[mean] / total for mean in means)
    if len(means) == 1:
        return ExactGaussian(means[0] ** 2), ExactGaussian(means[0] ** 2)
    remove, add = (ExactMixture(means, weights, direction) for direction in Direction)
    return remove, add


MECHANISM = Mechanism(dp_event.MixtureOfGaussiansDpEvent, pairs)
