"""From a ``GaussianDpEvent`` to its pairs."""

from __future__ import annotations

from fractions import Fraction

from dp_accounting import dp_event

from evr import validate
from evr.laws.exact import ExactGaussian, ExactPairs
from evr.laws.line.gaussian import GaussianPair
from evr.laws.line.pair import Pairs
from evr.mechanisms.descriptor import Mechanism
from evr.mechanisms.relations import REPLACE_ONE


def pairs(event: dp_event.GaussianDpEvent) -> Pairs | None:
    """Dominating pairs of a ``GaussianDpEvent``; None stands for a mechanism without privacy."""
    noise = validate.noise_scale(noise_multiplier=event.noise_multiplier)
    if noise == 0:
        return None
    return _shifted(noise, 1)


def replaced(event: dp_event.GaussianDpEvent) -> Pairs | None:
    """As ``pairs``, under replace-one: the sensitivity is twice the norm of one record."""
    noise = validate.noise_scale(noise_multiplier=event.noise_multiplier)
    return None if noise == 0 else _shifted(noise, 2)


def _shifted(noise: float, sensitivity: int) -> Pairs:
    pair = GaussianPair(sensitivity / noise)
    exact = ExactGaussian(Fraction(sensitivity) ** 2 / Fraction(noise) ** 2)
    return Pairs(pair, pair, ExactPairs.both(exact))


MECHANISM = Mechanism(dp_event.GaussianDpEvent, pairs, under={REPLACE_ONE: replaced})
