"""Many steps on a few outcomes: what stands for them dominates, costs no more than it may, and is
verified as they are.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pytest
from dp_accounting import dp_event
from hypothesis import given, settings
from hypothesis import strategies as st

import evr
from conformance.proposal_cases import DIRECTIONS, exact
from evr._basics.randomness import Stream
from evr._estimate.capped import capped_plan, capped_proposal
from evr._estimate.closed_forms import pair_delta
from evr._kernel.events import Composition
from evr._kernel.pairs import Direction, DiscretePair, DominatingPair, Floats, Measure, Step
from evr._kernel.pairs.line.gaussian import GaussianPair, MixturePair
from evr._kernel.pairs.line.laplace import LaplacePair
from evr._kernel.pairs.line.poisson import SampledPair
from evr._kernel.sampled.composing import spread_to_edges
from evr._kernel.sampled.line import spread_steps
from helpers import answers, full, near, together

PAIRS: dict[str, DominatingPair] = {
    "gaussian": GaussianPair(0.7),
    "laplace": LaplacePair(1.3),
    "sampled gaussian, remove": SampledPair(GaussianPair(1.0), 0.01, Direction.REMOVE),
    "sampled gaussian, add": SampledPair(GaussianPair(1.0), 0.01, Direction.ADD),
    "rarely sampled": SampledPair(GaussianPair(3.0), 1e-7, Direction.REMOVE),
    "sampled laplace, remove": SampledPair(LaplacePair(2.0), 0.1, Direction.REMOVE),
    "sampled laplace, add": SampledPair(LaplacePair(2.0), 0.1, Direction.ADD),
    "mixture, remove": MixturePair((0.0, 1.0, 2.0), (0.7, 0.2, 0.1), Direction.REMOVE),
    "mixture, add": MixturePair((0.0, 1.0, 2.0), (0.7, 0.2, 0.1), Direction.ADD),
}
EPSILONS = np.concatenate((np.linspace(-6.0, 12.0, 181), [-1e-3, 1e-4, -0.01005, 0.01]))

Spread = Callable[[DominatingPair, Floats], DiscretePair]


def dominates(spread: Spread, pair: DominatingPair, edges: Floats) -> bool:
    """Whether its curve is nowhere below, negative epsilons included:
    composition needs them too.
    """
    coarse = spread(pair, edges)
    return all(
        pair_delta(coarse, e) >= delta * (1 - 1e-9) - 1e-15 for e, delta in zip(EPSILONS, curve(pair), strict=True)
    )


@cache
def curve(pair: DominatingPair) -> list[float]:
    return [pair_delta(pair, e) for e in EPSILONS]


@pytest.mark.parametrize("name", PAIRS)
@settings(deadline=None, max_examples=40)
@given(st.lists(st.floats(-8.0, 12.0), min_size=1, max_size=30, unique=True))
def test_what_is_spread_dominates(name: str, edges: list[float]) -> None:
    pair = PAIRS[name]
    coarse = spread_to_edges(pair, np.sort(edges))
    assert math.fsum(np.exp(coarse.log_p)) == near(1.0, abs=1e-12)
    assert math.fsum(np.exp(coarse.log_q)) <= 1.0 + 1e-12
    assert dominates(spread_to_edges, pair, np.sort(edges))


def to_lower_ends(pair: DominatingPair, edges: Floats) -> DiscretePair:
    return _to_one_end(pair, edges, 0)


def to_means(pair: DominatingPair, edges: Floats) -> DiscretePair:
    low, high = np.concatenate(([-np.inf], edges)), np.concatenate((edges, [np.inf]))
    return DiscretePair.from_logs(pair.log_mass(Measure.P, low, high), pair.log_mass(Measure.Q, low, high))


def without_the_infinite(pair: DominatingPair, edges: Floats) -> DiscretePair:
    coarse = spread_to_edges(pair, edges)
    kept = np.isfinite(coarse.losses)
    losses, log_p, log_q = (tuple(np.array(x)[kept]) for x in (coarse.loss_values, coarse.log_p, coarse.log_q))
    return DiscretePair(losses, log_p, log_q)


def _to_one_end(pair: DominatingPair, edges: Floats, end: int) -> DiscretePair:
    ends = np.concatenate(([-np.inf], edges, [np.inf]))
    log_p = pair.log_mass(Measure.P, ends[:-1], ends[1:])
    losses = pair.privacy_loss(ends)[end : end + log_p.size]
    return DiscretePair.from_logs(log_p, log_p - losses, losses)


@pytest.mark.parametrize("fault", [to_lower_ends, to_means, without_the_infinite])
def test_faults_in_spreading_are_seen(fault: Spread) -> None:
    pair, edges = PAIRS["sampled gaussian, remove"], np.linspace(-3.0, 3.0, 9)
    assert dominates(spread_to_edges, pair, edges)
    assert not dominates(fault, pair, edges)


def _sgd(noise: float, probability: float, steps: int) -> dp_event.DpEvent:
    return evr.dpsgd(noise_multiplier=noise, sampling_probability=probability, steps=steps)


def _repeated(event: dp_event.DpEvent, count: int) -> dp_event.DpEvent:
    return dp_event.SelfComposedDpEvent(event, count)


# an event, a delta and the epsilon where it has about that delta
MANY = {
    "an image model": (_sgd(2.5, 16384 / 1281167, 72_000), 8e-7, 7.4649835),
    "a million": (_sgd(1.0, 1e-4, 1_000_000), 1e-6, 0.53242116),
    "rare jumps": (_sgd(0.5, 1e-5, 100_000), 1e-8, 1.4926487),
    "often sampled": (_sgd(10.0, 0.3, 20_000), 1e-12, 38.396131),
    "laplace": (_repeated(dp_event.LaplaceDpEvent(100.0), 10_000), 1e-6, 4.8762576),
    "sampled laplace": (
        _repeated(dp_event.PoissonSampledDpEvent(0.01, dp_event.LaplaceDpEvent(1.0)), 3000),
        1e-6,
        2.3195053,
    ),
    "small losses": (_sgd(1.0, 1e-7, 100_000), 1e-10, 0.00017836167),
    "one phase of no matter": (
        dp_event.ComposedDpEvent([_sgd(1.0, 1e-3, 10_000), _sgd(100.0, 0.01, 10_000)]),
        1e-6,
        0.55665373,
    ),
    "two phases": (dp_event.ComposedDpEvent([_sgd(1.0, 1e-3, 6000), _sgd(2.0, 2e-3, 50_000)]), 1e-6, 1.1108673),
}


def full_of(*names: str) -> list[Any]:
    """All of them; these take long, and others of their kind stay."""
    return [full(n) if n in names else n for n in MANY]


def merged_steps(steps: tuple[Step, ...], epsilon: float, delta: float, allowance: float) -> tuple[Step, ...]:
    """As a plan of single steps draws them."""
    plan = capped_plan(steps, epsilon, delta=delta, allowance=allowance)
    return spread_steps(steps, plan.kinds)


@pytest.mark.parametrize("tau", [full(0.9), 0.99])
@pytest.mark.parametrize(
    "name", full_of("laplace", "sampled laplace", "two phases", "one phase of no matter", "a million", "small losses")
)
def test_delta_grows_by_the_allowance(name: str, tau: float) -> None:
    event, delta, epsilon = MANY[name]
    allowance = 0.02 * (1 - tau)
    for direction in DIRECTIONS:
        steps = Composition.of(event).simplified(direction)
        if (truth := exact(steps, epsilon)) < 1e-3 * delta:
            continue  # then a proved bound decides, whatever this grows to
        if direction == "remove":
            assert truth == near(delta, rel=1e-3)
        merged = merged_steps(steps, epsilon, delta, allowance)
        assert all(isinstance(step.pair, DiscretePair) for step in merged)
        assert [step.count for step in merged] == [step.count for step in steps]
        assert -1e-7 <= exact(merged, epsilon) / truth - 1 <= 2.5 * allowance


@pytest.mark.parametrize("direction", ["remove", full("add")])
def test_samples_average_to_what_dominates(direction: str) -> None:
    event, delta, epsilon = MANY["an image model"]
    merged = merged_steps(Composition.of(event).simplified(direction), epsilon, delta, 1e-3)
    x = capped_proposal(merged, epsilon).draw(Stream(1, "test").block(0), 40_000).values(epsilon)
    error = x.std() / math.sqrt(x.size)
    assert abs(x.mean() - exact(merged, epsilon)) < 5.3 * error  # 1e-7


def test_outcomes_stay_as_they_are() -> None:
    steps = together((answers(0.5, 3), 100_000)).simplified("remove")
    assert merged_steps(steps, 0.5, 1e-9, 1e-3) == steps


SLOW = ("one phase of no matter", "small losses", "laplace", "sampled laplace")


@pytest.mark.parametrize("name", full_of(*SLOW))
def test_many_steps_are_verified(name: str) -> None:
    event, delta, epsilon = MANY[name]
    found = evr.verify(event, epsilon=epsilon, delta=delta / 0.9, tau=0.9, seed=1)
    assert found.accepted
    report = found.directions["remove"]
    assert any(kind.edges is not None for kind in report.plan.proposal.kinds)
    truth = exact(Composition.of(event).simplified("remove"), epsilon)
    # 1e-7, and what it grows by
    assert abs(report.estimate - truth) < 5.3 * report.standard_error + 0.01 * truth
    false = evr.verify(event, epsilon=epsilon, delta=0.97 * delta, tau=0.9, seed=1, max_samples=60_000)
    assert not false.accepted


def test_many_small_losses_beside_rare_jumps() -> None:
    small = dp_event.MixtureOfGaussiansDpEvent(20_000.0, (0.0, 1.0, 2.0), (0.8, 0.15, 0.05))
    event = dp_event.ComposedDpEvent([_repeated(small, 18_000_000), _sgd(0.55, 1e-5, 44_000)])
    epsilon = evr.estimate_epsilon(event, delta=1e-10).value
    assert evr.verify(event, epsilon=epsilon, delta=1.25e-10, tau=0.8, seed=1).accepted


def test_a_generous_claim_needs_no_finite_loss() -> None:
    """All that exceeds epsilon is rarer than the allowance for infinite losses, so nothing is left
    to draw.
    """
    event = _sgd(0.5, 1e-8, 10_000)
    found = evr.verify(event, epsilon=12.0, delta=0.6, tau=0.5, seed=1)
    assert found.accepted
    assert found.samples == 0
