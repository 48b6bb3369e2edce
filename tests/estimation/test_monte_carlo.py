"""The Monte Carlo accountant against the Fourier one; failure probabilities are stated with each
tolerance.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import dp_accounting
import numpy as np
import pytest
from dp_accounting import dp_event, privacy_accountant_test

import evr
import messages
from evr.estimation import monte_carlo
from evr.estimation.monte_carlo import WeightedSamples, blocks
from evr.events import DiscreteGaussianDpEvent, EpsilonDeltaDpEvent
from evr.laws import Direction
from evr.sampling import Block
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


# --- online ---


@pytest.mark.parametrize(("noise", "delta"), [(1.0, 1e-9), (0.5, 1e-5)])
def test_online_follows_fft(noise: float, delta: float) -> None:
    event = evr.dpsgd(noise_multiplier=noise, sampling_probability=1e-3, steps=40)
    exact = evr.online_epsilon(event, delta).epsilons
    accountant = evr.MonteCarloAccountant(samples=40_000, seed=3, delta=delta, horizon=40)
    found = np.array([accountant.step(event.event) for _ in range(40)])
    errors = accountant._runs[Direction.REMOVE].epsilon(delta)[1]
    assert abs(found[-1] - exact[-1]) <= SIX_SIGMA * errors
    # one tilt, made for the last step, serves all of them: the first are less exact
    assert np.max(np.abs(found / exact - 1)[10:]) < 0.03


def test_online_of_a_composition_that_changes() -> None:
    phases = [
        *[evr.dpsgd(noise_multiplier=1.0, sampling_probability=0.01, steps=1)] * 6,
        dp_event.NoOpDpEvent(),
        *[dp_event.GaussianDpEvent(8.0)] * 6,
    ]
    exact = evr.online_epsilon(dp_event.ComposedDpEvent(phases), 1e-5).epsilons
    accountant = evr.MonteCarloAccountant(samples=20_000, seed=3, delta=1e-5, horizon=12)
    found = [accountant.step(event) for event in phases]
    assert found[2:] == near(exact[2:].tolist(), rel=0.05)


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


def test_online_with_infinite_losses_ends_where_they_exceed_delta() -> None:
    step = EpsilonDeltaDpEvent(0.05, 1e-9)
    exact = evr.online_epsilon(dp_event.SelfComposedDpEvent(step, 7), 5.5e-9).epsilons
    accountant = evr.MonteCarloAccountant(samples=5000, delta=5.5e-9, horizon=8)
    found = [accountant.step(step) for _ in range(7)]
    assert found == near([*exact[:5], math.inf, math.inf], rel=1e-3)


# --- the accountant ---


class TestBase(privacy_accountant_test.PrivacyAccountantTest):
    def _make_test_accountants(self) -> list[dp_accounting.PrivacyAccountant]:
        return [evr.MonteCarloAccountant(samples=1000)]


def _step(noise: float = 1.0) -> dp_event.DpEvent:
    return dp_event.PoissonSampledDpEvent(0.01, dp_event.GaussianDpEvent(noise))


def test_an_answer_does_not_depend_on_earlier_ones() -> None:
    epsilons = [1.0, 0.3, 0.6, 0.31]
    answers = []
    for order in (epsilons, epsilons[::-1]):
        accountant = evr.MonteCarloAccountant(samples=5000, seed=1).compose(_step(), 50)
        answers.append({epsilon: accountant.get_delta(epsilon) for epsilon in order})
    assert answers[0] == answers[1]


@pytest.mark.full
def test_accountant_calibrates() -> None:
    found = dp_accounting.calibrate_dp_mechanism(
        lambda: evr.MonteCarloAccountant(samples=2000),
        lambda s: dp_event.SelfComposedDpEvent(_step(s), 5),
        target_epsilon=1.0,
        target_delta=1e-5,
        bracket_interval=dp_accounting.ExplicitBracketInterval(0.5, 4.0),
        tol=0.05,
    )
    exact = evr.calibrate(lambda s: dp_event.SelfComposedDpEvent(_step(s), 5), epsilon=1.0, delta=1e-5).value
    assert found == near(exact, rel=0.1)


def test_step_needs_a_delta() -> None:
    with pytest.raises(ValueError, match=messages.DELTA_TO_TRACK):
        evr.MonteCarloAccountant().step(_step())


@pytest.mark.parametrize("horizon", [2, full(8), 1000])
@pytest.mark.parametrize(
    "other",
    [_step(), full(DiscreteGaussianDpEvent(3.0, 1)), dp_event.LaplaceDpEvent(3.0)],
    ids=["dpsgd", "discrete", "laplace"],
)
@pytest.mark.parametrize("loss", [0.0, 0.01])
def test_steps_end_where_infinite_losses_exceed_delta(horizon: int, other: dp_event.DpEvent, loss: float) -> None:
    """Whatever the horizon, and whether infinite losses are drawn or kept apart."""
    step = dp_event.ComposedDpEvent([other, EpsilonDeltaDpEvent(loss, 1e-3)])
    accountant = evr.MonteCarloAccountant(samples=8_000, delta=2.5e-3, horizon=horizon)
    found = [accountant.step(step) for _ in range(4)]
    exact = [evr.estimate_epsilon(dp_event.SelfComposedDpEvent(step, n), 2.5e-3).value for n in range(1, 5)]
    assert exact[2:] == found[2:] == [math.inf, math.inf]
    assert found[:2] == near(exact[:2], rel=0.1, abs=0.005)


def test_symmetric_steps_before_an_asymmetric_one_count_in_both_directions() -> None:
    asymmetric = dp_event.PoissonSampledDpEvent(0.5, dp_event.GaussianDpEvent(1.0))
    accountant = evr.MonteCarloAccountant(samples=50_000, delta=1e-3, horizon=4)
    for event in (dp_event.GaussianDpEvent(1.0), dp_event.GaussianDpEvent(1.0), asymmetric):
        found = accountant.step(event)
    runs = {direction: run.epsilon(1e-3)[0] for direction, run in accountant._runs.items()}
    whole = dp_event.ComposedDpEvent([dp_event.SelfComposedDpEvent(dp_event.GaussianDpEvent(1.0), 2), asymmetric])
    for direction, value in runs.items():
        assert value == near(evr.estimate_epsilon(whole, 1e-3, direction=direction.value).value, rel=0.03)
    assert found == near(max(runs.values()), rel=1e-9)


def test_a_step_without_privacy_ends_it() -> None:
    accountant = evr.MonteCarloAccountant(samples=1000, delta=1e-3, horizon=4)
    assert accountant.step(_step()) < 1
    assert accountant.step(dp_event.NonPrivateDpEvent()) == math.inf
    assert accountant.step(_step()) == math.inf
