"""Proposals for pairs on a line: capped tilts, and simple Monte Carlo (docs/guarantees.md, Sections 2 and 3)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cached_property
from typing import Self

import numpy as np
import scipy

from evr.bounds.composing import composed
from evr.bounds.moments import MomentBound, TiltedOutcomes, log_greatest
from evr.bounds.rounding import Rounding
from evr.bounds.spreading import even_edges, spread_to_edges
from evr.bounds.tilt import Tilt
from evr.laws import DiscretePair, Floats, Step, finite_part, infinite_loss_mass, infinite_mass, outcomes
from evr.sampling.outcomes import OutcomeSampler, PlainSampler
from evr.sampling.plan import CappedPlan, Kind
from evr.sampling.proposals import Block, Proposal, log_with_infinite

_CELLS = 4096
_POWERS = np.geomspace(0.05, 250.0, 24)  # what the moment bound tries where there is no tilt


class TiltedProposal(Proposal):
    """Capped exponential tilting of every step (docs/guarantees.md, Section 3). Infinite losses are kept apart (Section
    3.8). There is a tilt for each kind of step, which is on outcomes; ``composed`` are the single steps that composed
    ones stand for.

    Examples
    --------
    >>> step = Step(DiscretePair.from_probabilities([0.6, 0.4], [0.4, 0.6]), 10)
    >>> proposal = TiltedProposal([step], [Tilt(1.0, 1.0, -1.0)])
    >>> proposal.log_moment(1.0, 2.0) < 2 * proposal.log_greatest(1.0)
    True
    """

    def __init__(self, steps: Sequence[Step], tilts: Sequence[Tilt], *, composed: Sequence[Step] = ()) -> None:
        self.steps, self.composed, self.tilts = tuple(steps), tuple(composed), tuple(tilts)
        self.counts = [step.count for step in self.steps]
        self._order = max((tilt.order for tilt in self.tilts), default=0.0)
        self.infinite = infinite_mass(self.steps)
        self.bounds = tuple(
            TiltedOutcomes(on_outcomes(step), tilt) for step, tilt in zip(self.steps, self.tilts, strict=True)
        )
        self.samplers = tuple(map(OutcomeSampler, self.bounds))
        self.log_normalisers = tuple(b.log_normaliser for b in self.bounds)
        self.log_normaliser = math.fsum(n * m for n, m in zip(self.counts, self.log_normalisers, strict=True))

    @classmethod
    def from_plan(cls, plan: CappedPlan, steps: Sequence[Step]) -> Self:
        """The steps, spread to outcomes and composed where the plan says so, then tilted."""
        spread, tilts = spread_steps(steps, plan.kinds), [kind.tilt or Tilt() for kind in plan.kinds]
        if not plan.places:
            return cls(spread, tilts)
        if len(set(tilts)) > 1:
            raise ValueError(f"{len(spread)} kinds of steps that are composed have one tilt")
        whole = Step(composed(spread, plan.places), 1)
        return cls([whole], tilts[:1], composed=[Step(on_outcomes(s), s.count) for s in spread])

    def rounding(self, epsilon: float) -> Rounding:
        """Of sums without infinite losses, which are apart, and of weights."""
        own = list(zip(self.steps, self.bounds, strict=True))
        heights = abs(self.log_normaliser) + math.fsum(
            step.count * max(abs(bounds.least_height), abs(bounds.tilt.height_beyond)) for step, bounds in own
        )
        summed = [Step(bounds.pair, step.count) for step, bounds in own]
        return Rounding.of(summed, epsilon, order=self._order, heights=heights, composed=self.composed)

    @property
    def work(self) -> int:
        return sum(x.cost(step.count) for x, step in zip(self.samplers, self.steps, strict=True))

    def draw(self, generator: np.random.Generator, size: int) -> Block:
        losses, heights = np.zeros(size), np.zeros(size)
        for step, sampler in zip(self.steps, self.samplers, strict=True):
            sums = sampler.draw(generator, size, step.count)
            losses += sums.losses
            heights += sums.heights
        return Block(losses, self.log_normaliser - heights, self.infinite)

    def log_moment(self, epsilon: float, p: float) -> float:
        """By docs/guarantees.md, Section 3.5, or ``B^p``; infinite losses are added by Minkowski's inequality (3.8)."""
        of_s = MomentBound(self.counts, self.bounds, self.log_normaliser, epsilon, p)
        powers = self._order * p * np.geomspace(0.05, 8.0, 16) if self._order else _POWERS
        finite = _least(of_s, powers) / p
        return p * log_with_infinite(min(finite, self._log_greatest(epsilon)), self.infinite)

    def log_greatest(self, epsilon: float) -> float:
        return log_with_infinite(self._log_greatest(epsilon), self.infinite)

    def _log_greatest(self, epsilon: float) -> float:
        return log_greatest(self.counts, self.bounds, self.log_normaliser, epsilon)


class SimpleProposal(Proposal):
    """The paper's simple Monte Carlo: plain samples from the dominating pairs of one direction, infinite losses among
    them (docs/guarantees.md, Section 2). ``cells`` says how finely the line is cut for bounds on moments.
    """

    def __init__(self, steps: Sequence[Step], cells: int = _CELLS) -> None:
        self.steps, self._cells = tuple(steps), cells
        self.samplers = tuple(PlainSampler(outcomes(step.pair)) for step in self.steps)
        self.log_normalisers = (0.0,) * len(self.steps)

    def draw(self, generator: np.random.Generator, size: int) -> Block:
        losses = np.zeros(size)
        for step, sampler in zip(self.steps, self.samplers, strict=True):
            losses += sampler.draw(generator, size, step.count).losses
        return Block(losses, np.zeros(size))

    @cached_property
    def _spread(self) -> list[DiscretePair]:
        """Pairs on outcomes whose samples have greater moments (docs/guarantees.md, Section 2.2)."""
        pairs = (outcomes(step.pair) for step in self.steps)
        return [
            pair if isinstance(pair, DiscretePair) else spread_to_edges(pair, even_edges(pair, self._cells))
            for pair in pairs
        ]

    def log_moment(self, epsilon: float, p: float) -> float:
        """By docs/guarantees.md, Section 3.5 without a tilt, the best of some caps; at most 0."""
        counts, least = [step.count for step in self.steps], 0.0
        for cap in max(epsilon, 0.1) * np.geomspace(1.01, 60.0, 24):
            bounds = [TiltedOutcomes(pair, Tilt(0.0, float(cap))) for pair in self._spread]
            least = min(least, _least(MomentBound(counts, bounds, 0.0, epsilon, p), _POWERS))
        return least

    def log_greatest(self, epsilon: float) -> float:
        return 0.0  # plain samples are at most 1


def _least(of_s: MomentBound, powers: Floats) -> float:
    """The least bound that some powers give, and those between."""
    values = [of_s(float(s)) for s in powers]
    best = int(np.argmin(values))
    low, high = np.log(powers[[max(best - 1, 0), min(best + 1, powers.size - 1)]]).tolist()
    refined = scipy.optimize.minimize_scalar(
        lambda x: of_s(math.exp(x)), bounds=(low, high), method="bounded", options={"xatol": 1e-3}
    )
    return min(float(refined.fun), values[best])


def spread_steps(steps: Sequence[Step], kinds: Sequence[Kind]) -> tuple[Step, ...]:
    """The steps, those with edges on a few outcomes that dominate them (docs/guarantees.md, Section 3.9)."""
    if len(kinds) != len(steps):
        raise ValueError(f"the plan is for {len(kinds)} kinds of steps, and there are {len(steps)}")
    return tuple(
        step if kind.edges is None else Step(spread_to_edges(step.pair, np.array(kind.edges)), step.count)
        for step, kind in zip(steps, kinds, strict=True)
    )


def on_outcomes(step: Step) -> DiscretePair:
    """The finite part of a step's law, which must have finitely many outcomes."""
    pair = finite_part(step.pair)
    if not isinstance(pair, DiscretePair) or infinite_loss_mass(pair):
        raise ValueError(f"{pair.describe()} is not drawn as it is: a plan spreads it to finitely many outcomes")
    return pair
