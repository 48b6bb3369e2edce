"""Right guesses of one run, and how probable they are under a curve (docs/guarantees_audit.md)."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import scipy
from scipy.special import ndtr

from evr.bounds.strict.tradeoff import Tradeoff
from evr.laws import Floats

_BISECTIONS = 60


@dataclass(frozen=True)
class Curve:
    """``tau`` of docs/guarantees_audit.md, U1, by its corners: rates that rise from 0 to 1."""

    false: Floats
    true: Floats

    def at(self, rate: float) -> float:
        """The greatest true positive rate."""
        return float(np.interp(rate, self.false, self.true))

    def inverse(self) -> Callable[[float], float]:
        """The least false positive rate at which a true positive rate is possible."""
        true, false = self.true.tolist(), self.false.tolist()

        def least(rate: float) -> float:
            if rate <= true[0]:
                return 0.0
            if rate > true[-1]:
                return math.inf
            place = bisect_left(true, rate)
            low, high = true[place - 1], true[place]
            share = (rate - low) / (high - low)
            return float(false[place - 1] + share * (false[place] - false[place - 1]))

        return least


@dataclass(frozen=True)
class Count:
    """So many right guesses of so many, for so many canaries."""

    correct: int
    guesses: int
    canaries: int

    def p_value(self, curve: Curve) -> float:
        """The greatest probability of so many right guesses or more (U3)."""
        least = curve.inverse()
        if self._by_chance >= 1.0 or self._possible(1.0, least):
            return 1.0
        log_least = math.log(max(self._by_chance, 1e-300))
        return math.exp(_end(log_least, 0.0, lambda log: self._possible(math.exp(log), least)))

    def rejects(self, curve: Curve, level: float) -> bool:
        """Whether the p-value is at most the level."""
        return self._by_chance <= level and not self._possible(level, curve.inverse())

    @property
    def _by_chance(self) -> float:
        return float(scipy.stats.binom.sf(self.correct - 1, self.guesses, 0.5))

    def _possible(self, chance: float, least: Callable[[float], float]) -> bool:
        """Whether the recursion of U3 leaves room for that chance."""
        number, whole = self.guesses, self.guesses / self.canaries
        right = self.correct * chance / self.canaries
        wrong = (number - self.correct) * chance / self.canaries
        for t in range(self.correct, 0, -1):
            needed = least(right)
            if needed <= wrong:
                break  # nothing changes any more
            right += (t - 1) / (number - t + 1) * (needed - wrong)
            wrong = needed
            if right + wrong > whole * (1 + 1e-12):
                return False
        return right + wrong <= whole * (1 + 1e-12)


@dataclass(frozen=True)
class Independent:
    """As ``Count``, where every canary is guessed and their scores are independent (U5)."""

    correct: int
    guesses: int

    def p_value(self, curve: Curve) -> float:
        # the greatest chance a of a right guess solves a = tau(1 - a)
        chance = _end(0.5, 1.0, lambda a: a <= curve.at(1 - a))
        return float(scipy.stats.binom.sf(self.correct - 1, self.guesses, chance))

    def rejects(self, curve: Curve, level: float) -> bool:
        return self.p_value(curve) <= level


@dataclass(frozen=True)
class Several:
    """Tests at once, each at its share of the level: the shares sum to one (U6)."""

    tests: Sequence[tuple[float, Count | Independent]]

    def p_value(self, curve: Curve) -> float:
        """The least p-value over its share, at most 1."""
        return min(1.0, *(test.p_value(curve) / share for share, test in self.tests))

    def rejects(self, curve: Curve, level: float) -> bool:
        return any(test.rejects(curve, share * level) for share, test in self.tests)


def _end(low: float, high: float, holds: Callable[[float], bool]) -> float:
    """The end of where something holds, from above, by bisection."""
    for _ in range(_BISECTIONS):
        middle = (low + high) / 2
        low, high = (middle, high) if holds(middle) else (low, middle)
    return high


def hull(ways: Sequence[Tradeoff]) -> Curve:
    points = sorted({(float(x), min(float(y), 1.0)) for way in ways for x, y in way.corners})
    kept: list[tuple[float, float]] = []
    for point in points:
        if kept and point[0] == kept[-1][0]:
            kept.pop()  # the higher of two at one rate comes last
        while len(kept) > 1 and _turns_left(kept[-2], kept[-1], point):
            kept.pop()
        kept.append(point)
    false, true = np.array(kept).T
    return Curve(false, true)


def _turns_left(a: tuple[float, float], b: tuple[float, float], c: tuple[float, float]) -> bool:
    return (b[0] - a[0]) * (c[1] - a[1]) >= (b[1] - a[1]) * (c[0] - a[0])


def gaussian(mu: float) -> Curve:
    """Above that of telling N(mu, 1) from N(0, 1): its tangents' corners."""
    places = np.linspace(-8.0, 8.0 + mu, 400)  # thresholds
    slopes = np.exp(mu * places - mu * mu / 2)[::-1]
    heights = ndtr(mu - places[::-1]) - slopes * ndtr(-places[::-1])
    meets = np.diff(heights) / -np.diff(slopes)
    values = np.minimum(1.0, heights[:-1] + slopes[:-1] * meets)
    false = np.concatenate(([0.0], np.clip(meets, 0.0, 1.0), [1.0]))
    true = np.concatenate((heights[:1], values, [1.0]))
    return Curve(np.maximum.accumulate(false), np.maximum.accumulate(true))


def pair(epsilon: float, delta: float) -> Curve:
    """That of one pair."""
    return hull([Tradeoff.of_point(Fraction(epsilon), Fraction(delta))])
