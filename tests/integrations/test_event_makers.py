"""Events of other libraries go in as they are: those that dpsynth composes, by the names and shapes of its source, and
by its source itself where it is installed.
"""

from __future__ import annotations

import attr
import pytest
from dp_accounting import dp_event

import evr
from evr._release.filters import PrivacyFilter
from evr.errors import BudgetExceededError, EvrError, UnsupportedEventError


@attr.s(frozen=True, auto_attribs=True)
class ExponentialMechanismDpEvent(dp_event.DpEvent):
    """As newer versions of dp_accounting have it."""

    epsilon: float


class Synthesizer:
    """What has an event: ``data_generation_v3`` and ``discrete_mechanisms`` of dpsynth."""

    def __init__(self, columns=3, noise=6.0):
        self.columns, self.noise = columns, noise

    @property
    def dp_event(self):
        initializers = dp_event.ComposedDpEvent(
            [ExponentialMechanismDpEvent(0.14 / 2**depth) for depth in range(self.columns)]
        )
        count, marginals = dp_event.GaussianDpEvent(2 * self.noise), dp_event.GaussianDpEvent(self.noise)
        return dp_event.ComposedDpEvent([count, initializers, marginals, dp_event.ZCDpEvent(0.01)])


@pytest.mark.parametrize(("columns", "noise"), [(n, noise) for n in (1, 2, 3, 4, 5) for noise in (3.0, 6.0)])
def test_a_synthesizer_is_certified_as_it_is(columns, noise, tmp_path):
    event = Synthesizer(columns, noise).dp_event
    certificate = evr.certify(event, delta=1e-6, ledger=tmp_path / "ledger.sqlite")
    assert certificate.accepted
    assert certificate.dp_event() == evr.certify(event, delta=1e-6, ledger=tmp_path / "ledger.sqlite").dp_event()
    by_hand = evr.estimate_epsilon(event, 1e-6, method="strict").value
    assert by_hand <= certificate.guarantee.epsilon <= 1.01 * by_hand
    for part in ("exponential mechanism", "Gaussian mechanism"):
        assert part in certificate.statement


@pytest.mark.parametrize("rho", [0.1, 1.0])
def test_their_quickstart(rho, tmp_path):
    """Of their README; one line is evr's."""
    dpsynth = pytest.importorskip("dpsynth", reason="needs dpsynth, from its sources")
    domain = pytest.importorskip("dpsynth.domain")
    columns: dict[str, object] = {"a": domain.CategoricalAttribute(possible_values=["x", "y"])}
    columns["b"] = domain.NumericalAttribute(min_value=0.0, max_value=1.0)
    made = dpsynth.data_generation_v3.TabularConfig(domains=columns).configure(zcdp_rho=rho)
    certificate = evr.certify(made.dp_event, delta=1e-6, ledger=tmp_path / "ledger.sqlite")
    assert certificate.accepted
    by_zcdp = evr.estimate_epsilon(dp_event.ZCDpEvent(rho), 1e-6, method="strict").value
    assert certificate.guarantee.epsilon <= 1.001 * by_zcdp


@attr.s(frozen=True, auto_attribs=True)
class Quantile(dp_event.DpEvent):
    epsilon: float


@attr.s(frozen=True, auto_attribs=True)
class Halved(dp_event.GaussianDpEvent):
    """Means something else than what it is made of."""

    noise_multiplier: float
    halved: bool = True


@pytest.mark.parametrize(
    ("part", "words"),
    [
        (Quantile(0.1), "Quantile"),
        (Halved(6.0), "Halved"),
        (dp_event.NonPrivateDpEvent(), "no epsilon lets delta=1e-06 be verified"),
        (dp_event.GaussianDpEvent(0.0), "no epsilon lets delta=1e-06 be verified"),
        (dp_event.PoissonSampledDpEvent(1.5, dp_event.GaussianDpEvent(6.0)), "sampling_probability=1.5"),
        ("a marginal", "a marginal"),
    ],
    ids=["unknown class", "subclass", "not private", "no noise", "wrong rate", "no event"],
)
def test_what_is_refused(part, words, tmp_path):
    event = dp_event.ComposedDpEvent([Synthesizer().dp_event, part])
    with pytest.raises((EvrError, ValueError, TypeError), match=words):
        evr.certify(event, delta=1e-6, ledger=tmp_path / "ledger.sqlite")


def test_unknown_fields_are_refused():
    @attr.s(frozen=True, auto_attribs=True)
    class GaussianDpEvent(dp_event.DpEvent):
        noise_multiplier: float
        sensitivity: float = 2.0

    with pytest.raises(UnsupportedEventError, match="Its fields are noise_multiplier, sensitivity"):
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
