"""Where to tilt: the order that centres the sum of losses at epsilon, and the range that holds it.

Sums are kept as what exceeds epsilon. The losses of a step are taken from an origin of that step;
the origins times their counts, less epsilon, are added up exactly (``excess``), so that a loss of
1e17 beside one of 1e-17 spoils neither.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from evr.estimation.sums import dot
from evr.laws import DominatingPair, Floats, Measure, Step
from evr.laws.line.discretise import LossPoints, cell_edges, loss_points
from evr.laws.line.pair import log_sum_exp

_TAIL = 34.0  # log of the tilted mass that may wrap around the grid
_NEGLIGIBLE = -760.0  # log of a bound on delta below which it is 0 as a float
_GREATEST_ORDER = 1e200
_MOST_CELLS = 2**22
_SHIFTS = np.geomspace(1e-3, 30.0, 16)  # in units of one over the deviation of the sum
_NEAR = np.arange(-48, 49) / 8.0  # edges about a kink, in widths of the grid
_FAR_SHIFTS = np.geomspace(1.0, 60.0, 8)  # in units of one over the greatest deviation of a step


class GridPlan(NamedTuple):
    """A tilt and the range that holds the tilted sum.

    ``epsilon`` is the greatest for which the plan is right; losses above ``cap`` decide by
    themselves; ``low`` and ``high`` are taken from ``centre``, the epsilon that the plan was made
    for; losses below ``bottom`` are raised to it. ``bulk`` is about the width of the sum of all
    usual losses; beside them a loss of ``kinks``, by pair, makes the sum epsilon.
    """

    epsilon: float
    centre: float
    order: float
    cap: float
    low: float
    high: float
    bottom: float
    bulk: float
    kinks: Mapping[DominatingPair, float]


@dataclass(frozen=True)
class Tilted:
    """Points of one step under a tilt: weights that sum to 1, and losses as deviations from their
    mean, the origin.
    """

    weights: Floats
    deviations: Floats
    origin: float

    @classmethod
    def of(cls, points: LossPoints, order: float) -> Tilted:
        """Exponents are taken from the heaviest point, so that large orders lose no digits."""
        if order == 0.0:
            exponents = points.log_weights
        else:
            heaviest = int(np.argmax(points.log_weights + order * points.losses))
            exponents = points.log_weights + order * (points.losses - points.losses[heaviest])
        weights = np.exp(exponents - exponents.max())
        weights /= weights.sum()
        origin = dot(weights, points.losses)
        return cls(weights, points.losses - origin, origin)

    @property
    def variance(self) -> float:
        return dot(self.weights, self.deviations**2)

    def bulk(self) -> tuple[float, float]:
        """Where the bulk is, and how wide: medians, which rare large losses do not change."""
        middle = self._median(self.deviations)
        return self.origin + middle, self._median(np.abs(self.deviations - middle))

    def _median(self, numbers: Floats) -> float:
        rising = np.argsort(numbers)
        place = int(np.searchsorted(np.cumsum(self.weights[rising]), 0.5))
        return float(numbers[rising[min(place, rising.size - 1)]])

    @property
    def mean(self) -> float:
        """Of the deviations: what rounding left in the origin."""
        return dot(self.weights, self.deviations)

    def log_growth(self, shift: float) -> float:
        """``log E'[e^{shift deviation}]``."""
        exponents = shift * self.deviations
        if (
            float(np.max(exponents)) < 600.0
            and (gain := dot(self.weights, np.expm1(exponents))) > -0.5
        ):
            return math.log1p(gain)
        with np.errstate(divide="ignore"):
            return log_sum_exp(np.log(self.weights) + exponents)


def excess(origins: Iterable[tuple[int, float]], epsilon: float) -> float:
    """The sum of counts times origins, less epsilon, rounded once."""
    return float(sum((count * Fraction(origin) for count, origin in origins), -Fraction(epsilon)))


def log_moment(points: LossPoints, order: float, origin: float, log_mass: float) -> float:
    """``log E_P[e^{order (loss - origin)}]``, ``log_mass`` being that of the points' total
    probability.

    Where little is gained or lost by the tilt, only that is computed: the error is then relative to
    it, and not to 1.
    """
    exponents = order * (points.losses - origin)
    if float(np.max(exponents)) < 600.0 and float(np.max(points.log_weights)) <= log_mass + 1.0:
        gain = dot(np.exp(points.log_weights - log_mass), np.expm1(exponents))
        if -0.5 < gain < 1.0:
            return log_mass + math.log1p(gain)
    return log_sum_exp(points.log_weights + exponents)


@lru_cache(maxsize=256)
def _place(
    pair: DominatingPair, order: float, cap: float, *, tilted_only: bool = False
) -> tuple[float, float]:
    """The range of ``t``, up to that of the cap, that holds all but ``e^-80`` of the tilted law,
    and of ``P`` if asked for.
    """
    low, high = pair.span(order) if not tilted_only else _place(pair, order, cap)
    high = max(min(high, float(pair.point(cap))), low) if cap < math.inf else high
    for _ in range(12):
        edges = np.linspace(low, high, 129)
        losses = pair.privacy_loss(edges)
        log_p = pair.log_mass(Measure.P, edges[:-1], edges[1:])
        with np.errstate(invalid="ignore"):
            tilted = log_p + order * np.where(np.isfinite(losses[1:]), losses[1:], losses[:-1])
        tilted = np.where(np.isfinite(tilted), tilted, -np.inf)
        held = np.flatnonzero(
            (tilted > np.max(tilted) - 80.0) | ((not tilted_only) & (log_p > np.max(log_p) - 80.0))
        )
        if held.size:
            low, high = float(edges[held[0]]), float(edges[held[-1] + 1])
        if not held.size or held[-1] + 1 - held[0] > 64:
            break
    return low, high


def _even(
    pair: DominatingPair, place: tuple[float, float], cells: int, most: int, width: float
) -> list[Floats]:
    """Edges even in ``t``, and edges ``width`` apart in losses, or the ``most`` that there may
    be.
    """
    low, high = place
    parts = [np.linspace(low, high, cells + 1)]
    losses = pair.privacy_loss(np.array([low, high]))
    if losses[0] < losses[1] and np.all(np.isfinite(losses)):
        number = min(math.ceil(float(losses[1] - losses[0]) / width), most)
        parts.append(pair.point(np.linspace(losses[0], losses[1], max(2, number + 1))))
    return parts


@lru_cache(maxsize=64)
def points_of(
    pair: DominatingPair,
    order: float,
    cap: float,
    cells: int,
    width: float,
    *,
    joined: bool = False,
    keep: float = 120.0,
    kink: float | None = None,
) -> LossPoints:
    """The law of one step up to ``cap``: cells even in ``t`` where it matters, and where the tilted
    law is none wider than ``width`` in losses; near the loss ``kink`` cells are much finer.

    ``joined`` adds what is beyond the cap, joined into one loss. What has less than ``e^-keep`` of
    the tilted mass, and no probability to speak of, is left out.
    """
    whole, held = _place(pair, order, cap), _place(pair, order, cap, tilted_only=True)
    parts = [cell_edges(pair, order, 64, None, cap), *_even(pair, held, cells, _MOST_CELLS, width)]
    if whole != held:
        parts += _even(pair, whole, 1024, 4096, width)
    if kink is not None:
        near = pair.point(kink + width * _NEAR)
        parts.append(near[(near > whole[0]) & (near < whole[1])])
    points = loss_points(
        pair, np.unique(np.concatenate(parts)), within=cap < math.inf and not joined
    )
    if not points.losses.size:
        return points
    tilted = points.log_weights + order * points.losses
    kept = (tilted > tilted.max() - keep) | (points.log_weights > -60.0)
    return LossPoints(points.losses[kept], points.log_weights[kept], points.is_atom[kept])


def rough_points(
    pair: DominatingPair, order: float, cap: float, *, joined: bool = False, keep: float = 120.0
) -> LossPoints:
    """As much of the law as a plan needs."""
    return points_of(pair, order, cap, 1024, 0.1 / max(order, 1.0), joined=joined, keep=keep)


def not_below(points: LossPoints, bottom: float) -> LossPoints:
    """The points, with lower losses raised to ``bottom``."""
    return (
        points if bottom == -math.inf else points._replace(losses=np.maximum(points.losses, bottom))
    )


class _Sum:
    """The tilted sum of all steps, by rough points."""

    def __init__(self, points: Sequence[LossPoints], counts: Sequence[int], order: float) -> None:
        self.points, self.counts, self.order = points, counts, order
        self.parts = [Tilted.of(p, order) for p in points]

    def mean_excess(self, epsilon: float) -> float:
        """The mean of the sum, less epsilon."""
        rest = math.fsum(n * part.mean for n, part in zip(self.counts, self.parts, strict=True))
        return self._offset(epsilon) + rest

    @property
    def deviation(self) -> float:
        return math.sqrt(
            math.fsum(n * part.variance for n, part in zip(self.counts, self.parts, strict=True))
        )

    def log_bound(self, epsilon: float) -> float:
        """``log prod M e^{-order epsilon}``, a bound on delta of these points."""
        moments = math.fsum(
            n * log_moment(p, self.order, part.origin, log_sum_exp(p.log_weights))
            for n, p, part in zip(self.counts, self.points, self.parts, strict=True)
        )
        return moments + self.order * self._offset(epsilon)

    def _end(self, sign: int) -> float:
        """How far from its mean the sum reaches on one side but for a mass of ``e^-_TAIL``, by
        Chernoff's bound.
        """
        pairs = list(zip(self.counts, self.parts, strict=True))
        end = math.fsum(n * float(np.max(sign * part.deviations)) for n, part in pairs)
        if (deviation := self.deviation) > 0.0:
            farthest = max(float(np.max(np.abs(part.deviations))) for part in self.parts)
            for shift in np.concatenate((_SHIFTS / deviation, _FAR_SHIFTS / farthest)).tolist():
                end = min(
                    end,
                    (math.fsum(n * part.log_growth(sign * shift) for n, part in pairs) + _TAIL)
                    / shift,
                )
        return end

    def _offset(self, epsilon: float) -> float:
        return excess(zip(self.counts, (part.origin for part in self.parts), strict=True), epsilon)

    def low(self) -> float:
        """Below it the sum has a mass of less than ``e^-_TAIL``."""
        return self._offset(0.0) - self._end(-1)

    def range(self, epsilon: float) -> tuple[float, float]:
        """A range around epsilon outside which the sum has a mass of less than ``e^-_TAIL`` on each
        side.
        """
        offset, low, high = self._offset(epsilon), -self._end(-1), self._end(1)
        pad = 1e-6 * (high - low) or 1e-9 * max(abs(offset), abs(epsilon), 1e-100)
        return offset + low - pad, offset + high + pad


@lru_cache(maxsize=64)
def limits(steps: tuple[Step, ...], epsilon: float, reach: float = 1.02) -> tuple[float, float]:
    """The greatest epsilon to serve, and the cap: a loss beyond it exceeds that epsilon whatever
    the other steps do, under ``P`` and under ``Q``, which is the tilt of order -1.
    """
    points = [rough_points(step.pair, -1.0, math.inf) for step in steps]
    if not all(p.losses.size for p in points):  # a step without a finite loss
        return reach * epsilon, math.inf
    counts = [step.count for step in steps]
    first, second = _Sum(points, counts, 0.0), _Sum(points, counts, -1.0)
    valid = max(epsilon, reach * epsilon) + 1e-3 * min(1.0, first.deviation)
    return valid, valid - min(0.0, first.low(), second.low())


_At = Callable[[float], _Sum | None]


def plan_tilt(
    steps: tuple[Step, ...],
    epsilon: float,
    reach: float = 1.02,
    *,
    joined: bool = False,
    negligible: float = _NEGLIGIBLE,
) -> GridPlan | None:
    """The order at which the mean of the tilted sum is epsilon, or 0 if the mean is beyond it
    already.

    The plan serves epsilons up to ``reach`` times the given one. It is one for losses up to its
    cap; ``joined`` includes what is beyond, joined into one loss. None where a moments bound shows
    that these losses add less to delta than ``negligible``, a logarithm, says.
    """
    counts = [step.count for step in steps]
    valid, cap = limits(steps, epsilon, reach)

    def at(order: float) -> _Sum | None:
        points = [rough_points(step.pair, order, cap, joined=joined) for step in steps]
        return _Sum(points, counts, order) if all(p.losses.size for p in points) else None

    tilted = _centred(at, epsilon, negligible)
    if tilted is None:
        return None
    low, high = tilted.range(epsilon)
    bottom = -math.inf
    if (
        tilted.order == 0.0
    ):  # a loss that the others cannot make up for leaves the sum below epsilon, however low it is
        bottom = min(epsilon, 0.0) - max(epsilon + high, 1e-300)
        low, high = _Sum([not_below(p, bottom) for p in tilted.points], counts, 0.0).range(epsilon)
    low = min(low, 0.0) if tilted.order > 0.0 else low  # all of it may exceed epsilon
    bulk, kinks = _usual(at(0.0) or tilted, steps, epsilon)
    return GridPlan(
        valid, epsilon, tilted.order, cap, low, max(high, low, 0.0), bottom, bulk, kinks
    )


def _usual(
    plain: _Sum, steps: tuple[Step, ...], epsilon: float
) -> tuple[float, dict[DominatingPair, float]]:
    """The width of the sum of usual losses, 0 where one has atoms; and for each pair the loss that
    makes such a sum epsilon.
    """
    bulks = [part.bulk() for part in plain.parts]
    beyond = excess(zip(plain.counts, (place for place, _ in bulks), strict=True), epsilon)
    smooth = (
        0.0 if points.is_atom.any() else count * width**2
        for count, points, (_, width) in zip(plain.counts, plain.points, bulks, strict=True)
    )
    kinks = {step.pair: place - beyond for step, (place, _) in zip(steps, bulks, strict=True)}
    return math.sqrt(math.fsum(smooth)), kinks


def likely_epsilon(steps: tuple[Step, ...], delta: float) -> float:
    """About epsilon at delta if the sum of losses were normal: of use where it is far from 1."""
    points = [rough_points(step.pair, -1.0, math.inf) for step in steps]
    plain = _Sum(points, [step.count for step in steps], 0.0)
    return plain.mean_excess(0.0) + math.sqrt(-2.0 * math.log(delta)) * plain.deviation


def _centred(at: _At, epsilon: float, negligible: float) -> _Sum | None:
    """The sum at the order that centres it at epsilon; None where it adds too little to matter."""
    start = at(0.0)
    if start is None or start.mean_excess(epsilon) >= 0.0:
        return start
    # From where a normal law would have it, up or down by growing factors until the mean has passed
    # epsilon.
    guess = -start.mean_excess(epsilon) / max(start.deviation, 1e-100) ** 2
    high = min(max(guess, 1e-100), _GREATEST_ORDER)
    low, factor, found = 0.0, 2.0, at(high)
    while found is None:  # so steep that a law has no point left
        high /= 16.0
        found = at(high)
    if found.mean_excess(epsilon) < 0.0:
        while found.mean_excess(epsilon) < 0.0 and high < _GREATEST_ORDER:
            if found.log_bound(epsilon) < negligible:
                return None
            steeper = at(factor * high)
            if steeper is None:
                break
            low, high, factor, found = high, factor * high, min(16.0, factor**2), steeper
    else:
        while low == 0.0 and high > 1e-100:
            lower = at(high / factor)
            assert lower is not None
            if lower.log_bound(epsilon) < negligible:
                return None
            if lower.mean_excess(epsilon) < 0.0:
                low = high / factor
            else:
                found, high, factor = lower, high / factor, min(16.0, factor**2)
    points, counts = found.points, found.counts
    order = _bisect(lambda a: _Sum(points, counts, a), low, high, epsilon)
    found = at(order)
    assert found is not None
    if (
        abs(found.mean_excess(epsilon)) > found.deviation and found.deviation > 0.0
    ):  # points made for `high` misled
        found = at(_bisect(at, low, high, epsilon))
        assert found is not None
    return None if found.log_bound(epsilon) < negligible else found


def _bisect(at: _At, low: float, high: float, epsilon: float) -> float:
    while high - low > 1e-3 * high:
        middle = (low + high) / 2
        found = at(middle)
        assert found is not None
        low, high = (middle, high) if found.mean_excess(epsilon) < 0.0 else (low, middle)
    return high


def widened(plan: GridPlan, steps: tuple[Step, ...]) -> GridPlan:
    """The plan, with room for other counts of its pairs."""
    counts = [step.count for step in steps]
    cap = max(plan.cap, limits(steps, plan.epsilon, 1.0)[1])
    points = [not_below(rough_points(step.pair, plan.order, cap), plan.bottom) for step in steps]
    low, high = _Sum(points, counts, plan.order).range(plan.centre)
    bottom = plan.bottom
    if bottom > -math.inf:
        bottom = min(bottom, min(plan.centre, 0.0) - max(plan.centre + high, 1e-300))
        points = [not_below(rough_points(step.pair, plan.order, cap), bottom) for step in steps]
        low, high = _Sum(points, counts, plan.order).range(plan.centre)
    return plan._replace(cap=cap, low=min(plan.low, low), high=max(plan.high, high), bottom=bottom)
