"""Additive noise: the Gaussian, Laplace, discrete Laplace and discrete Gaussian mechanisms.

One record changes a value by its norm when it is added, removed or zeroed out, and by up to twice its norm when it is
replaced. ``times`` is that factor.
"""

from __future__ import annotations

import math
from fractions import Fraction
from functools import partial

import numpy as np
from dp_accounting import dp_event

from evr import validate
from evr.laws import DiscretePair, Pairs
from evr.laws.exact import ExactDiscreteGaussian, ExactDiscreteLaplace, ExactGaussian, ExactLaplace
from evr.laws.exact.shifted import integer_gaussian
from evr.laws.line.gaussian import NORMAL_REACH, GaussianPair
from evr.laws.line.laplace import LaplacePair
from evr.laws.line.shifted import ShiftedPair
from evr.mechanisms.descriptor import NON_PRIVATE, Mechanism
from evr.mechanisms.relations import REPLACE_ONE
from evr.mechanisms.schemes import DiscreteGaussianDpEvent, SummedDiscreteGaussiansDpEvent

MAX_SENSITIVITY = 1_000_000  # as many outcomes has discrete Laplace noise
_MOST_SIGMA = 1e12  # of integer noise in many dimensions
MAX_SIGMA = 20_000.0  # of discrete Gaussian noise


def gaussian(event: dp_event.GaussianDpEvent, times: int = 1) -> Pairs | dp_event.DpEvent:
    """The laws of Gaussian noise."""
    noise = validate.noise_scale(noise_multiplier=event.noise_multiplier)
    if noise == 0:
        return NON_PRIVATE
    exact = ExactGaussian(Fraction(times) ** 2 / Fraction(noise) ** 2)
    return Pairs.both(GaussianPair(times / noise), exact)


def laplace(event: dp_event.LaplaceDpEvent, times: int = 1) -> Pairs | dp_event.DpEvent:
    """The laws of Laplace noise."""
    noise = validate.noise_scale(noise_multiplier=event.noise_multiplier)
    if noise == 0:
        return NON_PRIVATE
    return Pairs.both(LaplacePair(noise / times), ExactLaplace(Fraction(noise) / times))


def discrete_laplace(event: dp_event.DiscreteLaplaceDpEvent, times: int = 1) -> Pairs | dp_event.DpEvent:
    """The laws of noise of probability ``tanh(a/2) e^{-a|x|}`` on the integers.

    The loss takes the values ``a(2j - shift)``, ``j = 0 .. shift``. Both tails are atoms, so finitely many outcomes
    describe the pair exactly.
    """
    a = validate.noise_scale(noise_parameter=event.noise_parameter)
    shift = times * validate.positive_integer(sensitivity=event.sensitivity)
    if shift > MAX_SENSITIVITY:
        raise ValueError(f"sensitivity={shift!r} is above {MAX_SENSITIVITY}: rescale the values")
    if a == 0:
        return NON_PRIVATE
    # P is centred at `shift`, Q at 0. Outcome 0 joins all x <= 0, outcome `shift` all x >= shift.
    x = np.arange(shift + 1.0)
    log_atom = math.log(math.tanh(a / 2))
    log_tail = -math.log1p(math.exp(-a))  # P[DLap >= 0] = P[DLap <= 0] = 1 / (1 + e^-a)
    log_p, log_q = log_atom - a * (shift - x), log_atom - a * x
    log_p[-1], log_q[0] = log_tail, log_tail
    log_p[0], log_q[-1] = log_tail - a * shift, log_tail - a * shift
    pair = DiscretePair.from_logs(log_p, log_q, losses=a * (2 * x - shift))
    return Pairs.both(pair, ExactDiscreteLaplace(Fraction(a), shift))


def discrete_gaussian(
    event: DiscreteGaussianDpEvent | SummedDiscreteGaussiansDpEvent, times: int = 1
) -> Pairs | dp_event.DpEvent:
    """The laws of noise on the integers of probability proportional to ``e^{-x^2 / (2 sigma^2)}``, or of sums of such
    noise.

    On one coordinate they are known exactly. On several they are those of continuous noise of a smaller variance,
    rounded (docs/guarantees_state.md, G2), or where ``sigma`` is small or the dimension unknown, those of zCDP (G3).
    """
    sigma = validate.noise_scale(sigma=event.sigma)
    clients = 1
    if isinstance(event, SummedDiscreteGaussiansDpEvent):
        clients = validate.positive_integer(clients=event.clients)
    if event.dimension is not None:
        validate.positive_integer(dimension=event.dimension)
    if clients == 1 == event.dimension:
        return _scalar(sigma, times * validate.positive_integer(sensitivity=event.sensitivity))
    sensitivity = times * validate.positive(sensitivity=event.sensitivity)
    if sensitivity < 1 or sigma * math.sqrt(clients) > _MOST_SIGMA:
        raise ValueError(
            f"sigma={sigma!r}, sensitivity={event.sensitivity!r}: integer values change by 1 or more, and the "
            f"noise may have a standard deviation of {_MOST_SIGMA:g} at most. Give both in units of the integers"
        )
    if sigma == 0 or sensitivity > 100 * sigma * math.sqrt(clients):
        return NON_PRIVATE
    if event.dimension is not None or clients > 1:
        dimension = validate.positive_integer(dimension=event.dimension)
        exact = integer_gaussian(sigma, sensitivity, dimension, clients)
        if exact is not None:
            return Pairs.both(ShiftedPair(math.sqrt(exact.square), float(exact.shift)), exact)
    if clients > 1:
        raise ValueError(
            f"sigma={sigma!r} of each of clients={clients!r} is too small for dimension={event.dimension!r}: their "
            "sum is not near enough to a discrete Gaussian. Scale the values up, and sigma with them"
        )
    return dp_event.ZCDpEvent(math.nextafter(sensitivity**2 / sigma**2 / 2 * (1 + 1e-15), math.inf))


def _scalar(sigma: float, shift: int) -> Pairs | dp_event.DpEvent:
    """Discrete Gaussian noise on one integer, which a record changes by at most ``shift``.

    The support is infinite. Noise beyond 39 ``sigma`` has a probability below 1e-329, less than the least positive
    float. The pair leaves those outcomes out, which changes ``delta`` by no more than that, and says that its losses go
    on.
    """
    if sigma == 0:
        return NON_PRIVATE
    if sigma > MAX_SIGMA:
        raise ValueError(
            f"sigma={sigma!r} is above {MAX_SIGMA:g}, too many outcomes: rescale the values to smaller ones"
        )
    if shift > 10 * NORMAL_REACH * sigma + 10:
        return NON_PRIVATE  # the two laws do not overlap within what a float can tell
    reach = math.ceil(NORMAL_REACH * sigma) + 2
    x = np.arange(-reach, shift + reach + 1.0)  # P is centred at `shift`, Q at 0
    tail = np.arange(1, math.ceil(NORMAL_REACH * sigma) + 2.0)
    log_norm = math.log1p(2 * math.fsum(np.exp(-(tail**2) / (2 * sigma**2)).tolist()))
    log_p = -((x - shift) ** 2) / (2 * sigma**2) - log_norm
    log_q = -(x**2) / (2 * sigma**2) - log_norm
    losses = shift * (2 * x - shift) / (2 * sigma**2)
    pair = DiscretePair.from_logs(log_p, log_q, losses=losses, is_cut=True)
    return Pairs.both(pair, ExactDiscreteGaussian(Fraction(sigma), shift))


_INTEGERS = "the values were integers, and the sensitivity bounds what a record adds to them after all rounding"

MECHANISMS = tuple(
    Mechanism(event, laws, assumptions, under={REPLACE_ONE: partial(laws, times=2)})
    for event, laws, assumptions in (
        (dp_event.GaussianDpEvent, gaussian, ()),
        (dp_event.LaplaceDpEvent, laplace, ()),
        (dp_event.DiscreteLaplaceDpEvent, discrete_laplace, ()),
        (DiscreteGaussianDpEvent, discrete_gaussian, (_INTEGERS,)),
        (SummedDiscreteGaussiansDpEvent, discrete_gaussian, (_INTEGERS,)),
    )
)
