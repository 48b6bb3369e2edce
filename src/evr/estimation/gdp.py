"""The CLT accountant: the composition seen as one Gaussian mechanism (an estimate, from either side
of the truth).

- Gaussian mechanisms compose to a Gaussian mechanism: ``mu^2 = sum 1/noise^2``, exact.
- Poisson-sampled Gaussian mechanisms have the limit ``mu^2 = k q^2 (e^{1/noise^2} - 1)`` (Bu, Dong,
  Long and Su 2020, "Deep learning with Gaussian differential privacy", Theorem 5), which is ``k``
  times the chi-square divergence of a step.
- If any other mechanism takes part, the loss is taken to be normal with its own mean and variance
  under ``P`` and under ``Q``, ``delta = Pr_P[loss > eps] - e^eps Pr_Q[loss > eps]``, infinite
  losses counted apart as in ``edgeworth.py``.

The limit holds for many steps of small loss; for few steps, small noise or small delta it can be
wrong by many orders of magnitude, usually below the truth.
"""

from __future__ import annotations

import math
from functools import cached_property

from evr.estimation.closed_forms import pair_delta
from evr.estimation.loss_moments import LossMoments, composed_moments, delta_from_tails, normal_tail
from evr.laws import Step
from evr.laws.line.gaussian import GaussianPair
from evr.laws.line.poisson import SampledPair


def _squared_mu(step: Step) -> float | None:
    """The step's share of ``mu^2``; None for a mechanism that is no Gaussian, sampled or not."""
    pair = step.pair
    if isinstance(pair, GaussianPair):
        return step.count * pair.mu**2
    if isinstance(pair, SampledPair) and isinstance(pair.base, GaussianPair):
        exponent = pair.base.mu**2
        return step.count * pair.q**2 * math.expm1(exponent) if exponent < 700 else math.inf
    return None


class GdpCurve:
    """delta of the steps of one direction by the normal limit.

    Examples
    --------
    >>> from evr.mechanisms import Composition
    >>> from evr.events import dpsgd
    >>> event = dpsgd(noise_multiplier=2.0, sampling_probability=0.01, steps=1500)
    >>> steps = Composition.of(event).remove
    >>> f"{GdpCurve(steps).delta(0.5):.2e}"
    '6.71e-04'
    """

    def __init__(self, steps: tuple[Step, ...]) -> None:
        self._steps = steps

    @cached_property
    def mu(self) -> float | None:
        """The parameter of the Gaussian mechanism in the limit; None where a step is no (sampled)
        Gaussian.
        """
        squares = [_squared_mu(step) for step in self._steps]
        known = [square for square in squares if square is not None]
        return math.sqrt(math.fsum(known)) if len(known) == len(squares) else None

    @cached_property
    def _moments(self) -> LossMoments | None:
        return composed_moments(self._steps)

    def delta(self, epsilon: float) -> float:
        """The estimate of ``delta(epsilon)``, in [0, 1]."""
        if self.mu is not None:
            if self.mu == 0.0:
                return max(0.0, -math.expm1(epsilon))
            return pair_delta(GaussianPair(self.mu), epsilon) if math.isfinite(self.mu) else 1.0
        if self._moments is None:
            return 1.0
        tail_p, tail_q = (normal_tail(law, epsilon) for law in self._moments)
        return delta_from_tails(epsilon, self._moments, tail_p, tail_q)
