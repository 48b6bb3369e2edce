"""Filters against closed forms and adversaries (docs/guarantees_relations.md, Section
R4).
"""

from __future__ import annotations

import contextlib
import math
import pickle
import threading
from fractions import Fraction
from itertools import product
from typing import Any

import attr
import numpy as np
import pytest
from dp_accounting import NeighboringRelation, dp_event

import evr
from evr._estimate.closed_forms import pair_delta
from evr._estimate.points import log_mgf
from evr._kernel.events import Composition
from evr._kernel.events.walk import Walk
from evr._kernel.pairs import Direction
from evr._kernel.pairs.line.gaussian import GaussianPair
from evr._release.filters import BITS, ORDERS, PrivacyFilter, budgets, log_moment, log_moment_within, log_moments
from evr.errors import BudgetExceededError, UnsupportedEventError
from helpers import answers, assert_mean_within, near, switching_often, together

STEP = dp_event.PoissonSampledDpEvent(0.01, dp_event.GaussianDpEvent(1.0))


def gaussian(mu: float) -> dp_event.DpEvent:
    return dp_event.GaussianDpEvent(1 / mu)


def test_what_is_refused_costs_nothing() -> None:
    budget = PrivacyFilter(epsilon=1.0, delta=1e-6)
    budget.spend(gaussian(0.1))
    before = budget.used
    with pytest.raises(BudgetExceededError, match=r"would use .* of which .* is spent"):
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
        cost = log_moments(step, Walk(NeighboringRelation.ADD_OR_REMOVE_ONE))
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
    with pytest.raises(UnsupportedEventError, match=r"no moments of ExactMixture.* are proved"):
        budget.fits(mixture)


def test_infinite_losses_never_fit() -> None:
    budget = PrivacyFilter(epsilon=3.0, delta=0.5)
    for event in (dp_event.NonPrivateDpEvent(), evr.events.EpsilonDeltaDpEvent(0.1, 1e-9)):
        assert not budget.fits(event)
        with pytest.raises(BudgetExceededError, match="would use inf of the budget"):
            budget.spend(event)
    assert budget.used == 0


def test_values_that_are_none() -> None:
    with pytest.raises(ValueError, match="epsilon=0"):
        PrivacyFilter(epsilon=0, delta=1e-6)


PER_LAYER: list[Any] = [0.001, 0.0, 1000]


@attr.s(frozen=True, auto_attribs=True)
class PerLayerZCDpEvent(dp_event.ZCDpEvent):
    """rho for each of so many layers."""

    layers: int = 1


class OtherComposedDpEvent(dp_event.ComposedDpEvent):
    """May mean anything."""


class OtherSelfComposedDpEvent(dp_event.SelfComposedDpEvent):
    """May mean anything."""


@pytest.mark.parametrize(
    "event",
    [
        PerLayerZCDpEvent(*PER_LAYER),
        OtherComposedDpEvent([dp_event.GaussianDpEvent(10.0)]),
        OtherSelfComposedDpEvent(dp_event.GaussianDpEvent(10.0), 2),
        dp_event.ComposedDpEvent([dp_event.GaussianDpEvent(10.0), PerLayerZCDpEvent(*PER_LAYER)]),
    ],
    ids=["zcdp", "composed", "self-composed", "inside"],
)
def test_a_class_that_is_derived_from_a_known_one_is_refused(event: dp_event.DpEvent) -> None:
    budget = PrivacyFilter(epsilon=1.0, delta=1e-6)
    for ask in (budget.spend, budget.fits, budget.would_use):
        with pytest.raises(UnsupportedEventError, match=r"unsupported \w+ at event"):
            ask(event)
    assert budget.used == 0


RECORDS = dp_event.GaussianDpEvent(10.0)
USERS = evr.events.UsersDpEvent(evr.events.MatrixMechanismDpEvent(40.0, (1.0,), 3, 1), 4)


@pytest.mark.parametrize(("first", "second"), [(RECORDS, USERS), (USERS, RECORDS)], ids=["records", "users"])
def test_a_budget_has_one_unit(first: dp_event.DpEvent, second: dp_event.DpEvent) -> None:
    budget = PrivacyFilter(epsilon=2.0, delta=1e-6)
    budget.spend(dp_event.ZCDpEvent(1e-4))  # whose data it protects is not said
    with pytest.raises(UnsupportedEventError, match="a guarantee has one unit"):
        budget.spend(dp_event.ComposedDpEvent([first, second]))
    budget.spend(first)
    used = budget.used
    for ask in (budget.spend, budget.fits, budget.would_use):
        with pytest.raises(UnsupportedEventError, match="a guarantee has one unit"):
            ask(second)
    assert budget.used == used
    budget.spend(first)


def test_a_step_that_does_not_fit_says_nothing_of_the_unit() -> None:
    budget = PrivacyFilter(epsilon=2.0, delta=1e-6)
    with pytest.raises(BudgetExceededError, match=r"would use .* of which .* is spent"):
        budget.spend(dp_event.GaussianDpEvent(0.1))
    budget.spend(USERS)


def test_threads_spend_no_more_than_the_budget() -> None:
    budget, spent = PrivacyFilter(epsilon=1.0, delta=1e-6), list[float]()

    def spend(noise: float) -> None:
        with contextlib.suppress(BudgetExceededError):
            while True:
                budget.spend(dp_event.GaussianDpEvent(noise))
                spent.append(noise)

    threads = [threading.Thread(target=spend, args=(60.0 + number,)) for number in range(4)]
    with switching_often():
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    together = math.sqrt(1 / math.fsum(noise**-2 for noise in spent))
    really = PrivacyFilter(epsilon=1.0, delta=1e-6).would_use(dp_event.GaussianDpEvent(together))
    assert really == near(budget.used)
    assert really <= 1


def test_a_budget_can_be_stored_with_a_training() -> None:
    budget = PrivacyFilter(epsilon=2.0, delta=1e-6)
    budget.spend(RECORDS)
    again = pickle.loads(pickle.dumps(budget))
    assert again.used == budget.used
    with pytest.raises(UnsupportedEventError, match="a guarantee has one unit"):
        again.spend(USERS)


def test_the_main_order_does_not_hang_on_logarithms_of_floats() -> None:
    """Two orders let Gaussian mechanisms spend nearly the same; the better one has nine tenths of delta."""
    epsilon, delta = 0.5, 0.07277860388530946
    main = log_moment_within(ORDERS[2], epsilon, Fraction(9, 10) * Fraction(delta))
    assert budgets(epsilon, delta)[2] == main
