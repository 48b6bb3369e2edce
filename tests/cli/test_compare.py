"""``evr compare``: what it makes of the peers' answers; the peers themselves are tested in
``estimate/test_peers.py``.
"""

from functools import partial

import pytest

from evr.estimation import peers
from evr.estimation.peers import PeerResult, PeerUnavailable
from evr.estimation.results import Estimate
from evr.estimation.side_by_side import fails_as_bound


@pytest.fixture
def answers(monkeypatch):
    def compare(event, *, epsilon=None, delta=None, neighboring_relation=None):
        assert (epsilon, delta, neighboring_relation) == (0.5, None, None)
        return [
            PeerResult("high", "upper bound", 2.1e-10, 1.0),
            PeerResult("low", "upper bound", 2.0e-10, 2.0),
            PeerResult("floor", "lower bound", 2.2e-10, 3.0),
            PeerResult("guess", "estimate", 1.0e-10, 4.0),
            PeerUnavailable("absent", "not installed: pip install something"),
        ]

    monkeypatch.setattr(peers, "compare", compare)


@pytest.mark.usefixtures("answers")
def test_bounds_that_are_none_are_flagged(evr, dpsgd):
    header, ours, *rows = evr("compare", *dpsgd, "--epsilon", 0.5).rows
    assert header == ["accountant", "kind", "delta", "relative difference", "time", "note"]
    assert ours[:4] == ["evr", "estimate", "2.0582412e-10", "+0.0e+00"]
    wrong = "claims to be a bound and is not"
    assert {row[0]: row[-1] for row in rows} == {
        "high": "",
        "low": wrong,
        "floor": wrong,
        "guess": "",
        "absent": "not installed: pip install something",
    }
    assert rows[1][3] == "-2.8e-02"


@pytest.mark.usefixtures("answers")
def test_json(evr, dpsgd):
    found = evr("compare", *dpsgd, "--epsilon", 0.5, "--json").json["accountants"]
    assert [entry.get("fails_as_bound") for entry in found] == [
        None,
        False,
        True,
        True,
        False,
        None,
    ]
    assert found[-1]["reason"].startswith("not installed")


def test_a_real_peer_whose_bound_may_be_none(evr, monkeypatch):
    """Rounding breaks it on some processors: it is told where it does, and only there."""
    monkeypatch.setattr(peers, "compare", partial(peers.compare, peers=("pld",)))
    flags = ["--noise-multiplier", 0.5, "--sampling-probability", 1e-5, "--steps", 100]
    rows = evr("compare", *flags, "--epsilon", 1, "--quiet").rows
    (upper,) = [row for row in rows if row[:2] == ["pld", "upper bound"]]
    told = upper[-1] == "claims to be a bound and is not"
    assert told == (float(upper[3]) < -1e-9)


def test_rounding_is_no_failure():
    ours = Estimate(1.0, "fft", "remove", 1e-12)
    assert not fails_as_bound("upper bound", 1 - 1e-10, ours)
    assert fails_as_bound("upper bound", 1 - 1e-8, ours)
    assert not fails_as_bound("upper bound", 0.9, Estimate(1.0, "fft", "remove", 0.2))


def test_bad_input(refused, dpsgd):
    assert "estimate what?" in refused("compare", *dpsgd)
