"""Choosing how laws in many dimensions are drawn. It may be wrong without harm.

In the remove direction that is order ``k``, or scaled means where no table is affordable; in the add direction it is a
shift. Where there are several candidates, the samples that a verification is expected to take decide, on samples of a
stream of its own. docs/guarantees_highdim.md, Section 4.4.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import scipy

from evr.bounds.moments import Tilt
from evr.laws import Direction, DiscretePair, DominatingPair, Floats, Step, outcomes
from evr.laws.patterns.law import PatternLaw, ReplacedPatterns
from evr.laws.patterns.min_sep import MinSep
from evr.planning.capped import GROWTH
from evr.planning.clipping import block_size, choose_clip
from evr.planning.merging import edges_of, floor_of
from evr.randomness import Stream
from evr.sampling import Proposal
from evr.sampling.drawing import drawing_of
from evr.sampling.line import on_outcomes, spread_steps
from evr.sampling.mixtures import MixtureProposal, affords, log_height, loss_order, part_of
from evr.sampling.plan import ByOrder, ByScale, ByShift, Kind, MixturePlan

Laws = list[tuple[PatternLaw, int]]

TUNING = Stream(entropy=0, purpose="tuning")
"""Samples that choose: never those of an estimate or a verification, whatever their seed."""

_PILOT = 8192  # samples that judge a candidate
_CLIPPED = 0.9995  # quantile beyond which samples are cut: single ones must not rule
_MOST_ORDER = 24
_CELLS = 4096  # of steps on a line


@dataclass(frozen=True)
class Goal:
    """To verify that delta is below ``threshold``, estimated as ``delta``; or, without a threshold, to estimate it."""

    epsilon: float
    delta: float
    threshold: float

    def merit(self, proposal: MixtureProposal) -> float:
        """How fast the claim would be accepted, as a few samples show it; how small the variance of an estimate is."""
        drawn = proposal.draw(TUNING.block(0), min(_PILOT, 16 * block_size(proposal)))
        if self.threshold == math.inf:
            values = drawn.values(self.epsilon, proposal.log_greatest(self.epsilon))
            mean = float(values.mean())
            return -float((values**2).mean()) / mean**2 if mean > 0 else -math.inf
        clip = choose_clip(
            drawing_of(proposal, self.epsilon),
            log_unit=math.log(self.threshold),
            estimate=min(self.delta / self.threshold, 0.999),
            rounding=0.0,
            variance=_variance(drawn.values(self.epsilon, math.log(self.threshold))),
        )
        return clip.growth


def pilot_variance(proposal: Proposal, epsilon: float, threshold: float) -> float:
    """The variance of samples in units of the threshold, but for the greatest, as a few show it."""
    drawn = proposal.draw(TUNING.block(1), min(_PILOT, 16 * block_size(proposal)))
    return _variance(drawn.values(epsilon, math.log(threshold)))


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
    """The best candidate; ``delta`` is an estimate of the greater of both directions."""
    goal = Goal(epsilon, delta, threshold)
    found = _shifted if _laws(steps)[0][0].direction is Direction.ADD else _remove
    candidates = list(found(steps, goal))
    return candidates[0] if len(candidates) == 1 else max(candidates, key=goal.merit)


def _laws(steps: tuple[Step, ...]) -> Laws:
    return [(s.law, s.count) for s in steps if isinstance(s.law, PatternLaw)]


def _shifted(steps: tuple[Step, ...], goal: Goal) -> Iterator[MixtureProposal]:
    """The shift of the least bound on samples, and a greater one of less variance; or the first without samples."""

    def shifted(log_theta: float) -> MixtureProposal:
        return with_lines(steps, ByShift(-math.exp(log_theta)), math.exp(log_theta))

    def log_bound(log_theta: float) -> float:
        return shifted(log_theta).log_greatest(goal.epsilon)

    grid, values = np.log([1.0, 3.0, 9.0, 27.0]), list[float]()
    for x in grid:
        values.append(log_bound(x))
        if values[-1] <= math.log(goal.threshold) - 0.01 and goal.threshold < math.inf:
            yield shifted(x)
            return
    best = grid[int(np.argmin(values))]
    found = scipy.optimize.minimize_scalar(
        log_bound,
        bounds=(best - 1.1, best + (1.1 if best < grid[-1] else 2.0)),
        method="bounded",
        options={"xatol": 0.05, "maxiter": 12},
    )
    for more in (1.0, 1.2):
        yield shifted(float(found.x) + math.log(more))


def _remove(steps: tuple[Step, ...], goal: Goal) -> Iterator[MixtureProposal]:
    """The order or scale with the least bound on samples; under replacement, where bounds are loose and what varies
    least may be what is bounded by 1, all of them and plain sampling.
    """
    if isinstance(_laws(steps)[0][0], ReplacedPatterns):
        yield from _bounded(steps, goal)
        yield with_lines(steps, ByScale(1.0, 1.0), 0.0)
    else:
        yield min(_bounded(steps, goal), key=lambda one: one.log_greatest(goal.epsilon))


def _bounded(steps: tuple[Step, ...], goal: Goal) -> Iterator[MixtureProposal]:
    """Scaled means, and whole orders with an affordable table, until the bound rises."""
    laws, values = _laws(steps), list[float]()
    scaled = _scaled(laws, goal.epsilon)
    yield with_lines(steps, scaled, scaled.scale - 1.0)
    for order in range(2, _MOST_ORDER + 1):
        if not all(affords(law, order) for law, _ in laws):
            return
        one = with_lines(steps, ByOrder(order), order - 1.0)
        yield one
        values.append(one.log_greatest(goal.epsilon))
        if values[-1] > min(values) + (0.1 if len(values) > 3 else 3.0):
            return  # past the best: the bound is convex in the order


def _scaled(laws: Laws, epsilon: float) -> ByScale:
    """The scale at which scaled means bound samples best, about, and then the odds."""

    def log_bound(more: float, odds: float) -> float:
        part = ByScale(1.0 + more, odds)
        log_moment = math.fsum(n * part_of(law, part).log_normaliser for law, n in laws)
        return log_moment + log_height(laws, loss_order(laws[0][0], more), epsilon)

    chains = any(isinstance(getattr(law, "base", law), MinSep) for law, _ in laws)
    more = min(np.geomspace(0.05, 33.0, 27).tolist(), key=lambda x: log_bound(x, 1.0 + chains))
    odds = 1.0
    if chains:
        found = scipy.optimize.minimize_scalar(
            lambda x: log_bound(more, math.exp(x)),
            bounds=(0.0, 4.6),
            method="bounded",
            options={"maxiter": 12, "xatol": 0.05},
        )
        odds = math.exp(float(found.x))
    return ByScale(1.0 + more, odds)


def with_lines(steps: tuple[Step, ...], part: ByOrder | ByScale | ByShift, order: float) -> MixtureProposal:
    """The proposal, with steps on a line as outcomes, tilted by that order without a cap that could be reached."""
    slope = loss_order(_laws(steps)[0][0], order)
    kinds = tuple(_uncapped(s.law, s.count, slope) for s in steps if isinstance(s.law, DominatingPair))
    return MixtureProposal(MixturePlan(part, kinds), steps)


@lru_cache(maxsize=256)
def _uncapped(pair: DominatingPair, count: int, order: float) -> Kind:
    """A tilt up to the greatest outcome."""
    step, edges = Step(pair, count), None
    if not isinstance(outcomes(pair), DiscretePair):
        top = float(pair.privacy_loss(pair.span(order)[1]))
        edges = edges_of(step, [Tilt(max(order, 1.0), top, min(top, -1.0))], GROWTH, 0.0)
    drawn = on_outcomes(spread_steps([step], [Kind(edges=edges)])[0])
    if order <= 0:
        return Kind(edges=edges)
    return Kind(Tilt(order, float(drawn.losses[-1]), min(floor_of(drawn.losses, np.array(drawn.log_p)), 0.0)), edges)
