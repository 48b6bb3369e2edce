"""Epsilon after every step: the same values as a computation from scratch, in one pass."""

import math

import numpy as np
import pytest
from dp_accounting import dp_event

import evr
from evr.events import EpsilonDeltaDpEvent
from helpers import near

repeat, composed, sampled = (dp_event.SelfComposedDpEvent, dp_event.ComposedDpEvent, dp_event.PoissonSampledDpEvent)


def dpsgd(steps, q, noise):
    return evr.dpsgd(noise_multiplier=noise, sampling_probability=q, steps=steps)


@pytest.mark.parametrize("direction", [None, "add"])
def test_as_from_scratch(direction):
    online = evr.online_epsilon(dpsgd(40, 1e-3, 1.0), 1e-9, direction=direction)
    assert online.steps.tolist() == list(range(1, 41))
    for steps in (1, 2, 17, 40):
        scratch = evr.estimate_epsilon(dpsgd(steps, 1e-3, 1.0), 1e-9, direction=direction).value
        assert online.epsilons[steps - 1] == near(scratch, rel=1e-6)


@pytest.mark.parametrize(
    ("q", "noise", "delta"), [(0.05, 0.8, 1e-5), (1e-4, 0.5, 1e-6), (0.3, 4.0, 1e-12), (1.0, 20.0, 1e-8)]
)
def test_other_settings(q, noise, delta):
    online = evr.online_epsilon(dpsgd(300, q, noise), delta, every=97)
    assert online.steps.tolist() == [97, 194, 291, 300]
    for steps, epsilon in zip(online.steps.tolist(), online.epsilons, strict=True):
        assert epsilon == near(evr.estimate_epsilon(dpsgd(steps, q, noise), delta).value, rel=1e-6)


def test_a_run_that_changes_as_it_goes():
    phases = [
        dpsgd(40, 0.01, 1.0),
        dp_event.LaplaceDpEvent(10.0),
        dpsgd(30, 0.02, 1.5),
        repeat(dp_event.GaussianDpEvent(30.0), 5),
    ]
    online = evr.online_epsilon(composed(phases), 1e-6, every=7)
    assert online.steps.tolist() == [*range(7, 77, 7), 76]
    after_42 = composed([phases[0], phases[1], dpsgd(1, 0.02, 1.5)])
    assert online.epsilons[5] == near(evr.estimate_epsilon(after_42, 1e-6).value, rel=1e-6)
    assert online.epsilons[-1] == near(evr.estimate_epsilon(composed(phases), 1e-6).value, rel=1e-6)


def test_alternating_mechanisms():
    one, other = dpsgd(1, 0.01, 1.0), sampled(0.1, dp_event.LaplaceDpEvent(5.0))
    online = evr.online_epsilon(repeat(composed([one, other]), 20), 1e-6)
    assert online.steps.size == 40
    assert np.all(np.diff(online.epsilons) > 0)
    for steps in (1, 2, 7, 24, 40):
        ran = composed([repeat(one, -(-steps // 2)), *([repeat(other, steps // 2)] * (steps > 1))])
        scratch = evr.estimate_epsilon(ran, 1e-6).value
        assert online.epsilons[steps - 1] == near(scratch, rel=1e-6)


def test_stated_errors_cover_what_interpolation_misses():
    for event, delta in ((dpsgd(400, 0.02, 0.9), 1e-6), (dpsgd(400, 1e-4, 0.5), 1e-8)):
        online = evr.online_epsilon(event, delta)
        for steps in (5, 84, 321):
            scratch = evr.estimate_epsilon(repeat(event.event, steps), delta)
            assert abs(online.epsilons[steps - 1] - scratch.value) <= (online.errors[steps - 1] + scratch.error)


def test_a_curve_is_a_table_and_a_picture():
    online = evr.online_epsilon(dpsgd(30, 0.01, 1.0), 1e-6, every=10)
    frame = online.to_frame()
    assert frame["steps"].tolist() == [10, 20, 30]
    assert frame["epsilon"].tolist() == online.epsilons.tolist()
    axes = online.plot(label="mine")
    assert axes.get_ylabel() == "epsilon"
    assert axes.lines[0].get_ydata().tolist() == online.epsilons.tolist()
    assert "<th>steps</th><th>epsilon</th><th>error</th>" in online._repr_html_()
    assert repr(online).startswith("OnlineEpsilon(3 points, steps 10 to 30, epsilon 0.")


def test_failures_end_at_infinity():
    online = evr.online_epsilon(repeat(EpsilonDeltaDpEvent(0.1, 1e-7), 20), 1e-6)
    assert np.all(np.isfinite(online.epsilons[:9]))
    assert online.epsilons[-1] == math.inf


def test_steps_that_cost_nothing_are_steps():
    online = evr.online_epsilon(composed([repeat(dp_event.NoOpDpEvent(), 3), dp_event.GaussianDpEvent(5.0)]), 1e-6)
    assert online.epsilons[:3].tolist() == [0, 0, 0]
    assert online.epsilons[3] > 0


def test_no_privacy():
    assert evr.online_epsilon(dp_event.NonPrivateDpEvent(), 0.5).epsilons.tolist() == [math.inf]


def test_progress_is_reported():
    calls = []
    evr.online_epsilon(dpsgd(10, 0.01, 1.0), 1e-6, every=4, progress=lambda done, total: calls.append((done, total)))
    assert calls == [(4, 10), (8, 10), (10, 10)]


@pytest.mark.parametrize(
    ("arguments", "error", "words"),
    [
        ({"delta": 0.0}, ValueError, "delta=0.0 is not in"),
        ({"delta": 1e-6, "every": 0}, ValueError, "every=0 is not"),
        ({"delta": 1e-6, "direction": "up"}, ValueError, "direction='up' is not one of"),
    ],
)
def test_bad_values(arguments, error, words):
    with pytest.raises(error, match=words):
        evr.online_epsilon(dpsgd(10, 0.01, 1.0), **arguments)


def test_nothing_ran():
    """Once it said that there were not enough values to unpack."""
    with pytest.raises(ValueError, match="empty composition: no step ran"):
        evr.online_epsilon(dp_event.ComposedDpEvent([]), 1e-6)
