"""Exact laws on outcomes: discrete mechanisms (guarantees_strict, S6; guarantees_relations, R6), and laws
known by bounds of their curve at finitely many ratios (guarantees_state, G1): zCDP (G3) and runs of bounded
range (G4, G5).
"""

import abc
import math
from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple, Self, TypeVar

import numpy as np
from flint import ctx

from evr._kernel.order import ceil_div
from evr._kernel.pairs.exact.law import (
    Ball,
    ExactCurve,
    ExactOutcomes,
    OutcomeSet,
    at_precision,
    ball,
    integer_above,
)


def rational_sets(masses: Iterable[tuple[Fraction, Fraction]]) -> list[OutcomeSet]:
    """Outcomes with rational probabilities, one by one."""
    return [
        OutcomeSet(
            ball(p), ball(q), ball(p / q).log() if p and q else Ball.pos_inf() if p else Ball.neg_inf()
        )
        for p, q in masses
        if p or q
    ]


@dataclass(frozen=True)
class RationalOutcomes(ExactOutcomes):
    """Outcomes with rational probabilities.

    >>> print(RationalOutcomes.of([0.25, 0.75], [0.75, 0.25]).greatest().str(8))
    [1.0986123 +/- ...]
    """

    p: tuple[Fraction, ...]
    q: tuple[Fraction, ...]

    @classmethod
    def of(cls, p: Iterable[Fraction | float | int], q: Iterable[Fraction | float | int]) -> Self:
        """Two laws over the same outcomes; each must sum to exactly 1 (floats are read as the numbers they
        are).
        """
        laws = tuple(tuple(Fraction(x) for x in law) for law in (p, q))
        sizes = [len(law) for law in laws]
        if sizes[0] == 0 or sizes[0] != sizes[1]:
            raise ValueError(
                f"p and q have {sizes[0]} and {sizes[1]} entries: give as many of each, at least 1"
            )
        for name, law in zip("pq", laws, strict=True):
            if min(law) < 0 or sum(law) != 1:
                why = f"{name} has entries below 0, or a sum of {float(sum(law))!r} that is not exactly 1"
                raise ValueError(
                    f"{why}: give Fractions, or one entry as 1 minus the Fractions of the others"
                )
        return cls(*laws)

    def sets(self) -> list[OutcomeSet]:
        return rational_sets(zip(self.p, self.q, strict=True))


NON_PRIVATE_LAW = RationalOutcomes((Fraction(0), Fraction(1)), (Fraction(1), Fraction(0)))
"""All of ``P`` has infinite loss: what a mechanism without privacy is."""


@dataclass(frozen=True)
class ExactEpsilonDelta(ExactOutcomes):
    """A mechanism known only to be ``(epsilon, delta)``-DP: the pair of Kairouz, Oh and Viswanath (2015)."""

    epsilon: Fraction
    delta: Fraction

    def sets(self) -> list[OutcomeSet]:
        epsilon, delta, zero = ball(self.epsilon), ball(self.delta), Ball(0)
        high = ball(1 - self.delta) / (1 + (-epsilon).exp())
        low = ball(1 - self.delta) / (1 + epsilon.exp())
        middle = [OutcomeSet(low, high, -epsilon), OutcomeSet(high, low, epsilon)]
        if not self.delta:
            return middle
        return [OutcomeSet(zero, delta, Ball.neg_inf()), *middle, OutcomeSet(delta, zero, Ball.pos_inf())]

    def greatest(self) -> Fraction | Ball:
        return Ball.pos_inf() if self.delta else self.epsilon


class Noise(NamedTuple):
    """Symmetric noise on the integers."""

    at: Callable[[int], Ball]  # the chance of x >= 0
    beyond: Callable[[int], Ball]  # the chance of more than x
    reach: int | None  # up to which integers count one by one; None if all beyond both centres have one loss


@dataclass(frozen=True)
class ExactDiscreteLaplace(ExactOutcomes):
    """Noise of probability ``tanh(a/2) e^{-a|x|}`` on the integers; ``P`` is centred at ``sensitivity``,
    ``Q`` at 0.
    """

    parameter: Fraction
    sensitivity: int

    def noise(self) -> Noise:
        """Its ``beyond`` takes ``x >= -1``."""
        a, ratio = self.parameter, ball(-self.parameter).exp()
        atom, tail = (1 - ratio) / (1 + ratio), 1 / (1 + ratio)
        return Noise(lambda x: atom * ball(-a * x).exp(), lambda x: tail * ball(-a * (x + 1)).exp(), None)

    def sets(self) -> list[OutcomeSet]:
        (at, beyond, _), s = self.noise(), self.sensitivity  # one loss for all x <= 0, and one for all x >= s
        masses = [beyond(-1), *map(at, range(1, s)), beyond(s - 1)]
        return [OutcomeSet(masses[s - j], masses[j], self.loss(j)) for j in range(s + 1)]

    def loss(self, x: int) -> Ball:
        """``a (|x| - |x - s|)``."""
        return ball(self.parameter * (abs(x) - abs(x - self.sensitivity)))

    def greatest(self) -> Fraction:
        return self.parameter * self.sensitivity


@dataclass(frozen=True)
class ExactDiscreteGaussian(ExactOutcomes):
    """Noise of probability proportional to ``e^{-x^2 / (2 sigma^2)}`` on the integers; the support is
    infinite.
    """

    sigma: Fraction
    sensitivity: int

    def noise(self) -> Noise:
        """Its ``at`` takes ``x`` up to twice the sensitivity beyond its reach."""
        variance = self.sigma**2
        # any is sound; this one leaves out e^-prec
        reach = math.isqrt(math.ceil(2 * variance * (ctx.prec + 8))) + 1
        terms = [ball(-x * x / (2 * variance)).exp() for x in range(reach + 2 * self.sensitivity + 1)]

        def beyond(last: int) -> Ball:
            """At least the first term, at most a geometric series."""
            first = ball(-Fraction((last + 1) ** 2) / (2 * variance)).exp()
            return first.union(first / (1 - ball(-Fraction(2 * last + 3) / (2 * variance)).exp()))

        total = 1 + 2 * (sum(terms[1 : reach + 1], Ball(0)) + beyond(reach))
        terms = [term / total for term in terms]
        return Noise(terms.__getitem__, lambda x: beyond(x) / total, reach)

    def sets(self) -> list[OutcomeSet]:
        (at, beyond, reach), shift = self.noise(), self.sensitivity
        assert reach is not None
        near, far = beyond(reach), beyond(reach + shift)
        kept = [
            OutcomeSet(at(abs(x - shift)), at(abs(x)), self.loss(x)) for x in range(-reach, shift + reach + 1)
        ]
        return [OutcomeSet(far, near, self.loss(-reach)), *kept, OutcomeSet(near, far, Ball.pos_inf())]

    def loss(self, x: int) -> Ball:
        """``(x^2 - (x - s)^2) / (2 sigma^2)``."""
        return ball(Fraction(self.sensitivity * (2 * x - self.sensitivity)) / (2 * self.sigma**2))

    def greatest(self) -> Ball:
        return Ball.pos_inf()


@dataclass(frozen=True)
class ExactTwoSidedOutcomes(ExactOutcomes):
    """``(1-q) f(x) + q f(x - D)`` against ``(1-q) f(x) + q f(x + D)``: the noise ``f`` of ``base``, ``0 < q <
    1``.
    """

    base: ExactDiscreteLaplace | ExactDiscreteGaussian
    q: Fraction

    def sets(self) -> list[OutcomeSet]:
        (at, beyond, reach), shift = self.base.noise(), self.base.sensitivity
        q, rest = ball(self.q), ball(1 - self.q)
        window = shift - 1 if reach is None else reach + shift
        factors = [rest + q * self.base.loss(x).exp() for x in range(-window - 1, window + 2)]

        def loss(x: int) -> Ball:
            return Ball(0) if x == 0 else (factors[window + 1 + x] / factors[window + 1 - x]).log()

        inside = range(-window, window + 1)
        moved = [rest * at(abs(x)) + q * at(abs(x - shift)) for x in inside]
        near, far = (rest * beyond(window) + q * beyond(window + by) for by in (-shift, shift))
        low, high = (-window, Ball.pos_inf()) if reach is not None else (-shift, loss(shift))
        kept = [OutcomeSet(moved[window + x], moved[window - x], loss(x)) for x in inside]
        return [OutcomeSet(far, near, loss(low)), *kept, OutcomeSet(near, far, high)]


Point = tuple[Fraction, Fraction]
"""A ratio ``g > 0``, and a number that is not below ``H_g``."""
P = TypeVar("P", bound=tuple[Fraction | int, Fraction | int])

_BITS = 64  # of a bound, beyond its leading one
_SPANS = (-6.0, -2.0, 0.5), (-2.0, 1.0, 0.05), (1.0, 7.0, 0.02), (7.0, 40.0, 0.5)
# where zCDP is bounded, in deviations of the loss
_PLACES = np.concatenate([np.arange(*span) for span in _SPANS])


def above(exponent: Fraction, bits: int) -> Fraction:
    """A multiple of ``2^-bits`` that is not below ``e^exponent``, and little above it."""
    size = max(0, math.ceil(float(exponent) / math.log(2)))
    with at_precision(bits + size + 64):
        return Fraction(integer_above(ball(exponent).exp() * (1 << bits)), 1 << bits)


def falling_hull(points: Iterable[P]) -> list[P]:
    """The points, which rise in their first number, at which the greatest convex and falling function below
    bends.
    """
    lower: list[P] = []
    for point in points:
        g, h = point
        if lower and h >= lower[-1][1]:
            continue  # the function does not rise: this point says nothing
        while len(lower) > 1:
            (a, x), (b, y) = lower[-2:]
            if (y - x) * (g - a) < (h - x) * (b - a):
                break
            lower.pop()
        lower.append(point)
    return lower


def hull(points: Sequence[Point]) -> list[tuple[Fraction, Fraction]]:
    """The pair of the greatest convex curve below ``(0, 1)`` and the points, whose ratios rise: the masses of
    ``P`` and ``Q`` at ratio 0, at the ratios where the curve bends, and at an infinite ratio.

    >>> hull([(Fraction(1), Fraction(1, 2)), (Fraction(2), Fraction(0))])
    [(Fraction(0, 1), Fraction(1, 2)), (Fraction(1, 1), Fraction(1, 2)), (Fraction(0, 1), Fraction(0, 1))]
    """
    lower = falling_hull([(Fraction(0), Fraction(1)), *points])
    slopes = [*((y - x) / (b - a) for (a, x), (b, y) in pairwise(lower)), Fraction(0)]
    bends = [(g, after - before) for (g, _), (before, after) in zip(lower[1:], pairwise(slopes), strict=True)]
    return [(Fraction(0), 1 + slopes[0]), *((g * q, q) for g, q in bends), (lower[-1][1], Fraction(0))]


class ExactPoints(ExactOutcomes):
    """A law that is known by proved points of its curve."""

    @abc.abstractmethod
    def points(self) -> list[Point]:
        """The points, their ratios rising."""

    def sets(self) -> list[OutcomeSet]:
        return rational_sets(_hull_of(self))


@lru_cache(maxsize=64)
def _hull_of(law: ExactPoints) -> list[tuple[Fraction, Fraction]]:
    return hull(law.points())


@dataclass(frozen=True)
class ExactConcentrated(ExactPoints):
    """A mechanism of which only ``(xi, rho)``-zCDP is known, in both directions; both numbers add over a
    composition.

    >>> print(ExactConcentrated(Fraction(1, 2)).bound(Fraction(4)).str(8))
    [0.00019579542 +/- ...]
    """

    rho: Fraction
    xi: Fraction = Fraction(0)

    def bound(self, epsilon: Fraction) -> Ball:
        """``e^{(a-1)(a rho + xi - epsilon)} (1 - 1/a)^a / (a-1)`` at a good order ``a``; any ``a > 1`` is
        valid.
        """
        a = Fraction(_order(float(self.rho), float(epsilon - self.xi)))
        exponent = ball((a - 1) * (a * self.rho + self.xi - epsilon))
        return (exponent + ball(a) * ball(1 - 1 / a).log()).exp() / ball(a - 1)

    def points(self) -> list[Point]:
        deviation = math.sqrt(2 * self.rho)
        bits = 96 + max(0, -2 * math.frexp(deviation)[1])
        found: dict[Fraction, Fraction] = {}
        with at_precision(bits + 2 * _BITS):
            for place in _PLACES:
                epsilon = self.xi + self.rho + Fraction(place * deviation)
                value = self.bound(abs(epsilon))
                if epsilon < 0:  # by the other direction
                    value = 1 - ball(epsilon).exp() * (1 - value)
                found[above(epsilon, bits)] = _rounded_up(value)
        return sorted(found.items())


def _order(rho: float, epsilon: float) -> float:
    """The order at which the bound is about least: the root of ``(2a-1) rho - epsilon + log(1 - 1/a)``."""
    low, high = 1.0 + 1e-12, 2.0
    while (2 * high - 1) * rho - epsilon + math.log1p(-1 / high) < 0:
        high *= 2
    for _ in range(60):
        a = (low + high) / 2
        low, high = (a, high) if (2 * a - 1) * rho - epsilon + math.log1p(-1 / a) < 0 else (low, a)
    return high


def _rounded_up(value: Ball) -> Fraction:
    """A rational number of few bits that is not below the number, and at most 1."""
    shift = _BITS - math.floor(float(value.upper().log() / Ball(2).log()))
    unit = Fraction(2) ** -max(0, shift)
    return min(unit * integer_above(value / ball(unit)), Fraction(1))


_WORK = 1600  # cells of a run: the time goes with the square
_FEWEST, _MOST = 8, 48  # cells of one step's range
_DENSE, _SPARSE = 320, 30  # points of a run where delta is above 2^-50, and in each of the other parts
_USUAL = 50
MOST_STEPS = _WORK // _FEWEST  # of one run: longer ones are composed of runs


@dataclass(frozen=True)
class ExactBoundedRange(ExactCurve):
    """One step whose losses lie in an interval of length ``epsilon``, wherever that is.

    >>> print(ExactBoundedRange(Fraction(1, 2)).curve()(Ball(1)).str(10))
    [0.1243530018 +/- ...]
    """

    epsilon: Fraction

    def curve(self) -> Callable[[Ball], Ball]:
        zero, one = Ball(0), Ball(1)
        half, whole = ball(self.epsilon / 2).exp(), ball(self.epsilon).exp()

        def value(ratio: Ball) -> Ball:
            if ratio >= whole:
                return zero
            if ratio * whole <= one:
                return one - ratio
            inside = zero.max(half - ratio.sqrt()) ** 2 / (whole - 1)
            return inside if whole > ratio and ratio * whole > one else inside.union(zero.max(one - ratio))

        return value

    def least(self) -> Ball:
        return ball(-self.epsilon)

    def greatest(self) -> Fraction:
        return self.epsilon


@dataclass(frozen=True)
class ExactRun(ExactPoints):
    """``steps`` mechanisms of range ``epsilon`` one after the other, each chosen from the outputs of those
    before.
    """

    epsilon: Fraction
    steps: int

    def greatest(self) -> Fraction:
        return self.steps * self.epsilon

    def points(self) -> list[Point]:
        """The values with their ratios, both rounded up: most of them where the usual deltas are, few
        elsewhere.
        """
        cells = max(_FEWEST, min(_MOST, _WORK // self.steps))
        run, last = _Run(self.epsilon, cells), self.steps * cells
        for size in range(cells, last + 1, cells):
            run.step(size)
        usual = bisect_left(run.values, -(run.unit >> _USUAL), key=lambda value: -value)  # values fall
        sparse = ceil_div(last, _SPARSE)
        kept = {*range(0, usual, ceil_div(usual, _DENSE)), *range(usual, last, sparse), last}
        mirrored = run.mirror(last)
        points = {j: run.values[j] for j in kept} | {-j: mirrored[-j] for j in range(last, 0, -sparse)}
        return [
            (above(j * run.wide, run.bits), Fraction(value, run.unit)) for j, value in sorted(points.items())
        ]


class _Run:
    """The recursion on the places ``j epsilon / cells``: integers not below ``V_k`` there, in units of
    ``2^-bits``.
    """

    def __init__(self, epsilon: Fraction, cells: int) -> None:
        self.cells, self.wide = cells, epsilon / cells
        self.bits = 160 + 3 * max(0, epsilon.denominator.bit_length() - epsilon.numerator.bit_length())
        self.unit = 1 << self.bits
        with at_precision(self.bits + 64 + int(4 * epsilon)):
            whole, unit = ball(epsilon).exp(), ball(self.unit)
            powers = [ball(i * self.wide).exp() for i in range(cells + 1)]
            self.stay = [integer_above((whole - p) / (whole - 1) * unit) for p in powers]
            self.move = [integer_above((p - 1) / (whole - 1) * unit) for p in powers]
            # the bend of a cell is E dV - dW times this: kap w^2 / (E - 1), kap = 1 / (1 - e^-h) = e^h / w
            self.bend = integer_above(powers[1] * (powers[1] - 1) / (whole - 1) * unit)
            self.whole = integer_above(whole * unit)
        self.values = [0]  # at the places from 0 on, the last one 0

    def mirror(self, places: int) -> list[int]:
        """The values at ``-places .. -1``: by its mirror image each is ``unit - e^{-place h} (unit -
        value)``.
        """
        held = self.values + [0] * max(0, places + 1 - len(self.values))
        with at_precision(self.bits + 64):
            lowered = [ball(-j * self.wide).exp() * (held[j] - self.unit) for j in range(places, 0, -1)]
            return [self.unit + min(0, integer_above(number)) for number in lowered]

    def step(self, last: int) -> None:
        """From ``V_{k-1}`` to ``V_k``, which is 0 from the place ``last`` on: at each place the greatest
        value over where the range of the step lies, at the ends of cells and, by a parabola, between them
        (G5).
        """
        n, bits = self.cells, self.bits
        earlier = [
            *self.mirror(n + 1),
            *self.values,
            *[0] * (last + n + 1 - len(self.values)),
        ]  # from place -n-1 on
        bends, values = self._bends(earlier), []
        for here in range(n + 1, last + n + 1):  # places 0 to last - 1
            stays, moves = earlier[here : here - n - 1 : -1], earlier[here + n : here - 1 : -1]
            weighted = zip(self.stay, stays, self.move, moves, strict=True)
            ends = [(a * x + b * y >> bits) + 1 for a, x, b, y in weighted]
            best = max(ends)
            for low, high, bend in zip(ends, ends[1:], bends[here : here - n : -1], strict=False):
                rise = high - low
                if -bend < rise < bend:  # the parabola's top is inside of the cell
                    best = max(best, low + ceil_div((bend + rise) ** 2, 4 * bend) + 1)
            values.append(min(best, self.unit))
        self.values = [*values, 0]

    def _bends(self, earlier: list[int]) -> list[int]:
        """How far a cell bends, at the most: ``E dV - dW`` times ``bend``, of the falls ``n`` places apart
        (G5).
        """
        falls = [0, *(a - b for a, b in pairwise(earlier))]
        apart = zip(falls, falls[self.cells :], strict=False)
        return [
            (max(0, self.whole * a - (b << self.bits)) * self.bend >> 2 * self.bits) + 2 for a, b in apart
        ]
