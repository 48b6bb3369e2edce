"""Schedules: very many kinds of sampled Gaussians, grouped to the safe side. A group below its steps would be a false
guarantee, and so would a lower bound that is made of groups.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest
from dp_accounting import dp_event as d
from scipy.special import ndtr

import evr
from evr._estimate import fft, schedules
from evr._estimate.fft import FftCurve
from evr._kernel.events import Composition
from evr._kernel.pairs import Step, grouping
from evr._kernel.pairs.exact import ExactGaussian, SampledCurve
from evr._kernel.pairs.exact.law import at_precision
from evr._kernel.pairs.exact.sampled import ExactEither
from evr._kernel.pairs.grouping import grouped
from evr._kernel.strict import ProofPlan
from evr._kernel.strict.lower import bounds_below
from evr._proof.writer import proof_of
from evr.errors import UnsupportedEventError
from evr.types import Direction
from helpers import near


def schedule(noises: list[float], rates: list[float]) -> d.DpEvent:
    steps = zip(noises, rates, strict=True)
    return d.ComposedDpEvent([d.PoissonSampledDpEvent(q, d.GaussianDpEvent(z)) for z, q in steps])


NUMBER = 24
RISING = [0.7 + 0.02 * i for i in range(NUMBER)]
RATES = [0.01 + 0.001 * i for i in range(NUMBER)]
SCHEDULES = {
    "noise": (RISING, [0.02] * NUMBER),
    "rate": ([1.0] * NUMBER, RATES),
    "both": (RISING[::-1], RATES),
    "against each other": (RISING, RATES),
    "one step apart": ([1.0] * 4 + [0.5] + [1.0 + 0.1 * i for i in range(19)], [0.5] * 4 + RATES[:20]),
}


@pytest.fixture
def few_kinds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(grouping, "MOST_KINDS", 5)
    grouped.cache_clear()


RELATIONS: dict[Direction | None, str] = {None: "replace-one", **dict.fromkeys(Direction, "add-or-remove")}


def closed_form(q: float, m: float, direction: Direction | None) -> Callable[[float], float]:
    """The curve of a sampled Gaussian by ``scipy``; nothing of evr. No direction: under replace-one."""

    def gaussian(r: float) -> float:
        place = math.log(r) / m
        return float(ndtr(m / 2 - place) - r * ndtr(-m / 2 - place))

    def remove(r: float) -> float:
        return q * gaussian((r - 1 + q) / q) if r > 1 - q else 1 - r

    def add(r: float) -> float:
        c = 1 - (1 - q) * r
        return c * gaussian(q * r / c) if c > 0 else 0.0

    def replace(r: float) -> float:
        half = math.log(r) / 2
        z = (half + math.asinh((1 - q) / q * math.exp(m * m / 2) * math.sinh(half))) / m
        return float((1 - q) * (1 - r) * ndtr(-z) + q * (ndtr(m - z) - r * ndtr(-m - z)))

    return {Direction.REMOVE: remove, Direction.ADD: add, None: replace}[direction]


@pytest.mark.parametrize("direction", RELATIONS)
@pytest.mark.parametrize("seed", range(8))
def test_a_step_is_below_the_mixture_of_one_below_and_one_above(seed: int, direction: Direction | None) -> None:
    """G5.3 and G5.5, at random places of random boxes, from tiny to wide."""
    rng, scale = random.Random(seed), (8 if direction else 2) ** 0.5
    for _ in range(40):
        a, low = 10 ** rng.uniform(-1, 0.7), 10 ** rng.uniform(-3, -0.3)
        b, high = a * (1 + 10 ** rng.uniform(-3, 1)), min(low * (1 + 10 ** rng.uniform(-3, 1)), 0.99)
        if direction is None:
            b, high = min(b, 20.0), min(high, max(low, 1 / b**2))  # where there is a proof; the same rate elsewhere
        t = rng.random()
        rate = low + t * (high - low)
        wanted = math.erf(a / scale) + t * (math.erf(b / scale) - math.erf(a / scale))
        inner = (a, b)
        for _ in range(80):
            middle = sum(inner) / 2
            inner = (middle, inner[1]) if math.erf(middle / scale) < wanted else (inner[0], middle)
        for r in np.exp(np.linspace(-3, 3, 61)):
            ours = closed_form(rate, inner[0], direction)(r)
            below, above = (closed_form(q, m, direction)(r) for q, m in ((low, a), (high, b)))
            assert ours <= (1 - t) * below + t * above + 1e-13


@pytest.mark.parametrize("seed", range(3))
def test_coins_of_one_chance_succeed_more_often(seed: int) -> None:
    """G5.4: the number of successes, by enumeration."""
    chances = np.random.default_rng(seed).uniform(0, 0.99, 7)
    equal = np.full(7, 1 - np.prod(1 - chances) ** (1 / 7))
    tails = []
    for coins in (chances, equal):
        law = np.ones(1)
        for chance in coins:
            law = np.convolve(law, [1 - chance, chance])
        tails.append(np.cumsum(law[::-1]))
    assert np.all(tails[0] <= tails[1] + 1e-14)


@pytest.mark.usefixtures("few_kinds")
@pytest.mark.parametrize("name", SCHEDULES)
@pytest.mark.parametrize("direction", RELATIONS)
def test_groups_dominate_their_steps(name: str, direction: Direction | None) -> None:
    event = schedule(*SCHEDULES[name])
    steps = Composition.of(event, RELATIONS[direction]).simplified(direction or Direction.REMOVE)
    safe = grouped(steps)
    assert len(safe) == 5
    assert sum(step.count for step in safe) == sum(step.count for step in steps) == NUMBER
    curves = [_curve(one) for one in (safe, steps)]
    for epsilon in (0.05, 1.0):
        above, truth = (curve.delta(epsilon).value for curve in curves)
        assert above >= truth * (1 - 1e-9)


def _curve(steps: tuple[Step, ...]) -> FftCurve:
    """The curve of the steps as they are."""
    return FftCurve(tuple(Step(step.floats, step.count) for step in steps))


@pytest.mark.usefixtures("few_kinds")
def test_both_forms_of_a_group_are_one_law() -> None:
    event = schedule(*SCHEDULES["both"])
    steps = [Composition.of(event, relation).simplified("add") for relation in ("add-or-remove", "replace-one")]
    for step in grouped(steps[0]) + grouped(steps[1]):
        law = step.exact_law
        assert isinstance(law, ExactEither)
        curve = _curve((Step(step.law, 1),))
        for epsilon in (0.0, 0.02):
            with at_precision(100):
                exact = float(law.hockey_stick(Fraction(epsilon)))
            assert curve.delta(epsilon).value == near(exact, rel=1e-9)


@pytest.mark.usefixtures("few_kinds")
@pytest.mark.parametrize(
    ("noises", "rates"),
    [
        ([math.nextafter(1.0, 2.0) * (1 + i * 2**-52) for i in range(20)], [0.01] * 20),
        ([0.01 + 1e-5 * i for i in range(20)], [0.01] * 20),
        ([1.0] * 20, [1 - 2**-50 * (i + 1) for i in range(20)]),
        ([1.0 + i for i in range(20)], [1e-200 * 2**i for i in range(20)]),
        ([1e4 * 2**i for i in range(20)], [0.5] * 20),
    ],
    ids=["equal to many digits", "hardly private", "nearly all records", "rates far apart", "noise far apart"],
)
def test_groups_at_the_ends_of_numbers(noises: list[float], rates: list[float]) -> None:
    for direction in Direction:
        for step in grouped(Composition.of(schedule(noises, rates)).simplified(direction)):
            law = step.exact_law
            top = law.above if isinstance(law, ExactEither) else law
            assert isinstance(top, SampledCurve)
            assert isinstance(top.base, ExactGaussian)
            assert 0 < top.q < 1


def test_what_is_not_many_kinds_stays_as_it_is() -> None:
    steps = Composition.of(schedule(*SCHEDULES["both"])).simplified("remove")
    assert grouped(steps) == steps


@pytest.mark.usefixtures("few_kinds")
def test_what_has_no_proof_under_replace_one_is_rounded_up() -> None:
    """G5.5 asks for a rate below the square of the noise where both change."""
    steps = Composition.of(
        schedule([0.3 + 0.001 * i for i in range(20)], [0.2 + i * 0.01 for i in range(20)]), "replace-one"
    )
    assert not any(isinstance(step.law, ExactEither) for step in grouped(steps.simplified("remove")))


@pytest.mark.usefixtures("few_kinds")
def test_a_group_has_no_lower_bound() -> None:
    event = schedule(*SCHEDULES["noise"])
    step = grouped(Composition.of(event).simplified("remove"))[0]
    with pytest.raises(UnsupportedEventError, match="grouped to the safe side"):
        bounds_below((Step(step.law, 1),), ProofPlan.of_one_step(64), Fraction(0), Fraction(1))
    with pytest.raises(UnsupportedEventError, match="grouped to the safe side"):
        evr.refute(event, epsilon=0.1, delta=1e-9)


@pytest.mark.usefixtures("few_kinds")
def test_a_schedule_is_estimated_certified_and_replayed(tmp_path: object) -> None:
    event = schedule([1.0] * NUMBER, [0.02 + 1e-5 * i for i in range(NUMBER)])
    found = evr.estimate_epsilon(event, 1e-5)
    steps = Composition.of(event).simplified("remove")
    exact = max(_curve(steps).delta(found.value).value, 0.0)
    assert exact == near(1e-5, rel=1e-3)
    certificate = evr.certify(event, delta=1e-5, ledger=f"{tmp_path}/ledger.sqlite")
    assert certificate.accepted
    assert evr.replay(certificate).agrees
    with pytest.raises(UnsupportedEventError, match="a group of nearly equal steps cannot be stated in a proof file"):
        proof_of(certificate)


@pytest.mark.usefixtures("few_kinds")
def test_a_false_claim_of_a_schedule_is_not_drawn() -> None:
    """Samples of so many kinds took minutes to reject what the groups do not show."""
    event = schedule(*SCHEDULES["noise"])
    found = evr.verify(event, epsilon=evr.estimate_epsilon(event, 1e-5).value - 0.01, delta=1e-5)
    assert found.verdict.value == "rejected"
    assert found.method == "strict"


@pytest.mark.parametrize("name", SCHEDULES)
def test_an_estimate_of_few_nodes_says_how_far_it_is_off(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Against an estimate that takes every kind as it is: where there were a few kinds more than a proof takes, the
    stated error was that of the proof's groups, and up to 25 times too small.
    """
    steps = Composition.of(schedule(*SCHEDULES[name])).simplified("remove")
    truth = _curve(steps)
    monkeypatch.setattr(grouping, "MOST_KINDS", len(steps) - 2)
    monkeypatch.setattr(schedules, "_MOST_KINDS", len(steps) - 2)
    monkeypatch.setattr(fft, "_GROUPS", 6)
    grouped.cache_clear()
    schedules.condensed.cache_clear()
    curve = FftCurve(steps)
    assert len(curve.steps) < len(steps)
    for epsilon in (0.05, 0.3, 1.0, 2.0):
        found = curve.delta(epsilon)
        assert abs(found.value - truth.delta(epsilon).value) <= found.error
    grouped.cache_clear()
    schedules.condensed.cache_clear()


def test_steps_whose_noise_and_rate_change_independently(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two kinds for each group have no correlation but 1 or -1: delta was off by 7%, and an estimate of 3,000 steps was
    refused, for want of digits.
    """
    rates = [0.02 * (1 + (i * 7919 % NUMBER) / NUMBER) for i in range(NUMBER)]
    steps = Composition.of(schedule(RISING, rates)).simplified("remove")
    truth = _curve(steps).delta(1.0).value
    monkeypatch.setattr(schedules, "_MOST_KINDS", NUMBER - 2)
    monkeypatch.setattr(grouping, "MOST_KINDS", NUMBER - 2)
    monkeypatch.setattr(fft, "_GROUPS", 6)
    grouped.cache_clear()
    schedules.condensed.cache_clear()
    found = FftCurve(steps).delta(1.0)
    assert found.value == near(truth, rel=0.005)
    assert abs(found.value - truth) <= found.error < 0.3 * found.value
    grouped.cache_clear()
    schedules.condensed.cache_clear()
