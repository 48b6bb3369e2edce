"""Places of composed steps, on which sums of losses are rounded up: narrow where a sum weighs most."""

import math
from collections.abc import Sequence
from functools import partial

import numpy as np

from evr._kernel.order import power
from evr._kernel.pairs import DiscretePair, Floats, Step, outcomes
from evr._kernel.pairs.law import UNIT
from evr._kernel.pairs.line.pair import log_sum_exp
from evr._kernel.sampled.composing import MOST_PLACES, LossGrid, LossMasses, masses_of, product, product_count
from evr._kernel.sampled.moments import Tilt, log_peak

_GROUPS = 128  # outcomes of the second law that places are chosen by
_KNOTS = 72
_FEWEST_PLACES = 200
_BEYOND = 10.0  # over epsilon: a jump to there is as good as one to infinity
_EVEN = 1e-9  # of a distance: how far it may be from a multiple of the least one
_SHARE_BELOW = 1e-3  # of the allowance, for what is raised to the first place
_GAP = 5.0  # over the order of a tilt: so far apart, what is below has no weight
_SHARE_HARMLESS = 0.1  # of all samples, for what is raised and stays below epsilon


class UnplacedError(ValueError):
    """Places below the top hold nothing that counts: steps are better drawn one by one."""


def composing_places(
    steps: Sequence[Step], where: Sequence[Sequence[Tilt]], epsilon: float, allowance: float
) -> tuple[LossGrid, ...]:
    """Places of each product of steps on outcomes, such that delta grows by a share of about ``allowance`` with each.
    ``where`` are tilts of each kind that lead to where delta comes from.
    """
    found, whole, below = list[LossGrid](), None, 0.0
    last = product_count(steps)

    def times(a: LossMasses, b: LossMasses, tilts: Sequence[Tilt], floor: float, uses: float) -> LossMasses:
        # sums go below what one step can lose, and count for less there
        low = [Tilt(tilt.order, tilt.cap, floor) for tilt in tilts]
        harmless = epsilon if len(found) + 1 == last else -math.inf
        found.append(_places(a, b, low, epsilon, allowance / uses, harmless))
        return product(a, b, found[-1])

    def joined(
        tilts: Sequence[Tilt], floor: float, count: int, x: tuple[LossMasses, int], y: tuple[LossMasses, int]
    ) -> tuple[LossMasses, int]:
        number = x[1] + y[1]
        return times(x[0], y[0], tilts, floor, count / number), number

    for step, tilts in zip(steps, where, strict=True):
        pair = outcomes(step.pair)
        assert isinstance(pair, DiscretePair)
        floor = step.count * min(-1.0, *(tilt.floor for tilt in tilts))
        law, _ = power((masses_of(pair), 1), step.count, partial(joined, tilts, floor, step.count))
        below += floor
        whole = law if whole is None else times(whole, law, tilts, below, 1.0)
    return tuple(found)


def _places(
    a: LossMasses, b: LossMasses, tilts: Sequence[Tilt], epsilon: float, allowance: float, harmless: float
) -> LossGrid:
    """Places of the sum of two laws, for an allowance of each use: narrow where the tilted sum is, with widths in
    proportion to the cube root of its density (``edges_of`` has the rule), none wide. To raise a loss up to
    ``harmless`` adds nothing to delta.
    """
    losses, masses = _summed(a, b)
    greatest = float(a.losses[-1] + b.losses[-1])
    greatest += 4.0 * UNIT * abs(greatest)  # sums are rounded up, and beyond the top is infinity
    top = min(greatest, max(epsilon, 0.0) + _BEYOND)
    costs, first = _costs(losses, masses, tilts, epsilon, allowance, harmless)
    if top <= losses[first]:
        raise UnplacedError("all of a sum that counts is far beyond epsilon")
    if (lattice := _lattice(a, b, float(losses[first]), top)) is not None:
        return lattice
    ends = np.linspace(first, np.searchsorted(losses, top), 4 * _KNOTS).astype(int)
    ends = np.unique(np.clip(ends, first, losses.size - 1))
    edges = np.unique(np.append(losses[ends], top))
    edges = edges[edges <= top]
    widths = np.diff(edges)
    # a loss at an edge counts in the interval below it, or above it where that one is a gap between clusters of losses
    left, right = np.searchsorted(edges, losses, side="left"), np.searchsorted(edges, losses, side="right")
    is_gap = np.concatenate(([True], widths * max(min(tilt.order for tilt in tilts), 1.0) > _GAP, [False]))
    held = np.where(is_gap[left], right, left)
    costs = np.bincount(held, costs, edges.size + 1)[1 : edges.size].astype(np.float64)
    density = np.cbrt(costs * widths**2)
    number = np.sqrt(density.sum() ** 3 / (12.0 * allowance))
    wanted = density * (max(number, _FEWEST_PLACES) / max(density.sum(), 1e-300))
    for tilt in tilts:
        order = max(tilt.order, 1.0)
        rate = np.where(edges[:-1] < tilt.cap, order, 1.0)
        wanted = np.maximum(wanted, np.where(edges[:-1] > -1.0 / order, rate * widths, 0.0))
    cumulated = np.concatenate(([0.0], np.cumsum(wanted)))
    knots = np.interp(np.linspace(0.0, cumulated[-1], _KNOTS + 1), cumulated, edges)
    # where delta bends, and the least of all, which a gap would leave out
    knots = np.unique(np.append(knots, [edges[0], np.clip(epsilon, edges[0], knots[-1])]))
    parts = min(int(np.ceil(cumulated[-1] / _KNOTS)), MOST_PLACES // knots.size)
    return LossGrid(tuple(knots.tolist()), parts)


def _costs(
    losses: Floats, masses: Floats, tilts: Sequence[Tilt], epsilon: float, allowance: float, harmless: float
) -> tuple[Floats, int]:
    """What it costs to raise each loss of a sum, in units of its square; and which may be the first place."""
    with np.errstate(divide="ignore"):
        log_masses, log_below = np.log(masses), np.log(np.append(0.0, np.cumsum(masses)[:-1]))
    costs, first = np.zeros(losses.size), losses.size - 1
    for tilt in tilts:
        order, heights = max(tilt.order, 1.0), tilt.height(losses)
        if harmless == epsilon:  # the last sum: an outcome adds at most its mass to delta, however far it is
            heights = np.minimum(heights, order * epsilon - log_peak(order))
        log_weights = log_masses + heights
        log_total = log_sum_exp(log_weights)
        if np.isneginf(log_total):
            raise UnplacedError("floats hold nothing of a sum below its top")
        costs = np.maximum(costs, order * (order + 1.0) * np.exp(log_weights - log_total))
        share = log_below + heights - log_total  # of what would be raised to the place
        most = np.where(losses <= harmless, _SHARE_HARMLESS, _SHARE_BELOW * allowance)
        too_much = np.append(share > np.log(most), True)
        first = min(first, int(np.argmax(too_much)) - 1)
    return costs, first


def _lattice(a: LossMasses, b: LossMasses, low: float, top: float) -> LossGrid | None:
    """Exactly where the sums are, from about ``low`` to ``top``, if all losses are multiples of one number apart."""
    gaps = np.concatenate((np.diff(a.losses), np.diff(b.losses)))
    if not gaps.size:
        return None
    unit, first = float(gaps.min()), float(a.losses[0] + b.losses[0])
    whole = np.rint(gaps / unit)
    start = first + unit * np.floor(max(low - first, 0.0) / unit)
    number = int(np.ceil((top - start) / unit))
    if np.any(np.abs(gaps - whole * unit) > _EVEN * gaps) or not 0 < number <= MOST_PLACES:
        return None
    # a little above, for sums are rounded up: what passed a place would go to the next one, far beyond
    above = 16.0 * UNIT * max(abs(start), abs(start + number * unit))
    return LossGrid((start + above, start + number * unit + above), number)


def _summed(a: LossMasses, b: LossMasses) -> tuple[Floats, Floats]:
    """Losses and masses of sums, about: neighbouring outcomes of ``b`` are taken together, at the least of their
    losses. Of a square only those where it has the smaller loss, so that the greater is as fine as it is.
    """
    starts = np.unique(np.linspace(0, b.losses.size, _GROUPS + 1).astype(int))[:-1]
    least, grouped = b.losses[starts], np.add.reduceat(b.masses, starts)
    losses, masses = np.add.outer(a.losses, least), np.multiply.outer(a.masses, grouped)
    chosen = np.add.outer(a.losses, -least) >= 0 if a is b else masses >= 0
    order = np.argsort(losses[chosen], kind="stable")
    return losses[chosen][order], masses[chosen][order]
