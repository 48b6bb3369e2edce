"""Audits in one run: stated confidence, power, planted bugs, inputs that are refused.

Statistical tests have a failure probability of at most 1e-6 each: they are seeded, and compare
10,000 repetitions with a rate that is exceeded by five standard deviations.
"""

from __future__ import annotations

import functools
import itertools
import math
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from dp_accounting import dp_event
from scipy.stats import binom, norm

import evr
from evr._proving.audit import CONSISTENT, CONTRADICTS, _chosen, _estimated, _tests, audit, scaled
from evr._proving.guessing import Count, Independent, Several, gaussian, hull, p_value_of, pair
from evr._proving.risk import risk
from evr._report import plots
from helpers import full, near

LEVEL = 0.05
REPETITIONS = 10_000
MOST = LEVEL + 5 * math.sqrt(LEVEL * (1 - LEVEL) / REPETITIONS)


@pytest.fixture(autouse=True)
def same_order(monkeypatch: pytest.MonkeyPatch) -> None:
    """The order that fresh entropy gives to canaries, the same in every run."""
    numbers = itertools.count()
    monkeypatch.setattr("evr._proving.audit.secrets.randbits", lambda bits: next(numbers))


def scores_of_gaussian(rng: np.random.Generator, canaries: int, sigma: float) -> Any:
    included = rng.random(canaries) < 0.5
    return included + sigma * rng.standard_normal(canaries), included


def rejection_rate(draw: Callable[[], Any], curves: list[Any], canaries: int, *, independent: bool) -> float:
    """How often ``audit`` rejects a true curve, or states a bound above the truth: the same event (U4)."""
    number = _chosen(curves[0], canaries, LEVEL)
    rejects = functools.cache(lambda share, test: any(test.rejects(curve, share * LEVEL) for curve in curves))
    rejected = 0
    for _ in range(REPETITIONS):
        values, coins = draw()
        found = _tests(values, coins, number, independent=independent)
        rejected += any(rejects(share, test) for share, test in found.tests)
    return rejected / REPETITIONS


@pytest.mark.parametrize("independent", [False, True])
def test_the_confidence_of_a_gaussian_holds(independent: bool) -> None:
    """The best attack rejects the true curve at most as often as stated."""
    rng, curves = np.random.default_rng(1), [hull(risk(dp_event.GaussianDpEvent(1.0)).both_ways), gaussian(1.0)]
    rate = rejection_rate(lambda: scores_of_gaussian(rng, 100, 1.0), curves, 100, independent=independent)
    assert (0.0 if not independent else LEVEL / 5) <= rate <= MOST  # without dependence the bound is nearly attained


@pytest.mark.parametrize("independent", [False, True])
def test_the_confidence_of_a_simulated_training_holds(independent: bool) -> None:
    rng, canaries, steps, rate = np.random.default_rng(2), 60, 8, 0.3
    event = evr.dpsgd(noise_multiplier=1.0, sampling_probability=rate, steps=steps)

    def draw() -> Any:
        included = rng.random(canaries) < 0.5
        seen = (included & (rng.random((steps, canaries)) < rate)) + rng.standard_normal((steps, canaries))
        return np.log1p(rate * np.expm1(seen - 0.5)).sum(axis=0), included

    curves = [hull(risk(event).both_ways), _estimated(event, None)]
    assert rejection_rate(draw, curves, canaries, independent=independent) <= MOST


def test_canaries_that_leak_together_do_not_break_the_confidence() -> None:
    """A mechanism that shows every coin with probability delta, and nothing else: the worst case of U3."""
    rng, delta = np.random.default_rng(9), 0.04

    def draw() -> Any:
        included = rng.random(40) < 0.5
        return (included if rng.random() < delta else np.zeros(40)) + 1e-3 * rng.random(40), included

    assert rejection_rate(draw, [pair(0.0, delta)], 40, independent=False) <= MOST


@pytest.mark.parametrize(("mu", "general", "independent"), [full(0.268, 0.45, 0.8), (0.925, 0.55, 0.85)])
def test_ten_thousand_canaries_reach_most_of_a_true_epsilon(mu: float, general: float, independent: float) -> None:
    """Epsilon about 1 and 4 at 1e-5; the median of three audits of each kind."""
    event, rng = dp_event.GaussianDpEvent(1 / mu), np.random.default_rng(3)
    runs = [scores_of_gaussian(rng, 10_000, 1 / mu) for _ in range(3)]
    found = [audit(values, coins, event) for values, coins in runs]
    alone = [audit(values, coins, event, independent=True) for values, coins in runs]
    truth = evr.estimate_epsilon(event, delta=1e-5).value
    assert all(one.claimed == near(truth, rel=1e-6) for one in found)
    assert np.median([one.epsilon for one in found]) >= general * truth
    assert np.median([one.epsilon for one in alone]) >= independent * truth
    assert all(one.epsilon_of_any <= one.epsilon for one in found)


def test_too_little_noise_contradicts_the_certificate() -> None:
    values, included = scores_of_gaussian(np.random.default_rng(4), 1000, 0.5)
    found = audit(values, included, dp_event.GaussianDpEvent(2.0))
    assert found.verdict == CONTRADICTS
    assert found.p_value is not None
    assert found.p_value < 1e-6
    assert found.claimed is not None
    assert found.epsilon > found.claimed
    assert "contradicts" in found.sentence
    honest = audit(values, included, dp_event.GaussianDpEvent(0.5))
    assert honest.verdict == CONSISTENT


def test_scores_that_say_nothing_bound_nothing() -> None:
    rng = np.random.default_rng(5)
    found = audit(rng.random(500), rng.random(500) < 0.5)
    assert (found.epsilon, found.epsilon_of_any, found.p_value) == (0.0, 0.0, None)
    assert found.verdict == CONSISTENT


def test_pure_differential_privacy_gives_the_binomial_tail() -> None:
    """Steinke, Nasr and Jagielski: guesses on a pure pair are at most binomial, of probability
    e^eps / (1 + e^eps).
    """
    for correct, guesses, epsilon in ((70, 100, 0.5), (45, 60, 0.2), (9, 10, 1.0)):
        tail = binom.sf(correct - 1, guesses, 1 / (1 + math.exp(-epsilon)))
        value = p_value_of(Count(correct, guesses, guesses), pair(epsilon, 1e-30))
        assert tail <= value * (1 + 1e-6)
        assert value <= 3 * tail


def test_a_p_value_falls_with_right_guesses_and_rises_with_the_curve() -> None:
    values = [p_value_of(Count(c, 40, 100), gaussian(0.5)) for c in range(20, 41)]
    assert values == sorted(values, reverse=True)
    rising = [p_value_of(Count(34, 40, 100), gaussian(mu)) for mu in (0.1, 0.3, 0.6, 1.0)]
    assert rising == sorted(rising)
    assert rising[0] >= binom.sf(33, 40, 0.5)


def test_curves_are_above_the_best_test() -> None:
    for rate in (1e-5, 0.01, 0.4, 0.99):
        best = norm.sf(norm.isf(rate) - 0.7)
        assert best <= gaussian(0.7).at(rate) <= best * 1.01
    event = evr.dpsgd(noise_multiplier=1.0, sampling_probability=0.1, steps=20)
    proved, estimated = hull(risk(event).both_ways), _estimated(event, None)
    for rate in (1e-3, 0.05, 0.5):
        assert estimated.at(rate) == near(proved.at(rate), rel=0.02)


def test_the_order_of_canaries_says_nothing() -> None:
    """Listed by their coins, constant scores were right every time."""
    sorted_coins = np.arange(2000) >= 1000
    found = audit(np.zeros(2000), sorted_coins, dp_event.GaussianDpEvent(2.0))
    assert found.verdict == CONSISTENT
    assert abs(found.correct - found.guesses / 2) < 6 * math.sqrt(found.guesses) / 2
    rejected = 0
    rng = np.random.default_rng(8)
    for _ in range(10):  # at 0.05 each, six or more have a probability of 3e-6
        values = 0.5 * sorted_coins + rng.standard_normal(2000)
        said = audit(values, sorted_coins, dp_event.GaussianDpEvent(2.0), independent=True)
        rejected += said.verdict == CONTRADICTS
    assert rejected <= 5


def test_noise_is_scaled_through_a_tree() -> None:
    event = dp_event.ComposedDpEvent([evr.dpsgd(noise_multiplier=1.0, sampling_probability=0.1, steps=3)])
    twice = scaled(event, 2.0)
    assert "noise_multiplier=2.0" in repr(twice)
    assert scaled(dp_event.RandomizedResponseDpEvent(0.5, 2), 2.0) is None


@pytest.mark.parametrize(
    ("scores", "included", "word"),
    [
        ([1.0] * 9, [True, False, True, False] * 2 + [True], "too few"),
        ([math.nan] * 20, [True, False] * 10, "NaN"),
        ([1.0] * 20, [True] * 20, "fair coin"),
        ([1.0] * 20, [False] * 20, "fair coin"),
        ([1.0] * 20, [True, False] * 9, "shape"),
        ([1.0] * 20, [2, 0] * 10, "true and false"),
        ([1.0] * 400, [True] * 350 + [False] * 50, "fair coin"),
    ],
)
def test_bad_input_is_refused_in_words(scores: Any, included: Any, word: str) -> None:
    with pytest.raises(ValueError, match=word):
        audit(scores, included)


@pytest.mark.parametrize("scores", [None, "0.5", ["high"] * 20, [object()] * 20])
def test_what_holds_no_numbers_is_named(scores: Any) -> None:
    with pytest.raises(TypeError, match="scores"):
        audit(scores, [True, False] * 10)


def test_where_no_noise_fits_the_bound_is_for_gaussian_mechanisms() -> None:
    """Ten batches hold a canary with probability 0.1 in all, and these scores tell two thirds of them apart."""
    rng = np.random.default_rng(3)
    included = rng.random(400) < 0.5
    event = evr.dpsgd(noise_multiplier=1.0, sampling_probability=0.01, steps=10)
    found = audit(included + rng.standard_normal(400), included, event, independent=True)
    assert (found.verdict, found.family) == (CONTRADICTS, "gaussian")
    assert 1.0 < found.epsilon < float(evr.estimate_epsilon(dp_event.GaussianDpEvent(1.0), delta=1e-5))


def test_bad_options_are_refused() -> None:
    rng = np.random.default_rng(6)
    values, included = rng.random(50), np.arange(50) % 2 == 0
    with pytest.raises(ValueError, match="confidence"):
        audit(values, included, confidence=1.0)
    with pytest.raises(ValueError, match="delta"):
        audit(values, included, delta=0.0)


def test_a_few_canaries_that_leak_whole_are_found() -> None:
    """One in twenty of the included shows; half of all guesses at the median would say next to nothing."""
    rng = np.random.default_rng(10)
    included = rng.random(4000) < 0.5
    values = rng.standard_normal(4000) + 100 * (included & (rng.random(4000) < 0.05))
    for independent in (False, True):
        found = audit(values, included, dp_event.GaussianDpEvent(4.0), independent=independent)
        assert found.verdict == CONTRADICTS
        assert found.epsilon_of_any > 1


def test_several_tests_share_the_level() -> None:
    strong, weak = Independent(95, 100), Independent(50, 100)
    both = Several([(0.8, weak), (0.2, strong)])
    assert p_value_of(both, gaussian(0.5)) == near(p_value_of(strong, gaussian(0.5)) / 0.2, rel=1e-12)
    assert p_value_of(both, gaussian(8.0)) == 1.0
    level = p_value_of(both, gaussian(0.5))
    assert both.rejects(gaussian(0.5), 1.01 * level)
    assert not both.rejects(gaussian(0.5), 0.99 * level)


def test_a_certificate_brings_its_delta_and_its_relation(tmp_path) -> None:
    event = dp_event.GaussianDpEvent(2.0)
    asked = {"neighboring_relation": "replace-one", "ledger": tmp_path / "ledger.sqlite"}
    certificate = evr.certify(event, delta=1e-4, **asked)
    values, included = scores_of_gaussian(np.random.default_rng(11), 200, 2.0)
    found = audit(values, included, certificate)
    assert (found.delta, found.claimed) == (1e-4, certificate.guarantee.epsilon)
    told = audit(values, included, event, delta=1e-4, neighboring_relation="replace-one")
    assert told.p_value == near(found.p_value, rel=1e-9)
    assert told.claimed == near(found.claimed, rel=1e-2)


def test_bounds_are_stated_no_greater_and_probabilities_no_smaller_than_they_are() -> None:
    values, included = scores_of_gaussian(np.random.default_rng(7), 200, 0.5)
    found = audit(values, included, dp_event.GaussianDpEvent(1.0))
    said = re.search(r"at least ([\d.]+) .* p-value ([\d.e-]+)\.$", found.sentence)
    assert float(said[1]) <= found.epsilon < float(said[1]) * 1.01
    assert found.p_value <= float(said[2]) < found.p_value * 1.11


def test_the_picture_shows_scores_claim_and_bounds() -> None:
    values, included = scores_of_gaussian(np.random.default_rng(7), 200, 1.0)
    for event, labels in ((dp_event.GaussianDpEvent(1.0), 3), (None, 2)):
        found = audit(values, included, event)
        rates, bounds = plots.audit(found).axes
        assert len(rates.get_legend().get_texts()) == labels
        assert "at least" in bounds.get_xlabel()
        assert (found.attack.false[-1], found.attack.true[-1]) == (1.0, 1.0)


def test_constant_scores_listed_by_coin_contradict_nothing() -> None:
    """A fixed shuffle put such lists in fixed places: 60% false alarms at 181 canaries. At the level 0.05, more than 12
    alarms in 40 have a probability below 1e-6.
    """
    generator = np.random.default_rng(3)
    alarms = 0
    for _ in range(40):
        coins = np.arange(181) < generator.binomial(181, 0.5)
        alarms += evr.audit(np.zeros(181), coins, dp_event.GaussianDpEvent(20.0)).verdict != "consistent"
    assert alarms <= 12


@pytest.mark.parametrize(("delta", "canaries"), [(0.06, 50), (0.3, 10), (0.5, 20), (0.9, 10)])
def test_a_claim_that_lets_more_canaries_leak_than_are_guessed(delta: float, canaries: int) -> None:
    """The best attack finds some for certain, more than the test that is chosen guesses."""
    generator = np.random.default_rng(canaries)
    included = generator.permutation(np.arange(canaries) < canaries // 2)
    claim = evr.events.EpsilonDeltaDpEvent(0.0, delta)
    assert audit(generator.random(canaries), included, claim, delta=1e-5).verdict == "consistent"
