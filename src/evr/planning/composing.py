"""Where to put the losses of several steps: few places, such that delta hardly grows.

Nothing rests on what is found here but how much delta grows (docs/guarantees.md, Section 3.10).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from evr.bounds.composing import MOST_PLACES, LossMasses, Places, masses_of, product, products
from evr.bounds.tilt import Tilt
from evr.laws import DiscretePair, Floats, Step, outcomes
from evr.laws.line.pair import UNIT, log_sum_exp

_GROUPS = 128  # outcomes of the second law that places are chosen by
_KNOTS = 72
_FEWEST_PLACES = 200
_BEYOND = 10.0  # over epsilon: a jump to there is as good as one to infinity
_EVEN = 1e-9  # of a distance: how far it may be from a multiple of the least one
_SHARE_BELOW = 1e-3  # of the allowance, for what is raised to the first place


class UnplacedError(ValueError):
    """Places below the top hold nothing that counts: steps are better drawn one by one."""


def composing_places(
    steps: Sequence[Step], where: Sequence[Sequence[Tilt]], epsilon: float, allowance: float
) -> tuple[Places, ...]:
    """Places of each product of steps on outcomes, such that delta grows by a share of about ``allowance`` with each.
    ``where`` are tilts of each kind that lead to where delta comes from.
    """
    found, whole, below = list[Places](), None, 0.0

    def times(a: LossMasses, b: LossMasses, tilts: Sequence[Tilt], floor: float, uses: float) -> LossMasses:
        # sums go below what one step can lose, and count for less there
        low = [Tilt(tilt.order, tilt.cap, floor) for tilt in tilts]
        found.append(_places(a, b, low, epsilon, uses, allowance))
        return product(a, b, found[-1])

    for step, tilts in zip(steps, where, strict=True):
        pair = outcomes(step.pair)
        assert isinstance(pair, DiscretePair)
        floor = step.count * min(-1.0, *(tilt.floor for tilt in tilts))
        law, number = masses_of(pair), 1
        for squared in products(step.count):
            number = 2 * number if squared else number + 1
            other = law if squared else masses_of(pair)
            law = times(law, other, tilts, floor, step.count / number)
        below += floor
        whole = law if whole is None else times(whole, law, tilts, below, 1.0)
    return tuple(found)


def _places(
    a: LossMasses, b: LossMasses, tilts: Sequence[Tilt], epsilon: float, uses: float, allowance: float
) -> Places:
    """Places of the sum of two laws: narrow where the tilted sum is, with widths in proportion to the cube root of its
    density (planning/merging.py has the rule), none wide.
    """
    losses, masses = _summed(a, b)
    greatest = float(a.losses[-1] + b.losses[-1])
    greatest += 4.0 * UNIT * abs(greatest)  # sums are rounded up, and beyond the top is infinity
    top = min(greatest, max(epsilon, 0.0) + _BEYOND)
    with np.errstate(divide="ignore"):
        log_masses, log_below = np.log(masses), np.log(np.cumsum(masses))
    costs, first = np.zeros(losses.size), losses.size - 1
    for tilt in tilts:
        order, heights = max(tilt.order, 1.0), tilt.height(losses)
        log_weights = log_masses + heights
        log_total = log_sum_exp(log_weights)
        if np.isneginf(log_total):
            raise UnplacedError("floats hold nothing of a sum below its top")
        costs = np.maximum(costs, order * (order + 1.0) * np.exp(log_weights - log_total))
        share = log_below + heights - log_total  # of what would be raised to the place
        raised = share > np.log(_SHARE_BELOW * allowance / uses)
        first = min(first, int(np.argmax(raised)))
    if top <= losses[first]:
        raise UnplacedError("all of a sum that counts is far beyond epsilon")
    if (lattice := _lattice(a, b, float(losses[first]), top)) is not None:
        return lattice
    ends = np.linspace(first, np.searchsorted(losses, top), 4 * _KNOTS).astype(int)
    ends = np.unique(np.clip(ends, first, losses.size - 1))
    edges = np.unique(np.append(losses[ends], top))
    edges = edges[edges <= top]
    held = np.searchsorted(edges, losses, side="left")
    costs = np.bincount(held, costs, edges.size + 1)[1 : edges.size].astype(np.float64)
    widths = np.diff(edges)
    density = np.cbrt(costs * widths**2)
    number = np.sqrt(uses / 12.0 * density.sum() ** 3 / allowance)
    wanted = density * (max(number, _FEWEST_PLACES) / max(density.sum(), 1e-300))
    for tilt in tilts:
        order = max(tilt.order, 1.0)
        rate = np.where(edges[:-1] < tilt.cap, order, 1.0)
        wanted = np.maximum(wanted, np.where(edges[:-1] > -1.0 / order, rate * widths, 0.0))
    cumulated = np.concatenate(([0.0], np.cumsum(wanted)))
    knots = np.interp(np.linspace(0.0, cumulated[-1], _KNOTS + 1), cumulated, edges)
    knots = np.unique(np.append(knots, np.clip(epsilon, knots[0], knots[-1])))  # where delta bends
    parts = min(int(np.ceil(cumulated[-1] / _KNOTS)), MOST_PLACES // knots.size)
    return Places(tuple(knots.tolist()), parts)


def _lattice(a: LossMasses, b: LossMasses, low: float, top: float) -> Places | None:
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
    return Places((start, start + number * unit), number)


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
