"""The paper's online accountant against the Fourier one; failure probabilities are stated with each tolerance."""

from __future__ import annotations

import math

import dp_accounting
import numpy as np
import pytest
from dp_accounting import dp_event, privacy_accountant_test

import evr
from evr._kernel.pairs import Direction
from evr.events import DiscreteGaussianDpEvent, EpsilonDeltaDpEvent
from helpers import full, near
from online_accountant import MonteCarloAccountant

SIX_SIGMA = 6.0  # 2e-9 for a normal mean; weights are bounded, and there are ten thousand of them


# --- online ---


@pytest.mark.parametrize(("noise", "delta"), [(1.0, 1e-9), (0.5, 1e-5)])
def test_online_follows_fft(noise: float, delta: float) -> None:
    event = evr.dpsgd(noise_multiplier=noise, sampling_probability=1e-3, steps=40)
    exact = evr.online_epsilon(event, delta).epsilons
    accountant = MonteCarloAccountant(samples=40_000, seed=3, delta=delta, horizon=40)
    found = np.array([accountant.step(event.event) for _ in range(40)])
    errors = accountant._runs[Direction.REMOVE].epsilon(delta)[1]
    assert abs(found[-1] - exact[-1]) <= SIX_SIGMA * errors
    # one tilt, made for the last step, serves all of them: the first are less exact
    assert np.max(np.abs(found / exact - 1)[10:]) < 0.03


@pytest.mark.full
def test_online_of_a_composition_that_changes() -> None:
    phases = [
        *[evr.dpsgd(noise_multiplier=1.0, sampling_probability=0.01, steps=1)] * 6,
        dp_event.NoOpDpEvent(),
        *[dp_event.GaussianDpEvent(8.0)] * 6,
    ]
    exact = evr.online_epsilon(dp_event.ComposedDpEvent(phases), 1e-5).epsilons
    accountant = MonteCarloAccountant(samples=20_000, seed=3, delta=1e-5, horizon=12)
    found = [accountant.step(event) for event in phases]
    assert found[2:] == near(exact[2:].tolist(), rel=0.05)


def test_online_with_infinite_losses_ends_where_they_exceed_delta() -> None:
    step = EpsilonDeltaDpEvent(0.05, 1e-9)
    exact = evr.online_epsilon(dp_event.SelfComposedDpEvent(step, 7), 5.5e-9).epsilons
    accountant = MonteCarloAccountant(samples=5000, delta=5.5e-9, horizon=8)
    found = [accountant.step(step) for _ in range(7)]
    assert found == near([*exact[:5], math.inf, math.inf], rel=1e-3)


# --- the accountant ---


class TestBase(privacy_accountant_test.PrivacyAccountantTest):
    def _make_test_accountants(self) -> list[dp_accounting.PrivacyAccountant]:
        return [MonteCarloAccountant(samples=1000)]


def _step(noise: float = 1.0) -> dp_event.DpEvent:
    return dp_event.PoissonSampledDpEvent(0.01, dp_event.GaussianDpEvent(noise))


@pytest.mark.full
def test_an_answer_does_not_depend_on_earlier_ones() -> None:
    epsilons = [1.0, 0.3, 0.6, 0.31]
    answers = []
    for order in (epsilons, epsilons[::-1]):
        accountant = MonteCarloAccountant(samples=5000, seed=1).compose(_step(), 50)
        answers.append({epsilon: accountant.get_delta(epsilon) for epsilon in order})
    assert answers[0] == answers[1]


@pytest.mark.full
def test_accountant_calibrates() -> None:
    found = dp_accounting.calibrate_dp_mechanism(
        lambda: MonteCarloAccountant(samples=2000),
        lambda s: dp_event.SelfComposedDpEvent(_step(s), 5),
        target_epsilon=1.0,
        target_delta=1e-5,
        bracket_interval=dp_accounting.ExplicitBracketInterval(0.5, 4.0),
        tol=0.05,
    )
    exact = evr.calibrate(lambda s: dp_event.SelfComposedDpEvent(_step(s), 5), epsilon=1.0, delta=1e-5).value
    assert found == near(exact, rel=0.1)


def test_step_needs_a_delta() -> None:
    with pytest.raises(ValueError, match="delta to track"):
        MonteCarloAccountant().step(_step())


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
    accountant = MonteCarloAccountant(samples=8_000, delta=2.5e-3, horizon=horizon)
    found = [accountant.step(step) for _ in range(4)]
    exact = [evr.estimate_epsilon(dp_event.SelfComposedDpEvent(step, n), 2.5e-3).value for n in range(1, 5)]
    assert exact[2:] == found[2:] == [math.inf, math.inf]
    assert found[:2] == near(exact[:2], rel=0.1, abs=0.005)


def test_symmetric_steps_before_an_asymmetric_one_count_in_both_directions() -> None:
    asymmetric = dp_event.PoissonSampledDpEvent(0.5, dp_event.GaussianDpEvent(1.0))
    accountant = MonteCarloAccountant(samples=50_000, delta=1e-3, horizon=4)
    for event in (dp_event.GaussianDpEvent(1.0), dp_event.GaussianDpEvent(1.0), asymmetric):
        found = accountant.step(event)
    runs = {direction: run.epsilon(1e-3)[0] for direction, run in accountant._runs.items()}
    whole = dp_event.ComposedDpEvent([dp_event.SelfComposedDpEvent(dp_event.GaussianDpEvent(1.0), 2), asymmetric])
    for direction, value in runs.items():
        assert value == near(evr.estimate_epsilon(whole, 1e-3, direction=direction.value).value, rel=0.03)
    assert found == near(max(runs.values()), rel=1e-9)


def test_a_step_without_privacy_ends_it() -> None:
    accountant = MonteCarloAccountant(samples=1000, delta=1e-3, horizon=4)
    assert accountant.step(_step()) < 1
    assert accountant.step(dp_event.NonPrivateDpEvent()) == math.inf
    assert accountant.step(_step()) == math.inf


def test_it_knows_epsilons_beyond_the_logarithm_of_all_floats() -> None:
    step = dp_event.GaussianDpEvent(0.25)
    exact = evr.estimate_epsilon(dp_event.SelfComposedDpEvent(step, 60), 0.3).value
    assert exact > 480.0
    accountant = MonteCarloAccountant(seed=1, samples=4096, delta=0.3, horizon=60)
    for _ in range(60):
        found = accountant.step(step)
    assert found == near(exact, rel=1e-2)
