"""Delta of one step, and the mean loss of a cell, in closed form where a family has one: their errors are relative to
the delta or the loss. No guarantee rests on these. A pair of yours has the defaults; ``register`` gives it more.
"""

import math
from functools import singledispatch
from typing import Any, NamedTuple

import numpy as np
from scipy.special import erfcx, log_ndtr

from evr._kernel.pairs import Direction, DiscretePair, DominatingPair, Floats, Measure, infinite_loss_mass
from evr._kernel.pairs.law import UNIT
from evr._kernel.pairs.line.gaussian import (
    NORMAL_REACH,
    GaussianPair,
    MixturePair,
    ShiftedPair,
    log_normal_mass,
    log_weighted_mean,
)
from evr._kernel.pairs.line.labelled import EitherPair
from evr._kernel.pairs.line.laplace import BoundedRangePair, LaplacePair
from evr._kernel.pairs.line.pair import mix, unmix
from evr._kernel.pairs.line.poisson import SampledPair, WithoutReplacementPair

_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(5)
_MILLS_NODES, _MILLS_WEIGHTS = np.polynomial.legendre.leggauss(20)


class TableError(NamedTuple):
    """How far probabilities may be wrong, relatively, and what is left out altogether."""

    relative: float
    beyond: float

    def of(self, delta: float) -> float:
        return self.relative * delta + self.beyond


@singledispatch
def table_error_of(pair: DominatingPair) -> TableError:
    """The error of a step's probabilities beyond rounding, where its law is known by a table only."""
    return TableError(0.0, 0.0)


@singledispatch
def delta_error(pair: DominatingPair, epsilon: float) -> float:
    """The error of ``pair_delta``, about, beyond what is relative to delta. By default the difference of two
    probabilities is off by the rounding of the greater one; closed forms do not cancel.
    """
    if pair_delta.dispatch(type(pair)) is not pair_delta.dispatch(DominatingPair) or math.isinf(epsilon):
        return 0.0
    log_above = float(pair.log_mass(Measure.P, pair.point(epsilon), np.inf))
    return 16.0 * UNIT * (1.0 - log_above) * math.exp(log_above) if log_above > -math.inf else 0.0


@singledispatch
def pair_delta(pair: DominatingPair, epsilon: float) -> float:
    """``E_P[(1 - e^{epsilon - loss})_+]`` of one step. By default the difference of two probabilities."""
    if math.isinf(epsilon):
        return infinite_loss_mass(pair) if epsilon > 0 else 1.0
    threshold = pair.point(epsilon)
    above_p = float(np.exp(pair.log_mass(Measure.P, threshold, np.inf)))
    above_q = float(pair.log_mass(Measure.Q, threshold, np.inf))
    return max(0.0, above_p - math.exp(epsilon + above_q))


@pair_delta.register
def _(pair: DiscretePair, epsilon: float) -> float:
    if epsilon == math.inf:
        return infinite_loss_mass(pair)
    above = pair.losses > epsilon
    gains = np.exp(pair.logs[Measure.P][above]) * -np.expm1(epsilon - pair.losses[above])
    return min(1.0, float(np.sum(gains)))


@pair_delta.register
def _(pair: GaussianPair, epsilon: float) -> float:
    # delta(epsilon) = 1 - e^epsilon + e^epsilon delta(-epsilon), the pair being symmetric
    if epsilon < 0:
        return min(1.0, -math.expm1(epsilon) + math.exp(epsilon) * pair_delta(pair, -epsilon))
    low = epsilon / pair.mu - pair.mu / 2
    if low > NORMAL_REACH:
        return 0.0
    return min(1.0, _tail_over(low + pair.mu, pair.mu, 0.0))


def _mills_difference(low: float, width: float) -> float:
    """``R(low) - R(low + width)`` of the normal tail's Mills ratio ``R``, without cancellation for close arguments."""
    x = np.array([low, low + width]) if width > 1.0 else low + width * (_MILLS_NODES + 1) / 2
    ratio = _mills_ratio(x)
    if width > 1.0:
        return float(ratio[0] - ratio[1])
    return float(width / 2 * np.sum(_MILLS_WEIGHTS * (1 - x * ratio)))  # R' = x R - 1


def _mills_ratio(x: Any) -> Any:
    return math.sqrt(math.pi / 2) * erfcx(x / math.sqrt(2))


@pair_delta.register
def _(pair: LaplacePair | BoundedRangePair, epsilon: float) -> float:
    greatest = 1 / pair.scale if isinstance(pair, LaplacePair) else pair.epsilon
    if abs(epsilon) >= greatest:
        return max(0.0, -math.expm1(min(epsilon, 1.0)))
    above = -math.expm1((epsilon - greatest) / 2)
    return above if isinstance(pair, LaplacePair) else above**2 / -math.expm1(-greatest)


@pair_delta.register
def _(pair: ShiftedPair, epsilon: float) -> float:
    return pair_delta(pair.base, epsilon - pair.shift)


@pair_delta.register
def _(pair: MixturePair, epsilon: float) -> float:
    # where the loss is epsilon, delta is a mixture of the deltas of the Gaussians at their own losses there
    if pair.direction is None:
        return _two_mixtures_delta(pair, epsilon)
    t, add = float(pair.point(epsilon)), pair.direction is Direction.ADD
    if math.isinf(t) or math.isinf(epsilon):
        return max(0.0, -math.expm1(min(epsilon, 1.0)))
    m, p = np.array(pair.means), np.array(pair.probabilities)
    single = m * t + (m * m / 2 if add else -m * m / 2)
    if add:
        p = p * np.exp(epsilon - single)
    deltas = [
        pair_delta(GaussianPair(m), float(e)) if m > 0 else max(0.0, -math.expm1(e))
        for m, e in zip(pair.means, single, strict=True)
    ]
    return min(1.0, float(np.sum(p * np.array(deltas))))


def _two_mixtures_delta(pair: MixturePair, epsilon: float) -> float:
    """At the place ``t`` whose loss is epsilon both densities agree but for ``e^epsilon``, so that the Mills ratio
    ``R(t)`` may be taken off all tails: ``sum_i p_i phi(t-m_i) (R(t-m_i) - R(t)) + e^epsilon p_i phi(t+m_i) (R(t) -
    R(t+m_i))``, in which nothing cancels.
    """
    if epsilon < 0:
        return min(1.0, -math.expm1(epsilon) + math.exp(epsilon) * _two_mixtures_delta(pair, -epsilon))
    t = float(pair.point(epsilon))
    if t > NORMAL_REACH + max(pair.means):
        return 0.0
    parts = zip(pair.means, pair.probabilities, strict=True)
    return min(1.0, math.fsum(p * (_tail_over(t, m, 0.0) - _tail_over(t, -m, epsilon)) for m, p in parts if m > 0))


def _tail_over(t: float, mean: float, log_factor: float) -> float:
    """``e^log_factor phi(t - mean) (R(t - mean) - R(t))`` of the Mills ratio ``R``, for ``t >= 0``."""
    low = t - mean
    density = math.exp(log_factor - low * low / 2) / math.sqrt(2 * math.pi)
    if low < -30.0:  # the Mills ratio of low would overflow, and nothing cancels
        return float(np.exp(log_factor + log_ndtr(-low))) - density * _mills_ratio(t)
    return density * _mills_difference(low, mean) if mean >= 0 else -density * _mills_difference(t, -mean)


@pair_delta.register
def _(pair: EitherPair, epsilon: float) -> float:
    return float(np.sum(np.exp(pair.log_weights) * np.array([pair_delta(one, epsilon) for one in pair.pairs])))


@pair_delta.register
def _(pair: SampledPair, epsilon: float) -> float:
    # At the base loss epsilon' at which the sampled one is epsilon, P'(A) - e^epsilon Q'(A) is
    # c (P(A) - e^epsilon' Q(A)); c = q (remove), 1 - e^epsilon (1-q) (add).
    inner = pair.sign * float(unmix(pair.sign * epsilon, pair.q))
    if pair.direction is Direction.REMOVE:
        return pair.q * pair_delta(pair.base, inner) if inner > -math.inf else -math.expm1(epsilon)
    least = epsilon + math.log1p(-pair.q)
    return 0.0 if least >= 0 else -math.expm1(least) * pair_delta(pair.base, inner)


@pair_delta.register
def _(pair: WithoutReplacementPair, epsilon: float) -> float:
    return pair_delta(pair.upper if epsilon >= 0 else pair.lower, epsilon)


@singledispatch
def mean_loss(pair: DominatingPair, low: Any, high: Any) -> Floats:
    """``log P(cell) / Q(cell)`` of cells ``(low, high]`` outside flats: the loss that stands for a whole cell. The
    default has an error of 1e-16, which a billion steps add up; that of families is relative to the loss.
    """
    return _log_ratio(pair.log_mass(Measure.P, low, high), pair.log_mass(Measure.Q, low, high))


def _log_ratio(log_p: Floats, log_q: Floats) -> Floats:
    """The difference of two logarithms of masses; 0 where neither law has mass."""
    held = (log_p > -np.inf) | (log_q > -np.inf)
    return np.where(held, log_p, 0.0) - np.where(held, log_q, 0.0)


@mean_loss.register
def _(pair: GaussianPair, low: Any, high: Any) -> Floats:
    return _log_mass_ratio(pair.mu, low, high)


def _log_mass_ratio(mu: Any, low: Any, high: Any) -> Floats:
    """``log`` of the probability of ``(low, high]`` under ``N(mu, 1)`` over that under ``N(0, 1)``. In a narrow cell
    it is that of the middle and a quadrature of the rest; a wide cell takes the difference of two logarithms.
    """
    mu, low, high = np.broadcast_arrays(np.asarray(mu, float), np.asarray(low, float), np.asarray(high, float))
    with np.errstate(invalid="ignore"):
        middle, half = (low + high) / 2, (high - low) / 2
        narrow = half * (np.abs(middle) + half + mu) < 0.5  # False where an end is infinite
    out = np.empty(mu.shape)
    m, centre, s = mu[narrow], middle[narrow], half[narrow] * _NODES[:, None]
    share = _WEIGHTS[:, None] * np.exp(-s * (centre + s / 2))
    out[narrow] = m * (centre - m / 2) + np.log1p(np.sum(share * np.expm1(m * s), axis=0) / np.sum(share, axis=0))
    m, low, high = mu[~narrow], low[~narrow], high[~narrow]
    out[~narrow] = _log_ratio(log_normal_mass(low - m, high - m), log_normal_mass(low, high))
    return out


@mean_loss.register
def _(pair: ShiftedPair, low: Any, high: Any) -> Floats:
    return _log_mass_ratio(pair.mu, low, high) + pair.shift


@mean_loss.register
def _(pair: LaplacePair | BoundedRangePair, low: Any, high: Any) -> Floats:
    # between the centres both densities are exponential: the ratio of two integrals is that at the middle
    return pair.privacy_loss((np.asarray(low, float) + np.asarray(high, float)) / 2)


@mean_loss.register
def _(pair: MixturePair, low: Any, high: Any) -> Floats:
    # the difference of what both laws have over N(0, 1), which is 0 for a law that is no mixture
    low, high = (np.asarray(t, float)[..., None] for t in (low, high))
    means, p = np.array(pair.means), np.array(pair.probabilities)
    of_p: Any = log_weighted_mean(_log_mass_ratio(means, low, high), p) if pair.is_mixed(Measure.P) else 0.0
    return of_p - log_weighted_mean(_log_mass_ratio(means, -high, -low), p) if pair.is_mixed(Measure.Q) else of_p


@mean_loss.register
def _(pair: EitherPair, low: Any, high: Any) -> Floats:
    # P/Q = 1 + a mean of P_i/Q_i - 1, whose error is relative to the loss
    masses = pair.log_masses(Measure.Q, low, high)
    total = np.logaddexp.reduce(masses, axis=0)
    ends = zip(pair.pairs, pair.coordinates(low), pair.coordinates(high), strict=True)
    means = np.array([mean_loss(one, *cell) for one, *cell in ends])
    with np.errstate(invalid="ignore", divide="ignore"):
        gains = np.where(masses > -np.inf, np.exp(masses - total) * np.expm1(np.minimum(means, 1.0)), 0.0)
        near = np.log1p(gains.sum(axis=0))
        far = _log_ratio(pair.log_mass(Measure.P, low, high), total)
    return np.where(np.max(np.abs(means), axis=0) < 0.5, near, far)


@mean_loss.register
def _(pair: SampledPair, low: Any, high: Any) -> Floats:
    return pair.sign * mix(pair.sign * mean_loss(pair.base, low, high), pair.q)


@mean_loss.register
def _(pair: WithoutReplacementPair, low: Any, high: Any) -> Floats:
    below = mean_loss(pair.lower, pair.below(low), pair.below(high))
    above = mean_loss(pair.upper, pair.above(low), pair.above(high))
    return pair.by_side(high, below, above)
