"""Integer noise in many dimensions: a Gaussian whose losses are raised (docs/guarantees_state.md, G2)."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

from evr._kernel.pairs.exact.law import Ball, ExactCurve, at_precision, ball, integer_above
from evr._kernel.pairs.exact.line import ExactGaussian

_BITS = 160
_LISTED = 64  # partial sums of clients whose factors are computed one by one
_ORDER, _MOST = 16, 0.5  # a usual order of the moments, and the greatest shift


@dataclass(frozen=True)
class ExactShifted(ExactCurve):
    """``N(m, 1)`` against ``e^-shift N(0, 1)`` and a rest apart, given ``m^2``; both numbers add up."""

    square: Fraction
    shift: Fraction

    def curve(self) -> Callable[[Ball], Ball]:
        base, factor = ExactGaussian(self.square).curve(), ball(-self.shift).exp()
        return lambda ratio: base(ratio * factor)


def integer_gaussian(
    sigma: float, sensitivity: float, dimension: int, clients: int = 1
) -> ExactShifted | None:
    """The law of integer values of that L2 sensitivity with integer noise; None if no rounding is near.

    >>> print(integer_gaussian(50.0, 10.0, 10**6).curve()(Ball(1).exp()).str(4))
    [1.769e-8 +/- ...]
    """
    variance, best = clients * sigma**2, None
    for sixty_fourths in range(16, 144):
        t = sixty_fourths / 64
        if t * t > variance / 4:  # a third more in the variance is too much
            break
        summed = 4 * clients * math.exp(-((math.pi * sigma) ** 2))
        shift = dimension * (4 * math.exp(-2 * (math.pi * t) ** 2) + summed)
        cost = 3 * shift + (_ORDER + 1) / 2 * sensitivity**2 / (variance - t * t)
        if shift < _MOST and (best is None or cost < best[0]):
            best = cost, Fraction(sixty_fourths, 64)
    if best is None:
        return None
    return rounded(Fraction(sigma), Fraction(sensitivity), dimension, best[1], clients)


def rounded(
    sigma: Fraction, sensitivity: Fraction, dimension: int, rounding: Fraction, clients: int = 1
) -> ExactShifted | None:
    """The law by a given rounding: its shift is raised until it covers ``A`` at ratio 1, and so at all."""
    square = sensitivity**2 / (clients * sigma**2 - rounding**2)
    with at_precision(_BITS):
        up, ratio = factors(sigma, dimension, rounding, clients)
        slope = _slope(square, Ball(0))
        for more in range(8, 64):
            shift = Fraction(integer_above((ratio + up / slope * more / 8) * (1 << _BITS)), 1 << _BITS)
            if (ball(shift) - ratio) * _slope(square, ball(-shift)) >= up:
                return ExactShifted(square, shift)
    return None


def factors(sigma: Fraction, dimension: int, rounding: Fraction, clients: int = 1) -> tuple[Ball, Ball]:
    """``log A`` and ``log(A / a)``: how far the sum of ``clients`` discrete Gaussians, on so many
    coordinates, is from rounded continuous noise of variance ``clients sigma^2 - rounding^2``. Any
    ``rounding`` with ``eta < 1`` is valid.
    """
    of_rounding, of_noise = _eta(rounding**2), _eta(clients * sigma**2)
    summed = last = Ball(0)
    for k in range(1, min(clients, _LISTED)):
        last = _log_ratio(_eta(sigma**2 * Fraction(k, k + 1)))
        summed += last
    summed += max(0, clients - _LISTED) * last  # the terms fall
    up = (1 + of_rounding).log() - (1 + of_noise).log() + summed
    return dimension * up, dimension * (_log_ratio(of_rounding) + 2 * summed)


def _eta(square: Fraction) -> Ball:
    """``2 sum_{k >= 1} e^{-2 pi^2 t^2 k^2}``, given ``t^2``; the series ends in a geometric one."""
    one = (-2 * Ball.pi() ** 2 * ball(square)).exp()
    return 2 * (one + one**4 + (one**9 / (1 - one)).union(Ball(0)))


def _log_ratio(eta: Ball) -> Ball:
    if not eta < 1:
        raise ArithmeticError("noise or rounding below 0.2 is too far from the continuous one")
    return (1 + eta).log() - (1 - eta).log()


def _slope(square: Fraction, loss: Ball) -> Ball:
    """``-d log H / d loss = e^loss Q(y > loss) / H`` of the Gaussian pair."""
    mean = ball(square).sqrt()
    beyond = ((loss / mean + mean / 2) / Ball(2).sqrt()).erfc() / 2
    return loss.exp() * beyond / ExactGaussian(square).curve()(loss.exp())
