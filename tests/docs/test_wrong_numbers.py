"""docs/wrong_numbers.md: the proved values, and what formulas say, computed again."""

from __future__ import annotations

import math
import re
from pathlib import Path

import pytest
from dp_accounting import dp_event
from scipy.optimize import brentq
from scipy.special import ndtr

import evr

PAGE = Path(__file__).parents[2] / "docs" / "wrong_numbers.md"
ROWS = {
    int(row[1]): (row[4], float(row[5]), row[7])
    for row in (re.split(r"\s*\|\s*", line) for line in PAGE.read_text("utf-8").splitlines())
    if len(row) > 7 and row[1].isdigit()
}


def classic(epsilon: float, rounds: int) -> dp_event.DpEvent:
    """Rounds of a Gaussian whose noise is that of the classic formula, at delta 1e-5."""
    noise = math.sqrt(2 * math.log(1.25 / 1e-5)) / epsilon
    return dp_event.SelfComposedDpEvent(dp_event.GaussianDpEvent(noise), rounds)


def central_limit(q: float, noise: float, steps: int, delta: float) -> float:
    mu = q * math.sqrt(steps * math.expm1(noise**-2))
    return float(brentq(lambda e: ndtr(mu / 2 - e / mu) - math.exp(e) * ndtr(-mu / 2 - e / mu) - delta, 0, 100))


def moments(q: float, noise: float, steps: int, delta: float) -> float:
    each = steps * q**2 / ((1 - q) * noise**2)
    return min(each * (lam + 1) + math.log(1 / delta) / lam for lam in range(1, 257))


def zcdp(rho: float, delta: float) -> float:
    orders = (1 + i / 100 for i in range(10, 5000))
    return min(rho * a + (-math.log(delta * a) + (a - 1) * math.log1p(-1 / a)) / (a - 1) for a in orders)


MNIST = evr.dpsgd(noise_multiplier=1.1, dataset_size=60_000, batch_size=256, epochs=15)
SMALL = evr.dpsgd(noise_multiplier=1.0, sampling_probability=0.01, steps=100)
PURE = dp_event.SelfComposedDpEvent(evr.events.EpsilonDeltaDpEvent(0.1, 0), 1000)
CHOICES = dp_event.SelfComposedDpEvent(evr.events.ExponentialMechanismDpEvent(0.1), 1000)
EVENTS = {
    1: (evr.dpsgd(noise_multiplier=1.2, dataset_size=100_000, batch_size=256, epochs=50), 1e-10),
    2: (classic(20, 1), 1e-5),
    3: (classic(10, 1), 1e-5),
    4: (classic(1, 50), 1e-5),
    5: (MNIST, 1e-5),
    6: (MNIST, 1e-5),
    7: (MNIST, 1e-5),
    8: (SMALL, 1e-6),
    9: (PURE, 1e-6),
    10: (CHOICES, 1e-6),
}
FORMULAS = {
    5: lambda: 256 / 60_000 * math.sqrt(16 * 3516 * math.log(1.25e5) * math.log(1e5)) / 1.1,
    6: lambda: evr.estimate_epsilon(MNIST, delta=1e-5, method="rdp").value,
    7: lambda: central_limit(256 / 60_000, 1.1, 3516, 1e-5),
    8: lambda: moments(0.01, 1.0, 100, 1e-6),
    9: lambda: 0.1 * math.sqrt(2000 * math.log(1e6)) + 100 * math.expm1(0.1),
    10: lambda: zcdp(1000 * 0.1**2 / 8, 1e-6),
}


def test_there_are_ten():
    assert sorted(ROWS) == sorted(EVENTS) == list(range(1, 11))


@pytest.mark.parametrize("number", EVENTS)
def test_the_proved_value(number):
    event, delta = EVENTS[number]
    stated, proved = ROWS[number][1], evr.estimate_epsilon(event, delta=delta, method="strict").value
    assert stated - 1e-3 < proved <= stated
    assert (1 - 1e-4) * proved <= evr.estimate_epsilon(event, delta=delta).value <= proved * (1 + 1e-6)


@pytest.mark.parametrize("number", EVENTS)
def test_the_verdict_on_the_pair(number):
    (event, delta), (says, proved, verdict) = EVENTS[number], ROWS[number]
    if verdict == "no claim":
        assert not says.replace(".", "").isdigit()
        return
    refutation = evr.refute(event, epsilon=float(says), delta=delta)
    if verdict == "proved":
        assert proved <= float(says)
        assert not refutation.refuted
    else:
        assert refutation.refuted
        stated = float(verdict.removeprefix("refuted:").split()[-1])
        assert delta < stated <= refutation.lower < 1.01 * stated


@pytest.mark.parametrize("number", FORMULAS)
def test_what_the_formula_says(number):
    assert abs(FORMULAS[number]() - float(ROWS[number][0])) < 1e-3
