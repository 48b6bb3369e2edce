"""Proposals whose samples have a law that is known: to see what a verifier does with the worst of
them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np
from scipy.stats import binom

from evr._basics.randomness import Stream
from evr._estimate.clipping import block_size, choose_clip
from evr._kernel.pairs import Floats
from evr._kernel.sampled.deciding import SequentialTest, State, sequential_test
from evr._kernel.sampled.driver import Lazily
from evr._kernel.sampled.moments import Rounding
from evr._kernel.sampled.plan import DrawPlan, SimplePlan
from evr._kernel.sampled.proposals import Block, Proposal, drawing_of
from evr._kernel.sampled.summary import summarize
from evr._kernel.verdict.attempts import Trial
from evr._kernel.verdict.results import DirectionReport
from evr._kernel.verdict.settings import Claim, Settings


class KnownLaw(Proposal):
    """Samples with finitely many values; the mean, every moment and the greatest are exact."""

    def __init__(self, values: Sequence[float], chances: Sequence[float], block: int = 256) -> None:
        self.steps = ()
        self.law, self.chances, self.block = (np.array(values, float), np.array(chances, float), block)
        assert abs(self.chances.sum() - 1) < 1e-12

    @property
    def mean(self) -> float:
        return float(self.law @ self.chances)

    def draw(self, generator: np.random.Generator, size: int) -> Block:
        values = self.law[np.searchsorted(np.cumsum(self.chances[:-1]), generator.random(size), side="right")]
        with np.errstate(divide="ignore"):
            return Block(np.where(values > 0, np.inf, -np.inf), np.log(values))

    def log_moment(self, epsilon: float, p: float) -> float:
        return math.log(float(self.law**p @ self.chances))

    def log_greatest(self, epsilon: float) -> float:
        return math.log(float(self.law.max()))


class SmallBlocks(Proposal):
    """Another proposal, in smaller blocks: less is drawn after the decision. Its bounds are
    computed once.
    """

    def __init__(self, proposal: Proposal, size: int) -> None:
        self.steps, self._inner, self.block = proposal.steps, proposal, size
        self._moment, self._greatest = cache(proposal.log_moment), cache(proposal.log_greatest)

    def rounding(self, epsilon: float) -> Rounding:
        return self._inner.rounding(epsilon)

    def draw(self, generator: np.random.Generator, size: int) -> Block:
        return self._inner.draw(generator, size)

    def log_moment(self, epsilon: float, p: float) -> float:
        return self._moment(epsilon, p)

    def log_greatest(self, epsilon: float) -> float:
        return self._greatest(epsilon)


def two_points(mean: float, greatest: float, block: int = 256) -> KnownLaw:
    """0 or the greatest value: of all laws with this mean and bound, the one with the largest
    variance.
    """
    chance = mean / greatest
    return KnownLaw([0.0, greatest], [1 - chance, chance], block)


def play(proposal: Proposal, claim: Claim, budget: float, seed: int, **options: Any) -> DirectionReport:
    """One sequential test with a false-positive budget of the caller's choice."""
    settings = Settings(**options)
    trial = Trial("remove", (), claim, settings, 1, math.log(budget), Stream(seed, "test"))
    found = trial.of_drawing(drawing_of(proposal, claim.epsilon), plan_for(proposal, claim))
    return found.play(Lazily())


def plan_for(proposal: Proposal, claim: Claim) -> DrawPlan:
    """Clip and block size; the proposal itself is given."""
    drawing = drawing_of(proposal, claim.epsilon)
    clip = choose_clip(
        drawing,
        log_unit=math.log(claim.threshold),
        estimate=claim.estimate / claim.threshold,
        rounding=drawing.rounding.weight,
    )
    block = getattr(proposal, "block", None) or block_size(proposal)
    return DrawPlan(SimplePlan(), clip=clip.clip, variance=clip.variance, block_size=block)


def sequential_of(proposal: Proposal, claim: Claim, budget: float) -> SequentialTest:
    """The sequential test of a claim with a budget of the caller's choice."""
    drawing = drawing_of(proposal, claim.epsilon)
    return sequential_test(drawing, claim, math.log(budget), plan_for(proposal, claim))


def update(test: SequentialTest, state: State, values: Floats) -> State:
    """Play one block."""
    return state.added(summarize(values, 0, test.clip, test.mean, test.stake(state)))


def acceptances(
    proposal: Proposal, claims: Sequence[Claim], budget: float, *, runs: int, blocks: int, size: int, seed: int = 5
) -> list[int]:
    """How many of several sequential tests of each claim accept within so many blocks; what a run
    does, without its records.

    All claims are tested on the same samples: each count has its law, together they are not
    independent.
    """
    generator = np.random.Generator(np.random.Philox(seed))
    tests = [sequential_of(proposal, claim, budget) for claim in claims]
    accepted = [0] * len(claims)
    for _ in range(runs):
        drawn = proposal.draw(generator, blocks * size)
        for number, (claim, test) in enumerate(zip(claims, tests, strict=True)):
            state = State()
            values = drawn.values(claim.epsilon, math.log(claim.threshold))
            for start in range(0, values.size, size):
                state = update(test, state, values[start : start + size])
                if test.accepts(state):
                    accepted[number] += 1
                    break
    return accepted


def most_of(runs: int, rate: float, failure_probability: float = 1e-6) -> int:
    """How often an event of that probability happens in so many runs, exceeded with the failure
    probability at most.
    """
    return int(binom.isf(failure_probability, runs, rate))
