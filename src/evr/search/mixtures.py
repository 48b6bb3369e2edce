"""Choosing how laws in many dimensions are drawn. It may be wrong without harm.

In the remove direction that is order ``k``, or scaled means where no table is affordable, or order
``k`` in a share of the samples and scaled means in the rest: the one bounds samples, the other
carries the excess over epsilon by one pattern. In the add direction it is a shift. What is chosen
is decided by the samples that a verification is expected to take, on samples of a stream of its
own. docs/guarantees_highdim.md, Section 4.4.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
from scipy.optimize import minimize_scalar

from evr.bounds.moments import log_peak
from evr.bounds.tilt import Tilt
from evr.laws import Direction, DominatingPair, Step
from evr.laws.mixture.bins import Bins
from evr.laws.mixture.law import MixtureLaw
from evr.laws.mixture.min_sep import MinSep
from evr.randomness import Stream
from evr.sampling.mixtures import MixtureProposal
from evr.sampling.parts import affords, part_of
from evr.sampling.plan import Kind, Plan
from evr.search.clipping import choose_clip
from evr.search.tuning import floor_of

Laws = list[tuple[MixtureLaw, int]]

TUNING = Stream(entropy=0, purpose="tuning")
"""Samples that choose: never those of an estimate or a verification, whatever their seed."""

_PILOT = 4096  # samples that judge a candidate
_CLIPPED = 0.9995  # quantile beyond which samples are cut: single ones must not rule
_MOST_ORDER = 24
_SHARES = (0.3, 0.6)  # of order k beside scaled means
_CELLS = 4096  # of steps on a line


@dataclass(frozen=True)
class Goal:
    """What is to be verified: delta below ``threshold`` at ``epsilon``, estimated as ``delta``; or
    that delta is to be estimated, where there is no threshold.
    """

    epsilon: float
    delta: float = math.nan
    threshold: float = math.inf

    def merit(self, proposal: MixtureProposal) -> float:
        """How fast the claim would be accepted, by a few samples and the proved bound; of an
        estimate, how small its variance is.
        """
        drawn = proposal.draw(TUNING.block(0), min(_PILOT, 16 * proposal.block_size()))
        if self.threshold == math.inf:
            values = drawn.values(self.epsilon, proposal.log_greatest(self.epsilon))
            mean = float(values.mean())
            return -float((values**2).mean()) / mean**2 if mean > 0 else -math.inf
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
        return clip.growth


def mixture_plan(steps: tuple[Step, ...], epsilon: float, delta: float, threshold: float) -> Plan:
    """The plan of one direction; ``delta`` is an estimate of the greater of both."""
    return mixture_proposal(steps, Goal(epsilon, delta, threshold)).plan()


def estimating_proposal(steps: tuple[Step, ...], epsilon: float) -> MixtureProposal:
    """What to estimate delta at an epsilon with: bounded samples of little variance."""
    return mixture_proposal(steps, Goal(epsilon))


def plain_plan(steps: tuple[Step, ...]) -> Plan:
    """Plain sampling from the laws."""
    direction = _laws(steps)[0][0].direction
    plain = {"shift": -0.0} if direction is Direction.ADD else {"scale": 1.0, "odds": 1.0}
    return with_lines(steps, plain, 0.0).plan()


def mixture_proposal(steps: tuple[Step, ...], goal: Goal) -> MixtureProposal:
    """The best candidate."""
    found = _shifted if _laws(steps)[0][0].direction is Direction.ADD else _remove
    candidates = list(found(steps, goal))
    return candidates[0] if len(candidates) == 1 else max(candidates, key=goal.merit)


def _laws(steps: tuple[Step, ...]) -> Laws:
    return [(s.law, s.count) for s in steps if isinstance(s.law, MixtureLaw)]


def _shifted(steps: tuple[Step, ...], goal: Goal) -> Iterator[MixtureProposal]:
    """The shift with the least bound on samples, and one a little greater, which lowers the second
    moment; or the first that needs no sample.
    """

    def shifted(log_theta: float) -> MixtureProposal:
        return with_lines(steps, {"shift": -math.exp(log_theta)}, math.exp(log_theta))

    def log_bound(log_theta: float) -> float:
        return shifted(log_theta).log_greatest(goal.epsilon)

    grid, values = np.log([1.0, 3.0, 9.0, 27.0]), list[float]()
    for x in grid:
        values.append(log_bound(x))
        if values[-1] <= math.log(goal.threshold) - 0.01 and goal.threshold < math.inf:
            yield shifted(x)
            return
    best = grid[int(np.argmin(values))]
    found = minimize_scalar(
        log_bound,
        bounds=(best - 1.1, best + (1.1 if best < grid[-1] else 2.0)),
        method="bounded",
        options={"xatol": 0.05, "maxiter": 12},
    )
    for more in (1.0, 1.2):
        yield shifted(float(found.x) + math.log(more))


def _remove(steps: tuple[Step, ...], goal: Goal) -> Iterator[MixtureProposal]:
    """The order or scale with the least bound on samples; and, of one training, that order beside
    scaled means that take one bin to epsilon.
    """
    bounding = min(_bounded(steps, goal), key=lambda one: one.log_greatest(goal.epsilon))
    yield bounding
    (law, count), *others = _laws(steps)
    if "order" in bounding.numbers and isinstance(law, Bins) and count == 1 and not others:
        excess = math.log(math.expm1(goal.epsilon)) if goal.epsilon > 0 else -20.0
        scale = max((math.log(law.bins) + excess) / law.greatest_energy + 0.5, 1.5)
        for share in _SHARES:
            both = {**bounding.numbers, "scale": scale, "odds": 1.0, "share": share}
            yield with_lines(steps, both, bounding.order)


def _bounded(steps: tuple[Step, ...], goal: Goal) -> Iterator[MixtureProposal]:
    """Scaled means, and whole orders with an affordable table, until the bound rises."""
    laws, values = _laws(steps), list[float]()
    scaled = _scaled(laws, goal.epsilon)
    yield with_lines(steps, scaled, scaled["scale"] - 1.0)
    for order in range(2, _MOST_ORDER + 1):
        if not all(affords(law, order) for law, _ in laws):
            return
        one = with_lines(steps, {"order": float(order)}, order - 1.0)
        yield one
        values.append(one.log_greatest(goal.epsilon))
        if values[-1] > min(values) + (0.1 if len(values) > 3 else 3.0):
            return  # past the best: the bound is convex in the order


def _scaled(laws: Laws, epsilon: float) -> dict[str, float]:
    """The scale at which scaled means bound samples best, about, and then the odds."""

    def log_bound(more: float, odds: float) -> float:
        numbers = {"scale": 1.0 + more, "odds": odds}
        log_moment = math.fsum(n * part_of(law, numbers).log_normaliser for law, n in laws)
        return log_moment + log_peak(more) - more * epsilon

    chains = any(isinstance(law, MinSep) for law, _ in laws)
    more = min(np.geomspace(0.05, 33.0, 27).tolist(), key=lambda x: log_bound(x, 1.0 + chains))
    odds = 1.0
    if chains:
        found = minimize_scalar(
            lambda x: log_bound(more, math.exp(x)),
            bounds=(0.0, 4.6),
            method="bounded",
            options={"maxiter": 12, "xatol": 0.05},
        )
        odds = math.exp(float(found.x))
    return {"scale": 1.0 + more, "odds": odds}


def with_lines(
    steps: tuple[Step, ...], numbers: Mapping[str, float], order: float
) -> MixtureProposal:
    """The proposal, with steps on a line tilted by that order without a cap that could be
    reached.
    """
    kinds = [
        Kind(_uncapped(s.law, order) if isinstance(s.law, DominatingPair) else Tilt())
        for s in steps
    ]
    cells = _CELLS if any(isinstance(s.law, DominatingPair) for s in steps) else 0
    return MixtureProposal(steps, numbers, kinds, cells)


def _uncapped(pair: DominatingPair, order: float) -> Tilt:
    """A tilt of the greatest loss, or of one that no draw reaches."""
    if order <= 0:
        return Tilt()
    floor = floor_of(pair)
    top = pair.loss_range[1]
    if not math.isfinite(top):
        top = float(pair.privacy_loss(pair.span(order)[1]))
    return Tilt(order, max(1.01 * abs(top), 1e-9), min(floor, 0.0))
