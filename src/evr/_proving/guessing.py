"""Curves of true over false positive rates, and tests that reject a curve by the right guesses of an attack
(docs/guarantees_audit.md).
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np
import scipy
from scipy.special import ndtr

from evr._kernel.pairs import Floats
from evr._kernel.pairs.exact.points import falling_hull
from evr._kernel.strict.tradeoff import Tradeoff


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
        true, first = np.unique(self.true, return_index=True)
        return partial(np.interp, xp=true, fp=self.false[first], left=0.0, right=math.inf)


@dataclass(frozen=True)
class Count:
    """So many right guesses of so many, for so many canaries."""

    correct: int
    guesses: int
    canaries: int

    def rejects(self, curve: Curve, level: float) -> bool:
        """Whether so many right guesses or more have at most that probability, whatever is guessed (U3)."""
        if scipy.stats.binom.sf(self.correct - 1, self.guesses, 0.5) > level:
            return False
        least, number, whole = curve.inverse(), self.guesses, self.guesses / self.canaries * (1 + 1e-12)
        right, wrong = (count * level / self.canaries for count in (self.correct, number - self.correct))
        for t in range(self.correct, 0, -1):
            needed = float(least(right))
            if needed <= wrong:
                break  # nothing changes any more
            right += (t - 1) / (number - t + 1) * (needed - wrong)
            wrong = needed
            if right + wrong > whole:
                break  # the recursion of U3 leaves no room for that chance
        return not right + wrong <= whole  # also where the least rate is infinite


@dataclass(frozen=True)
class Independent:
    """As ``Count``, where every canary is guessed and their scores are independent (U5)."""

    correct: int
    guesses: int

    def rejects(self, curve: Curve, level: float) -> bool:
        # the greatest chance a of a right guess solves a = tau(1 - a)
        _, chance = bisected(0.5, 1.0, lambda a: a <= curve.at(1 - a))
        return float(scipy.stats.binom.sf(self.correct - 1, self.guesses, chance)) <= level


@dataclass(frozen=True)
class Several:
    """Tests at once, each at its share of the level; the shares sum to one (U6)."""

    tests: Sequence[tuple[float, Count | Independent]]

    def rejects(self, curve: Curve, level: float) -> bool:
        return any(test.rejects(curve, share * level) for share, test in self.tests)


def p_value_of(test: Count | Independent | Several, curve: Curve) -> float:
    """The least level at which a test rejects the curve; 1 if it rejects at none."""
    return math.exp(bisected(math.log(1e-300), 0.0, lambda log: not test.rejects(curve, math.exp(log)))[1])


def bisected(low: float, high: float, holds: Callable[[float], bool], times: int = 60) -> tuple[float, float]:
    """The number up to which something holds, from below and from above, after so many halvings."""
    for _ in range(times):
        middle = (low + high) / 2
        low, high = (middle, high) if holds(middle) else (low, middle)
    return low, high


def hull(ways: Sequence[Tradeoff]) -> Curve:
    """The least concave curve above all of them."""
    points: list[Any] = sorted({(float(x), -min(float(y), 1.0)) for way in ways for x, y in way.corners})
    false, fallen = np.array(falling_hull(points)).T
    return Curve(np.append(false, 1.0), np.append(-fallen, 1.0))


def gaussian(mu: float) -> Curve:
    """A curve above that of telling N(mu, 1) from N(0, 1): the corners of its tangents."""
    places = np.linspace(-8.0, 8.0 + mu, 400)  # thresholds
    slopes = np.exp(mu * places - mu * mu / 2)[::-1]
    heights = ndtr(mu - places[::-1]) - slopes * ndtr(-places[::-1])
    meets = np.diff(heights) / -np.diff(slopes)
    values = np.minimum(1.0, heights[:-1] + slopes[:-1] * meets)
    false = np.concatenate(([0.0], np.clip(meets, 0.0, 1.0), [1.0]))
    true = np.concatenate((heights[:1], values, [1.0]))
    return Curve(np.maximum.accumulate(false), np.maximum.accumulate(true))


def pair(epsilon: float, delta: float) -> Curve:
    """The curve of one pair."""
    return hull([Tradeoff.of_point(Fraction(epsilon), Fraction(delta))])
