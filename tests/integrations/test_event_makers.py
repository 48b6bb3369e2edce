"""Events of other libraries go in as they are: those that dpsynth composes (by the names and shapes of its source)."""

from __future__ import annotations

import attr
import pytest
from dp_accounting import dp_event

import evr
import messages
from evr._release.filters import PrivacyFilter
from evr.errors import BudgetExceededError, UnsupportedEventError


@attr.s(frozen=True, auto_attribs=True)
class ExponentialMechanismDpEvent(dp_event.DpEvent):
    """As newer versions of dp_accounting have it."""

    epsilon: float


class Synthesizer:
    """What has an event: ``data_generation_v3`` and ``discrete_mechanisms`` of dpsynth."""

    @property
    def dp_event(self):
        initializers = dp_event.ComposedDpEvent([ExponentialMechanismDpEvent(0.02) for _ in range(3)])
        return dp_event.ComposedDpEvent([initializers, dp_event.GaussianDpEvent(12.0), dp_event.GaussianDpEvent(6.0)])


def test_a_synthesizer_is_certified_as_it_is(tmp_path):
    event = Synthesizer().dp_event
    certificate = evr.certify(event, delta=1e-6, ledger=tmp_path / "ledger.sqlite")
    assert certificate.accepted
    by_hand = evr.estimate_epsilon(event, 1e-6, method="strict").value
    assert by_hand <= certificate.guarantee.epsilon <= 1.01 * by_hand
    for part in ("exponential mechanism", "Gaussian mechanism"):
        assert part in certificate.statement


def test_unknown_fields_are_refused():
    @attr.s(frozen=True, auto_attribs=True)
    class GaussianDpEvent(dp_event.DpEvent):
        noise_multiplier: float
        sensitivity: float = 2.0

    with pytest.raises(UnsupportedEventError, match=messages.about("Its fields are noise_multiplier, sensitivity")):
        evr.estimate_epsilon(dp_event.ComposedDpEvent([GaussianDpEvent(1.0)]), 1e-6)


def test_a_sample_of_a_synthesizer_costs_less_than_all_of_the_data():
    sampled = evr.estimate_epsilon(dp_event.PoissonSampledDpEvent(0.1, Synthesizer().dp_event), 1e-6).value
    assert 0 < sampled < evr.estimate_epsilon(Synthesizer().dp_event, 1e-6).value


def test_the_query_that_would_exceed_is_refused_before_it_runs():
    budget, ran = PrivacyFilter(epsilon=1.0, delta=1e-6), []
    query = dp_event.ZCDpEvent(0.3**2 / 8)
    while budget.fits(query):
        budget.spend(query)
        ran.append(query)
    with pytest.raises(BudgetExceededError):
        budget.spend(query)
    assert 0 < budget.used <= 1
    assert len(ran) == 2
