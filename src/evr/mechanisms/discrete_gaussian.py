"""The discrete Gaussian mechanism: noise on the integers with probability proportional to ``e^{-x^2
/ (2 sigma^2)}``.

The support is infinite. Noise beyond 39 ``sigma`` has a probability below 1e-329, less than the
least positive float; those outcomes are left out, which changes ``delta`` by no more than that. The
pair says that its losses go on.
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np

from evr import validate
from evr.laws.exact import ExactDiscreteGaussian, ExactPairs
from evr.laws.line.discrete import DiscretePair
from evr.laws.line.gaussian import NORMAL_REACH
from evr.laws.line.pair import Pairs
from evr.mechanisms.descriptor import Mechanism
from evr.mechanisms.events import DiscreteGaussianDpEvent
from evr.mechanisms.relations import REPLACE_ONE

MAX_SIGMA = 20_000.0


def pairs(event: DiscreteGaussianDpEvent) -> Pairs | None:
    """Dominating pairs of a ``DiscreteGaussianDpEvent``; None stands for a mechanism without
    privacy.
    """
    sigma = validate.noise_scale(sigma=event.sigma)
    shift = validate.positive_integer(sensitivity=event.sensitivity)
    if sigma == 0:
        return None
    if sigma > MAX_SIGMA:
        raise ValueError(
            f"sigma={sigma!r} is above {MAX_SIGMA:g}, too many outcomes: rescale the values to "
            "smaller ones"
        )
    if shift > 10 * NORMAL_REACH * sigma + 10:
        return None  # the two laws do not overlap within what a float can tell
    reach = math.ceil(NORMAL_REACH * sigma) + 2
    x = np.arange(-reach, shift + reach + 1.0)  # P is centred at `shift`, Q at 0
    log_norm = _log_normaliser(sigma)
    log_p = -((x - shift) ** 2) / (2 * sigma**2) - log_norm
    log_q = -(x**2) / (2 * sigma**2) - log_norm
    losses = shift * (2 * x - shift) / (2 * sigma**2)
    pair = DiscretePair.from_logs(log_p, log_q, losses=losses, is_cut=True)
    return Pairs(pair, pair, ExactPairs.both(ExactDiscreteGaussian(Fraction(sigma), shift)))


def _log_normaliser(sigma: float) -> float:
    x = np.arange(1, math.ceil(NORMAL_REACH * sigma) + 2.0)
    return math.log1p(2 * math.fsum(np.exp(-(x**2) / (2 * sigma**2)).tolist()))


def replaced(event: DiscreteGaussianDpEvent) -> Pairs | None:
    """As ``pairs``, under replace-one: twice the change by one record."""
    shift = validate.positive_integer(sensitivity=event.sensitivity)
    return pairs(DiscreteGaussianDpEvent(event.sigma, 2 * shift))


MECHANISM = Mechanism(DiscreteGaussianDpEvent, pairs, under={REPLACE_ONE: replaced})
