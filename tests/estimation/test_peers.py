"""The adapters: values of peers against high-precision ones where peers are good; reasons, never
exceptions, elsewhere.
"""

import sys

import pytest
from dp_accounting import dp_event

from estimation.references import references
from evr.estimation import peers
from evr.estimation.peers import PeerResult, PeerUnavailable, compare
from evr.events import EpsilonDeltaDpEvent, dpsgd
from helpers import near

(ORDINARY,) = (r for r in references("issue") if (r.epsilon, r.steps, r.noise) == (1.0, 1500, 2.0))


def by_kind(results, peer):
    return {r.kind: r.value for r in results if isinstance(r, PeerResult) and r.peer == peer}


def test_delta_at_an_ordinary_setting():
    pytest.importorskip("prv_accountant")
    results = compare(ORDINARY.event, epsilon=1.0, peers=("prv", "pld", "rdp"), eps_error=0.01)
    prv, pld, rdp = (by_kind(results, peer) for peer in ("prv", "pld", "rdp"))
    assert prv["lower bound"] <= ORDINARY.delta <= prv["upper bound"]
    assert prv["estimate"] == near(ORDINARY.delta, rel=1e-2)
    assert pld["lower bound"] <= ORDINARY.delta <= pld["upper bound"] <= 1.001 * ORDINARY.delta
    assert 2 * ORDINARY.delta < rdp["upper bound"] < 10 * ORDINARY.delta
    assert all(r.seconds > 0 for r in results)


def test_epsilon_inverts_delta():
    pytest.importorskip("prv_accountant")
    results = compare(ORDINARY.event, delta=ORDINARY.delta, peers=("prv", "pld"), eps_error=0.01)
    prv, pld = by_kind(results, "prv"), by_kind(results, "pld")
    assert prv["lower bound"] <= 1.0 <= prv["upper bound"]
    assert prv["estimate"] == near(1.0, abs=2e-3)
    assert pld["lower bound"] <= 1.0 <= pld["upper bound"] <= 1.0001


def test_heterogeneous_composition():
    pytest.importorskip("prv_accountant")
    event = dp_event.ComposedDpEvent(
        [
            dpsgd(noise_multiplier=2.0, sampling_probability=0.02, steps=200),
            dp_event.GaussianDpEvent(6.0),
        ]
    )
    results = compare(event, epsilon=0.5, peers=("prv", "pld"), eps_error=0.01)
    prv, pld = by_kind(results, "prv"), by_kind(results, "pld")
    assert prv["estimate"] == near(pld["upper bound"], rel=5e-3)
    assert prv["lower bound"] < pld["upper bound"]
    assert pld["lower bound"] < prv["upper bound"]


def test_what_a_peer_cannot_do_is_a_reason():
    results = compare(dp_event.LaplaceDpEvent(2.0), epsilon=0.3)
    reasons = {r.peer: r.reason for r in results if isinstance(r, PeerUnavailable)}
    assert "Lap(1, 2)" in reasons["prv"] or "prv_accountant" in reasons["prv"]
    assert by_kind(results, "pld")["upper bound"] == near(0.0951625820, rel=1e-9)
    unsupported = compare(EpsilonDeltaDpEvent(1.0, 1e-3), epsilon=0.3, peers=("rdp", "pld"))
    assert all("EpsilonDeltaDpEvent" in r.reason or "Gaussian" in r.reason for r in unsupported)


def test_the_analytical_fourier_accountant_answers_or_says_why():
    (result,) = compare(ORDINARY.event, epsilon=1.0, peers=("afa",))
    if isinstance(result, PeerResult):
        assert result.value == near(ORDINARY.delta, abs=1e-6)
    else:
        assert "SciPy older than 1.14" in result.reason


def test_a_missing_package_is_a_reason(monkeypatch):
    monkeypatch.setitem(sys.modules, "prv_accountant", None)
    (result,) = compare(ORDINARY.event, epsilon=1.0, peers=("prv",))
    assert isinstance(result, PeerUnavailable)
    assert "evr-dp[compare]" in result.reason


def test_a_failing_peer_is_a_reason(monkeypatch):
    def fail(*_):
        raise FloatingPointError("its own trouble")

    monkeypatch.setattr(peers, "_rdp", fail)
    (result,) = compare(ORDINARY.event, epsilon=1.0, peers=("rdp",))
    assert isinstance(result, PeerUnavailable)
    assert "FloatingPointError: its own trouble" in result.reason


def test_arguments_are_checked():
    with pytest.raises(ValueError, match="exactly one"):
        compare(ORDINARY.event)
    with pytest.raises(ValueError, match="exactly one"):
        compare(ORDINARY.event, epsilon=1.0, delta=1e-5)
    with pytest.raises(ValueError, match="peer='opacus'"):
        compare(ORDINARY.event, epsilon=1.0, peers=("opacus",))
