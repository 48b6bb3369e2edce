"""Where to put the losses of several steps: few places, such that delta hardly grows.

Nothing rests on what is found here but how much delta grows (docs/guarantees.md, Section 3.10).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from evr.bounds.composing import MOST_PLACES, Composing, Masses, Places, composed, products
from evr.bounds.spreading import spread_to_edges
from evr.bounds.tilt import Tilt
from evr.laws import DiscretePair, Floats, Step, outcomes
from evr.laws.line.pair import UNIT, log_sum_exp
from evr.sampling.plan import Kind
from evr.sampling.proposals import spread_steps
from evr.sampling.samplers import identity
from evr.sampling.samplers.alias import AliasSampler
from evr.search.merging import edges_of, where_it_counts
from evr.search.tuning import capped_proposal

_FEWEST, _MOST = 8, 16  # composites that take the place of all steps
_GROUPS = 128  # outcomes of the second law that places are chosen by
_KNOTS = 72
_FEWEST_PLACES = 200
_BEYOND = 10.0  # over epsilon: a jump to there is as good as one to infinity
_SHARE_BELOW = 1e-3  # of the allowance, for what is raised to the first place


def best_size(count: int) -> int:
    """Steps of a composite: all, if they are few; of the sizes that leave 8 to 16, that with the
    fewest products, then the fewest steps left over.
    """
    if count <= 2 * _MOST:
        return count

    def cost(size: int) -> float:
        whole, left = divmod(count, size)
        return 8.0 * len(products(size)) + whole + left

    return min({count // number for number in range(_FEWEST, _MOST + 1)}, key=cost)


def composed_kinds(
    steps: tuple[Step, ...],
    tilts: Sequence[Tilt],
    epsilon: float,
    delta: float,
    allowance: float,
) -> tuple[Kind, ...] | None:
    """How to draw each kind of step, on outcomes and composed, such that delta grows by a share of
    about ``allowance``; None where there is nothing to compose. ``tilts`` are good ones of the
    steps.
    """
    if max(step.count for step in steps) < _MOST:
        return None
    spreads = [len(products(best_size(step.count))) + 1 for step in steps]
    each, kinds = allowance / sum(spreads), list[Kind]()
    for step, where in zip(steps, where_it_counts(steps, tilts, epsilon), strict=True):
        pair, edges = outcomes(step.pair), None
        if not isinstance(pair, DiscretePair):
            edges = edges_of(step, where, each, delta)
            if edges is None:
                return None
            pair = spread_to_edges(step.pair, np.array(edges))
        # Sums go below what one step can lose, and count for less there.
        where = [replace(tilt, floor=step.count * min(tilt.floor, -1.0)) for tilt in where]
        how = _composing(Step(pair, step.count), where, epsilon, each) if step.count > 1 else None
        kinds.append(Kind(Tilt(), edges, identity(AliasSampler), how))
    return _tilted(steps, kinds, epsilon)


def _tilted(steps: tuple[Step, ...], kinds: list[Kind], epsilon: float) -> tuple[Kind, ...] | None:
    """The kinds with the best tilts; steps that are left over by composing share those of the
    composites.
    """
    drawn = [
        kind.composing.steps(step)[0] if kind.composing else step
        for step, kind in zip(spread_steps(steps, [x.edges for x in kinds]), kinds, strict=True)
    ]
    found = capped_proposal(drawn, epsilon)
    if not all(tilt.order > 0 for tilt in found.tilts):
        return None
    return tuple(replace(x, tilt=tilt) for x, tilt in zip(kinds, found.tilts, strict=True))


def _composing(step: Step, where: Sequence[Tilt], epsilon: float, allowance: float) -> Composing:
    """How to compose the equal steps of a pair on outcomes, such that delta grows by a share of
    about ``allowance`` with each product.
    """
    assert isinstance(step.law, DiscretePair)
    size = best_size(step.count)
    schedule = products(size)
    one = Masses.of(step.law)
    steps, found = 1, list[Places]()
    for number, squared in enumerate(schedule):
        law = composed(step.law, tuple(schedule[:number]), tuple(found))
        steps = 2 * steps if squared else steps + 1
        other = law if squared else one
        found.append(_places(law, other, where, epsilon, step.count / steps, allowance))
    return Composing(size, tuple(found))


def _places(
    a: Masses, b: Masses, tilts: Sequence[Tilt], epsilon: float, uses: float, allowance: float
) -> Places:
    """Places of the sum of two laws: narrow where the tilted sum is, with widths in proportion to
    the cube root of its density (search/merging.py has the rule), none wide.
    """
    losses, masses = _summed(a, b)
    greatest = float(a.losses[-1] + b.losses[-1])
    greatest += 4.0 * UNIT * abs(greatest)  # sums are rounded up, and beyond the top is infinity
    top = min(greatest, max(epsilon, 0.0) + _BEYOND)
    with np.errstate(divide="ignore"):
        log_masses, log_below = np.log(masses), np.log(np.cumsum(masses))
    costs, first = np.zeros(losses.size), losses.size
    for tilt in tilts:
        order, heights = max(tilt.jump_order or tilt.order, 1.0), tilt.height(losses)
        log_weights = log_masses + heights
        log_total = log_sum_exp(log_weights)
        costs = np.maximum(costs, order * (order + 1.0) * np.exp(log_weights - log_total))
        share = log_below + heights - log_total  # of what would be raised to the place
        raised = share > np.log(_SHARE_BELOW * allowance / uses)
        first = min(first, int(np.argmax(raised)))
    ends = np.linspace(first, np.searchsorted(losses, top), 4 * _KNOTS).astype(int)
    ends = np.unique(np.clip(ends, first, losses.size - 1))
    edges = np.unique(np.append(losses[ends], top)) if top > losses[first] else losses[first:]
    edges = edges[edges <= top]
    held = np.searchsorted(edges, losses, side="left")
    costs = np.bincount(held, costs, edges.size + 1)[1 : edges.size].astype(np.float64)
    widths = np.diff(edges)
    density = np.cbrt(costs * widths**2)
    number = np.sqrt(uses / 12.0 * density.sum() ** 3 / allowance)
    wanted = density * (max(number, _FEWEST_PLACES) / max(density.sum(), 1e-300))
    for tilt in tilts:
        order = max(tilt.jump_order or tilt.order, 1.0)
        rate = np.where(edges[:-1] < tilt.cap, order, 1.0)
        wanted = np.maximum(wanted, np.where(edges[:-1] > -1.0 / order, rate * widths, 0.0))
    cumulated = np.concatenate(([0.0], np.cumsum(wanted)))
    knots = np.interp(np.linspace(0.0, cumulated[-1], _KNOTS + 1), cumulated, edges)
    parts = min(int(np.ceil(cumulated[-1] / _KNOTS)), MOST_PLACES // _KNOTS)
    return Places(tuple(np.unique(knots).tolist()), parts)


def _summed(a: Masses, b: Masses) -> tuple[Floats, Floats]:
    """Losses and masses of sums, about: neighbouring outcomes of ``b`` are taken together, at the
    least of their losses. Of a square only those where it has the smaller loss, so that the greater
    is as fine as it is.
    """
    starts = np.unique(np.linspace(0, b.losses.size, _GROUPS + 1).astype(int))[:-1]
    least, grouped = b.losses[starts], np.add.reduceat(b.masses, starts)
    losses, masses = np.add.outer(a.losses, least), np.multiply.outer(a.masses, grouped)
    chosen = np.add.outer(a.losses, -least) >= 0 if a is b else masses >= 0
    order = np.argsort(losses[chosen], kind="stable")
    return losses[chosen][order], masses[chosen][order]
