"""Proved bounds on moments of one step's loss, ``E_P[e^{a loss}]`` at whole orders ``a`` (docs/guarantees_relations.md,
Section R4.3).

Closed forms, enclosed in balls. A law without one is refused.
"""

from __future__ import annotations

import math
from functools import lru_cache, partial

from flint import fmpz

from evr.bounds.strict.balls import integer_above
from evr.errors import UnsupportedEventError
from evr.laws.exact import (
    Ball,
    ExactDiscreteGaussian,
    ExactGaussian,
    ExactLaplace,
    ExactLaw,
    ExactOutcomes,
    SampledCurve,
    SampledOutcomes,
)
from evr.laws.exact.law import ball

BITS = 96
"""Logarithms of moments are integers in units of ``2^-BITS``, rounded up."""


@lru_cache(maxsize=4096)
def log_moment(law: ExactLaw, order: int) -> int | None:
    """At least ``log E_P[e^{order loss}]`` in units of ``2^-BITS``; None where it is infinite.

    Examples
    --------
    >>> from fractions import Fraction
    >>> log_moment(ExactGaussian(Fraction(1, 4)), 3) / 2**BITS
    1.5
    """
    return None if _infinite(law) else integer_above(partial(_log_moment, law, order), BITS)


def _infinite(law: ExactLaw) -> bool:
    """Whether a loss may be infinite. A discrete Gaussian's sets say so of its tail, which has a closed form."""
    if not isinstance(law, ExactOutcomes) or _is_symmetric(law):
        return False
    return any(one.loss == Ball.pos_inf() and not one.p.is_zero() for one in law.sets())


def _is_symmetric(law: ExactLaw) -> bool:
    """Whether a reflection swaps ``P`` and ``Q``, of the law or of what is sampled."""
    base = law.base if isinstance(law, SampledCurve | SampledOutcomes) else law
    return isinstance(base, ExactGaussian | ExactLaplace | ExactDiscreteGaussian)


def _log_moment(law: ExactLaw, order: int) -> Ball:
    if isinstance(law, SampledCurve | SampledOutcomes) and _is_symmetric(law):
        return _sampled(law, order).log()  # that of the remove direction serves both
    if isinstance(law, ExactGaussian):
        return ball(law.square * order * (order + 1) / 2)
    if isinstance(law, ExactDiscreteGaussian):
        return ball(law.sensitivity**2 / law.sigma**2 * order * (order + 1) / 2)
    if isinstance(law, ExactLaplace):
        up, down = (ball(x / law.scale).exp() for x in (order, -order - 1))
        return (((order + 1) * up + order * down) / (2 * order + 1)).log()
    if isinstance(law, ExactOutcomes):
        sets = [one for one in law.sets() if not one.p.is_zero()]
        return sum((one.p * (order * one.loss).exp() for one in sets), Ball(0)).log()
    raise UnsupportedEventError(
        f"no moments of {law!r} are proved here: method='renyi' takes Gaussian, Laplace and "
        "discrete mechanisms, these with Poisson sampling, and ZCDpEvent"
    )


def _sampled(law: SampledCurve | SampledOutcomes, order: int) -> Ball:
    """``E_Q[(1 - q + q dP/dQ)^{order + 1}]``, by the binomial theorem."""
    power, q, rest = order + 1, ball(law.q), ball(1 - law.q)
    terms = (
        Ball(fmpz(math.comb(power, k)))
        * rest ** (power - k)
        * q**k
        * (_log_moment(law.base, k - 1).exp() if k > 1 else Ball(1))
        for k in range(power + 1)
    )
    return sum(terms, Ball(0))
