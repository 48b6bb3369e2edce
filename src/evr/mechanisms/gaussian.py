"""From a ``GaussianDpEvent`` to its pairs."""

from __future__ import annotations

from fractions import Fraction

from dp_accounting import dp_event

from evr import validate
from evr.laws.exact import ExactGaussian, ExactPairs
from evr.laws.line.gaussian import GaussianPair
from evr.laws.line.pair import Pairs
from evr.mechanisms.descriptor import Mechanism


def pairs(event: dp_event.GaussianDpEvent) -> Pairs | None:
    """Dominating pairs of a ``GaussianDpEvent``; None stands for a mechanism without privacy."""
    noise = validate.noise_scale(noise_multiplier=event.noise_multiplier)
    if noise == 0:
        return None
    pair = GaussianPair(1 / noise)
    return Pairs(pair, pair, ExactPairs.both(ExactGaussian(1 / Fraction(noise) ** 2)))


MECHANISM = Mechanism(dp_event.GaussianDpEvent, pairs)
