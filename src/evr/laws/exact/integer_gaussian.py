"""Discrete Gaussian noise on many coordinates by its exact parameters (docs/guarantees_state.md, G2)."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from fractions import Fraction
from typing import NamedTuple, Self

from flint import ctx
from scipy.special import ndtri

from evr.laws.exact.law import Ball, ExactCurve, ball
from evr.laws.exact.line import ExactGaussian
from evr.laws.line.integer_gaussian import IntegerGaussianPair

_LISTED = 64  # partial sums of clients whose factors are computed one by one
_LEAST = -38.0  # a normal law has nothing below


def _excess(square: Fraction) -> Ball:
    """``eta = 2 sum_{k >= 1} e^{-2 pi^2 t^2 k^2}``, given ``t^2``; the series ends in a geometric one."""
    one = (-2 * Ball.pi() ** 2 * ball(square)).exp()
    return 2 * (one + one**4 + (one**9 / (1 - one)).union(Ball(0)))


class IntegerNoise(NamedTuple):
    """The sum of ``clients`` discrete Gaussians of ``sigma`` on each of ``dimension`` coordinates, compared with
    continuous noise of variance ``clients sigma^2 - rounding^2`` that is rounded. Any ``rounding`` is valid.
    """

    sigma: Fraction
    dimension: int
    rounding: Fraction
    clients: int = 1

    @property
    def variance(self) -> Fraction:
        """Of the continuous noise."""
        return self.clients * self.sigma**2 - self.rounding**2

    def factors(self) -> tuple[Ball, Ball]:
        """``log A`` and ``log(A / a)``."""
        of_rounding, of_noise = _excess(self.rounding**2), _excess(self.clients * self.sigma**2)
        if not (of_rounding < 1 and self.variance > 0):
            raise ValueError(f"rounding={float(self.rounding)!r} is too small or too large for {self!r}")
        summed = self._summed()
        up = (1 + of_rounding).log() - (1 + of_noise).log() + summed
        ratio = (1 + of_rounding).log() - (1 - of_rounding).log() + 2 * summed
        return self.dimension * up, self.dimension * ratio

    def _summed(self) -> Ball:
        """The logarithm of the factor by which a sum of discrete Gaussians differs from a discrete Gaussian."""
        total, term = Ball(0), Ball(0)
        for k in range(1, min(self.clients, _LISTED)):
            eta = _excess(self.sigma**2 * Fraction(k, k + 1))
            if not eta < 1:
                raise ValueError(f"sigma={float(self.sigma)!r} of each client is too small for a sum of them")
            term = (1 + eta).log() - (1 - eta).log()
            total += term
        return total + max(0, self.clients - _LISTED) * term  # the terms fall


@dataclass(frozen=True)
class ExactIntegerGaussian(ExactCurve):
    """Gaussian mechanisms together, some or all of them with integer noise.

    Attributes
    ----------
    square
        ``m^2`` of the continuous mechanisms: the sum of ``sensitivity^2 / variance``.
    noises
        The integer noise, equal ones joined.
    """

    square: Fraction
    noises: tuple[IntegerNoise, ...]

    @classmethod
    def joined(cls, square: Fraction, noises: Iterable[tuple[IntegerNoise, int]]) -> Self:
        """Of noises with their counts."""
        found: dict[IntegerNoise, int] = {}
        for noise, count in noises:
            once = noise._replace(dimension=1)
            found[once] = found.get(once, 0) + count * noise.dimension
        return cls(square, tuple(once._replace(dimension=number) for once, number in found.items()))

    def factors(self) -> tuple[Ball, Ball]:
        """``log A`` and ``log(A / a)`` of all noise."""
        ups, ratios = zip(*(noise.factors() for noise in self.noises), strict=True)
        return sum(ups, Ball(0)), sum(ratios, Ball(0))

    def _start(self) -> tuple[Ball, Ball]:
        """A loss above which ``P`` has at most mass 1, before and after the shift by ``log(A / a)``."""
        up, ratio = self.factors()
        more = -(-up).expm1()  # 1 - 1/A
        place = Fraction(math.floor(max(float(ndtri(float(more.mid()))), _LEAST) * 2**16) + 2, 2**16)
        while not (-ball(place) / Ball(2).sqrt()).erfc() / 2 >= more:
            place += Fraction(1, 2**10)
        mean = ball(self.square).sqrt()
        loss = mean * (ball(place) + mean / 2)
        return loss, loss + ratio

    def curve(self) -> Callable[[Ball], Ball]:
        base = ExactGaussian(self.square).curve()
        up, ratio = self.factors()
        factor, shift = up.exp(), (-ratio).exp()
        inner, outer = self._start()
        start = outer.exp()
        slope = (1 - factor * base(inner.exp())) / start  # of the chord from (0, 1)

        def value(r: Ball) -> Ball:
            if r >= start:
                return factor * base(r * shift)
            chord = 1 - r * slope
            return chord if r <= start else chord.union(factor * base(r * shift))

        return value

    def least(self) -> Ball:
        return self._start()[1]

    def greatest(self) -> Ball:
        return Ball.pos_inf()

    def in_floats(self) -> IntegerGaussianPair:
        """The same pair in floats."""
        with ctx.workprec(160):
            up, ratio = self.factors()
            return IntegerGaussianPair(math.sqrt(self.square), float(up.mid()), float(ratio.mid()))


def good_rounding(sigma: float, sensitivity: float, dimension: int, clients: int) -> Fraction | None:
    """The rounding that costs least at a usual order of the moments; None where every one costs too much. Nothing
    rests on it.
    """
    variance, order = clients * sigma**2, 16.0
    best: tuple[float, int] | None = None
    for part in range(16, 144):
        t = part / 64
        if 1.35 * t * t >= 0.35 * variance:  # a third more in the variance is too much
            break
        shift = 2 * dimension * (4 * math.exp(-2 * (math.pi * t) ** 2) + 4 * _summed_about(sigma, clients))
        # of sampled steps the shift counts for more
        cost = 3 * order * shift + order * (order + 1) / 2 * sensitivity**2 / (variance - t * t)
        if shift < 0.5 and (best is None or cost < best[0]):
            best = cost, part
    return None if best is None else Fraction(best[1], 64)


def _summed_about(sigma: float, clients: int) -> float:
    first = math.exp(-((math.pi * sigma) ** 2))
    return min(clients - 1, 3) * first + max(0, clients - 4) * math.exp(-1.5 * (math.pi * sigma) ** 2)
