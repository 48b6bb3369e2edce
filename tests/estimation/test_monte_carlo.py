"""The Monte Carlo accountant against the Fourier one; failure probabilities are stated with each
tolerance.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from dp_accounting import dp_event

import evr
from evr._estimate import monte_carlo
from evr._estimate.monte_carlo import WeightedSamples, blocks
from evr._kernel.sampled.proposals import Block
from evr.events import EpsilonDeltaDpEvent
from helpers import full, near

SETTINGS = [(1.5, 100, 1e-3, 0.6), (0.5, 200, 1e-3, 1.0), (1.0, 100, 1e-5, 0.5), (1.0, 150, 0.05, 2.0)]
SIX_SIGMA = 6.0  # 2e-9 for a normal mean; weights are bounded, and there are ten thousand of them


@pytest.mark.parametrize(("epsilon", "steps", "q", "noise"), SETTINGS)
def test_delta_and_epsilon_agree_with_fft(epsilon: float, steps: int, q: float, noise: float) -> None:
    event = evr.dpsgd(noise_multiplier=noise, sampling_probability=q, steps=steps)
    exact = evr.estimate_delta(event, epsilon).value
    found = evr.estimate_delta(event, epsilon, method="monte_carlo", samples=20_000, seed=5)
    assert found.samples >= 20_000
    assert found.standard_error is not None
    assert abs(found.value - exact) <= SIX_SIGMA * found.standard_error
    assert found.confidence_interval[0] < found.value < found.confidence_interval[1]
    back = evr.estimate_epsilon(event, exact, method="monte_carlo", samples=20_000, seed=6)
    assert abs(back.value - epsilon) <= SIX_SIGMA * back.standard_error
    assert abs(back.value / epsilon - 1) < 0.03


@pytest.mark.parametrize(
    ("noise", "q", "steps", "delta"),
    [full(2.5, 16384 / 1281167, 72_000, 8e-7), full(1.0, 1e-6, 10**9, 1e-8), (0.5, 1e-5, 10**5, 1e-8)],
)
def test_very_many_steps(noise: float, q: float, steps: int, delta: float) -> None:
    """Within 5.3 standard errors (1e-7) and what drawing a few outcomes adds."""
    event = evr.dpsgd(noise_multiplier=noise, sampling_probability=q, steps=steps)
    epsilon = evr.estimate_epsilon(event, delta=delta).value
    found = evr.estimate_delta(event, epsilon=epsilon, method="monte_carlo", samples=10_000, seed=1)
    assert 0 < found.standard_error < 0.03 * delta
    assert abs(found.value - delta) < 5.3 * found.standard_error + 1e-3 * delta
    searched = evr.estimate_epsilon(event, delta=delta, method="monte_carlo", samples=10_000, seed=1)
    assert abs(searched.value - epsilon) < 5.3 * searched.standard_error + 1e-3 * epsilon


def test_relative_error_decides_how_many_samples() -> None:
    event = evr.dpsgd(noise_multiplier=1.0, sampling_probability=0.05, steps=20)
    rough = evr.estimate_delta(event, 1.0, method="monte_carlo", relative_error=0.05, seed=1)
    fine = evr.estimate_delta(event, 1.0, method="monte_carlo", relative_error=0.002, seed=1)
    assert fine.samples > 4 * rough.samples
    assert fine.standard_error <= 0.002 * fine.value


def test_a_direction_far_below_the_other_takes_few_samples(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its own relative error would take a hundred times as many."""
    drawn = []

    def counted(*args: Any, **more: Any) -> Iterator[Block]:
        for block in blocks(*args, **more):
            drawn.append(block.losses.size)
            yield block

    monkeypatch.setattr(monte_carlo, "blocks", counted)
    event = evr.events.BallsInBinsDpEvent(3.0, 1000, 100, (0.8, 0.6))
    found = evr.estimate_delta(event, 1.0, method="monte_carlo", relative_error=0.05, seed=1)
    assert found.direction == "remove"
    assert sum(drawn) <= found.samples + 20_000


@pytest.mark.parametrize("proposal", ["simple", "capped"])
def test_every_proposal_estimates(proposal: str) -> None:
    event = evr.dpsgd(noise_multiplier=0.6, sampling_probability=0.01, steps=20)
    exact = evr.estimate_delta(event, 0.5).value
    found = evr.estimate_delta(event, 0.5, method="monte_carlo", proposal=proposal, samples=40_000, seed=2)
    assert abs(found.value - exact) <= SIX_SIGMA * found.standard_error


def test_the_answer_does_not_depend_on_workers() -> None:
    event = evr.dpsgd(noise_multiplier=0.6, sampling_probability=0.01, steps=20)
    values = {evr.estimate_delta(event, 0.5, method="monte_carlo", seed=2, workers=w).value for w in (1, 2, 3)}
    assert len(values) == 1


def test_exact_cases() -> None:
    laplace = dp_event.SelfComposedDpEvent(dp_event.LaplaceDpEvent(2.0), 4)
    for epsilon, delta in ((2.0, 0.0), (math.inf, 0.0)):
        assert evr.estimate_delta(laplace, epsilon, method="monte_carlo", seed=1).value == delta
    assert evr.estimate_epsilon(laplace, 0.0, method="monte_carlo", seed=1).value == 2.0
    assert evr.estimate_epsilon(laplace, 1.0, method="monte_carlo", seed=1).value == 0.0
    assert evr.estimate_epsilon(dp_event.NonPrivateDpEvent(), 0.5, method="monte_carlo", seed=1).value == math.inf
    assert evr.estimate_delta(dp_event.NoOpDpEvent(), 0.0, method="monte_carlo", seed=1).value == 0.0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"samples": 0}, "samples=0"),
        ({"samples": 10, "relative_error": 0.1}, "give one of them"),
        ({"relative_error": -1}, "relative_error=-1"),
        ({"seed": -1}, "seed=-1"),
        ({"seed": True}, "seed=True"),
        ({"proposal": "best"}, "proposal='best'"),
        ({"samples": 10**12}, "samples=1000000000000"),
        ({"samples": 1}, "samples=1 is not from 2"),
        ({"relative_error": 1e-17}, "relative_error=1e-17 is below 1e-05"),
        ({"proposal": np.array([1.0, 2.0])}, "proposal=array"),
    ],
)
def test_bad_options(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        evr.estimate_delta(
            evr.dpsgd(noise_multiplier=1, sampling_probability=0.1, steps=3), 1.0, method="monte_carlo", **options
        )


def test_epsilon_of_weighted_samples_is_the_root() -> None:
    generator = np.random.default_rng(0)
    losses, log_weights = generator.normal(1.0, 1.0, 5000), generator.normal(0.0, 0.2, 5000)
    samples = WeightedSamples.of(losses, log_weights)
    for target in (0.3, 0.05, 1e-3):
        epsilon, error = samples.epsilon(target)
        assert samples.delta(epsilon)[0] == near(target, rel=1e-9)
        assert error > 0
        for off in (0.9, 0.999, 1.0, 1.008, 1.5):
            assert samples.epsilon(target, off * epsilon) == near((epsilon, error), rel=1e-9)


INFINITE = dp_event.ComposedDpEvent(
    [
        dp_event.SelfComposedDpEvent(EpsilonDeltaDpEvent(0.05, 1e-9), 20),
        dp_event.PoissonSampledDpEvent(0.1, EpsilonDeltaDpEvent(0.5, 1e-8)),
        evr.dpsgd(noise_multiplier=1.0, sampling_probability=0.01, steps=10),
    ]
)


def test_infinite_losses_are_counted() -> None:
    found = evr.estimate_delta(INFINITE, 1.2, method="monte_carlo", samples=10_000, seed=1)
    assert abs(found.value - evr.estimate_delta(INFINITE, 1.2).value) <= SIX_SIGMA * found.standard_error
    found = evr.estimate_epsilon(INFINITE, 1e-7, method="monte_carlo", samples=10_000, seed=1)
    exact = evr.estimate_epsilon(INFINITE, 1e-7).value
    assert abs(found.value - exact) <= SIX_SIGMA * found.standard_error
    assert evr.estimate_epsilon(INFINITE, 2e-8, method="monte_carlo").value == math.inf
