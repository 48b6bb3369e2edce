"""The discrete Laplace mechanism: noise ``DLap(a)``, probability ``tanh(a/2) e^{-a|x|}`` on the
integers.

Between the shifted laws the loss takes the values ``a(2j - sensitivity)``, ``j = 0 ..
sensitivity``: both tails are atoms, so finitely many outcomes describe the pair exactly.
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
from dp_accounting import dp_event

from evr import validate
from evr.laws.exact import ExactDiscreteLaplace, ExactPairs
from evr.laws.line.discrete import DiscretePair
from evr.laws.line.pair import Pairs
from evr.mechanisms.descriptor import Mechanism
from evr.mechanisms.relations import REPLACE_ONE

MAX_SENSITIVITY = 1_000_000


def pairs(event: dp_event.DiscreteLaplaceDpEvent) -> Pairs | None:
    """Dominating pairs of a ``DiscreteLaplaceDpEvent``; None stands for a mechanism without
    privacy.
    """
    a = validate.noise_scale(noise_parameter=event.noise_parameter)
    shift = validate.positive_integer(sensitivity=event.sensitivity)
    if shift > MAX_SENSITIVITY:
        raise ValueError(f"sensitivity={shift!r} is above {MAX_SENSITIVITY}: rescale the values")
    if a == 0:
        return None
    # P is centred at `shift`, Q at 0. Outcome 0 joins all x <= 0; outcome `shift` joins all x >=
    # shift.
    x = np.arange(shift + 1.0)
    log_atom = math.log(math.tanh(a / 2))
    log_tail = -math.log1p(math.exp(-a))  # P[DLap >= 0] = P[DLap <= 0] = 1 / (1 + e^-a)
    log_p, log_q = log_atom - a * (shift - x), log_atom - a * x
    log_p[-1], log_q[0] = log_tail, log_tail
    log_p[0], log_q[-1] = log_tail - a * shift, log_tail - a * shift
    pair = DiscretePair.from_logs(log_p, log_q, losses=a * (2 * x - shift))
    return Pairs(pair, pair, ExactPairs.both(ExactDiscreteLaplace(Fraction(a), shift)))


def replaced(event: dp_event.DiscreteLaplaceDpEvent) -> Pairs | None:
    """As ``pairs``, under replace-one: the sensitivity is twice the norm of one record."""
    shift = validate.positive_integer(sensitivity=event.sensitivity)
    return pairs(dp_event.DiscreteLaplaceDpEvent(event.noise_parameter, 2 * shift))


MECHANISM = Mechanism(
    dp_event.DiscreteLaplaceDpEvent,
    pairs,
    fields={"sensitivity": (int, 1)},
    under={REPLACE_ONE: replaced},
)
