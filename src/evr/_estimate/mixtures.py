"""Choosing how laws in many dimensions are drawn. It may be wrong without harm.

In the remove direction that is order ``k``, or scaled means where no table is affordable, for bins perhaps beside a few
of them at an order; in the add direction it is a shift. Where there are several candidates, the samples that a
verification is expected to take decide, on samples of a stream of its own. docs/guarantees_highdim.md, Section 4.4.
"""

import itertools
import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import lru_cache

import numpy as np

from evr._basics.randomness import Stream
from evr._estimate.capped import GROWTH, edges_of, floor_of, minimum
from evr._estimate.clipping import block_size, choose_clip
from evr._kernel.pairs import Direction, DiscretePair, DominatingPair, Floats, Step, outcomes
from evr._kernel.pairs.patterns.bins import Bins
from evr._kernel.pairs.patterns.law import PatternLaw, ReplacedPatterns
from evr._kernel.pairs.patterns.min_sep import MinSep
from evr._kernel.sampled.components import component_of
from evr._kernel.sampled.line import on_outcomes, spread_steps
from evr._kernel.sampled.mixtures import MixtureProposal, log_height, loss_order
from evr._kernel.sampled.moments import Tilt
from evr._kernel.sampled.plan import ByOrder, ByScale, ByShift, ByStar, ByWindow, MixturePlan, StepPlan
from evr._kernel.sampled.proposals import Block, Proposal, drawing_of
from evr._kernel.sampled.replica_tables import MOST_REPLICAS, affords, has_star, table_of

Laws = list[tuple[PatternLaw, int]]

TUNING = Stream(entropy=0, purpose="tuning")
"""Samples that choose: never those of an estimate or a verification, whatever their seed."""

_PILOT = 8192  # samples that judge a candidate
_CLIPPED = 0.9995  # quantile beyond which samples are cut: single ones must not rule
_MOST_ORDER = 24
_SHARES = (0.3, 0.6)  # of what bounds samples
_FIFTH = 0.2  # of an estimate's samples
_WIDEST = 8  # window
_LIFTED = 0.75
_FEW, _TOGETHER = 4, 0.65  # order of one bin, and the share of epsilon that a shift takes, where bands are wide


def _pilot(proposal: Proposal, block: int) -> Block:
    return proposal.draw(TUNING.block(block), min(_PILOT, 16 * block_size(proposal)))


def pilot_variance(proposal: Proposal, epsilon: float, threshold: float) -> float:
    """The variance of samples in units of the threshold, but for the greatest, as a few show it."""
    return _variance(_pilot(proposal, 1).values(epsilon, math.log(threshold)))


@np.errstate(over="ignore")  # of a claim that is false by hundreds of digits
def _variance(values: Floats) -> float:
    return max(float(np.var(np.minimum(values, np.quantile(values, _CLIPPED)))), 1e-3)


def plain_plan(steps: tuple[Step, ...]) -> MixturePlan:
    direction = _laws(steps)[0][0].direction
    plain = ByShift(-0.0) if direction is Direction.ADD else ByScale(1.0, 1.0)
    return with_lines(steps, plain, 0.0).plan


def mixture_proposal(
    steps: tuple[Step, ...], epsilon: float, delta: float = math.nan, threshold: float = math.inf
) -> MixtureProposal:
    """The best candidate to verify that delta is below ``threshold``, or, without one, to estimate it; ``delta`` is an
    estimate of the greater of both directions.
    """

    def merit(proposal: MixtureProposal) -> float:
        """How fast the claim would be accepted, as a few samples show it; how small the variance of an estimate is."""
        drawn = _pilot(proposal, 0)
        if threshold == math.inf:
            values = drawn.values(epsilon, proposal.log_greatest(epsilon))
            mean = float(values.mean())
            return -float(((values / mean) ** 2).mean()) if mean > 0 else -math.inf
        log_unit = math.log(threshold)
        drawing, variance = drawing_of(proposal, epsilon), _variance(drawn.values(epsilon, log_unit))
        estimate = min(delta / threshold, 0.999)
        return choose_clip(drawing, log_unit=log_unit, estimate=estimate, rounding=0.0, variance=variance).growth

    law = _laws(steps)[0][0]
    if law.direction is Direction.ADD:
        candidates = list(_shifted(steps, epsilon, threshold))
    elif isinstance(law, ReplacedPatterns):  # bounds are loose: what varies least may be what is bounded by 1
        candidates = [*_bounded(steps, epsilon), with_lines(steps, ByScale(1.0, 1.0), 0.0)]
    else:
        candidates = list(_beside(steps, epsilon))
        if threshold == math.inf:
            candidates += _scaled_beside(candidates[0], law)
    return candidates[0] if len(candidates) == 1 else max(candidates, key=merit)


def _laws(steps: tuple[Step, ...]) -> Laws:
    return [(s.floats, s.count) for s in steps if isinstance(s.floats, PatternLaw)]


def _shifted(steps: tuple[Step, ...], epsilon: float, threshold: float) -> Iterator[MixtureProposal]:
    """The shift of the least bound on samples, and a greater one of less variance; or one whose bound is below the
    threshold, where there is one.
    """

    def shifted(log_theta: float) -> MixtureProposal:
        return with_lines(steps, ByShift(-math.exp(log_theta)), math.exp(log_theta))

    def log_bound(log_theta: float) -> float:
        return shifted(log_theta).log_greatest(epsilon)

    grid, values = np.log([1.0, 3.0, 9.0, 27.0]), list[float]()
    for x in grid:
        values.append(log_bound(x))
        if values[-1] <= math.log(threshold) - 0.01 and threshold < math.inf:
            yield shifted(x)
            return
    best = grid[int(np.argmin(values))]
    least = minimum(log_bound, best - 1.1, best + (1.1 if best < grid[-1] else 2.0), most=12)
    for more in (1.0, 1.2):
        yield shifted(least + math.log(more))


def _beside(steps: tuple[Step, ...], epsilon: float) -> Iterator[MixtureProposal]:
    """The order or scale with the least bound on samples; and, of one training of bins, the same in a share of the
    samples, beside what takes a few bins to epsilon.
    """
    bounding = min(_bounded(steps, epsilon), key=lambda one: one.log_greatest(epsilon))
    yield bounding
    (law, count), *others = _laws(steps)
    if not isinstance(law, Bins) or count > 1 or others or not 0 < epsilon < 700:
        return
    if isinstance(bounding.plan.part, ByStar) and affords(law, _FEW, 1):  # all bins together carry most of it
        local = ByWindow(_FEW, 1, _TOGETHER * epsilon / law.mean.square)
        yield MixtureProposal(replace(bounding.plan, beside=local, share=_SHARES[0]), steps)
        return
    shift = _LIFTED * (bounding.order + 1.0)  # what the bound's tilt does to all bins together
    for window in {1, min(law.greatest.size, law.bins // 2, _WIDEST)}:
        if order := _local(law, epsilon, window, shift):
            for share in _SHARES:
                yield MixtureProposal(replace(bounding.plan, beside=ByWindow(order, window, shift), share=share), steps)


def _scaled_beside(bounding: MixtureProposal, law: PatternLaw) -> Iterator[MixtureProposal]:
    """For an estimate by b-min-sep: the order that bounds samples in a fifth of them, and scaled means of about as
    great a mean, which are drawn five times as fast and vary less where a record takes part more often.
    """
    if isinstance(law, MinSep) and isinstance(bounding.plan.part, ByOrder):
        for scale, odds in itertools.product((0.55, 0.7), (5.0, 9.0)):
            scaled = ByScale(max(1.5, scale * bounding.plan.part.order), odds)
            yield MixtureProposal(replace(bounding.plan, beside=scaled, share=_FIFTH), bounding.steps)


def _local(law: Bins, epsilon: float, window: int, shift: float) -> int:
    """The order at which a window's ratio takes that of all bins, which a shift raises, to epsilon; 0 if none does."""
    missing = math.exp(epsilon) - math.exp(min(shift * law.mean.square, epsilon))
    needed = math.log(max(law.bins / window * missing, 1.0))
    before = math.inf
    for order in range(2, _MOST_ORDER + 1):
        if not affords(law, order, window):
            return 0
        moment = table_of(law, order, window).log_moment
        if moment - before >= needed:
            return order - 1
        before = moment
    return 0


def _bounded(steps: tuple[Step, ...], epsilon: float) -> Iterator[MixtureProposal]:
    """Scaled means, and whole orders, by a table or around one replica, until the bound rises."""
    laws = _laws(steps)
    scaled = _scaled(laws, epsilon)
    yield with_lines(steps, scaled, scaled.scale - 1.0)
    yield from _orders(steps, epsilon, ByOrder, affords, _MOST_ORDER)
    yield from _orders(steps, epsilon, ByStar, has_star, MOST_REPLICAS)


def _orders(
    steps: tuple[Step, ...],
    epsilon: float,
    by: type[ByOrder] | type[ByStar],
    allowed: Callable[[PatternLaw, int], bool],
    most: int,
) -> Iterator[MixtureProposal]:
    """The orders that are allowed, until the bound rises, in which it is convex."""
    values = list[float]()
    for order in range(2, most + 1):
        if not all(allowed(law, order) for law, _ in _laws(steps)):
            return
        one = with_lines(steps, by(order), order - 1.0)
        yield one
        values.append(one.log_greatest(epsilon))
        if values[-1] > min(values) + (0.1 if len(values) > 3 else 3.0):
            return


def _scaled(laws: Laws, epsilon: float) -> ByScale:
    """The scale at which scaled means bound samples best, about, and then the odds."""

    def log_bound(more: float, odds: float) -> float:
        part = ByScale(1.0 + more, odds)
        log_moment = math.fsum(n * component_of(law, part).log_normaliser for law, n in laws)
        return log_moment + log_height(laws, loss_order(laws[0][0], more), epsilon)

    chains = any(isinstance(getattr(law, "base", law), MinSep) for law, _ in laws)
    more = min(np.geomspace(0.05, 33.0, 27).tolist(), key=lambda x: log_bound(x, 1.0 + chains))
    odds = math.exp(minimum(lambda x: log_bound(more, math.exp(x)), 0.0, 4.6, most=12)) if chains else 1.0
    return ByScale(1.0 + more, odds)


def with_lines(steps: tuple[Step, ...], part: ByOrder | ByStar | ByScale | ByShift, order: float) -> MixtureProposal:
    """The proposal, with steps on a line as outcomes, tilted by that order without a cap that could be reached."""
    slope = loss_order(_laws(steps)[0][0], order)
    kinds = tuple(_uncapped(s.pair, s.count, slope) for s in steps if s.is_on_a_line)
    return MixtureProposal(MixturePlan(part, kinds), steps)


@lru_cache(maxsize=256)
def _uncapped(pair: DominatingPair, count: int, order: float) -> StepPlan:
    """A tilt up to the greatest outcome."""
    step, edges = Step(pair, count), None
    if not isinstance(outcomes(pair), DiscretePair):
        top = float(pair.privacy_loss(pair.span(order)[1]))
        edges = edges_of(step, [Tilt(max(order, 1.0), top, min(top, -1.0))], GROWTH, 0.0)
    drawn = on_outcomes(spread_steps([step], [StepPlan(edges=edges)])[0])
    if order <= 0:
        return StepPlan(edges=edges)
    return StepPlan(
        Tilt(order, float(drawn.losses[-1]), min(floor_of(drawn.losses, np.array(drawn.log_p)), 0.0)), edges
    )
