"""Moments of a pair's finite privacy loss under ``P`` and under ``Q``: what the accountants of the
normal limit rest on.

``Q`` has weights ``e^{-loss}`` relative to ``P``, so one set of weighted points serves both. Where
``P`` has infinite loss and where ``Q`` has mass that ``P`` has not, the loss has no moments: the
mass there is counted apart and the moments are of the law restricted to finite losses. Points come
from ``evr.estimation.discretise``: exact for atoms, fourth order elsewhere.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from scipy.special import ndtr

from evr.estimation.discretise import loss_points
from evr.estimation.sums import dot
from evr.laws import DominatingPair, Floats, Step
from evr.laws.line.discretise import cell_edges
from evr.laws.line.pair import log_sum_exp

_CELLS = 2**14
_ROUNDING = 1e-9  # a total mass this close to 1 is 1


class Moments(NamedTuple):
    """Of the finite loss under one law: log of its total mass, then cumulants 1 to 4, then ``E|loss
    - mean|^3``.

    Adding two of them, entry by entry, is composing: for the last one the sum is what Berry and
    Esseen's theorem uses.
    """

    log_mass: float
    mean: float
    variance: float
    third: float
    fourth: float
    absolute_third: float


class LossMoments(NamedTuple):
    """The moments under both laws."""

    under_p: Moments
    under_q: Moments


def _moments(losses: Floats, log_weights: Floats, log_mass: float) -> Moments:
    weights = np.exp(log_weights - log_weights.max())
    weights /= weights.sum()
    mean = dot(weights, losses)
    centred = losses - mean
    square = centred * centred
    variance = dot(weights, square)
    # A tail so light that its moments are nothing but rounding must not make them; all losses equal
    # is variance 0.
    if variance <= (1e-15 * max(1.0, float(np.abs(losses).max()))) ** 2:
        return Moments(log_mass, mean, 0.0, 0.0, 0.0, 0.0)
    third, fourth = dot(weights, square * centred), dot(weights, square * square)
    absolute = dot(weights, square * np.abs(centred))
    return Moments(log_mass, mean, variance, third, fourth - 3 * variance**2, absolute)


@lru_cache(maxsize=1024)
def loss_moments(pair: DominatingPair) -> LossMoments | None:
    """Both laws' moments of one step; None if ``P`` has no finite loss at all. Raises
    ``ValueError`` if one is not finite.
    """
    points = loss_points(pair, cell_edges(pair, 0.0, _CELLS))
    if points.losses.size == 0:
        return None
    under_q = points.log_weights - points.losses
    total_q = log_sum_exp(under_q)
    log_mass_q = 0.0 if abs(total_q) < _ROUNDING else total_q
    laws = LossMoments(
        _moments(points.losses, points.log_weights, math.log1p(-pair.infinite_loss_mass)),
        _moments(points.losses, under_q, log_mass_q),
    )
    if not all(math.isfinite(value) for law in laws for value in law):
        raise ValueError(
            f"the privacy loss of {pair.describe()} has no finite cumulants (found {laws}): "
            "the normal limit does not apply; use the fft method"
        )
    return laws


def composed_moments(steps: tuple[Step, ...]) -> LossMoments | None:
    """Moments of the sum of all steps' losses; None if some step has no finite loss."""
    totals = np.zeros((2, len(Moments._fields)))
    for step in steps:
        laws = loss_moments(step.pair)
        if laws is None:
            return None
        totals += step.count * np.array(laws)
    return LossMoments(Moments(*totals[0].tolist()), Moments(*totals[1].tolist()))


def delta_from_tails(epsilon: float, laws: LossMoments, tail_p: float, tail_q: float) -> float:
    """``Pr_P[loss > eps] - e^eps Pr_Q[loss > eps]`` in [0, 1], from the tails of the finite loss
    under each law.

    ``Pr_P`` is ``1 - m + m tail_p``, ``m`` the product over steps of the chance of a finite loss:
    one infinite loss makes the sum infinite. ``Pr_Q`` is ``m' tail_q``: mass of ``Q`` alone has
    loss ``-inf``.
    """
    infinite = -math.expm1(laws.under_p.log_mass)
    above_q = (
        math.exp(min(epsilon + laws.under_q.log_mass + math.log(tail_q), 700.0))
        if tail_q > 0
        else 0.0
    )
    return min(1.0, max(0.0, infinite + (1 - infinite) * tail_p - above_q))


def normal_tail(law: Moments, epsilon: float) -> float:
    """``Pr[loss > eps]`` of the normal law with this mean and variance."""
    if law.variance == 0.0:
        return float(law.mean > epsilon)
    return float(ndtr((law.mean - epsilon) / math.sqrt(law.variance)))
