"""The Edgeworth accountant against high-precision values: better than the CLT in the limit, and its
bound a bound.
"""

import math

import numpy as np
import pytest
from dp_accounting import dp_event
from dp_accounting.pld import PLDAccountant

from estimation.references import REFERENCES, references
from evr.estimation.edgeworth import EdgeworthCurve
from evr.estimation.gdp import GdpCurve
from evr.estimation.loss_moments import composed_moments, loss_moments
from evr.events import EpsilonDeltaDpEvent, dpsgd
from evr.laws import Direction
from evr.mechanisms import Composition
from helpers import near


def steps(event, direction=Direction.REMOVE):
    return Composition.of(event).steps(direction)


def test_moments_of_a_gaussian_are_the_closed_form():
    p, q = loss_moments(steps(dp_event.GaussianDpEvent(2.0))[0].pair)
    expected = [0.0, 1 / 8, 1 / 4, 0.0, 0.0, math.sqrt(8 / math.pi) / 8]
    np.testing.assert_allclose(p, expected, rtol=1e-7, atol=1e-9)
    np.testing.assert_allclose(q, [0.0, -1 / 8, *expected[2:]], rtol=1e-7, atol=1e-9)


def test_moments_of_a_sampled_gaussian_agree_with_quadrature():
    (step,) = steps(dpsgd(noise_multiplier=0.8, sampling_probability=1e-4, steps=1))
    x, w = np.polynomial.hermite_e.hermegauss(120)
    loss = np.log1p(1e-4 * np.expm1(x / 0.8 - 0.5 / 0.64))
    for law, weights in zip(loss_moments(step.pair), (w * np.exp(loss), w), strict=True):
        weights = weights / weights.sum()
        mean = weights @ loss
        centred = [weights @ (loss - mean) ** n for n in (2, 3, 4)]
        expected = [mean, centred[0], centred[1], centred[2] - 3 * centred[0] ** 2]
        np.testing.assert_allclose(law[1:5], expected, rtol=1e-5)


def test_moments_add_over_steps():
    one = dpsgd(noise_multiplier=1.0, sampling_probability=0.1, steps=1)
    single = composed_moments(steps(one))
    total = composed_moments(
        steps(dp_event.ComposedDpEvent([dp_event.SelfComposedDpEvent(one, 6), one]))
    )
    np.testing.assert_allclose(np.array(total), 7 * np.array(single), rtol=1e-12)


LIMIT = [r for r in references("many steps") if r.delta > 1e-6]


@pytest.mark.parametrize("r", LIMIT, ids=[r.label for r in LIMIT])
def test_close_to_the_truth_in_the_limit_and_closer_than_gdp(r):
    error = abs(EdgeworthCurve(steps(r.event, r.direction)).delta(r.epsilon) / r.delta - 1)
    assert error < 5e-4
    assert error < abs(GdpCurve(steps(r.event, r.direction)).delta(r.epsilon) / r.delta - 1) / 10


def test_the_limit_tests_are_not_empty():
    assert len(LIMIT) >= 2


def test_gaussians_are_exact_while_the_normal_tail_is():
    event = dp_event.SelfComposedDpEvent(dp_event.GaussianDpEvent(70.0), 1200)
    exact = GdpCurve(steps(event)).delta(1.0)
    assert EdgeworthCurve(steps(event)).delta(1.0) == near(exact, rel=1e-7)


def test_mixed_composition_against_privacy_loss_distributions():
    event = dp_event.ComposedDpEvent(
        [
            dpsgd(noise_multiplier=2.0, sampling_probability=0.01, steps=3000),
            dp_event.SelfComposedDpEvent(dp_event.LaplaceDpEvent(60.0), 400),
            dp_event.GaussianDpEvent(4.0),
        ]
    )
    truth = PLDAccountant().compose(event).get_delta(1.0)
    assert EdgeworthCurve(steps(event)).delta(1.0) == near(truth, rel=2e-3)


@pytest.mark.parametrize("r", REFERENCES, ids=[r.label for r in REFERENCES])
def test_the_upper_bound_is_above_the_truth(r):
    assert EdgeworthCurve(steps(r.event, r.direction)).upper_delta(r.epsilon) >= r.delta * (
        1 - 1e-9
    )


def test_the_upper_bound_is_useful_for_many_steps():
    event = dp_event.SelfComposedDpEvent(dp_event.GaussianDpEvent(70.0), 1200)
    curve = EdgeworthCurve(steps(event))
    assert curve.delta(0.5) < curve.upper_delta(0.5) < curve.delta(0.5) + 0.06


def test_heterogeneous_steps_use_the_constant_for_any_summands():
    part = dpsgd(noise_multiplier=2.0, sampling_probability=0.1, steps=500)
    other = dpsgd(noise_multiplier=2.0001, sampling_probability=0.1, steps=500)
    same = EdgeworthCurve(steps(dp_event.SelfComposedDpEvent(part, 2))).upper_delta(2.0)
    mixed = EdgeworthCurve(steps(dp_event.ComposedDpEvent([part, other]))).upper_delta(2.0)
    assert 1.01 * same < mixed < 3 * same


@pytest.mark.parametrize("method", ["delta", "upper_delta"])
def test_atoms_and_extremes(method):
    def at(event, epsilon):
        return getattr(EdgeworthCurve(steps(event)), method)(epsilon)

    fails = dp_event.SelfComposedDpEvent(EpsilonDeltaDpEvent(0.0, 1e-3), 100)
    assert at(fails, 0.5) == near(1 - 0.999**100, rel=1e-9)
    assert at(dp_event.NonPrivateDpEvent(), 1.0) == 1.0
    assert at(dp_event.NoOpDpEvent(), 1.0) == 0.0
