"""Choosing the components of a mixture, for laws in many dimensions. It may be wrong without harm.

A dictionary of components is made for each law; weights come from a fixed point that lowers the
second moment of samples, ``alpha_c <- alpha_c E[X^2 d_c / d] / E[X^2]``, on samples of a stream of
their own. One component is as good as a tilt, so that samples have a proved bound; which one, and
what share it has, is decided by the samples that a verification is expected to take.
docs/guarantees_highdim.md, Section 4.4.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from scipy.optimize import minimize_scalar

from evr.bounds.bins import log_inverse
from evr.bounds.tilt import Tilt
from evr.laws import Direction, DiscretePair, DominatingPair, Floats, Step, outcomes
from evr.laws.mixture.bins import IndependentBins
from evr.laws.mixture.law import MixtureLaw
from evr.randomness import Stream
from evr.sampling.line import on_outcomes, spread_steps
from evr.sampling.mixtures import Component, MixtureProposal
from evr.sampling.plan import Kind, Plan
from evr.search.capped import GROWTH
from evr.search.clipping import choose_clip
from evr.search.dictionaries import (
    Laws,
    Parts,
    best_scale,
    bounded_orders,
    dictionary,
    inverse_part,
    plain_part,
    rough_inverse,
    scaled_parts,
)
from evr.search.merging import edges_of
from evr.search.tuning import floor_of

TUNING = Stream(entropy=0, purpose="tuning")
"""Samples that choose: never those of an estimate or a verification, whatever their seed."""

_PILOT = 4096  # samples that judge a candidate
_ROUNDS, _SAMPLES = 8, 4096  # of the fixed point
_KEPT = (30, 16, 10, 7, 6, 6, 5, 5)  # components after each round: near ones share what is needed
_CLIPPED = 0.9995  # quantile of X^2 beyond which it is cut: single samples must not rule
_DROPPED = 0.015  # weight below which a component is left out
_MOST_EPSILON = 690.0  # bounds on bins hold e^epsilon
_SHARES = (0.15, 0.4, 0.7)  # of the component that bounds samples


class Judged(NamedTuple):
    """A candidate, and how good it is."""

    merit: float
    proposal: MixtureProposal


@dataclass(frozen=True)
class Goal:
    """What is to be verified: delta below ``threshold`` at ``epsilon``, estimated as ``delta``; or
    that delta is to be estimated, where there is no threshold.
    """

    epsilon: float
    delta: float = math.nan
    threshold: float = math.inf

    def judge(self, proposal: MixtureProposal) -> Judged:
        """How fast the claim would be accepted, by a few samples and the proved bound; of an
        estimate, how small its variance is.
        """
        drawn = proposal.draw(TUNING.block(0), min(_PILOT, 16 * proposal.block_size()))
        if self.threshold == math.inf:
            values = drawn.values(self.epsilon, proposal.log_greatest(self.epsilon))
            mean = float(values.mean())
            return Judged(-float((values**2).mean()) / mean**2 if mean > 0 else -math.inf, proposal)
        values = drawn.values(self.epsilon, math.log(self.threshold))
        with np.errstate(over="ignore"):  # of a claim that is false by hundreds of digits
            variance = float(np.var(np.minimum(values, np.quantile(values, _CLIPPED))))
        clip = choose_clip(
            proposal,
            self.epsilon,
            log_unit=math.log(self.threshold),
            estimate=min(self.delta / self.threshold, 0.999),
            rounding=0.0,
            variance=max(variance, 1e-3),
        )
        return Judged(clip.growth, proposal)


def mixture_plan(steps: tuple[Step, ...], epsilon: float, delta: float, threshold: float) -> Plan:
    """The plan of one direction; ``delta`` is an estimate of the greater of both."""
    return mixture_proposal(steps, Goal(epsilon, delta, threshold)).plan()


def estimating_proposal(steps: tuple[Step, ...], epsilon: float) -> MixtureProposal:
    """What to estimate delta at an epsilon with: bounded samples of little variance."""
    return mixture_proposal(steps, Goal(epsilon))


def plain_plan(steps: tuple[Step, ...]) -> Plan:
    """Plain sampling from the laws."""
    parts = [plain_part(s.law) for s in steps if isinstance(s.law, MixtureLaw)]
    return with_lines(steps, [Component.of(1.0, *parts)], 0.0).plan()


def mixture_proposal(steps: tuple[Step, ...], goal: Goal) -> MixtureProposal:
    """The best candidate."""
    laws = [(s.law, s.count) for s in steps if isinstance(s.law, MixtureLaw)]
    if goal.epsilon > _MOST_EPSILON and any(isinstance(law, IndependentBins) for law, _ in laws):
        raise ValueError(
            f"epsilon={goal.epsilon!r} is above {_MOST_EPSILON:g}, and e^epsilon is no float: bins "
            "are not sampled there. Ask at a smaller epsilon; delta is no greater at this one"
        )
    if laws[0][0].direction is Direction.ADD:
        return _add(steps, laws, goal)
    return _remove(steps, laws, goal)


# --- add direction --------------------------------------------------------------------------------


def _add(steps: tuple[Step, ...], laws: Laws, goal: Goal) -> MixtureProposal:
    """One component, of the inverse order with the least bound on samples."""

    def built(theta: float) -> MixtureProposal:
        parts = [inverse_part(law, theta) for law, _ in laws]
        return with_lines(steps, [Component.of(1.0, *parts)], theta)

    lines = any(isinstance(step.law, DominatingPair) for step in steps)

    def log_bound(log_theta: float) -> float:
        theta = math.exp(log_theta)
        if lines:
            return built(theta).log_greatest(goal.epsilon)
        log_moment = math.fsum(count * rough_inverse(law, theta) for law, count in laws)
        return log_inverse(theta, log_moment, goal.epsilon)

    grid = np.log([1.0, 3.0, 9.0, 27.0])
    values = []
    for x in grid:
        values.append(log_bound(x))
        if values[-1] <= math.log(goal.threshold) - 0.01 and goal.threshold < math.inf:
            return built(math.exp(x))  # accepted without a sample
    best = int(np.argmin(values))
    ends = (
        grid[max(best - 1, 0)] - (best == 0),
        grid[min(best + 1, grid.size - 1)] + 2.0 * (best == grid.size - 1),
    )
    found = minimize_scalar(
        log_bound, bounds=ends, method="bounded", options={"xatol": 0.05, "maxiter": 12}
    )
    # a little more lowers the second moment
    thetas = [math.exp(float(found.x)) * factor for factor in (1.0, 1.2)]
    return max((goal.judge(built(theta)) for theta in thetas), key=lambda one: one.merit).proposal


# --- remove direction -----------------------------------------------------------------------------


def _remove(steps: tuple[Step, ...], laws: Laws, goal: Goal) -> MixtureProposal:
    """Components of the dictionary with the best weights, and one that bounds samples."""
    bounding = _bounding(steps, laws, goal)
    candidates = [with_lines(steps, [Component.of(1.0, *bounding.parts)], bounding.order)]
    families = dictionary(laws, goal.epsilon)
    if families:
        scaled = Component.of(1.0, *families[0])
        if with_lines(steps, [scaled], 0.0).scaled_means is not None:
            alone = [Component.of(1 / len(families), *f) for f in families]
            candidates.append(with_lines(steps, tuned(steps, alone, goal), 0.0))
        candidates += _with_shares(steps, families, bounding, goal)
    return max((goal.judge(one) for one in candidates), key=lambda one: one.merit).proposal


class Bounding(NamedTuple):
    """A component that bounds samples, and the order of the tilt that it is as good as."""

    log_bound: float
    order: float
    parts: Parts


def _bounding(steps: tuple[Step, ...], laws: Laws, goal: Goal) -> Bounding:
    """The least bound on samples, among whole orders with an affordable table and scaled means."""

    def bounding(parts: Parts, order: float) -> Bounding:
        one = with_lines(steps, [Component.of(1.0, *parts)], order)
        return Bounding(one.log_greatest(goal.epsilon), order, parts)

    scale = best_scale(laws, goal.epsilon)
    found = [bounding(scaled_parts(laws, scale), scale - 1.0)]
    orders: list[float] = []
    for order in bounded_orders(laws):
        found.append(bounding(tuple({"order": float(order)} for _ in laws), order - 1.0))
        orders.append(found[-1].log_bound)
        if orders[-1] > min(orders) + (0.1 if len(orders) > 3 else 3.0):
            break  # past the best: the bound is convex in the order
    return min(found, key=lambda one: one.log_bound)


def _with_shares(
    steps: tuple[Step, ...], families: Sequence[Parts], bounding: Bounding, goal: Goal
) -> list[MixtureProposal]:
    """Mixtures of the dictionary with some share of the component that bounds samples."""
    first = [Component.of(1 / (1 + len(families)), *f) for f in (bounding.parts, *families)]
    weights = tuned(steps, first, goal, order=bounding.order, keep_first=True)
    found = []
    for share in _SHARES:
        rest = math.fsum(c.weight for c in weights[1:])
        if rest == 0:
            break
        others = [Component(c.weight / rest * (1 - share), c.parts) for c in weights[1:]]
        first_one = Component.of(share, *bounding.parts)
        found.append(with_lines(steps, [first_one, *others], bounding.order))
    return found


def tuned(
    steps: tuple[Step, ...],
    components: Sequence[Component],
    goal: Goal,
    *,
    order: float = 0.0,
    keep_first: bool = False,
) -> list[Component]:
    """Weights that lower the second moment, by a fixed point; light components are dropped."""
    chosen = list(components)
    for number in range(_ROUNDS):
        proposal = with_lines(steps, chosen, order)
        shares = second_moment_shares(proposal, goal.epsilon, number)
        new = np.array([c.weight for c in chosen]) * shares
        if not np.all(np.isfinite(new)) or new.sum() <= 0:
            break
        new = np.maximum(new / new.sum(), 1e-6)
        kept = np.sort(np.argsort(-new)[: _KEPT[number]])
        kept = kept[(new[kept] >= _DROPPED) | (number < _ROUNDS // 2)]
        kept = np.union1d(kept, [0]) if keep_first else kept
        chosen, new = [chosen[i] for i in kept], new[kept] / new[kept].sum()
        chosen = [Component(float(w), c.parts) for w, c in zip(new, chosen, strict=True)]
    total = math.fsum(c.weight for c in chosen)
    return [Component(c.weight / total, c.parts) for c in chosen]


def second_moment_shares(proposal: MixtureProposal, epsilon: float, number: int) -> Floats:
    """``E[X^2 d_c / d] / E[X^2]`` of each component, on samples of a block of the tuning stream."""
    size = min(_SAMPLES, 4 * proposal.block_size())
    values, log_densities, log_density = proposal.judged(TUNING.block(number + 1), size, epsilon)
    squares = np.minimum(values, np.quantile(values, _CLIPPED)) ** 2
    total = float(squares.sum())
    if total <= 0:
        return np.ones(len(proposal.components))
    ratios = np.exp(np.minimum(np.nan_to_num(log_densities - log_density), 50.0))
    return np.asarray(ratios @ squares / total)


def with_lines(
    steps: tuple[Step, ...], components: Sequence[Component], order: float
) -> MixtureProposal:
    """The mixture, with steps on a line as outcomes, tilted by that order without a cap that could
    be reached.
    """
    kinds = [
        _uncapped(s.law, s.count, order) if isinstance(s.law, DominatingPair) else Kind(Tilt())
        for s in steps
    ]
    return MixtureProposal(steps, components, kinds)


@lru_cache(maxsize=256)
def _uncapped(pair: DominatingPair, count: int, order: float) -> Kind:
    """A tilt up to the greatest outcome."""
    step, edges = Step(pair, count), None
    if not isinstance(outcomes(pair), DiscretePair):
        top = float(pair.privacy_loss(pair.span(order)[1]))
        edges = edges_of(step, [Tilt(max(order, 1.0), top, min(top, -1.0))], GROWTH, 0.0)
    drawn = on_outcomes(spread_steps([step], [Kind(Tilt(), edges)])[0])
    if order <= 0:
        return Kind(Tilt(), edges)
    return Kind(Tilt(order, float(drawn.losses[-1]), min(floor_of(drawn), 0.0)), edges)
