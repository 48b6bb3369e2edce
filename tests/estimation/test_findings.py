"""Estimates that an attack found outside of their stated error, or answered in silence."""

from __future__ import annotations

import math

import pytest
from dp_accounting import dp_event
from scipy.stats import norm

import evr
from evr.errors import AccuracyError
from evr.mechanisms.events import EpsilonDeltaDpEvent


def normal_delta(mu: float, epsilon: float) -> float:
    """Of a Gaussian mechanism, which very many tiny losses come to."""
    return float(
        norm.cdf(mu / 2 - epsilon / mu) - math.exp(epsilon) * norm.cdf(-mu / 2 - epsilon / mu)
    )


@pytest.mark.parametrize("direction", ["remove", "add"])
@pytest.mark.parametrize(
    ("probability", "noise", "z"), [(1e-8, 1000.0, 3.0), (1e-7, 1000.0, 5.0), (1e-6, 1000.0, 8.0)]
)
def test_very_many_tiny_losses(probability: float, noise: float, z: float, direction: str) -> None:
    steps = 10**7
    event = evr.dpsgd(noise_multiplier=noise, sampling_probability=probability, steps=steps)
    epsilon = z * probability * math.sqrt(steps) / noise
    mu = probability * math.sqrt(steps * math.expm1(1 / noise**2))
    found = evr.estimate_delta(event, epsilon, direction=direction)
    assert found.value == pytest.approx(
        normal_delta(mu, epsilon), rel=1e-3
    )  # once off by 0.5% to 12.5%


def test_tiny_responses_beside_a_loss_of_epsilon() -> None:
    tiny = dp_event.SelfComposedDpEvent(dp_event.RandomizedResponseDpEvent(1 - 1e-11, 2), 10)
    event = dp_event.ComposedDpEvent([EpsilonDeltaDpEvent(100.0, 0.0), tiny])
    noise = 1 - 1e-11
    loss, chance = math.log1p((1 - noise) / (noise / 2)), 1 - noise / 2
    weights = [math.comb(10, j) * chance**j * (1 - chance) ** (10 - j) for j in range(11)]
    truth = math.fsum(w * -math.expm1(-(2 * j - 10) * loss) for j, w in enumerate(weights) if j > 5)
    found = evr.estimate_delta(event, 100.0)
    assert abs(found.value - truth) <= found.error


def test_losses_below_the_last_digit_of_epsilon_are_refused() -> None:
    responses = dp_event.SelfComposedDpEvent(dp_event.RandomizedResponseDpEvent(0.75, 2), 20)
    event = dp_event.ComposedDpEvent([EpsilonDeltaDpEvent(1e17, 0.0), responses])
    with pytest.raises(AccuracyError, match="says next to nothing"):
        evr.estimate_delta(event, 1e17)


def test_absurd_numbers_of_steps_are_not_answered_wrongly() -> None:
    """The mean loss alone is some 8.4e7; 7.79 was answered, with an error of 8e-9."""
    event = evr.dpsgd(noise_multiplier=1.0, sampling_probability=0.01, steps=10**12)
    found = evr.estimate_epsilon(event, 1e-5)
    assert found.value == pytest.approx(8.3868e7, rel=1e-4)


def test_one_huge_jump_that_is_very_rare() -> None:
    event = evr.dpsgd(noise_multiplier=0.03, sampling_probability=1e-10, steps=10**6)
    found = evr.estimate_delta(event, 700.0)
    assert 4.9e-9 < found.value < 5.2e-9


def test_gaussians_next_to_nothing_of_noise() -> None:
    assert evr.estimate_delta(dp_event.GaussianDpEvent(1e-18), 1.0).value == pytest.approx(1.0)
    assert evr.estimate_epsilon(dp_event.GaussianDpEvent(1e-17), 0.1).value == pytest.approx(
        5e33, rel=1e-6
    )


def test_online_follows_what_composes() -> None:
    both = dp_event.ComposedDpEvent([dp_event.GaussianDpEvent(1.0), dp_event.LaplaceDpEvent(1.0)])
    found = evr.online_epsilon(dp_event.PoissonSampledDpEvent(1.0, both), delta=1e-5)
    assert found.epsilons[-1] == pytest.approx(evr.estimate_epsilon(both, 1e-5).value, rel=1e-6)


def test_depth_has_no_limit_online() -> None:
    event: dp_event.DpEvent = dp_event.GaussianDpEvent(5.0)
    for _ in range(3000):
        event = dp_event.SelfComposedDpEvent(event, 1)
    assert evr.online_epsilon(event, delta=1e-5).epsilons[-1] > 0
