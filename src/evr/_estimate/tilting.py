"""Where to tilt: the order that centres the sum of losses at epsilon, and the range that holds it. Sums are kept as
what exceeds epsilon (``excess``), so that a loss of 1e17 beside one of 1e-17 spoils neither.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from fractions import Fraction
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from evr._estimate.closed_forms import pair_delta
from evr._estimate.inversion import root
from evr._estimate.points import LossPoints, Tilted, log_moment, not_below, rough_points
from evr._kernel.pairs import DominatingPair, Floats, Step
from evr._kernel.pairs.line.pair import log_sum_exp

_TAIL = 34.0  # log of the tilted mass that may wrap around the grid
_NEGLIGIBLE = -760.0  # log of a bound on delta below which it is 0 as a float
_CERTAIN = -45.0  # log of a bound on 1 - delta
_ROUGH = 0.01  # as far as rough points may be off, of the logarithms that make up the bound
_GREATEST_ORDER = 1e200
_REACH = 1.02  # times an epsilon: what a plan serves, too
_CENTRED = 0.1  # of the deviation: as near to epsilon as the mean of a tilted sum has to be
_FOLLOWED = 4  # times that points of one order may lead to another
_NARROWEST = 1.001  # ratio of two orders between which the mean crosses epsilon: near enough
_SEEN = -70.0  # log of a probability that points made without a tilt hold for sure
_UPWARDS = (2.0, 4.0, 16.0, 256.0, 2.0**16)
_FACTORS = 20  # of 8, by which the order that centres a sum is searched
_SHIFTS = np.geomspace(1e-3, 30.0, 16)  # in units of one over the deviation of the sum
_FAR_SHIFTS = np.geomspace(1.0, 60.0, 8)  # in units of one over the greatest deviation of a step


class GridPlan(NamedTuple):
    """A tilt and the range that holds the tilted sum. ``epsilon`` is the greatest for which the plan is
    right; losses above ``cap`` decide by themselves; ``low`` and ``high`` are taken from ``centre``, the epsilon that
    the plan was made for; losses below ``bottom`` are raised to it. ``bulk`` is about the width of the sum of all usual
    losses; beside them a loss of ``kinks``, by pair, makes the sum one of ``asked``, epsilons that will be read.
    """

    epsilon: float
    centre: float
    order: float
    cap: float
    low: float
    high: float
    bottom: float
    bulk: float
    kinks: Mapping[DominatingPair, tuple[float, ...]]
    asked: tuple[float, ...]


def excess(origins: Iterable[tuple[int, float]], epsilon: float) -> float:
    """The sum of counts times origins, less epsilon, rounded once."""
    return float(sum((count * Fraction(origin) for count, origin in origins), -Fraction(epsilon)))


def chernoff(log_growths: Floats, shifts: Floats, tail: float) -> float:
    """How far a sum reaches but for a mass of ``e^-tail``, by Chernoff, from ``log E[e^{shift sum}]`` at each shift."""
    return float(np.min((log_growths + tail) / shifts))


class TiltedSum:
    """The tilted sum of all steps, by rough points."""

    def __init__(self, points: Sequence[LossPoints], counts: Sequence[int], order: float) -> None:
        self.points, self.counts, self.order = points, counts, order
        self.parts = [Tilted.of(p, order) for p in points]
        self._each = list(zip(counts, self.parts, strict=True))

    def mean_excess(self, epsilon: float) -> float:
        """The mean of the sum, less epsilon."""
        return self._offset(epsilon) + math.fsum(n * part.mean for n, part in self._each)

    @property
    def deviation(self) -> float:
        return math.sqrt(math.fsum(n * part.variance for n, part in self._each))

    def at(self, order: float) -> TiltedSum:
        """The sum by the same points, at another order."""
        return TiltedSum(self.points, self.counts, order)

    def crossing(self, order: float, epsilon: float) -> float | None:
        """The order at which these points have their mean at epsilon, if it is near the given one; else None."""

        def beyond(order: float) -> float:
            return self.at(order).mean_excess(epsilon)

        last = order, beyond(order)
        factor = 8.0 if last[1] < 0.0 else 0.125
        for _ in range(_FACTORS):
            order *= factor
            if order > _GREATEST_ORDER:
                break
            found = order, beyond(order)
            if (found[1] < 0.0) != (last[1] < 0.0):
                return root(beyond, last, found, 1e-3)
            last = found
        return None

    def guess(self, epsilon: float) -> float:
        """The order at which a normal law of this mean and deviation would be centred at epsilon."""
        guess = -self.mean_excess(epsilon) / max(self.deviation, 1e-100) ** 2
        return min(max(guess, 1e-100), _GREATEST_ORDER)

    def log_bound(self, epsilon: float) -> float:
        """``log prod M e^{-order epsilon}``, a bound on delta of these points."""
        moments = math.fsum(
            n * log_moment(p, self.order, part.origin, log_sum_exp(p.log_weights))
            for n, p, part in zip(self.counts, self.points, self.parts, strict=True)
        )
        return moments + self.order * self._offset(epsilon)

    def _end(self, sign: int) -> float:
        """How far from its mean the sum reaches on one side but for a mass of ``e^-_TAIL``, by Chernoff's bound."""
        end = math.fsum(n * float(np.max(sign * part.deviations)) for n, part in self._each)
        if (deviation := self.deviation) > 0.0:
            farthest = max(float(np.max(np.abs(part.deviations))) for part in self.parts)
            shifts = np.concatenate((_SHIFTS / deviation, _FAR_SHIFTS / farthest))
            growths = [math.fsum(n * part.log_growth(sign * x) for n, part in self._each) for x in shifts.tolist()]
            end = min(end, chernoff(np.array(growths), shifts, _TAIL))
        return end

    def _offset(self, epsilon: float) -> float:
        return excess(((n, part.origin) for n, part in self._each), epsilon)

    def low(self) -> float:
        """Below it the sum has a mass of less than ``e^-_TAIL``."""
        return self._offset(0.0) - self._end(-1)

    def range(self, epsilon: float) -> tuple[float, float]:
        """A range around epsilon outside which the sum has a mass of less than ``e^-_TAIL`` on each side."""
        offset, low, high = self._offset(epsilon), -self._end(-1), self._end(1)
        pad = 1e-6 * (high - low) or 1e-9 * max(abs(offset), abs(epsilon), 1e-100)
        return offset + low - pad, offset + high + pad


def _summed(steps: tuple[Step, ...], order: float, cap: float = math.inf, *, joined: bool = False) -> TiltedSum | None:
    """The sum at an order, with losses up to a cap; None where a step has no finite loss."""
    points = [rough_points(step.pair, order, cap, joined=joined) for step in steps]
    return TiltedSum(points, [step.count for step in steps], order) if all(p.losses.size for p in points) else None


@lru_cache(maxsize=64)
def _lowest(steps: tuple[Step, ...]) -> tuple[float, float] | None:
    """The deviation of the sum, and how low it may be under ``P`` and ``Q``; None where a step has no finite loss."""
    if (second := _summed(steps, -1.0)) is None:
        return None
    first = second.at(0.0)
    return first.deviation, min(0.0, first.low(), second.low())


def limits(steps: tuple[Step, ...], epsilon: float) -> tuple[float, float]:
    """The greatest epsilon to serve, and the cap, beyond which a loss exceeds it whatever the other steps do."""
    known = _lowest(steps)
    if known is None:
        return _REACH * epsilon, math.inf
    deviation, lowest = known
    valid = max(epsilon, _REACH * epsilon) + 1e-3 * min(1.0, deviation)
    return valid, valid - lowest


@lru_cache(maxsize=64)
def _halved(steps: tuple[Step, ...]) -> TiltedSum | None:
    return _summed(steps, -0.5)


def is_certain(steps: tuple[Step, ...], epsilon: float) -> bool:
    """Whether delta is 1 as a float, by ``1 - delta = E[min(1, e^x)] <= E[e^{x/2}]`` with ``x = epsilon - loss``."""
    halved = _halved(steps)
    return halved is not None and halved.log_bound(epsilon) < _CERTAIN - _ROUGH * abs(epsilon)


_At = Callable[[float], TiltedSum | None]


def plan_tilt(
    steps: tuple[Step, ...],
    epsilon: float,
    *,
    joined: bool = False,
    negligible: float = _NEGLIGIBLE,
    asked: tuple[float, ...] = (),
) -> GridPlan | None:
    """The order at which the mean of the tilted sum is epsilon, or 0 if it is beyond already, for epsilons up to a
    little above and losses up to the cap; ``joined`` adds what is beyond as one loss. ``asked`` are other epsilons at
    which delta will be read. None where a moments bound is below ``negligible``, a logarithm.
    """
    valid, cap = limits(steps, epsilon)

    def at(order: float) -> TiltedSum | None:
        return _summed(steps, order, cap, joined=joined)

    tilted = _centred(at, epsilon, negligible)
    if tilted is None:
        return None
    low, high = tilted.range(epsilon)
    bottom = -math.inf
    if tilted.order == 0.0:  # a loss that the others cannot make up for leaves the sum below epsilon, however low it is
        bottom = min(epsilon, 0.0) - max(epsilon + high, 1e-300)
        low, high = TiltedSum([not_below(p, bottom) for p in tilted.points], tilted.counts, 0.0).range(epsilon)
    low = min(low, 0.0) if tilted.order > 0.0 else low  # all of it may exceed epsilon
    bulk, places = _usual(at(0.0) or tilted, steps, epsilon)
    asked = (epsilon, *(other for other in asked if other <= valid and other != epsilon))
    kinks = {pair: tuple(place + (other - epsilon) for other in asked) for pair, place in places.items()}
    return GridPlan(valid, epsilon, tilted.order, cap, low, max(high, low, 0.0), bottom, bulk, kinks, asked)


def _usual(plain: TiltedSum, steps: tuple[Step, ...], epsilon: float) -> tuple[float, dict[DominatingPair, float]]:
    """The width of the sum of usual losses, 0 where one has atoms; and by pair the loss that makes the sum epsilon."""
    bulks = [part.bulk() for part in plain.parts]
    beyond = excess(zip(plain.counts, (place for place, _ in bulks), strict=True), epsilon)
    smooth = (
        0.0 if points.is_atom.any() else count * width**2
        for count, points, (_, width) in zip(plain.counts, plain.points, bulks, strict=True)
    )
    kinks = {step.pair: place - beyond for step, (place, _) in zip(steps, bulks, strict=True)}
    return math.sqrt(math.fsum(smooth)), kinks


def likely_epsilon(steps: tuple[Step, ...], delta: float) -> float:
    """About epsilon at delta: as if the sum were normal, or a large loss came alone, whichever is greater."""
    found = _summed(steps, -1.0)
    assert found is not None  # infinite losses alone would exceed delta
    plain = found.at(0.0)
    normal = plain.mean_excess(0.0) + math.sqrt(-2.0 * math.log(delta)) * plain.deviation
    low = normal if 1e-300 < normal < math.inf else 1.0

    def beyond(epsilon: float) -> float:
        alone = math.fsum(step.count * pair_delta(step.pair, epsilon) for step in steps)
        return math.log(max(alone, 1e-320) / delta)

    last = low, beyond(low)
    if last[1] <= 0.0:
        return low
    for factor in _UPWARDS:
        other = factor * last[0], beyond(factor * last[0])
        if other[1] <= 0.0:
            return root(beyond, last, other, 1e-5)
        last = other
    return last[0]


def _centred(at: _At, epsilon: float, negligible: float) -> TiltedSum | None:
    """The sum at the order that centres it at epsilon; None where it adds too little to matter."""
    start = at(0.0)
    if start is None or start.mean_excess(epsilon) >= 0.0:
        return start
    # the points seen so far may tell
    if negligible > _SEEN and start.at(start.guess(epsilon)).log_bound(epsilon) < negligible:
        return None
    below, high = -start.mean_excess(epsilon), math.inf
    if start.guess(epsilon) * below >= -8.0 * negligible:  # points of the order that centres it may take minutes
        modest = at(-2.0 * negligible / below)
        if modest is not None and modest.log_bound(epsilon) < negligible:
            return None
        if modest is not None and modest.mean_excess(epsilon) > 0.0:
            high = modest.order
    return _crossed(at, start, epsilon, negligible, high)


def _crossed(at: _At, found: TiltedSum, epsilon: float, negligible: float, high: float) -> TiltedSum | None:
    """The sum at an order below ``high`` that the points of the order before show; where these do not hold what then
    matters, orders change by factors until the mean has passed epsilon, and are bisected.
    """
    low, factor, under = 0.0, 2.0, found  # ``low`` and ``high``: orders whose means are below epsilon, and beyond it
    order = min(found.guess(epsilon), high / factor)
    for turn in itertools.count():
        crossing = found.crossing(order, epsilon) if turn < _FOLLOWED else None
        if crossing is not None and low < crossing < high:
            order = crossing
        elif low > 0.0 and high < math.inf:
            order = math.sqrt(low * high)
        elif turn > 0:
            order, factor = (order * factor if low > 0.0 else order / factor), min(16.0, factor**2)
        if not 1e-100 < order < _GREATEST_ORDER or high < _NARROWEST * low:
            break
        following = at(order)
        if following is None:  # so steep that a law has no point left
            high = order
            continue
        found, beyond = following, following.mean_excess(epsilon)
        if found.log_bound(epsilon) < negligible:
            return None
        if abs(beyond) < _CENTRED * found.deviation:
            break
        if beyond < 0.0:
            low, under = order, found
        else:
            high = order
    return min(found, under, key=lambda one: abs(one.mean_excess(epsilon)) / max(one.deviation, 1e-300))
