"""Audits in one run: stated confidence, power, planted bugs, inputs that are refused.

Statistical tests have a failure probability of at most 1e-6 each: they are seeded, and compare
10,000 repetitions with a rate that is exceeded by five standard deviations.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from dp_accounting import dp_event
from scipy.stats import binom, norm

import evr
from evr.proving.audit import CONSISTENT, CONTRADICTS, _chosen, _estimated, _right, audit, curve_of, scaled
from evr.proving.one_run import Count, Independent, gaussian, pair
from evr.proving.risk import risk
from helpers import near

LEVEL = 0.05
REPETITIONS = 10_000
MOST = LEVEL + 5 * math.sqrt(LEVEL * (1 - LEVEL) / REPETITIONS)


def scores_of_gaussian(rng: np.random.Generator, canaries: int, sigma: float) -> Any:
    included = rng.random(canaries) < 0.5
    return included + sigma * rng.standard_normal(canaries), included


def test_the_confidence_of_a_gaussian_holds() -> None:
    """The best attack rejects the true curve at most as often as stated, in both modes."""
    rng, canaries, sigma = np.random.default_rng(1), 100, 1.0
    curve = curve_of(risk(dp_event.GaussianDpEvent(sigma)))
    top, bottom = _chosen(None, curve, canaries, LEVEL)
    rejected = {c: Count(c, top + bottom, canaries).rejects(curve, LEVEL) for c in range(top + bottom + 1)}
    all_rejected = {c: Independent(c, 90).rejects(curve, LEVEL) for c in range(91)}
    count = alone = 0
    for _ in range(REPETITIONS):
        values, included = scores_of_gaussian(rng, canaries, sigma)
        count += rejected[_right(values, included, top, bottom)]
        guessed = values[10:] > np.median(values[:10])
        alone += all_rejected[int((guessed == included[10:]).sum())]
    assert count / REPETITIONS <= MOST
    assert alone / REPETITIONS <= MOST


def test_the_confidence_of_a_simulated_training_holds() -> None:
    rng, canaries, steps, rate, sigma = np.random.default_rng(2), 60, 8, 0.3, 1.0
    event = evr.dpsgd(noise_multiplier=sigma, sampling_probability=rate, steps=steps)
    curve = curve_of(risk(event))
    top, bottom = _chosen(None, curve, canaries, LEVEL)
    rejected = [Count(c, top + bottom, canaries).rejects(curve, LEVEL) for c in range(top + bottom + 1)]
    count = 0
    for _ in range(REPETITIONS):
        included = rng.random(canaries) < 0.5
        takes_part = included & (rng.random((steps, canaries)) < rate)
        seen = takes_part + sigma * rng.standard_normal((steps, canaries))
        values = np.log1p(rate * np.expm1((seen - 0.5) / sigma**2)).sum(axis=0)
        count += rejected[_right(values, included, top, bottom)]
    assert count / REPETITIONS <= MOST


@pytest.mark.parametrize(("mu", "general", "independent"), [(0.268, 0.5, 0.8), (0.925, 0.6, 0.9)])
def test_ten_thousand_canaries_reach_most_of_a_true_epsilon(mu: float, general: float, independent: float) -> None:
    """Epsilon about 1 and 4 at 1e-5; the median of five audits of each kind."""
    event, rng = dp_event.GaussianDpEvent(1 / mu), np.random.default_rng(3)
    runs = [scores_of_gaussian(rng, 10_000, 1 / mu) for _ in range(5)]
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
        value = Count(correct, guesses, guesses).p_value(pair(epsilon, 1e-30))
        assert tail <= value * (1 + 1e-6)
        assert value <= 3 * tail


def test_a_p_value_falls_with_right_guesses_and_rises_with_the_curve() -> None:
    values = [Count(c, 40, 100).p_value(gaussian(0.5)) for c in range(20, 41)]
    assert values == sorted(values, reverse=True)
    rising = [Count(34, 40, 100).p_value(gaussian(mu)) for mu in (0.1, 0.3, 0.6, 1.0)]
    assert rising == sorted(rising)
    assert rising[0] >= binom.sf(33, 40, 0.5)


def test_curves_are_above_the_best_test() -> None:
    for rate in (1e-5, 0.01, 0.4, 0.99):
        best = norm.sf(norm.isf(rate) - 0.7)
        assert best <= gaussian(0.7).at(rate) <= best * 1.01
    event = evr.dpsgd(noise_multiplier=1.0, sampling_probability=0.1, steps=20)
    proved, estimated = curve_of(risk(event)), _estimated(event, None)
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
        ([1.0] * 20, [True] * 20, "took part"),
        ([1.0] * 20, [False] * 20, "stayed out"),
        ([1.0] * 20, [True, False] * 9, "shape"),
        ([1.0] * 20, [2, 0] * 10, "true and false"),
        ([1.0] * 400, [True] * 350 + [False] * 50, "fair coin"),
    ],
)
def test_bad_input_is_refused_in_words(scores: Any, included: Any, word: str) -> None:
    with pytest.raises(ValueError, match=word):
        audit(scores, included)


def test_bad_options_are_refused() -> None:
    rng = np.random.default_rng(6)
    values, included = rng.random(50), np.arange(50) % 2 == 0
    with pytest.raises(ValueError, match="guesses"):
        audit(values, included, guesses=(40, 20))
    with pytest.raises(ValueError, match="confidence"):
        audit(values, included, confidence=1.0)
    with pytest.raises(ValueError, match="guesses"):
        audit(values, included, guesses=(4, 2), independent=True)


def test_the_picture_shows_what_was_claimed() -> None:
    values, included = scores_of_gaussian(np.random.default_rng(7), 200, 1.0)
    axes = audit(values, included, dp_event.GaussianDpEvent(1.0)).plot()
    assert "lower bounds" in axes.get_xlabel()
    axes.figure.clear()
