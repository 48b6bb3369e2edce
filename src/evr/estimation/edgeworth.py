"""The Edgeworth accountant (Wang, Gao, Zhang, Su and Shen 2022, "Analytical composition of
differential privacy via the Edgeworth accountant"): the distribution functions of the summed loss
under ``P`` and under ``Q``, each by its second-order Edgeworth expansion, and ``delta(eps) = (1 -
F_P(eps)) - e^eps (1 - F_Q(eps))``.

That is an estimate. The upper bound here does not expand: it takes the normal law and its uniform
error, as the constants for the second-order expansion need more of the loss than its moments. The
theorems, for independent ``X_i`` with variances ``s_i^2``, third absolute central moments ``b_i``
and ``S^2 = sum s_i^2``:

- any summands (Shevtsova 2010, "An improvement of convergence rate estimates in the Lyapunov
  theorem"): ``sup |F - Phi| <= 0.5600 sum b_i / S^3``;
- ``n`` equally distributed ones (Shevtsova 2011, arXiv:1111.6554), ``r = b / s^3``:
  ``sup |F - Phi| <= min(0.4748 r, 0.33554 (r + 0.415), 0.3328 (r + 0.429)) / sqrt(n)``.

Both need finite third moments only. As the error is absolute, of order ``1/sqrt(n)``, the bound
says little for small delta.
"""

from __future__ import annotations

import math
from functools import cached_property

from scipy.special import ndtr

from evr.estimation.loss_moments import (
    LossMoments,
    Moments,
    composed_moments,
    delta_from_tails,
    normal_tail,
)
from evr.laws import Step


def _edgeworth_tail(law: Moments, epsilon: float) -> float:
    """``Pr[loss > eps]`` to second order, kept within [0, 1] (an expansion need not stay there)."""
    if law.variance == 0.0:
        return float(law.mean > epsilon)
    # 1 - F(x) = Phi(-x) + phi(x) (k3/6 He2 + k4/24 He3 + k3^2/72 He5), He the Hermite polynomials,
    # k3 and k4 standardised.
    deviation = math.sqrt(law.variance)
    x = (epsilon - law.mean) / deviation
    if abs(x) > 38.0:  # the normal density underflows
        return float(x < 0)
    k3, k4 = law.third / deviation**3, law.fourth / law.variance**2
    he2, he3, he5 = x * x - 1, x * (x * x - 3), x * (x**4 - 10 * x * x + 15)
    density = math.exp(-x * x / 2) / math.sqrt(2 * math.pi)
    correction = k3 / 6 * he2 + k4 / 24 * he3 + k3 * k3 / 72 * he5
    return min(1.0, max(0.0, float(ndtr(-x)) + density * correction))


def _normal_error(law: Moments, equal_steps: int | None) -> float:
    """Berry and Esseen's uniform bound on ``|F - Phi|`` with the constants in the module's
    docstring.
    """
    if law.variance == 0.0:
        return 0.0
    lyapunov = law.absolute_third / law.variance**1.5
    bounds = [1.0, 0.5600 * lyapunov]
    if equal_steps is not None:
        root = math.sqrt(equal_steps)
        ratio = lyapunov * root
        bounds += [
            c / root for c in (0.4748 * ratio, 0.33554 * (ratio + 0.415), 0.3328 * (ratio + 0.429))
        ]
    return min(bounds)


class EdgeworthCurve:
    """delta of the steps of one direction, estimated and bounded. Give the steps as they are, not
    folded into fewer.

    Examples
    --------
    >>> from evr.mechanisms import Composition
    >>> from evr.events import dpsgd
    >>> event = dpsgd(noise_multiplier=2.0, sampling_probability=0.01, steps=1500)
    >>> curve = EdgeworthCurve(Composition.of(event).remove)
    >>> f"{curve.delta(0.5):.2e}"
    '7.61e-04'
    >>> curve.delta(0.5) <= curve.upper_delta(0.5) <= 0.04
    True
    """

    def __init__(self, steps: tuple[Step, ...]) -> None:
        self._steps = steps

    @cached_property
    def _laws(self) -> LossMoments | None:
        return composed_moments(self._steps)

    def delta(self, epsilon: float) -> float:
        """The estimate of ``delta(epsilon)``, in [0, 1]."""
        if self._laws is None:
            return 1.0
        tail_p, tail_q = (_edgeworth_tail(law, epsilon) for law in self._laws)
        return delta_from_tails(epsilon, self._laws, tail_p, tail_q)

    def upper_delta(self, epsilon: float) -> float:
        """An upper bound on ``delta(epsilon)``, up to the rounding of the
        moments (1e-9 relative).
        """
        if self._laws is None:
            return 1.0
        equal_steps = self._steps[0].count if len(self._steps) == 1 else None
        error_p, error_q = (_normal_error(law, equal_steps) for law in self._laws)
        tail_p = min(1.0, normal_tail(self._laws.under_p, epsilon) + error_p)
        tail_q = max(0.0, normal_tail(self._laws.under_q, epsilon) - error_q)
        return delta_from_tails(epsilon, self._laws, tail_p, tail_q)
