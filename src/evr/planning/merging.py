"""Steps on a few outcomes: a pair that dominates, whose sums cost as much as it has outcomes, however many steps.

The losses of a cell are moved to its two ends such that both laws keep their mass there: under ``Q`` the likelihood
ratio keeps its mean and is spread out, so delta can only grow (docs/guarantees.md, Section 3.9). Cells are narrow where
a step weighs most, so that it grows by about an allowance. The losses of several steps go to a few places in the same
way (Section 3.10). Nothing rests on what is found here but how much delta grows.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import lru_cache, partial

import numpy as np
import scipy

from evr.bounds.composing import MOST_PLACES, Cells, LossMasses, Places, even_edges, masses_of, product, product_count
from evr.bounds.moments import Tilt
from evr.bounds.strict.plan import power
from evr.laws import DiscretePair, DominatingPair, Floats, Measure, Step, outcomes
from evr.laws.law import UNIT
from evr.laws.line.pair import log_sum_exp

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
) -> tuple[Places, ...]:
    """Places of each product of steps on outcomes, such that delta grows by a share of about ``allowance`` with each.
    ``where`` are tilts of each kind that lead to where delta comes from.
    """
    found, whole, below = list[Places](), None, 0.0
    last = product_count(steps)

    def times(a: LossMasses, b: LossMasses, tilts: Sequence[Tilt], floor: float, uses: float) -> LossMasses:
        # sums go below what one step can lose, and count for less there
        low = [Tilt(tilt.order, tilt.cap, floor) for tilt in tilts]
        harmless = epsilon if len(found) + 1 == last else -math.inf
        found.append(_places(a, b, low, epsilon, uses, allowance, harmless=harmless))
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
    a: LossMasses,
    b: LossMasses,
    tilts: Sequence[Tilt],
    epsilon: float,
    uses: float,
    allowance: float,
    *,
    harmless: float,
) -> Places:
    """Places of the sum of two laws: narrow where the tilted sum is, with widths in proportion to the cube root of its
    density (``_edges`` has the rule), none wide. To raise a loss up to ``harmless`` adds nothing to delta.
    """
    losses, masses = _summed(a, b)
    greatest = float(a.losses[-1] + b.losses[-1])
    greatest += 4.0 * UNIT * abs(greatest)  # sums are rounded up, and beyond the top is infinity
    top = min(greatest, max(epsilon, 0.0) + _BEYOND)
    with np.errstate(divide="ignore"):
        log_masses, log_below = np.log(masses), np.log(np.append(0.0, np.cumsum(masses)[:-1]))
    costs, first = np.zeros(losses.size), losses.size - 1
    for tilt in tilts:
        order, heights = max(tilt.order, 1.0), tilt.height(losses)
        log_weights = log_masses + heights
        log_total = log_sum_exp(log_weights)
        if np.isneginf(log_total):
            raise UnplacedError("floats hold nothing of a sum below its top")
        costs = np.maximum(costs, order * (order + 1.0) * np.exp(log_weights - log_total))
        share = log_below + heights - log_total  # of what would be raised to the place
        most = np.where(losses <= harmless, _SHARE_HARMLESS, _SHARE_BELOW * allowance / uses)
        too_much = np.append(share > np.log(most), True)
        first = min(first, int(np.argmax(too_much)) - 1)
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
    number = np.sqrt(uses / 12.0 * density.sum() ** 3 / allowance)
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
    # a little above, for sums are rounded up: what passed a place would go to the next one, far beyond
    above = 16.0 * UNIT * max(abs(start), abs(start + number * unit))
    return Places((start + above, start + number * unit + above), number)


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


_FEWEST_CELLS = 20  # so that the rule for their number holds
_FINE = 40_000  # cells that edges are placed among
_SHARE_OF_INFINITE = 0.1  # of the allowance, for losses that become infinite
_CAPS = (2.0, 1.2, 0.3, 0.1, 0.03)  # over the scale: how much of it one step may carry, in turn
_ORDERS = (1.0, 2e3)  # of tilts that are tried: over the scale, and over the least deviation
_NEXT_TO = 15.0  # of exponents: e^-15 of the rest is not worth cells
_RARE = 1e-12  # of P: what may be below the floor of a tilt
_LEAST_DRIFT = 1e-6  # of delta: what rounding may take from it without a word


def where_it_counts(steps: Sequence[Step], epsilon: float) -> tuple[list[list[Tilt]], float]:
    """Tilts of each kind of step that lead to where delta comes from, and about Chernoff's ``log`` bound on it: for
    each share of epsilon that one step may carry, those that centre the sum at epsilon. Only shares whose exponent in
    the bound is next to the greatest are kept, for the others hardly contribute.
    """
    cells = [_fine_cells(step.pair) for step in steps]
    floors = [min(floor_of(_centres(one), one.log_p), 0.0) for one in cells]
    sizes = [rough_size(_centres(own), own.log_p, step.count) for step, own in zip(steps, cells, strict=True)]
    scale, least = max(epsilon, math.hypot(*sizes)), max(min(sizes), 1e-12)
    orders = (math.log(_ORDERS[0] / scale), math.log(_ORDERS[1] / least))
    if orders[0] >= orders[1]:  # losses of about 1e-16
        raise _too_coarse(steps[0])
    found: list[tuple[float, list[Tilt]]] = []
    for share in _CAPS:
        cap = share * scale

        def tilts(log_order: float, cap: float = cap) -> list[Tilt]:
            return [Tilt(math.exp(log_order), max(cap, floor), floor) for floor in floors]

        def chernoff(log_order: float, tilts: Callable[[float], list[Tilt]] = tilts) -> float:
            logs = (
                step.count * log_sum_exp(_log_weights(own, tilt))
                for step, own, tilt in zip(steps, cells, tilts(log_order), strict=True)
            )
            return math.fsum(logs) - math.exp(log_order) * epsilon

        best = scipy.optimize.minimize_scalar(
            chernoff, bounds=orders, method="bounded", options={"xatol": 0.05, "maxiter": 40}
        )
        found.append((float(best.fun), tilts(float(best.x))))
    greatest = max(exponent for exponent, _ in found)
    kept = [tilts for exponent, tilts in found if exponent > greatest - _NEXT_TO]
    if not kept:  # numbers beyond all floats
        raise _too_coarse(steps[0])
    return [list(of_step) for of_step in zip(*kept, strict=True)], greatest


def edges_of(step: Step, where: Sequence[Tilt], allowance: float, delta: float) -> tuple[float, ...]:
    """Where to cut the losses of a kind of step, to draw them as a few outcomes. Delta grows by a share of about
    ``allowance``, for which ``delta``, about its size or less, says what of it may become infinite losses. Refused
    are losses so small and so many that their rounding, raised to be safe, would cost more than that.
    """
    edges = _edges(step, _fine_cells(step.pair), where, allowance, delta)
    order = max(tilt.order for tilt in where)
    drift = step.count * _drift(Cells.of(step.pair, edges)) * (1.0 + order)
    if drift > max(allowance, _LEAST_DRIFT):
        raise _too_coarse(step)
    return tuple(edges.tolist())


def _too_coarse(step: Step) -> ValueError:
    return ValueError(
        f"floats know total losses of {step.count} steps of {step.pair.describe()} too coarsely to "
        "draw them as outcomes: use method='strict', or estimate by method='fft'"
    )


@lru_cache(maxsize=16)
def _fine_cells(pair: DominatingPair) -> Cells:
    cells = Cells.of(pair, even_edges(pair, _FINE))
    held = (cells.log_p > -np.inf) & (cells.mean < np.inf)  # infinite losses need no cells
    return Cells(*(column[held] for column in cells))


def _centres(cells: Cells) -> Floats:
    """The means, within the cells: a mean of a difference of logarithms may be outside."""
    return np.clip(cells.mean, cells.least, cells.greatest)


def _drift(cells: Cells) -> float:
    """By how much the mean loss of a step rises because cells' means are raised by their doubt."""
    with np.errstate(invalid="ignore"):
        raised = np.clip(cells.mean + cells.doubt, cells.least, cells.greatest) - _centres(cells)
    return float(np.sum(np.where(np.isfinite(raised), raised, 0.0) * np.exp(cells.log_p)))


def floor_of(losses: Floats, log_p: Floats) -> float:
    """Where a tilt stops falling: a finite loss that all but 1e-12 of ``P`` is not below."""
    place = int(np.searchsorted(np.cumsum(np.exp(log_p)), _RARE, side="right"))
    rest = losses[min(place, losses.size - 1) :]
    return float(rest[np.isfinite(rest)][0])


def rough_size(losses: Floats, log_p: Floats, count: int) -> float:
    return math.sqrt(count * float(np.sum(np.exp(log_p) * np.clip(losses, -50.0, 50.0) ** 2)))


def _log_weights(cells: Cells, tilt: Tilt) -> Floats:
    """``log`` of the tilted mass of each cell, at its mean; only how much delta grows rests on it."""
    return cells.log_p + tilt.height(_centres(cells))


def _edges(step: Step, cells: Cells, where: Sequence[Tilt], allowance: float, delta: float) -> Floats:
    """Edges of cells, as few as keep within the allowance.

    To spread a loss over a width ``w`` raises ``e^{order loss}`` by about ``order (order + 1) w^2 / 12`` of itself.
    With the density ``f`` of the tilted loss the sum of that over cells is least for widths in proportion to
    ``f^{-1/3}``. The rule is one for narrow cells, so no cell is wide. All that rests on it is how much delta grows.
    """
    pair = step.pair
    log_beyond = pair.log_mass(Measure.P, cells.high, np.full(cells.high.size, np.inf))
    rare = math.log(_SHARE_OF_INFINITE * allowance) + math.log(max(delta, 1e-300)) - math.log(step.count)
    kept = int(np.searchsorted(-log_beyond, -rare)) + 1  # what is beyond may become infinite
    high, least, greatest = (x[:kept] for x in (cells.high, cells.least, cells.greatest))
    costs = np.zeros(high.size)
    for tilt in where:
        order, weights = max(tilt.order, 1.0), _log_weights(cells, tilt)[:kept]
        costs = np.maximum(costs, order * (order + 1.0) * np.exp(weights - log_sum_exp(weights)))
    with np.errstate(invalid="ignore"):
        width = np.where(np.isfinite(greatest - least), greatest - least, 0.0)
    density = np.cumsum(np.cbrt(costs * width**2))
    number = math.ceil(math.sqrt(step.count / 12 * density[-1] ** 3 / allowance))
    places = np.linspace(0.0, density[-1], min(max(number, _FEWEST_CELLS), _FINE) + 1)
    inner = np.interp(places, np.concatenate(([0.0], density)), np.concatenate((high[:1], high)))
    if not np.isfinite(inner).any():  # all that counts is an atom at the top
        inner = np.sort(np.append(high[:1], pair.flats))
    inner = inner[np.isfinite(inner)]
    if not inner.size:
        raise _too_coarse(step)
    bottom, top = (float(pair.privacy_loss(t)) for t in (inner[0], inner[-1]))
    coarse = [inner, high[-1:], pair.flats.reshape(-1)]
    for tilt in where:
        order, capped = max(tilt.order, 1.0), min(max(tilt.cap, bottom), top)
        # what is moved up from far below stays without weight
        start = min(max(bottom, -1.0 / order), capped)
        wide = ((start, capped, order), (capped, top, 1.0))
        coarse += [pair.point(np.linspace(a, b, min(2 + math.ceil((b - a) * x), _FINE))) for a, b, x in wide]
    edges = np.unique(np.concatenate(coarse))
    return edges[np.isfinite(edges)]
