"""The CLT accountant: exact for Gaussians, the published formula for sampled ones, close in the
limit for others.
"""

import math

import pytest
from dp_accounting import dp_event
from dp_accounting.pld import PLDAccountant
from scipy.stats import norm

from evr.estimation.gdp import GdpCurve
from evr.events import EpsilonDeltaDpEvent, dpsgd
from evr.laws import Direction
from evr.mechanisms import Composition
from helpers import near


def steps(event, direction=Direction.REMOVE):
    return Composition.of(event).steps(direction)


def gaussian_delta(mu, epsilon):
    return norm.cdf(-epsilon / mu + mu / 2) - math.exp(epsilon) * norm.cdf(-epsilon / mu - mu / 2)


@pytest.mark.parametrize("epsilon", [0.0, 1.0, 2.0, 4.0])
def test_gaussian_composition_is_exact(epsilon):
    event = dp_event.SelfComposedDpEvent(dp_event.GaussianDpEvent(70.0), 1200)
    assert GdpCurve(steps(event)).delta(epsilon) == near(
        gaussian_delta(math.sqrt(1200) / 70, epsilon), rel=1e-9
    )


@pytest.mark.parametrize("direction", list(Direction))
def test_sampled_gaussian_is_the_formula_of_bu_et_al(direction):
    curve = GdpCurve(
        steps(dpsgd(noise_multiplier=1.3, sampling_probability=0.02, steps=700), direction)
    )
    mu = 0.02 * math.sqrt(700 * (math.exp(1 / 1.3**2) - 1))
    assert curve.mu == near(mu, rel=1e-12)
    assert curve.delta(0.7) == near(gaussian_delta(mu, 0.7), rel=1e-9)


def test_mixed_gaussians_add_their_squares():
    event = dp_event.ComposedDpEvent(
        [
            dpsgd(noise_multiplier=2.0, sampling_probability=0.01, steps=100),
            dp_event.GaussianDpEvent(5.0),
        ]
    )
    assert GdpCurve(steps(event)).mu ** 2 == near(1e-4 * 100 * math.expm1(0.25) + 0.04, rel=1e-12)


def test_many_laplace_steps_approach_the_normal_limit():
    event = dp_event.SelfComposedDpEvent(dp_event.LaplaceDpEvent(40.0), 2000)
    truth = PLDAccountant().compose(event).get_delta(2.0)
    assert GdpCurve(steps(event)).delta(2.0) == near(truth, rel=2e-2)


def test_infinite_losses_are_counted_apart():
    event = dp_event.SelfComposedDpEvent(EpsilonDeltaDpEvent(0.01, 1e-3), 100)
    assert GdpCurve(steps(event)).delta(3.0) == near(1 - 0.999**100, rel=1e-9)


def test_extremes():
    assert GdpCurve(()).delta(1.0) == 0.0
    assert GdpCurve(steps(dp_event.NonPrivateDpEvent())).delta(1.0) == 1.0
    assert (
        GdpCurve(steps(dpsgd(noise_multiplier=0.03, sampling_probability=0.1, steps=1))).delta(1.0)
        == 1.0
    )
