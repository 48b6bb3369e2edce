"""Pairs of laws in high precision, written from the definitions of the mechanisms and from nothing
in evr.

A law on the line is a mixture of components whose interval probabilities mpmath knows; a law on
outcomes is a list of probabilities. Both are arranged so that the privacy loss rises: the add
direction of a mechanism on the line is reflected.
"""

from __future__ import annotations

import bisect
import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from mpmath import fp, mp, mpf
from scipy.special import logsumexp

mp.dps = 60


@dataclass(frozen=True)
class Normal:
    mean: Any
    deviation: Any

    def density(self, x: Any) -> Any:
        return mp.npdf(x, self.mean, self.deviation)

    def mass(self, low: Any, high: Any) -> Any:
        """From the tail in which both ends are small, so that nothing cancels."""
        a, b = ((low - self.mean) / (self.deviation * mp.sqrt(2)), (high - self.mean) / (self.deviation * mp.sqrt(2)))
        return (mp.erfc(-b) - mp.erfc(-a)) / 2 if a + b < 0 else (mp.erfc(a) - mp.erfc(b)) / 2

    @cached_property
    def _floats(self) -> tuple[float, float, float]:
        deviation = float(self.deviation)
        return float(self.mean), deviation, math.log(deviation) + math.log(2 * math.pi) / 2

    def log_density(self, x: Any) -> Any:
        """Of a float or of an array of them."""
        mean, deviation, log_scale = self._floats
        z = (x - mean) / deviation
        return -z * z / 2 - log_scale

    def reflected(self) -> Normal:
        return Normal(-self.mean, self.deviation)


@dataclass(frozen=True)
class Laplace:
    mean: Any
    scale: Any

    def density(self, x: Any) -> Any:
        return mp.exp(-abs(x - self.mean) / self.scale) / (2 * self.scale)

    def mass(self, low: Any, high: Any) -> Any:
        a, b = (low - self.mean) / self.scale, (high - self.mean) / self.scale
        if a >= 0:
            a, b = -b, -a
        if b <= 0:
            return (mp.exp(b) - mp.exp(a)) / 2
        return 1 - (mp.exp(a) + mp.exp(-b)) / 2

    @cached_property
    def _floats(self) -> tuple[float, float, float]:
        return float(self.mean), float(self.scale), math.log(2 * float(self.scale))

    def log_density(self, x: Any) -> Any:
        """Of a float or of an array of them."""
        mean, scale, log_scale = self._floats
        return -abs(x - mean) / scale - log_scale

    def reflected(self) -> Laplace:
        return Laplace(-self.mean, self.scale)


Law = Sequence[tuple[Any, Normal | Laplace]]


def log_tilted(p: Law, q: Law, order: float) -> Callable[[Any], Any]:
    """``log`` of ``p^{order + 1} q^{-order}`` as a function of floats or of arrays."""
    laws = [[(math.log(w), c) for w, c in law if w > 0] for law in (p, q)]

    def log_law(law: list[tuple[float, Normal | Laplace]], x: Any) -> Any:
        terms = [log_weight + c.log_density(x) for log_weight, c in law]
        if isinstance(x, float):
            top = max(terms)
            return top + math.log(math.fsum([math.exp(v - top) for v in terms]))
        return np.logaddexp.reduce(terms)

    return lambda x: (order + 1) * log_law(laws[0], x) - order * log_law(laws[1], x)


def mixed(weight: Any, first: Law, second: Law) -> Law:
    """``(1 - weight) first + weight second``."""
    return [((1 - weight) * w, c) for w, c in first] + [(weight * w, c) for w, c in second]


def reflected(law: Law) -> Law:
    return [(w, c.reflected()) for w, c in law]


@dataclass(frozen=True)
class OnTheLine:
    """Two mixtures on a line with a rising loss. ``to_t`` maps a place to the coordinate of evr's
    pair.
    """

    p: Law
    q: Law
    places: list[Any]
    kinks: tuple[Any, ...]
    to_t: Any
    infinite: tuple[Any, Any] = (0, 0)

    def law(self, measure: str) -> Law:
        return self.p if measure == "P" else self.q

    def ratio(self, x: Any) -> Any:
        return sum(w * c.density(x) for w, c in self.p) / sum(w * c.density(x) for w, c in self.q)

    def loss(self, x: Any) -> Any:
        return mp.log(self.ratio(x))

    def mass(self, measure: str, low: Any, high: Any) -> Any:
        return sum(w * c.mass(low, high) for w, c in self.law(measure))

    def threshold(self, loss: Any) -> Any:
        """The greatest place whose loss is at most ``loss``, by bisection
        within the laws' reach.
        """
        low, high = (self.places[0] * 3 - self.places[-1] * 2, self.places[-1] * 3 - self.places[0] * 2)
        bound = mp.exp(loss)
        if self.ratio(high) <= bound:
            return mp.inf
        if self.ratio(low) > bound:
            return -mp.inf
        near = self._about(float(loss), float(low), float(high))
        with mp.workdps(35):  # an error of the threshold enters delta squared
            found = self._polished(*near, bound)
            if found is not None:
                return found
            for _ in range(90):
                middle = (low + high) / 2
                low, high = (middle, high) if self.ratio(middle) <= bound else (low, middle)
        return low

    def _polished(self, low: Any, high: Any, bound: Any) -> Any:
        """The threshold between two places by the secant method; None unless the ratios beside it
        prove it.
        """
        below, above = self.ratio(low) - bound, self.ratio(high) - bound
        for _ in range(5):
            if above == below:
                return None
            low, high = high, high - above * (high - low) / (above - below)
            below, above = above, self.ratio(high) - bound
            width = mpf(10) ** -27 * (1 + abs(high))
            if abs(high - low) < 1e-13 and (self.ratio(high - width) <= bound < self.ratio(high + width)):
                return high - width
        return None

    def _about(self, loss: float, low: float, high: float) -> tuple[Any, Any]:
        """An interval that holds the threshold as far as floats can tell."""
        log_p, twice = log_tilted(self.p, self.q, 0.0), log_tilted(self.p, self.q, 1.0)
        for _ in range(60):
            middle = (low + high) / 2
            above = twice(middle) - log_p(middle) > loss  # 2 log p - log q, less log p
            low, high = (low, middle) if above else (middle, high)
        width = 1e-6 * (1 + abs(low))
        return mpf(low) - width, mpf(low) + width

    def above(self, loss: float) -> tuple[Any, Any]:
        x = self.threshold(mpf(loss))
        return tuple(self.mass(m, x, mp.inf) if x < mp.inf else mpf(0) for m in "PQ")

    def mgf(self, order: float) -> float:
        """``log E_P[e^{order loss}]`` by mpmath's quadrature in floating point, of the logarithm of
        the integrand.
        """

        log_integrand = log_tilted(self.p, self.q, order)
        first, last = float(self.places[0]), float(self.places[-1])
        reach = (last - first) * (2 + abs(order))
        grid = np.linspace(first - reach, last + reach, 1001)
        values = log_integrand(grid)
        top = float(values.max())
        held = grid[values > top - 45]
        width = grid[1] - grid[0]
        ends = np.linspace(held[0] - width, held[-1] + width, 25).tolist()
        ends = sorted({*ends, *(float(k) for k in self.kinks if ends[0] < k < ends[-1])})
        total = fp.quad(lambda x: math.exp(log_integrand(x) - top), ends)
        return float(top + math.log(total))

    def sampled(self, weight: Any, direction: str) -> OnTheLine:
        weight = mpf(weight)
        p, q = self.p, self.q
        if direction == "remove":
            p = mixed(weight, self.q, self.p)
        else:
            q = mixed(weight, self.p, self.q)
        return OnTheLine(p, q, self.places, self.kinks, self.to_t)


@dataclass(frozen=True)
class Either(OnTheLine):
    """The laws of a first pair, or, by a coin that everybody sees, those of ``other``. Places are
    those of the first.
    """

    other: Any = None
    weight: Any = 0

    def mass(self, measure: str, low: Any, high: Any) -> Any:
        ends = [x if mp.isinf(x) else self.other.threshold(mp.log(self.ratio(x))) for x in (low, high)]
        first = super().mass(measure, low, high)
        return (1 - self.weight) * first + self.weight * self.other.mass(measure, *ends)

    def above(self, loss: float) -> tuple[Any, Any]:
        both = super().threshold(mpf(loss)), self.other.threshold(mpf(loss))
        sides = OnTheLine(self.p, self.q, self.places, (), None), self.other
        p, q = (
            sum(
                w * side.mass(m, x, mp.inf) if x < mp.inf else 0
                for w, side, x in zip((1 - self.weight, self.weight), sides, both, strict=True)
            )
            for m in "PQ"
        )
        return p, q

    def mgf(self, order: float) -> float:
        parts = super().mgf(order), self.other.mgf(order)
        weights = [float(1 - self.weight), float(self.weight)]
        return float(logsumexp(parts, b=weights))


@dataclass(frozen=True)
class WithoutReplacement(OnTheLine):
    """Both sides of Section R2 of docs/guarantees_relations.md, cut where the base's loss is 0, and
    an atom of length 1 between them. ``p`` and ``q`` are of the base; places beyond the cut are
    those of the base plus 1.
    """

    share: Any = 0

    @classmethod
    def of(cls, base: OnTheLine, share: Any) -> WithoutReplacement:
        cut = base.threshold(mpf(0))
        places = [x for x in base.places if x < cut] + [x + 1 for x in base.places if x > cut]

        def to_t(x: Any) -> Any:
            return base.to_t(x) if x <= cut else base.to_t(x - 1) + 1

        return cls(base.p, base.q, places, base.kinks, to_t, share=mpf(share))

    @cached_property
    def _base(self) -> OnTheLine:
        return OnTheLine(self.p, self.q, [mpf(-60), mpf(60)], self.kinks, None)

    @cached_property
    def _sides(self) -> tuple[OnTheLine, OnTheLine]:
        return self._base.sampled(self.share, "add"), self._base.sampled(self.share, "remove")

    @cached_property
    def _cut(self) -> Any:
        return self._base.threshold(mpf(0))

    @cached_property
    def _atom(self) -> Any:
        gain = self._base.mass("P", self._cut, mp.inf) - self._base.mass("Q", self._cut, mp.inf)
        return (1 - self.share) * gain

    def ratio(self, x: Any) -> Any:
        lower, upper = self._sides
        return lower.ratio(x) if x <= self._cut else upper.ratio(max(x - 1, self._cut))

    def mass(self, measure: str, low: Any, high: Any) -> Any:
        (lower, upper), cut = self._sides, self._cut
        inside = [min(max(x - cut, mpf(0)), mpf(1)) for x in (low, high)]
        return (
            lower.mass(measure, min(low, cut), min(high, cut))
            + self._atom * (inside[1] - inside[0])
            + upper.mass(measure, max(low - 1, cut), max(high - 1, cut))
        )

    def above(self, loss: float) -> tuple[Any, Any]:
        lower, upper = self._sides  # either has the curve of the whole on its side of 0
        return upper.above(loss) if loss >= 0 else lower.above(loss)

    def mgf(self, order: float) -> float:
        (lower, upper), cut = self._sides, float(self._cut)
        reach = 60.0 * (2 + abs(order))
        parts = [math.log(self._atom)]
        for side, first, last in ((lower, cut - reach, cut), (upper, cut, cut + reach)):
            log_integrand = log_tilted(side.p, side.q, order)
            grid = np.linspace(first, last, 801)
            values = log_integrand(grid)
            held = grid[values > values.max() - 45]
            ends = np.linspace(max(held[0] - 1, first), min(held[-1] + 1, last), 25).tolist()
            ends = sorted({*ends, *(float(k) for k in self.kinks if ends[0] < k < ends[-1])})
            top = float(values.max())
            total = fp.quad(lambda x, f=log_integrand, top=top: math.exp(f(x) - top), ends)
            parts.append(top + math.log(total))
        return float(logsumexp(parts))


@dataclass(frozen=True)
class OnOutcomes:
    """Probabilities of outcomes in the order of their losses, no two equal."""

    p: list[Any]
    q: list[Any]

    @cached_property
    def _upper(self) -> tuple[list[Any], list[Any]]:
        p, q = (list(itertools.accumulate(reversed(law), initial=mpf(0)))[::-1] for law in (self.p, self.q))
        return p, q

    @cached_property
    def _lower(self) -> tuple[list[Any], list[Any]]:
        p, q = (list(itertools.accumulate(law, initial=mpf(0))) for law in (self.p, self.q))
        return p, q

    def loss(self, index: int) -> Any:
        p, q = self.p[index], self.q[index]
        return mp.inf if q == 0 else -mp.inf if p == 0 else mp.log(p / q)

    def above(self, loss: float) -> tuple[Any, Any]:
        bound = mp.exp(mpf(loss))
        first = bisect.bisect_left(range(len(self.p)), True, key=lambda i: self.p[i] > bound * self.q[i])
        return self._upper[0][first], self._upper[1][first]

    def mass(self, measure: str, first: int, last: int) -> Any:
        """Of the outcomes ``first .. last - 1``, from the nearer end."""
        law = 0 if measure == "P" else 1
        if first > len(self.p) - last:
            return self._upper[law][first] - self._upper[law][last]
        return self._lower[law][last] - self._lower[law][first]

    @cached_property
    def _logs(self) -> tuple[np.ndarray, np.ndarray]:
        held = [i for i, p in enumerate(self.p) if p > 0]
        with mp.workdps(25):
            return (np.array([float(mp.log(self.p[i])) for i in held]), np.array([float(self.loss(i)) for i in held]))

    def mgf(self, order: float) -> float:
        log_p, losses = self._logs
        return float(logsumexp(log_p + order * losses))

    def sampled(self, weight: Any, direction: str) -> OnOutcomes:
        weight = mpf(weight)
        pairs = list(zip(self.p, self.q, strict=True))
        if direction == "remove":
            return OnOutcomes([(1 - weight) * q + weight * p for p, q in pairs], self.q)
        return OnOutcomes(self.p, [(1 - weight) * p + weight * q for p, q in pairs])

    def without_replacement(self, share: Any) -> OnOutcomes:
        """Section R2 of docs/guarantees_relations.md, outcome by outcome."""
        g, found = mpf(share), []
        rest = sum(p if p == q else (1 - g) * max(p - q, 0) for p, q in zip(self.p, self.q, strict=True))
        for p, q in zip(self.p, self.q, strict=True):
            if p > q:
                found.append(((1 - g) * q + g * p, q))
            elif p < q:
                found.append((p, (1 - g) * p + g * q))
        below = [pair for pair in found if pair[0] < pair[1]]
        above = [pair for pair in found if pair[0] > pair[1]]
        p, q = zip(*below, (rest, rest), *above, strict=True)
        return OnOutcomes(list(p), list(q))


def delta(reference: OnTheLine | OnOutcomes, epsilon: float) -> Any:
    """``P(loss > epsilon) - e^epsilon Q(loss > epsilon)``, once for all tests."""
    known = reference.__dict__.setdefault("_deltas", {})
    if epsilon not in known:
        p, q = reference.above(epsilon)
        known[epsilon] = p - mp.exp(mpf(epsilon)) * q
    return known[epsilon]
