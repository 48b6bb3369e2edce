"""Filters against closed forms and adversaries (docs/guarantees_relations.md, Section
R4).
"""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from dp_accounting import NeighboringRelation, dp_event

import evr
import messages
from evr.bounds.filters import BITS, ORDERS, PrivacyFilter, log_moment, log_moment_within, log_moments
from evr.errors import BudgetExceededError, UnsupportedEventError
from evr.estimation.closed_forms import pair_delta
from evr.estimation.points import log_mgf
from evr.laws import Direction
from evr.laws.line.gaussian import GaussianPair
from evr.mechanisms import Composition
from helpers import answers, assert_mean_within, near, together

STEP = dp_event.PoissonSampledDpEvent(0.01, dp_event.GaussianDpEvent(1.0))


def gaussian(mu: float) -> dp_event.DpEvent:
    return dp_event.GaussianDpEvent(1 / mu)


def test_what_is_refused_costs_nothing() -> None:
    budget = PrivacyFilter(epsilon=1.0, delta=1e-6)
    budget.spend(gaussian(0.1))
    before = budget.used
    with pytest.raises(BudgetExceededError, match=messages.WOULD_USE):
        budget.spend(gaussian(0.5))
    assert budget.used == before
    budget.spend(gaussian(0.1))
    assert budget.used == near(2 * before)


def test_replace_one_costs_four_times_as_much() -> None:
    parts = []
    for relation in ("add-or-remove", "replace-one"):
        budget = PrivacyFilter(epsilon=1.0, delta=1e-6, neighboring_relation=relation)
        budget.spend(gaussian(0.05))
        parts.append(budget.used)
    assert parts[1] == near(4 * parts[0])


@pytest.mark.parametrize("order", [3, 24])
def test_the_filter_is_its_formula(order: int) -> None:
    """One order with all of delta: the number of equal steps that fit."""
    epsilon, delta = 2.0, 1e-5
    peak = order * math.log(order) - (1 + order) * math.log(1 + order)
    count = math.floor((math.log(delta) + order * epsilon - peak) / (order * (order + 1) / 800))
    most = log_moment_within(order, epsilon, Fraction(delta))
    for step in (dp_event.GaussianDpEvent(20.0), dp_event.ZCDpEvent(1 / 800)):
        cost = log_moments(step, NeighboringRelation.ADD_OR_REMOVE_ONE)
        assert most // cost[ORDERS.index(order)] == count


def test_equal_steps_fit_as_often_as_one_order_says() -> None:
    """The main order has nine tenths of delta, and decides on Gaussian mechanisms."""
    epsilon, delta = 2.0, 1e-5
    step = dp_event.GaussianDpEvent(20.0)
    counts = [
        (math.log(0.9 * delta) + a * epsilon + (1 + a) * math.log(1 + a) - a * math.log(a)) / (a * (a + 1) / 800)
        for a in ORDERS
    ]
    count = math.floor(max(counts))
    budget = PrivacyFilter(epsilon=epsilon, delta=delta)
    assert budget.fits(dp_event.SelfComposedDpEvent(step, count))
    assert not budget.fits(dp_event.SelfComposedDpEvent(step, count + 1))
    budget.spend(dp_event.SelfComposedDpEvent(step, count))
    assert not budget.fits(step)


def test_the_orders_share_delta() -> None:
    """Whichever order decides: by the union bound the deltas that their budgets stand for sum to delta."""
    epsilon, delta = 2.0, 1e-5
    most = zip(ORDERS, PrivacyFilter(epsilon=epsilon, delta=delta)._budget, strict=True)
    logs = (one / 2**BITS - a * epsilon + a * math.log(a) - (1 + a) * math.log(1 + a) for a, one in most)
    assert math.fsum(map(math.exp, logs)) == near(delta)


def test_what_ledgers_rest_on_does_not_change() -> None:
    """A ledger holds an adaptive budget's epsilon and delta, and what was spent, but neither orders nor parts:
    were they others after an upgrade, R4.2 would hold for neither. A change here needs another kind of budget.
    """
    assert PrivacyFilter(epsilon=2.0, delta=1e-5)._budget == [
        -1023162223622164482640251298154,
        -823249909624171061554733631435,
        -637872007599156931462222320601,
        -459396980798916986895459970028,
        -113264817209195248893043175038,
        595891084234619358362938253391,
        889339661109744886472278791476,
        1545170222365031946030398704117,
        2844147352848646941203759723258,
        4134187589796886920822810025102,
        9259097296729962020621049143853,
        19454911787046617267456617712982,
        39792084027383041536136765154230,
    ]


def test_the_filter_is_above_the_truth() -> None:
    """What it lets through has less than the delta asked for, sampled steps too."""
    budget = PrivacyFilter(epsilon=3.0, delta=1e-6)
    count = 0
    while budget.fits(dp_event.SelfComposedDpEvent(STEP, 50)):
        budget.spend(dp_event.SelfComposedDpEvent(STEP, 50))
        count += 50
    truth = evr.estimate_delta(dp_event.SelfComposedDpEvent(STEP, count), 3.0).value
    assert count > 100
    assert 1e-12 < truth < 1e-6


def test_zcdp_and_parts() -> None:
    budget = PrivacyFilter(epsilon=3.0, delta=1e-6)
    parts = [dp_event.ZCDpEvent(0.01, 0.001), dp_event.LaplaceDpEvent(10.0)]
    budget.spend(dp_event.ComposedDpEvent(parts))
    again = PrivacyFilter(epsilon=3.0, delta=1e-6)
    for one in parts:
        again.spend(one)
    assert budget.used == again.used > 0
    assert not budget.fits(dp_event.NonPrivateDpEvent())


def test_an_adversary_gains_nothing() -> None:
    """Two steps, the noise of the second chosen from the first: all thresholds and both budgets, by
    quadrature; never above what R4.1 promises. Fails by chance with 1e-9 each.
    """
    epsilon, mu = 1.0, 1.2
    promised = pair_delta(GaussianPair(mu), epsilon)
    generator = np.random.default_rng(7)
    z = generator.standard_normal((2, 200_000))
    for first, threshold in product((0.3, 0.8), (-0.5, 0.5, 1.5)):
        loss = first * z[0] + first**2 / 2
        rest = math.sqrt(mu**2 - first**2)
        second = np.where(loss > threshold, rest, 0.0)  # goes on only where that may pay
        total = loss + second * z[1] + second**2 / 2
        gains = np.maximum(-np.expm1(epsilon - np.maximum(total, epsilon)), 0.0)
        assert gains.mean() < promised + 4 * gains.std() / math.sqrt(gains.size)
    total = mu * z[0] + mu**2 / 2
    gains = np.maximum(-np.expm1(epsilon - np.maximum(total, epsilon)), 0.0)
    assert_mean_within(gains, promised, bounds=(0.0, 1.0))


@pytest.mark.parametrize(
    "step",
    [
        dp_event.GaussianDpEvent(0.7),
        dp_event.LaplaceDpEvent(0.8),
        together((answers(0.4, 3), 1)),
        evr.events.EpsilonDeltaDpEvent(1.2, 0.0),
        dp_event.DiscreteLaplaceDpEvent(0.5, 3),
        evr.events.DiscreteGaussianDpEvent(1.5, 2),
        STEP,
        dp_event.PoissonSampledDpEvent(0.3, dp_event.LaplaceDpEvent(0.8)),
        dp_event.PoissonSampledDpEvent(0.3, evr.events.DiscreteGaussianDpEvent(1.5, 2)),
        together((answers(0.4, 3, 0.6), 1)),
    ],
    ids=str,
)
def test_moments_are_those_of_the_law(step: dp_event.DpEvent | Composition) -> None:
    """Against the integrals of the float laws: never below, and equal in the greater direction."""
    composition = Composition.of(step)
    for order in (1, 2, 7, 20):
        exact, floats = [], []
        for one in Direction:
            exact.append(log_moment(composition.exact(one)[0].exact_law, order) / 2**BITS)
            floats.append(log_mgf(composition.simplified(one)[0].pair, float(order)))
            assert exact[-1] >= floats[-1] * (1 - 1e-8)
        assert max(exact) == near(max(floats), rel=1e-7)


def test_what_has_no_proved_moments_is_refused() -> None:
    budget = PrivacyFilter(epsilon=3.0, delta=1e-6)
    mixture = dp_event.MixtureOfGaussiansDpEvent(2.0, [0.0, 1.0, 2.0], [0.5, 0.25, 0.25])
    with pytest.raises(UnsupportedEventError, match=messages.NO_PROVED_MOMENTS):
        budget.fits(mixture)


def test_infinite_losses_never_fit() -> None:
    budget = PrivacyFilter(epsilon=3.0, delta=0.5)
    for event in (dp_event.NonPrivateDpEvent(), evr.events.EpsilonDeltaDpEvent(0.1, 1e-9)):
        assert not budget.fits(event)
        with pytest.raises(BudgetExceededError, match=messages.WOULD_USE_ALL):
            budget.spend(event)
    assert budget.used == 0


def test_values_that_are_none() -> None:
    with pytest.raises(ValueError, match=messages.given(epsilon=0)):
        PrivacyFilter(epsilon=0, delta=1e-6)
