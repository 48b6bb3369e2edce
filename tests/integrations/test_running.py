"""Epsilon after every step: as exact as promised, and cheap."""

from __future__ import annotations

import math

import numpy as np
import pytest

from helpers import near

pytest.importorskip("opacus", reason="needs the extra: pip install evr-dp[opacus]", exc_type=ImportError)
pytestmark = pytest.mark.filterwarnings("ignore")  # torch and Opacus warn about themselves

import evr
from evr._accounting.curves import Point
from evr.events import opacus_history
from evr.integrations import opacus


def running(delta):
    """An accountant, asked after one history or another."""
    accountant = opacus.EvrAccountant()

    def epsilon(history):
        accountant.history = list(history)
        return accountant.get_epsilon(delta)

    return epsilon


@pytest.fixture
def evaluations(monkeypatch):
    """Histories whose epsilon was computed."""
    return watched(monkeypatch, opacus.estimated)


def watched(monkeypatch, evaluate):
    found = []

    def counted(history, *near):
        found.append(history)
        return evaluate(history, *near)

    monkeypatch.setattr(opacus, "estimated", counted)
    return found


def exact(history, delta):
    return evr.estimate_epsilon(opacus_history(history), delta).value


@pytest.mark.parametrize(("noise", "rate", "delta"), [(1.1, 256 / 60_000, 1e-5), (0.7, 1e-3, 1e-6)])
def test_every_step_is_exact_to_a_millionth(noise, rate, delta, evaluations):
    epsilon = running(delta)
    values = {steps: epsilon([(noise, rate, steps)]) for steps in range(1, 801)}
    assert len(evaluations) < 40
    assert all(values[k] < values[k + 1] for k in range(1, 800))
    for steps in (1, 3, 7, 23, 150, 799):
        assert values[steps] == near(exact([(noise, rate, steps)], delta), abs=1e-6)


def test_phases_one_after_another(evaluations):
    epsilon = running(1e-5)
    values = [epsilon([(1.0, 0.02, 60), (0.8, 0.02, steps)]) for steps in range(1, 61)]
    assert len(evaluations) < 20
    for steps in (1, 17):
        assert values[steps - 1] == near(exact([(1.0, 0.02, 60), (0.8, 0.02, steps)], 1e-5), abs=1e-6)


def test_a_long_schedule_costs_a_few_evaluations_a_phase(monkeypatch):
    """Gaussian differential privacy in place of epsilon: smooth in the same way, and free."""

    def spent(history):
        return math.sqrt(sum(steps * rate**2 * math.expm1(noise**-2) for noise, rate, steps in history))

    evaluations = watched(monkeypatch, lambda history, *_: Point(spent(history), 0.0, "remove"))
    epsilon, history, worst = running(1e-5), [], 0.0
    for epoch in range(60):
        history.append((1.5 * 0.99**epoch, 0.004, 0))
        for steps in range(1, 251):
            history[-1] = (*history[-1][:2], steps)
            worst = max(worst, abs(epsilon(history) - spent(history)))
    assert worst < 1e-6
    assert len(evaluations) < 60 * 12


def test_it_reaches_back_and_jumps_ahead():
    epsilon = running(1e-5)
    for steps in (5, 300, 3, 299):
        assert epsilon([(1.0, 0.01, steps)]) == near(exact([(1.0, 0.01, steps)], 1e-5), abs=1e-6)


def test_a_search_asks_once_for_each_candidate(evaluations):
    epsilon = running(1e-5)
    for noise in np.linspace(1.0, 2.0, 9):
        epsilon([(float(noise), 0.01, 1000)])
    assert len(evaluations) == 9


def test_what_cannot_be_interpolated_is_computed(monkeypatch):
    """A kink and a jump: the block shortens until its points are all of its steps."""

    def kinked(history):
        steps = history[-1][2]
        return 0.0 if steps < 40 else math.sqrt(steps - 39.0) + (steps > 111)

    watched(monkeypatch, lambda history, *_: Point(kinked(history), 0.0, "remove"))
    epsilon = running(1e-5)
    assert [epsilon([(1.0, 0.01, k)]) for k in range(1, 200)] == near(
        [kinked([(1.0, 0.01, k)]) for k in range(1, 200)], abs=1e-6
    )


def test_no_steps_and_no_noise():
    epsilon = running(1e-5)
    assert epsilon([]) == 0.0
    assert epsilon([(0.0, 0.5, 3)]) == math.inf
    assert [epsilon([(1.0, 0.0, k)]) for k in range(1, 9)] == [0.0] * 8
