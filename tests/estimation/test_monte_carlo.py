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
from evr.estimation import monte_carlo
from evr.estimation.blocks import blocks
from evr.estimation.monte_carlo import WeightedSamples
from evr.events import DiscreteGaussianDpEvent, EpsilonDeltaDpEvent
from evr.sampling import Block
from helpers import near

SETTINGS = [
    (1.5, 100, 1e-3, 0.6),
    (0.5, 200, 1e-3, 1.0),
    (1.0, 100, 1e-5, 0.5),
    (1.0, 150, 0.05, 2.0),
]
SIX_SIGMA = 6.0  # 2e-9 for a normal mean; weights are bounded, and there are ten thousand of them


@pytest.mark.parametrize(("epsilon", "steps", "q", "noise"), SETTINGS)
def test_delta_and_epsilon_agree_with_fft(
    epsilon: float, steps: int, q: float, noise: float
) -> None:
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
    [
        (2.5, 16384 / 1281167, 72_000, 8e-7),
        pytest.param(1.0, 1e-6, 10**9, 1e-8, marks=pytest.mark.full),
        (0.5, 1e-5, 10**5, 1e-8),
    ],
)
def test_very_many_steps(noise: float, q: float, steps: int, delta: float) -> None:
    """Within 5.3 standard errors (1e-7) and what drawing a few outcomes adds."""
    event = evr.dpsgd(noise_multiplier=noise, sampling_probability=q, steps=steps)
    epsilon = evr.estimate_epsilon(event, delta=delta).value
    found = evr.estimate_delta(event, epsilon=epsilon, method="monte_carlo", samples=10_000, seed=1)
    assert 0 < found.standard_error < 0.03 * delta
    assert abs(found.value - delta) < 5.3 * found.standard_error + 1e-3 * delta
    searched = evr.estimate_epsilon(
        event, delta=delta, method="monte_carlo", samples=10_000, seed=1
    )
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


@pytest.mark.parametrize("proposal", ["simple", "capped", "single"])
def test_every_proposal_estimates(proposal: str) -> None:
    event = evr.dpsgd(noise_multiplier=0.6, sampling_probability=0.01, steps=20)
    exact = evr.estimate_delta(event, 0.5).value
    found = evr.estimate_delta(
        event, 0.5, method="monte_carlo", proposal=proposal, samples=40_000, seed=2
    )
    assert abs(found.value - exact) <= SIX_SIGMA * found.standard_error


def test_the_answer_does_not_depend_on_workers() -> None:
    event = evr.dpsgd(noise_multiplier=0.6, sampling_probability=0.01, steps=20)
    values = {
        evr.estimate_delta(event, 0.5, method="monte_carlo", seed=2, workers=w).value
        for w in (1, 2, 3)
    }
    assert len(values) == 1


def test_exact_cases() -> None:
    laplace = dp_event.SelfComposedDpEvent(dp_event.LaplaceDpEvent(2.0), 4)
    for epsilon, delta in ((2.0, 0.0), (math.inf, 0.0)):
        assert evr.estimate_delta(laplace, epsilon, method="monte_carlo", seed=1).value == delta
    assert evr.estimate_epsilon(laplace, 0.0, method="monte_carlo", seed=1).value == 2.0
    assert evr.estimate_epsilon(laplace, 1.0, method="monte_carlo", seed=1).value == 0.0
    assert (
        evr.estimate_epsilon(dp_event.NonPrivateDpEvent(), 0.5, method="monte_carlo", seed=1).value
        == math.inf
    )
    assert (
        evr.estimate_delta(dp_event.NoOpDpEvent(), 0.0, method="monte_carlo", seed=1).value == 0.0
    )


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
        ({"samples": 1}, "samples=1 is below 2"),
        ({"relative_error": 1e-17}, "relative_error=1e-17 is below 1e-05"),
        ({"proposal": np.array([1.0, 2.0])}, "proposal=array"),
    ],
)
def test_bad_options(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        evr.estimate_delta(
            evr.dpsgd(noise_multiplier=1, sampling_probability=0.1, steps=3),
            1.0,
            method="monte_carlo",
            **options,
        )


def test_epsilon_of_weighted_samples_is_the_root() -> None:
    generator = np.random.default_rng(0)
    losses, log_weights = generator.normal(1.0, 1.0, 5000), generator.normal(0.0, 0.2, 5000)
    samples = WeightedSamples.of(losses, log_weights)
    for target in (0.3, 0.05, 1e-3):
        epsilon, error = samples.epsilon(target)
        assert samples.delta(epsilon)[0] == near(target, rel=1e-9)
        assert error > 0


# --- online ---


@pytest.mark.parametrize(("noise", "delta"), [(1.0, 1e-9), (0.5, 1e-5)])
def test_online_follows_fft(noise: float, delta: float) -> None:
    event = evr.dpsgd(noise_multiplier=noise, sampling_probability=1e-3, steps=40)
    exact = evr.online_epsilon(event, delta).epsilons
    online = evr.online_epsilon(event, delta, method="monte_carlo", samples=40_000, seed=3)
    assert online.standard_errors is not None
    assert np.all(np.abs(online.epsilons - exact) <= SIX_SIGMA * online.standard_errors + 1e-12)
    assert np.max(np.abs(online.epsilons / exact - 1)) < 0.03


def test_online_of_a_composition_that_changes() -> None:
    event = dp_event.ComposedDpEvent(
        [
            evr.dpsgd(noise_multiplier=1.0, sampling_probability=0.01, steps=6),
            dp_event.NoOpDpEvent(),
            dp_event.SelfComposedDpEvent(dp_event.GaussianDpEvent(8.0), 6),
        ]
    )
    exact = evr.online_epsilon(event, 1e-5)
    online = evr.online_epsilon(event, 1e-5, method="monte_carlo", samples=20_000, seed=3, every=2)
    assert online.steps.tolist() == [2, 4, 6, 8, 10, 12, 13]
    wanted = dict(zip(exact.steps.tolist(), exact.epsilons.tolist(), strict=True))
    for number, epsilon in zip(online.steps.tolist(), online.epsilons.tolist(), strict=True):
        assert epsilon == near(wanted[number], rel=0.05)


def test_online_is_the_same_for_any_number_of_threads_and_tells_how_far_it_is() -> None:
    event = evr.dpsgd(noise_multiplier=1.0, sampling_probability=0.01, steps=5)
    seen: list[tuple[int, int]] = []
    options: Any = {"method": "monte_carlo", "samples": 70_000, "seed": 1}  # more than one part
    one = evr.online_epsilon(event, 1e-5, workers=1, progress=lambda *a: seen.append(a), **options)
    two = evr.online_epsilon(event, 1e-5, workers=2, **options)
    assert one.epsilons.tolist() == two.epsilons.tolist()
    done = [a[0] for a in seen]
    assert done == sorted(done)
    assert seen[-1] == (5, 5)
    assert len(done) > 5


def test_steps_that_are_not_reported_are_drawn_at_once() -> None:
    event = evr.dpsgd(noise_multiplier=1.0, sampling_probability=0.01, steps=60)
    exact = evr.online_epsilon(event, 1e-5, every=20).epsilons
    online = evr.online_epsilon(event, 1e-5, method="monte_carlo", samples=40_000, seed=3, every=20)
    assert online.steps.tolist() == [20, 40, 60]
    assert np.all(np.abs(online.epsilons - exact) <= SIX_SIGMA * online.standard_errors)


INFINITE = dp_event.ComposedDpEvent(
    [
        dp_event.SelfComposedDpEvent(EpsilonDeltaDpEvent(0.05, 1e-9), 20),
        dp_event.PoissonSampledDpEvent(0.1, EpsilonDeltaDpEvent(0.5, 1e-8)),
        evr.dpsgd(noise_multiplier=1.0, sampling_probability=0.01, steps=10),
    ]
)


def test_infinite_losses_are_counted() -> None:
    for epsilon in (0.3, 1.2):
        found = evr.estimate_delta(INFINITE, epsilon, method="monte_carlo", samples=50_000, seed=1)
        assert (
            abs(found.value - evr.estimate_delta(INFINITE, epsilon).value)
            <= SIX_SIGMA * found.standard_error
        )
    for delta in (1e-7, 1e-5):
        found = evr.estimate_epsilon(INFINITE, delta, method="monte_carlo", samples=50_000, seed=1)
        exact = evr.estimate_epsilon(INFINITE, delta).value
        assert abs(found.value - exact) <= SIX_SIGMA * found.standard_error
    assert evr.estimate_epsilon(INFINITE, 2e-8, method="monte_carlo").value == math.inf


def test_online_with_infinite_losses_ends_where_they_exceed_delta(tmp_path) -> None:
    event = dp_event.SelfComposedDpEvent(EpsilonDeltaDpEvent(0.05, 1e-9), 8)
    exact = evr.online_epsilon(event, 5.5e-9).epsilons
    online = evr.online_epsilon(event, 5.5e-9, method="monte_carlo", samples=5000, seed=1)
    assert (
        np.isinf(exact).tolist() == np.isinf(online.epsilons).tolist() == [False] * 5 + [True] * 3
    )
    assert online.epsilons[:5] == near(exact[:5], rel=1e-3)
    step = EpsilonDeltaDpEvent(0.05, 1e-9)
    whole = evr.MonteCarloAccountant(samples=5000, delta=5.5e-9, horizon=8)
    straight = [whole.step(step) for _ in range(7)]
    assert straight == near([*exact[:5], math.inf, math.inf], rel=1e-3)
    first = evr.MonteCarloAccountant(samples=5000, delta=5.5e-9, horizon=8)
    half = [first.step(step) for _ in range(4)]
    first.save(tmp_path / "run.npz")
    second = evr.MonteCarloAccountant.load(tmp_path / "run.npz", first.ledger)
    assert half + [second.step(step) for _ in range(3)] == straight


# --- the accountant ---


class TestBase(privacy_accountant_test.PrivacyAccountantTest):
    def _make_test_accountants(self) -> list[dp_accounting.PrivacyAccountant]:
        return [evr.MonteCarloAccountant(samples=1000)]


def _step(noise: float = 1.0) -> dp_event.DpEvent:
    return dp_event.PoissonSampledDpEvent(0.01, dp_event.GaussianDpEvent(noise))


def test_accountant_is_deterministic_and_monotone() -> None:
    accountants = [
        evr.MonteCarloAccountant(samples=5000, seed=1).compose(_step(), 50) for _ in range(2)
    ]
    epsilons = [1.0, 0.3, 0.6, 0.31]
    answers = [[a.get_delta(e) for e in epsilons] for a in accountants]
    assert answers[0] == answers[1]
    in_order = [d for _, d in sorted(zip(epsilons, answers[0], strict=True))]
    assert in_order == sorted(in_order, reverse=True)


def test_accountant_calibrates() -> None:
    found = dp_accounting.calibrate_dp_mechanism(
        lambda: evr.MonteCarloAccountant(samples=4000),
        lambda s: dp_event.SelfComposedDpEvent(_step(s), 20),
        target_epsilon=1.0,
        target_delta=1e-5,
        bracket_interval=dp_accounting.ExplicitBracketInterval(0.5, 4.0),
        tol=0.02,
    )
    exact = evr.calibrate(
        lambda s: dp_event.SelfComposedDpEvent(_step(s), 20), epsilon=1.0, delta=1e-5
    ).parameter
    assert found == near(exact, rel=0.05)


def test_a_saved_run_continues_as_if_uninterrupted(tmp_path) -> None:
    whole = evr.MonteCarloAccountant(samples=4000, delta=1e-5, horizon=6)
    straight = [whole.step(_step()) for _ in range(6)]
    first = evr.MonteCarloAccountant(samples=4000, delta=1e-5, horizon=6)
    half = [first.step(_step()) for _ in range(3)]
    first.save(tmp_path / "run.npz")
    second = evr.MonteCarloAccountant.load(tmp_path / "run.npz", first.ledger)
    assert half + [second.step(_step()) for _ in range(3)] == straight


def test_step_needs_a_delta() -> None:
    with pytest.raises(ValueError, match="delta to track"):
        evr.MonteCarloAccountant().step(_step())


def test_the_root_near_a_guess_is_the_root() -> None:
    from evr.estimation.mc_online import RunningSamples
    from evr.randomness import Stream

    generator = np.random.default_rng(1)
    run = RunningSamples(
        Stream(1, "online"), generator.normal(0.5, 1.0, 20_000), generator.normal(0.0, 0.2, 20_000)
    )
    whole = WeightedSamples.of(run.losses, run.log_weights)
    for target in (0.2, 0.05, 1e-3):
        epsilon, error = whole.epsilon(target)
        for off in (0.992, 0.999, 1.0, 1.008):
            close = run._near(target, off * epsilon)
            assert close is not None
            assert close == near((epsilon, error), rel=1e-9)
        assert run._near(target, 1.15 * epsilon, 0.2) == near((epsilon, error), rel=1e-9)
        assert run._near(target, 1.5 * epsilon) is None
        assert run._near(target, 0.5 * epsilon) is None


@pytest.mark.parametrize("horizon", [2, 8, 1000])
@pytest.mark.parametrize(
    "other",
    [_step(), DiscreteGaussianDpEvent(3.0, 1), dp_event.LaplaceDpEvent(3.0)],
    ids=["dpsgd", "discrete", "laplace"],
)
@pytest.mark.parametrize("loss", [0.0, 0.01])
def test_steps_end_where_infinite_losses_exceed_delta(
    horizon: int, other: dp_event.DpEvent, loss: float
) -> None:
    """Whatever the horizon, and whether infinite losses are drawn or kept apart."""
    step = dp_event.ComposedDpEvent([other, EpsilonDeltaDpEvent(loss, 1e-3)])
    accountant = evr.MonteCarloAccountant(samples=20_000, delta=2.5e-3, horizon=horizon)
    found = [accountant.step(step) for _ in range(4)]
    exact = [
        evr.estimate_epsilon(dp_event.SelfComposedDpEvent(step, n), 2.5e-3).value
        for n in range(1, 5)
    ]
    assert exact[2:] == found[2:] == [math.inf, math.inf]
    assert found[:2] == near(exact[:2], rel=0.1, abs=0.005)


def test_symmetric_steps_before_an_asymmetric_one_count_in_both_directions() -> None:
    asymmetric = dp_event.PoissonSampledDpEvent(0.5, dp_event.GaussianDpEvent(1.0))
    accountant = evr.MonteCarloAccountant(samples=50_000, delta=1e-3, horizon=4)
    for event in (dp_event.GaussianDpEvent(1.0), dp_event.GaussianDpEvent(1.0), asymmetric):
        found = accountant.step(event)
    runs = {direction: run.epsilon(1e-3)[0] for direction, run in accountant._runs.items()}
    whole = dp_event.ComposedDpEvent(
        [dp_event.SelfComposedDpEvent(dp_event.GaussianDpEvent(1.0), 2), asymmetric]
    )
    for direction, value in runs.items():
        assert value == near(
            evr.estimate_epsilon(whole, 1e-3, direction=direction.value).value, rel=0.03
        )
    assert found == near(max(runs.values()), rel=1e-9)


def test_a_step_without_privacy_ends_it() -> None:
    accountant = evr.MonteCarloAccountant(samples=1000, delta=1e-3, horizon=4)
    assert accountant.step(_step()) < 1
    assert accountant.step(dp_event.NonPrivateDpEvent()) == math.inf
    assert accountant.step(_step()) == math.inf
