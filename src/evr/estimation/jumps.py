"""Losses beyond a cap: one such loss decides by itself, and its part of delta has a closed form.

If a loss above the cap puts the sum above epsilon whatever the other steps do, then all sums with such a loss add

    A - e^epsilon B,   A = 1 - prod (1 - p_i)^{k_i},   B = 1 - prod (1 - q_i)^{k_i}

to delta, ``p_i`` and ``q_i`` being what a step has beyond the cap under ``P`` and under ``Q``. The rest is a sum of
losses up to the cap. What ``Q`` has where ``P`` has nothing, a loss of minus infinity, takes a sum below epsilon again:
``B`` is then ``prod s_i^{k_i} (1 - prod (1 - q_i/s_i)^{k_i})`` with ``s_i`` what ``Q`` has elsewhere, for ``B`` is an
integral over ``P``.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import NamedTuple, Self

import numpy as np

from evr.laws import DominatingPair, Measure
from evr.laws.law import UNIT
from evr.laws.line.pair import log_sum_exp


class Jump(NamedTuple):
    """What one step has beyond the cap: ``p``, ``log q`` and ``p - q``, ``q`` being a share of what ``Q`` has where
    ``P`` has something; ``log (1 - p)``, which is of all other losses; and the logarithm of what ``Q`` has there in
    all.
    """

    p: float
    log_q: float
    gap: float
    log_others: float
    log_support: float = 0.0


def jump_of(pair: DominatingPair, cap: float) -> Jump:
    """Of one step, infinite losses included."""
    place = float(pair.point(cap))
    if place == math.inf:
        return Jump(0.0, -math.inf, 0.0, 0.0)
    log_p = float(pair.log_mass(Measure.P, place, np.inf))
    log_q = float(pair.log_mass(Measure.Q, place, np.inf))
    p = math.exp(log_p)
    gap = -p * math.expm1(log_q - log_p) if p > 0.0 else 0.0
    log_others = math.log1p(-p) if p < 0.5 else float(pair.log_mass(Measure.P, -np.inf, place))
    if (missing := _without_p(pair)) > 0.0:
        log_support = math.log1p(-missing) if missing < 1.0 else -math.inf
        gap -= math.exp(log_q) * math.expm1(-log_support)
        return Jump(p, log_q - log_support, gap, log_others, log_support)
    return Jump(p, log_q, gap, log_others)


def _without_p(pair: DominatingPair) -> float:
    """What ``Q`` has at a loss of minus infinity."""
    flats = pair.flats
    if not len(flats):
        return 0.0
    below = flats[pair.privacy_loss(flats[:, 1]) == -np.inf]
    return math.fsum(np.exp(pair.log_mass(Measure.Q, below[:, 0], below[:, 1])).tolist())


class Jumps(NamedTuple):
    """Of all steps together: ``A``, ``log B``, ``A - B``, and about the rounding error of these."""

    above: float
    log_dual: float
    gap: float
    error: float

    @classmethod
    def of(cls, parts: Iterable[tuple[int, Jump]]) -> Self:
        held = [(count, jump) for count, jump in parts if jump.p > 0.0]
        log_stay = math.fsum(count * jump.log_others for count, jump in held)
        log_dual = log_sum_exp(np.array([-math.inf, *(math.log(n) + jump.log_q for n, jump in held)]))
        log_stay_dual = 0.0
        if log_dual > -40.0:  # below, none of the products of these probabilities matters
            duals = [(n, math.exp(jump.log_q)) for n, jump in held]
            log_stay_dual = math.fsum(n * math.log1p(-q) if q < 1.0 else -math.inf for n, q in duals)
            log_dual = math.log(-math.expm1(log_stay_dual))
        if log_stay > -30.0:
            growth = math.fsum(n * math.log1p(jump.gap * math.exp(-jump.log_others)) for n, jump in held)
            gap = math.exp(log_stay) * math.expm1(growth)
        else:
            gap = math.exp(log_stay_dual) - math.exp(log_stay)
        log_support = math.fsum(count * jump.log_support for count, jump in held)
        gap -= math.expm1(log_support) * math.exp(log_dual)
        log_dual += log_support
        # p - q comes from two logarithms, each rounded as large as it is
        rounded = math.fsum(n * jump.p * (1.0 - math.log(jump.p)) for n, jump in held)
        error = 4.0 * UNIT * min(1.0, rounded)
        return cls(-math.expm1(log_stay), log_dual, gap, error)

    def delta(self, epsilon: float) -> float:
        """``A - e^epsilon B``."""
        if epsilon < 1.0:
            return self.gap - math.expm1(epsilon) * math.exp(self.log_dual)
        return self.above - self.slope(epsilon)

    def slope(self, epsilon: float) -> float:
        """``e^epsilon B``, by which it falls."""
        return math.exp(min(epsilon + self.log_dual, 700.0))
