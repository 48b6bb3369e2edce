"""From a ``LaplaceDpEvent`` to its pairs."""

from __future__ import annotations

from fractions import Fraction

from dp_accounting import dp_event

from evr import validate
from evr.laws.exact import ExactLaplace, ExactPairs
from evr.laws.line.laplace import LaplacePair
from evr.laws.line.pair import Pairs
from evr.mechanisms.descriptor import Mechanism


def pairs(event: dp_event.LaplaceDpEvent) -> Pairs | None:
    """Dominating pairs of a ``LaplaceDpEvent``; None stands for a mechanism without privacy."""
    noise = validate.noise_scale(noise_multiplier=event.noise_multiplier)
    if noise == 0:
        return None
    pair = LaplacePair(noise)
    return Pairs(pair, pair, ExactPairs.both(ExactLaplace(Fraction(noise))))


MECHANISM = Mechanism(dp_event.LaplaceDpEvent, pairs)
