"""Poisson sampling of an asymmetric pair, by exact enumeration: each direction from its own base
pair.
"""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from dp_accounting import dp_event

from evr._estimate.closed_forms import pair_delta
from evr._estimate.points import log_mgf
from evr._kernel.events import Composition
from evr._kernel.pairs import Direction, DiscretePair, Measure, Pairs, infinite_loss_mass
from evr._kernel.pairs.line import poisson
from helpers import near

# the law of the answer with the record, and without it
WITH, WITHOUT = ((0.444, 0.556), (0.599, 0.401))
Q, STEPS, EPSILON = 0.38, 4, 0.3


def composed_delta(p, q):
    """``delta`` of independent steps, summed over every sequence of outcomes."""
    total = 0.0
    for outcome in itertools.product(range(len(p)), repeat=STEPS):
        total += max(0.0, math.prod(p[i] for i in outcome) - math.exp(EPSILON) * math.prod(q[i] for i in outcome))
    return total


def law(pair, measure):
    outcomes = np.arange(2.0)
    return np.exp(pair.log_mass(measure, outcomes - 1, outcomes)).tolist()


def mixture(first, second):
    return [(1 - Q) * a + Q * b for a, b in zip(first, second, strict=True)]


@pytest.fixture
def sampled():
    remove = DiscretePair.from_probabilities(WITH, WITHOUT)
    add = DiscretePair.from_probabilities(WITHOUT, WITH)
    return Pairs(poisson.poisson_sampled(remove, Q, Direction.REMOVE), poisson.poisson_sampled(add, Q, Direction.ADD))


@pytest.mark.parametrize(
    ("direction", "p", "q", "expected"),
    [
        (Direction.REMOVE, mixture(WITHOUT, WITH), WITHOUT, 0.01143),
        (Direction.ADD, WITHOUT, mixture(WITHOUT, WITH), 0.01387),
    ],
)
def test_four_sampled_steps(sampled, direction, p, q, expected):
    exact = composed_delta(p, q)
    assert exact == near(expected, abs=5e-6)
    pair = sampled.of(direction)
    assert composed_delta(law(pair, Measure.P), law(pair, Measure.Q)) == near(exact, rel=1e-12)


def test_the_tempting_error_gives_another_number(sampled):
    """Swapping the base pair and applying the formula of the other direction is wrong, and too
    small.
    """
    wrong = composed_delta(mixture(WITH, WITHOUT), WITH)
    assert wrong == near(0.01150, abs=5e-6)
    assert composed_delta(law(sampled.add, Measure.P), law(sampled.add, Measure.Q)) > 1.2 * wrong


@pytest.mark.parametrize("epsilon", [-0.5, -0.1, 0.0, 0.05, 0.1, 0.2])
def test_single_step_of_both_directions(sampled, epsilon):
    for pair, p, q in (
        (sampled.remove, mixture(WITHOUT, WITH), WITHOUT),
        (sampled.add, WITHOUT, mixture(WITHOUT, WITH)),
    ):
        exact = sum(max(0.0, a - math.exp(epsilon) * b) for a, b in zip(p, q, strict=True))
        assert pair_delta(pair, epsilon) == near(exact, rel=1e-12, abs=1e-16)


@pytest.mark.parametrize("base", [dp_event.GaussianDpEvent(0.7), dp_event.LaplaceDpEvent(0.7)])
def test_sampling_twice_is_sampling_with_the_product(base):
    twice = Composition.of(dp_event.PoissonSampledDpEvent(0.5, dp_event.PoissonSampledDpEvent(0.25, base)))
    once = Composition.of(dp_event.PoissonSampledDpEvent(0.125, base))
    for direction in Direction:
        first, second = (c.steps(direction)[0].pair for c in (twice, once))
        for epsilon in (-0.05, 0.0, 0.05, 0.1):
            assert pair_delta(first, epsilon) == near(pair_delta(second, epsilon), rel=1e-11)
        assert log_mgf(first, 3.0) == near(log_mgf(second, 3.0), rel=1e-9)


def test_sampling_with_certainty_changes_nothing():
    base = dp_event.LaplaceDpEvent(2.0)
    assert Composition.of(dp_event.PoissonSampledDpEvent(1.0, base)) == Composition.of(base)


def test_a_small_probability_is_continuous_with_none():
    composition = Composition.of(dp_event.PoissonSampledDpEvent(1e-12, dp_event.GaussianDpEvent(1.0)))
    for direction in Direction:
        assert 0 < pair_delta(composition.steps(direction)[0].pair, 0.0) < 1e-12


def test_a_sampled_discrete_pair_as_outcomes():
    base = DiscretePair.from_probabilities([0.1, 0.2, 0.3, 0.4, 0.0], [0.4, 0.3, 0.2, 0.0, 0.1])
    for pair in (poisson.SampledPair(base, 0.3, Direction.REMOVE), poisson.SampledPair(base, 0.3, Direction.ADD)):
        whole, finite = poisson.outcomes(pair), poisson.without_infinite(pair)
        assert isinstance(whole, DiscretePair)
        assert isinstance(finite, DiscretePair)
        for epsilon in (0.0, 0.1, 0.35, 2.0, math.inf):
            assert pair_delta(whole, epsilon) == near(pair_delta(pair, epsilon), rel=1e-13)
        infinite = infinite_loss_mass(pair)
        assert infinite_loss_mass(whole) == near(infinite, rel=1e-13)
        assert np.isfinite(finite.losses).all()
        assert np.exp(finite.log_p).sum() == near(1 - infinite, rel=1e-13)
        assert infinite_loss_mass(finite) == 0.0


def test_what_has_no_outcomes_to_split_stays_whole():
    gaussian = poisson.SampledPair(
        Composition.of(dp_event.GaussianDpEvent(1.0)).steps("remove")[0].pair, 0.1, Direction.REMOVE
    )
    without_privacy = Composition.of(dp_event.NonPrivateDpEvent()).steps("remove")[0].pair
    for pair in (gaussian, without_privacy):
        assert poisson.without_infinite(pair) == pair
