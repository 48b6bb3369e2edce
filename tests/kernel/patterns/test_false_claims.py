"""False claims about schemes in many dimensions, whose deltas are known by quadrature: none passes.

A verification may accept a false claim with probability ``beta``. At the default budget that is
1e-12 or less; in the last test it is made large, and the mean is put at the threshold itself, where
the test is hardest: then the count of false accepts is compared with a binomial law.
"""

from __future__ import annotations

import math
from functools import cache

import pytest
from scipy.stats import binom

import evr
from evr._basics.randomness import Stream
from evr._kernel.events import Composition
from evr._kernel.pairs import Direction
from evr._kernel.sampled.deciding import SequentialTest, State
from evr._kernel.sampled.plan import DrawPlan
from evr._kernel.sampled.proposals import built
from evr._kernel.sampled.summary import summarize
from evr._kernel.verdict.attempts import Attempt, Trial
from evr._kernel.verdict.settings import Claim, Settings
from evr._plan.sampled import planned
from kernel.patterns.small_events import EVENTS, exact_delta

TAU = 0.9
CASES = [
    (name, epsilon, direction)
    for name, epsilon in (
        ("independent", 1.0),
        ("redrawn", 1.0),
        ("bins", 1.0),
        ("bins", 3.0),
        ("cold", 1.0),
        ("warm", 1.0),
    )
    for direction in ("remove", "add")
]


@cache
def plan_for(name: str, epsilon: float, direction: str, claimed: float) -> DrawPlan:
    """The plan that ``verify`` would make."""
    steps = Composition.of(EVENTS[name]).simplified(Direction(direction))
    return planned(steps, Claim(epsilon, claimed / TAU, TAU), "capped")


def accepts(name: str, epsilon: float, direction: str, share: float, seed: int) -> bool:
    """One verification of the claim that delta is ``share`` of what it is."""
    claimed = TAU * share * exact_delta(name, epsilon, direction)
    claim = Claim(epsilon, claimed / TAU, TAU)

    def planner(trial: Trial) -> DrawPlan:
        return plan_for(name, epsilon, trial.direction, claimed)

    how = Attempt(None, seed, direction)
    settings = Settings(max_samples=16_384)
    found = how.run(Composition.of(EVENTS[name]), claim, settings, planner)
    return found.verdict is evr.proving.Verdict.ACCEPTED


def run_table(numbers: range) -> None:
    for number in numbers:
        name, epsilon, direction = CASES[number % len(CASES)]
        share = (0.97, 0.9, 0.8, 0.7)[number // len(CASES) % 4]
        assert not accepts(name, epsilon, direction, share, number), (name, direction, share)


def test_false_claims_are_not_accepted() -> None:
    run_table(range(48))


@pytest.mark.full
@pytest.mark.parametrize("first", range(0, 2000, 250))
def test_two_thousand_false_claims(first: int) -> None:
    run_table(range(first, first + 250))


def test_true_claims_are_accepted() -> None:
    for name, epsilon, direction in (
        ("independent", 1.0, "remove"),
        ("redrawn", 1.0, "add"),
        ("bins", 1.0, "add"),
        ("warm", 1.0, "remove"),
    ):
        assert accepts(name, epsilon, direction, 1 / TAU, 1)


@pytest.mark.parametrize("name", ["bins", pytest.param("cold", marks=pytest.mark.full)])
def test_at_the_threshold_with_a_large_budget(name: str) -> None:
    """The mean is the threshold, and ``beta = 0.05``: of 200 runs of 20,000 samples, no more accept
    than a binomial law allows with probability 1e-6.
    """
    epsilon, runs, budget = 1.0, 200, 0.05
    delta = exact_delta(name, epsilon, "remove")
    steps = Composition.of(EVENTS[name]).simplified(Direction.REMOVE)
    proposal = built(plan_for(name, epsilon, "remove", TAU * delta).proposal, steps)
    bound = math.exp(proposal.log_greatest(epsilon)) / delta
    accepted = 0
    for run in range(runs):
        test = SequentialTest(
            clip=bound,
            correction=0.0,
            log_target=math.log(1 / budget),
            estimate=TAU,
            hope=0.95,
            variance=5.0,
            rounding=0.0,
            block=4000,
        )
        state = State()
        stream = Stream(run, "false accepts")
        for block in range(5):
            values = proposal.draw(stream.block(block), 4000).values(epsilon, math.log(delta))
            state = state.added(summarize(values, block, test.clip, test.mean, test.stake(state)))
            if test.accepts(state):
                accepted += 1
                break
    assert accepted <= binom.isf(1e-6, runs, budget)
