"""Noise for a risk: ``certify`` accepts it, the statement begins with the risk, and nothing less will do."""

from __future__ import annotations

import json
from fractions import Fraction
from typing import Any

import pytest
from dp_accounting import dp_event
from scipy.stats import norm

import evr
from evr._accounting.calibration import Goal
from evr._certificate.certificate import digest_of
from evr.errors import FalseCertificateError, FalseClaimError

RISKS = {
    "advantage": {"advantage": 0.1},
    "few accused": {"true_positive_rate": 0.01, "false_positive_rate": 0.001},
    "many accused": {"true_positive_rate": 0.9, "false_positive_rate": 0.3},
}


def trained(noise):
    return evr.dpsgd(noise_multiplier=noise, sampling_probability=0.01, steps=1000)


@pytest.fixture
def ledger(tmp_path):
    return tmp_path / "ledger.sqlite"


@pytest.mark.parametrize("risk", RISKS.values(), ids=RISKS)
def test_the_noise_is_certified_and_the_statement_begins_with_the_risk(risk, ledger, tmp_path):
    noise = evr.calibrate(trained, **risk).value
    certificate = evr.certify(trained(noise), **risk, ledger=ledger, path=tmp_path / "c.json")
    assert certificate.accepted
    first, second = certificate.short_statement.split(". ")[:2]
    assert "membership attack on DP-SGD (Poisson sampling with probability 0.01, 1,000 steps" in first
    assert first.endswith(f"above {risk.get('advantage') or risk['true_positive_rate']}")
    assert second.startswith("It is (")
    proved = evr.risk(evr.Certificate.load(tmp_path / "c.json"))
    if "advantage" in risk:
        assert proved.advantage <= risk["advantage"]
    else:
        assert proved.true_positive_rate(risk["false_positive_rate"]) <= risk["true_positive_rate"]
    with pytest.raises(FalseClaimError, match=rf"would follow from .* or this risk with noise_multiplier={noise}$"):
        evr.certify(trained(0.99 * noise), **risk, ledger=ledger)


def test_the_rates_of_a_gaussian_are_those_of_the_normal_law():
    """One Gaussian of noise 1/mu has the true positive rate Phi(Phi^-1(f) + mu)."""
    for true, false in [(0.01, 0.001), (0.9, 0.3), (0.5, 0.4), (0.999, 0.99)]:
        exact = 1 / (norm.ppf(true) - norm.ppf(false))
        found = evr.calibrate(dp_event.GaussianDpEvent, true_positive_rate=true, false_positive_rate=false)
        assert exact <= found.value <= 1.002 * exact
    exact = 0.5 / norm.ppf(0.55)
    assert exact <= evr.calibrate(dp_event.GaussianDpEvent, advantage=0.1).value <= 1.001 * exact


@pytest.mark.parametrize("rates", [(0.01, 0.001), (0.9, 0.3)])
def test_every_pair_of_a_goal_implies_the_rate(rates):
    from evr._kernel.strict.tradeoff import Tradeoff

    goal = Goal.of(true_positive_rate=rates[0], false_positive_rate=rates[1])
    for epsilon in (0.0, 0.1, 0.5, 0.75):
        bound = Tradeoff.of_point(Fraction(epsilon), Fraction(goal.delta(epsilon)))
        assert 0.999999 * rates[0] < bound.at(Fraction(rates[1])) <= Fraction(rates[0])


def test_two_rates_that_are_near_each_other(ledger):
    """The search turned back at a noise of 2, as the pair nearest to the goal left a delta of almost 0."""
    risk: dict[str, Any] = {"true_positive_rate": 0.165, "false_positive_rate": 0.0435}
    found = evr.calibrate(
        lambda noise: evr.dpsgd(noise_multiplier=noise, sampling_probability=0.0682, steps=1109), **risk
    )
    assert found.value == 3.162
    event = evr.dpsgd(noise_multiplier=3.162, sampling_probability=0.0682, steps=1109)
    assert evr.certify(event, **risk, ledger=ledger).accepted


def test_most_steps_for_a_risk():
    risk: dict[str, Any] = RISKS["few accused"]
    found = evr.calibrate(lambda steps: evr.dpsgd(noise_multiplier=1, sampling_probability=0.01, steps=steps),
                          **risk, integer=True, low=1)  # fmt: skip
    assert isinstance(found.value, int)
    event = evr.dpsgd(noise_multiplier=1, sampling_probability=0.01, steps=found.value)
    assert evr.estimate_delta(event, found.epsilon).value <= 0.01 - 0.001 * 2.718281828**found.epsilon


def test_a_statement_says_what_follows_from_the_pair_and_not_what_was_asked(ledger):
    """The rate in a description is only that of false positives; a greater one has a greater rate of true ones."""
    risk: dict[str, Any] = RISKS["few accused"]
    certificate = evr.certify(trained(1.0), **risk, ledger=ledger)
    assert certificate.short_statement.startswith("With a false positive rate of 0.001, no membership")
    document = json.loads(certificate.to_json())
    document["description"]["false_positive_rate"] = 0.0001
    document["digest"] = digest_of(document)
    with pytest.raises(FalseCertificateError, match="statement"):
        evr.Certificate.from_document(document)


def test_certificates_without_a_risk_have_no_such_field(ledger):
    certificate = evr.certify(dp_event.GaussianDpEvent(4.0), delta=1e-5, ledger=ledger)
    assert "description" not in certificate.document()
    with pytest.raises(ValueError, match=r"description.*false_positive_rate"):
        evr.certify(dp_event.GaussianDpEvent(4.0), delta=1e-5, ledger=ledger, description={"fpr": 0.1})


def test_the_words_of_replacing_a_record(ledger):
    certificate = evr.certify(
        dp_event.GaussianDpEvent(40.0), advantage=0.1, neighboring_relation="replace-one", ledger=ledger
    )
    assert certificate.short_statement.startswith("No attack that recognises which of two given records was in the")


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({}, "no target: give epsilon and delta; or advantage; or true_positive_rate and false_positive_rate"),
        ({"epsilon": 1.0}, r"epsilon=1\.0"),
        ({"advantage": 0.1, "delta": 1e-5}, r"delta=1e-05.*advantage=0\.1"),
        ({"true_positive_rate": 0.1}, r"true_positive_rate=0\.1"),
        ({"true_positive_rate": 0.1, "false_positive_rate": 0.1}, "a guess does as well, whatever the noise"),
        ({"advantage": 1.0}, r"advantage=1\.0"),
    ],
)
def test_targets_that_are_refused(given, message):
    with pytest.raises(ValueError, match=message):
        evr.calibrate(trained, **given)
