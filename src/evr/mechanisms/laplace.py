"""From a ``LaplaceDpEvent`` to its pairs."""

from __future__ import annotations

from fractions import Fraction

from dp_accounting import dp_event

from evr import validate
from evr.laws.exact import ExactLaplace, ExactPairs
from evr.laws.line.laplace import LaplacePair
from evr.laws.line.pair import Pairs
from evr.mechanisms.descriptor import Mechanism
from evr.mechanisms.relations import REPLACE_ONE


def pairs(event: dp_event.LaplaceDpEvent) -> Pairs | None:
    """Dominating pairs of a ``LaplaceDpEvent``; None stands for a mechanism without privacy."""
    noise = validate.noise_scale(noise_multiplier=event.noise_multiplier)
    if noise == 0:
        return None
    return _scaled(noise, 1)


def replaced(event: dp_event.LaplaceDpEvent) -> Pairs | None:
    """As ``pairs``, under replace-one: the sensitivity is twice the norm of one record."""
    noise = validate.noise_scale(noise_multiplier=event.noise_multiplier)
    return None if noise == 0 else _scaled(noise, 2)


def _scaled(noise: float, sensitivity: int) -> Pairs:
    pair = LaplacePair(noise / sensitivity)
    return Pairs(pair, pair, ExactPairs.both(ExactLaplace(Fraction(noise) / sensitivity)))


MECHANISM = Mechanism(dp_event.LaplaceDpEvent, pairs, under={REPLACE_ONE: replaced})
