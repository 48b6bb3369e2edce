"""``evr.integrations.flower``: its protocol, its strategies in its own simulation, and mistakes."""

from __future__ import annotations

import importlib.util
import json
import math
from dataclasses import make_dataclass, replace
from pathlib import Path

import pytest

from helpers import near

reason = "needs the extra: pip install evr-dp[flower]"
pytestmark = pytest.mark.filterwarnings("ignore")  # they warn about themselves
with pytest.MonkeyPatch.context() as patch:
    import warnings

    patch.setattr(warnings, "warn", lambda *_, **__: None)
    pytest.importorskip("flwr.serverapp", reason=reason, exc_type=ImportError)

import numpy as np
from dp_accounting import dp_event
from flwr.serverapp import GaussianPrivacyEvent, NeighboringRelation, PrivacyConfig, RdpAccountant, SamplingMethod
from flwr.serverapp.strategy import DifferentialPrivacyServerSideFixedClipping, FedAvg

import evr
from evr.integrations.flower import Accountant
from integrations.programs import run

ROUND = GaussianPrivacyEvent(1.0, 100, 10_000)
RELATIONS = {
    SamplingMethod.POISSON: NeighboringRelation.ADD_OR_REMOVE_ONE,
    SamplingMethod.WITHOUT_REPLACEMENT: NeighboringRelation.REPLACE_ONE,
    SamplingMethod.NO_AMPLIFICATION: NeighboringRelation.ADD_OR_REMOVE_ONE,
}


def config(method=SamplingMethod.POISSON, **changes):
    return replace(PrivacyConfig(1e-5, 10_000, RELATIONS[method], method, 2.0), **changes)


def accountant(method=SamplingMethod.POISSON, rounds=500, **changes):
    one = Accountant(config(method, **changes))
    one.compose(ROUND, rounds)
    return one


BY_HAND = {
    SamplingMethod.POISSON: (dp_event.PoissonSampledDpEvent(0.01, dp_event.GaussianDpEvent(1.0)), "add-or-remove"),
    SamplingMethod.WITHOUT_REPLACEMENT: (
        dp_event.SampledWithoutReplacementDpEvent(10_000, 100, dp_event.GaussianDpEvent(1.0)),
        "replace-one",
    ),
    SamplingMethod.NO_AMPLIFICATION: (dp_event.GaussianDpEvent(1.0), "zero-out"),
}


@pytest.mark.parametrize("method", list(SamplingMethod))
def test_the_event_by_hand(method, tmp_path):
    step, relation = BY_HAND[method]
    one = accountant(method)
    assert one.event == dp_event.SelfComposedDpEvent(step, 500)
    strict = evr.estimate_epsilon(one.event, 1e-5, method="strict", neighboring_relation=relation).value
    assert one.get_epsilon(1e-5) == strict
    spent = one.get_privacy_spent()
    assert (spent.epsilon, spent.delta, spent.num_releases, spent.accounting_method) == (strict, 1e-5, 500, "evr")
    assert one.get_delta(strict) == near(1e-5, rel=1e-3)
    certificate = one.certify(ledger=tmp_path / "ledger.sqlite")
    assert certificate.accepted
    assert certificate.dp_event() == one.event
    assert "per client" in certificate.statement
    assert f"under {relation}" in certificate.statement


@pytest.mark.parametrize("method", [SamplingMethod.POISSON, SamplingMethod.NO_AMPLIFICATION])
def test_what_it_costs_less_than_theirs(method):
    theirs = RdpAccountant(config(method))
    theirs.compose(ROUND, 500)
    assert accountant(method).get_epsilon(1e-5) < theirs.get_epsilon(1e-5)


def test_replacing_a_client_moves_a_sum_by_two_norms():
    """Theirs counts one: 2.6 where the truth is 11."""
    theirs = RdpAccountant(config(SamplingMethod.WITHOUT_REPLACEMENT))
    theirs.compose(ROUND, 500)
    assert accountant(SamplingMethod.WITHOUT_REPLACEMENT).get_epsilon(1e-5) > 4 * theirs.get_epsilon(1e-5)


def test_it_stops_before_the_round_that_would_exceed():
    one = Accountant(config())
    while not one.would_exceed(ROUND, count=100):
        one.compose(ROUND, 100)
    assert one.get_epsilon(1e-5) <= 2.0
    one.compose(ROUND, 100)
    assert one.get_epsilon(1e-5) > 2.0


def test_nothing_costs_nothing():
    one = Accountant(config())
    assert (one.get_epsilon(1e-5), one.get_delta(1.0), one.num_releases) == (0.0, 0.0, 0)
    with pytest.raises(ValueError, match="nothing to certify"):
        one.certify()


@pytest.mark.parametrize("theirs", [False, True])
def test_states(theirs):
    one = RdpAccountant(config()) if theirs else Accountant(config())
    one.compose(ROUND, 300)
    one.compose(replace(ROUND, noise_multiplier=2.0), 7)
    other = Accountant(config())
    other.load_state_dict(json.loads(json.dumps(one.state_dict())))
    assert other.num_releases == 307
    assert [phase.count for phase in other.event.events] == [300, 7]


# --- mistakes -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("event", "error", "words"),
    [
        (replace(ROUND, population_size=9_999), ValueError, "population_size=9999, and that of the configuration"),
        (0.5, TypeError, "float is not accounted for"),
    ],
)
def test_releases_that_are_not_known(event, error, words):
    one = accountant()
    for ask in (one.compose, one.would_exceed):
        with pytest.raises(error, match=words):
            ask(event)
    assert one.num_releases == 500


def test_fields_that_are_not_known(monkeypatch):
    """As a later version of Flower may have them."""
    import evr.integrations.flower as reader

    for cls in (PrivacyConfig, GaussianPrivacyEvent):
        fields = [(name, "float", None) for name in [*cls.__dataclass_fields__, "weight"]]
        other = make_dataclass(cls.__name__, fields, frozen=True)
        monkeypatch.setitem(reader._FIELDS, other, reader._FIELDS[cls])
        with pytest.raises(TypeError, match=rf"{cls.__name__} has other fields than evr knows \(weight\)"):
            reader._check(other(), other)


def test_noise_of_a_seed_is_public():
    one = accountant()
    np.random.seed(42)  # noqa: NPY002
    with pytest.raises(ValueError, match="was seeded by hand"):
        one.compose(ROUND)
    assert one.num_releases == 500
    one.load_state_dict(one.state_dict())  # draws nothing
    np.random.set_bit_generator(np.random.MT19937())  # type: ignore[attr-defined]
    one.compose(ROUND)


def test_a_round_without_answers_is_not_counted():
    """Their strategy lets nothing out then."""
    one = Accountant(config(SamplingMethod.NO_AMPLIFICATION, population_size=4))
    strategy = DifferentialPrivacyServerSideFixedClipping(FedAvg(), 4.0, 1.0, 4, accountant=one)
    strategy._pending_events[1] = GaussianPrivacyEvent(4.0, 4, 4)
    assert strategy.aggregate_train(1, []) == (None, None)
    assert one.num_releases == 0


def test_states_of_others():
    state = accountant().state_dict()
    fresh = accountant(rounds=3)
    for changes, words in (
        ({"schema_version": 2}, "schema_version=2"),
        ({"backend": "pld"}, "backend='pld'"),
        ({"config": {**state["config"], "sampling_method": "no-amplification"}}, "this accountant has"),
        ({"compositions": [{"event": {}, "count": 1, "rate": 2}]}, "not an event and a count"),
        ({"compositions": [{**state["compositions"][0], "count": -5}]}, "count=-5"),
    ):
        with pytest.raises(ValueError, match=words):
            fresh.load_state_dict({**state, **changes})
        assert fresh.num_releases == 3
    with pytest.raises(ValueError, match="there is no limit: give max_epsilon"):
        accountant(max_epsilon=None).would_exceed(ROUND)


# --- the formula of each round --------------------------------------------------------------------


def test_the_numbers_of_the_guide():
    """sigma = sensitivity sqrt(2 ln(1.25 / delta)) / epsilon, in every round (``LocalDpMod``)."""
    guide = (Path(__file__).parents[2] / "docs" / "guide" / "federated.md").read_text("utf-8")
    for method in SamplingMethod:
        theirs = RdpAccountant(config(method))
        theirs.compose(ROUND, 500)
        (row,) = [line for line in guide.splitlines() if line.startswith(f"| `{method.name}` ")]
        for one in (theirs, accountant(method)):
            assert f"{one.get_epsilon(1e-5):.2f}" in row
    for stated in (1, 8, 10, 20):
        noise = dp_event.GaussianDpEvent(math.sqrt(2 * math.log(1.25 / 1e-5)) / stated)
        true = [
            evr.estimate_epsilon(dp_event.SelfComposedDpEvent(noise, rounds), 1e-5, method="strict").value
            for rounds in (1, 50)
        ]
        assert f"| {stated} | {true[0]:.2f} | {true[1]:.1f} |" in guide


# --- in their engine ------------------------------------------------------------------------------


def simulated(*arguments):
    done = run("flower_simulation", *arguments)
    return done.stdout + done.stderr


@pytest.mark.skipif(importlib.util.find_spec("ray") is None, reason="the simulation of Flower needs ray")
def test_a_simulation_stops_at_the_budget_and_goes_on(tmp_path):
    """noise 4, so that 5 rounds cost 2.26 and 6 would cost more than 2.5; the first process ends after 3."""
    out = simulated(tmp_path, 3)
    assert "done 3" in out, out
    out = simulated(tmp_path)
    assert "stopped: The next private release would exceed max_epsilon" in out, out
    assert "done 5" in out
    certificate = evr.Certificate.load(tmp_path / "run.certificate.json")
    assert certificate.accepted
    assert certificate.dp_event() == dp_event.SelfComposedDpEvent(dp_event.GaussianDpEvent(4.0), 5)
    assert certificate.guarantee.epsilon == near(2.26, abs=0.01)
