"""The paper's baselines of the normal limit: GDP and the Edgeworth accountant. Both are estimates,
often far below the truth where steps are few or delta is small, so evr itself does not offer them.

- GDP, for Gaussian mechanisms, Poisson sampled or not: ``mu^2 = sum k q^2 (e^{1/noise^2} - 1)``,
  or ``k / noise^2`` without sampling (Bu, Dong, Long and Su 2020, "Deep learning with Gaussian
  differential privacy", Theorem 5).
- Edgeworth (Wang, Gao, Zhang, Su and Shen 2022, "Analytical composition of differential privacy via
  the Edgeworth accountant"): the distribution functions of the summed loss under ``P`` and under
  ``Q`` by second-order expansions, and ``delta = Pr_P[loss > eps] - e^eps Pr_Q[loss > eps]``.
- Its upper bound takes the normal law and Berry and Esseen's error: ``0.5600 sum b_i / S^3`` for
  any summands (Shevtsova 2010), and for ``n`` equal ones, ``r = b / s^3``, ``min(0.4748 r, 0.33554
  (r + 0.415), 0.3328 (r + 0.429)) / sqrt(n)`` (Shevtsova 2011, arXiv:1111.6554); ``b`` is the
  third absolute central moment.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from scipy.special import ndtr

from evr._estimate.closed_forms import pair_delta
from evr._estimate.inversion import solve_epsilon
from evr._estimate.points import cell_edges, loss_points
from evr._kernel.events import Composition
from evr._kernel.pairs import Direction, DominatingPair, Floats, Step, infinite_loss_mass
from evr._kernel.pairs.line.gaussian import GaussianPair
from evr._kernel.pairs.line.poisson import SampledPair

_CELLS = 2**14


def gdp(event: Any) -> Callable[[float], float]:
    """Delta of Gaussian mechanisms in the limit, by epsilon; it is the same in both directions."""
    squares = []
    for step in Composition.of(event).remove:
        pair = step.pair
        if isinstance(pair, GaussianPair):
            squares.append(step.count * pair.mu**2)
        else:
            assert isinstance(pair, SampledPair)
            assert isinstance(pair.base, GaussianPair)
            squares.append(step.count * pair.q**2 * math.expm1(pair.base.mu**2))
    return partial(pair_delta, GaussianPair(math.sqrt(math.fsum(squares))))


def edgeworth(event: Any) -> Callable[[float], float]:
    """The greater delta of both directions by Edgeworth expansions, by epsilon."""
    curves = [EdgeworthCurve(Composition.of(event).steps(one)) for one in Direction]
    return lambda epsilon: max(curve.delta(epsilon) for curve in curves)


def epsilon_of(curve: Callable[[float], float], delta: float) -> float:
    """Where one of these curves has the given delta."""
    return solve_epsilon(curve, delta)


class Moments(NamedTuple):
    """Of the loss under one law: cumulants 1 to 4, and ``E|loss - mean|^3``. Adding two of them,
    entry by entry, is composing; of the last one Berry and Esseen's theorem uses the sum.
    """

    mean: float
    variance: float
    third: float
    fourth: float
    absolute_third: float


def _moments(losses: Floats, log_weights: Floats) -> Moments:
    weights = np.exp(log_weights - log_weights.max())
    weights /= weights.sum()
    mean = float(np.sum(weights * losses))
    centred = losses - mean
    variance, third, fourth = (float(np.sum(weights * centred**n)) for n in (2, 3, 4))
    absolute = float(np.sum(weights * np.abs(centred) ** 3))
    return Moments(mean, variance, third, fourth - 3 * variance**2, absolute)


def loss_moments(pair: DominatingPair) -> tuple[Moments, Moments]:
    """The moments of one step's loss, which is finite, under ``P`` and under ``Q``."""
    assert infinite_loss_mass(pair) == 0.0
    points = loss_points(pair, cell_edges(pair, 0.0, _CELLS))
    return (_moments(points.losses, points.log_weights), _moments(points.losses, points.log_weights - points.losses))


class EdgeworthCurve:
    """Delta of the steps of one direction, estimated and bounded."""

    def __init__(self, steps: tuple[Step, ...]) -> None:
        totals = sum(step.count * np.array(loss_moments(step.pair)) for step in steps)
        self._laws = [Moments(*law) for law in np.asarray(totals).tolist()]
        self._equal = steps[0].count if len(steps) == 1 else None

    def delta(self, epsilon: float) -> float:
        """The estimate, in [0, 1]."""
        tail_p, tail_q = (_expanded_tail(law, epsilon) for law in self._laws)
        return _delta(epsilon, tail_p, tail_q)

    def upper_delta(self, epsilon: float) -> float:
        """An upper bound, up to the rounding of the moments."""
        (tail_p, error_p), (tail_q, error_q) = (
            (float(ndtr((law.mean - epsilon) / math.sqrt(law.variance))), self._error(law)) for law in self._laws
        )
        return _delta(epsilon, min(1.0, tail_p + error_p), max(0.0, tail_q - error_q))

    def _error(self, law: Moments) -> float:
        """Berry and Esseen's bound on the distance of the distribution function to a normal one."""
        lyapunov = law.absolute_third / law.variance**1.5
        bounds = [1.0, 0.5600 * lyapunov]
        if self._equal is not None:
            root = math.sqrt(self._equal)
            ratio = lyapunov * root
            some = (0.4748 * ratio, 0.33554 * (ratio + 0.415), 0.3328 * (ratio + 0.429))
            bounds += [bound / root for bound in some]
        return min(bounds)


def _expanded_tail(law: Moments, epsilon: float) -> float:
    """``Pr[loss > eps]`` to second order, kept within [0, 1]: ``Phi(-x) + phi(x) (k3/6 He2 + k4/24
    He3 + k3^2/72 He5)``, He the Hermite polynomials, k3 and k4 standardised.
    """
    deviation = math.sqrt(law.variance)
    x = (epsilon - law.mean) / deviation
    if abs(x) > 38.0:  # the normal density underflows
        return float(x < 0)
    k3, k4 = law.third / deviation**3, law.fourth / law.variance**2
    he2, he3, he5 = x * x - 1, x * (x * x - 3), x * (x**4 - 10 * x * x + 15)
    density = math.exp(-x * x / 2) / math.sqrt(2 * math.pi)
    correction = k3 / 6 * he2 + k4 / 24 * he3 + k3 * k3 / 72 * he5
    return min(1.0, max(0.0, float(ndtr(-x)) + density * correction))


def _delta(epsilon: float, tail_p: float, tail_q: float) -> float:
    above_q = math.exp(min(epsilon + math.log(tail_q), 700.0)) if tail_q > 0 else 0.0
    return min(1.0, max(0.0, tail_p - above_q))
