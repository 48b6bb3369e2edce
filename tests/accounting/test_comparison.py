"""The table of accountants: values against high-precision ones where accountants are good; reasons,
never exceptions, elsewhere.
"""

import sys

import pytest
from dp_accounting import dp_event

import evr
from estimation.references import references
from evr._accounting import comparison
from evr._accounting.comparison import WRONG, compare
from evr.events import EpsilonDeltaDpEvent, dpsgd
from helpers import near

(ORDINARY,) = (r for r in references("issue") if (r.epsilon, r.steps, r.noise) == (1.0, 1500, 2.0))


def values(answers):
    return {(one.accountant, one.kind): one.value for one in answers if one.value is not None}


def notes(answers):
    return {one.accountant: one.note for one in answers}


@pytest.mark.parametrize("given", ["epsilon", "delta"])
def test_an_ordinary_setting(given):
    pytest.importorskip("prv_accountant")
    truth, loose = (ORDINARY.delta, 0.01) if given == "epsilon" else (1.0, 1e-3)
    answers = compare(ORDINARY.event, **{given: getattr(ORDINARY, given)})
    found = values(answers)
    assert found["fft", "estimate"] == near(truth, rel=1e-8)
    assert found["prv", "lower bound"] <= truth <= found["prv", "upper bound"]
    assert found["prv", "estimate"] == near(truth, rel=loose)
    for accountant in ("strict", "pld"):
        assert truth <= found[accountant, "upper bound"] <= 1.001 * truth
    assert 1.05 * truth < found["rdp", "upper bound"] < 10 * truth
    assert {one.note for one in answers} == {""}


def test_what_an_accountant_cannot_do_is_a_note():
    told = notes(compare(dp_event.LaplaceDpEvent(2.0), epsilon=0.3))
    assert "Lap(1, 2)" in told["prv"] or "prv_accountant" in told["prv"]
    assert told["pld"] == ""
    told = notes(compare(EpsilonDeltaDpEvent(1.0, 1e-3), epsilon=0.3))
    assert "EpsilonDeltaDpEvent" in told["rdp"]
    assert "EpsilonDeltaDpEvent" in told["pld"]
    told = notes(compare(dp_event.GaussianDpEvent(2.0), epsilon=1.0, neighboring_relation="replace-one"))
    assert "another question" in told["rdp"]


def test_a_missing_package_is_a_note(monkeypatch):
    monkeypatch.setitem(sys.modules, "prv_accountant", None)
    assert "evr-dp[compare]" in notes(compare(ORDINARY.event, epsilon=1.0))["prv"]


@pytest.mark.parametrize(
    ("kind", "factor", "wrong"),
    [
        ("upper bound", 0.99, True),
        ("upper bound", 1 - 1e-10, False),  # which is rounding
        ("upper bound", 1.01, False),
        ("lower bound", 1.01, True),
        ("lower bound", 0.99, False),
        ("estimate", 0.5, False),
    ],
)
def test_bounds_that_do_not_hold_are_flagged(monkeypatch, kind, factor, wrong):
    event = dpsgd(noise_multiplier=1.0, sampling_probability=1e-3, steps=1000)
    ours = evr.estimate_delta(event, 0.5).value
    monkeypatch.setattr(comparison, "_OTHERS", {"other": lambda asked: {kind: factor * ours}})
    assert notes(compare(event, epsilon=0.5))["other"] == (WRONG if wrong else "")


def test_arguments_are_checked():
    with pytest.raises(ValueError, match="exactly one"):
        compare(ORDINARY.event)
    with pytest.raises(ValueError, match="exactly one"):
        compare(ORDINARY.event, epsilon=1.0, delta=1e-5)
