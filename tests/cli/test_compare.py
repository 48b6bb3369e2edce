"""``evr compare``: a table of accountants, tested in ``estimation/test_comparison.py``."""

import pytest

from evr.estimation import comparison


@pytest.fixture
def answers(monkeypatch):
    others = {
        "high": lambda asked: {"upper bound": 2.1e-10},
        "low": lambda asked: {"upper bound": 2.0e-10},
        "broken": lambda asked: 1 / 0,
    }
    monkeypatch.setattr(comparison, "_OTHERS", others)


@pytest.mark.usefixtures("answers")
def test_a_table(evr, dpsgd):
    header, ours, *rows = evr("compare", *dpsgd, "--epsilon", 0.5).rows
    assert header == ["accountant", "kind", "delta", "relative difference", "time", "note"]
    assert ours[:4] == ["fft", "estimate", "2.0582412e-10", "+0.0e+00"]
    assert {row[0]: row[-1] for row in rows} == {
        "high": "",
        "low": comparison.WRONG,
        "broken": "ZeroDivisionError: division by zero",
    }
    assert rows[1][3] == "-2.8e-02"


@pytest.mark.usefixtures("answers")
def test_json(evr, dpsgd):
    found = evr("compare", *dpsgd, "--epsilon", 0.5, "--json").json["accountants"]
    assert [one["value"] for one in found[1:]] == [2.1e-10, 2.0e-10, None]
    assert [one["note"] != "" for one in found] == [False, False, True, True]


def test_bad_input(refused, dpsgd):
    assert "estimate what?" in refused("compare", *dpsgd)
