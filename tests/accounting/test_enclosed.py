"""Estimates within proved bounds, up to their stated error: settings in which atoms and smooth parts mix, and the cases
of the conformance suite.
"""

from __future__ import annotations

import json
import math
from fractions import Fraction
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import pytest
from dp_accounting import dp_event

import evr
from attacking import relations
from attacking.laws import Unreached
from attacking.truth import of_composition, truth
from evr.events import DiscreteGaussianDpEvent
from evr_conformance import CASES, Verdict, check, judge, load, verdict
from evr_side import event_of
from helpers import full

Laplace, Gaussian = dp_event.LaplaceDpEvent, dp_event.GaussianDpEvent
SETTINGS = [
    full(Laplace(0.1), 0.1, 30, 2.5),
    (Laplace(0.2), 0.01, 20, 1.0),
    (Laplace(0.2), 0.01, 2, 1.0),
    (Laplace(1.0), 0.2, 12, 0.5),
    full(Laplace(0.15), 0.5, 3, 6.0),
    (Laplace(3.0), 1.0, 10, 1.5),
    full(DiscreteGaussianDpEvent(0.5), 0.05, 25, 1.5),
    (DiscreteGaussianDpEvent(0.7), 1e-3, 20, 0.5),
    full(DiscreteGaussianDpEvent(1.0), 0.1, 20, 1.0),
    full(DiscreteGaussianDpEvent(2.0), 0.3, 7, 1.0),
    (DiscreteGaussianDpEvent(3.0), 1.0, 5, 2.0),
    full(Gaussian(0.4), 0.01, 20, 2.0),
    (Gaussian(1.0), 0.1, 50, 2.0),
]
"""Among them are those in which single losses exceed all that the other steps can take back, atoms included: these were
once counted twice beyond the grid's cap.
"""
SUITE = load()


@pytest.mark.parametrize(("mechanism", "q", "steps", "epsilon"), SETTINGS)
def test_an_estimate_is_between_proved_bounds(mechanism: Any, q: float, steps: int, epsilon: float) -> None:
    event = dp_event.SelfComposedDpEvent(dp_event.PoissonSampledDpEvent(q, mechanism), steps)
    found, bounds = evr.estimate_delta(event, epsilon), evr.enclose_delta(event, epsilon)
    assert found.error <= 1e-5 * found.value
    assert bounds.upper <= 1.0015 * bounds.lower  # they say something
    assert bounds.lower - found.error <= found.value <= bounds.upper + found.error


def test_the_suite_is_what_its_page_says() -> None:
    schema = json.loads(CASES.with_name("schema.json").read_text("utf-8"))
    checker = jsonschema.Draft202012Validator(schema)
    assert len(SUITE) == len({case["id"] for case in SUITE}) == 300
    for case in SUITE:
        checker.validate(case)
        for question in {"delta", "epsilon"} & set(case):
            lower, upper = (Fraction(case[question][side]) for side in ("lower", "upper"))
            assert 0 < lower <= upper <= Fraction(1002, 1000) * lower
    with pytest.raises(jsonschema.ValidationError):
        checker.validate(SUITE[0] | {"parts": [{"mechanism": "gaussian", "count": 1, "noise": 1.0}]})


@pytest.mark.parametrize("case", [*SUITE[::12], *(full(case) for i, case in enumerate(SUITE) if i % 12)])
def test_estimates_of_the_suite(case: dict[str, Any]) -> None:
    for question, ask in (("delta", evr.estimate_delta), ("epsilon", evr.estimate_epsilon)):
        if question in case:
            found = ask(event_of(case), case[question]["at"], neighboring_relation=case["relation"])
            lower, upper = (float(Fraction(case[question][side])) for side in ("lower", "upper"))
            assert lower - found.error <= found.value <= upper + found.error


@pytest.mark.parametrize("case", [*SUITE[::60], *(full(case) for i, case in enumerate(SUITE) if i % 60)])
def test_no_strict_bound_is_refuted(case: dict[str, Any]) -> None:
    def strict(case: dict[str, Any], question: str) -> float:
        event, at = event_of(case), case[question]["at"]
        return evr.estimate_delta(event, at, method="strict", neighboring_relation=case["relation"]).value

    check(case, "delta", strict)


def test_the_bounds_can_be_made_again() -> None:
    for case in SUITE[::100]:
        found = evr.enclose_delta(event_of(case), case["delta"]["at"], neighboring_relation=case["relation"])
        assert found.attained
        assert found.lower <= Fraction(case["delta"]["upper"])
        assert found.upper >= Fraction(case["delta"]["lower"])


CHECKED = [
    "dpsgd-013",
    "dpsgd-009",
    "large-batches-004",
    "one-step-001",
    "one-step-009",
    "one-step-020",
    "atoms-001",
    "mixtures-001",
    "mixtures-002",
    "replace-one-002",
    "replace-one-003",
    "users-002",
]


@pytest.mark.parametrize("case", [case if case["id"] in CHECKED else full(case) for case in SUITE])
def test_the_truth_by_other_means_is_between_the_bounds(case: dict[str, Any]) -> None:
    """By contour integrals, enumeration and closed forms, which share nothing with evr."""
    event, bounds = event_of(case), case["delta"]
    lower, upper = (Fraction(bounds[side]) for side in ("lower", "upper"))
    for direction in ("remove", "add"):
        try:
            if case["relation"] == "replace-one" or case["id"].startswith("users"):
                laws = relations.composition(event, case["relation"], direction)
                known = of_composition(laws, bounds["at"], 5.0)
            else:
                known = truth(event, bounds["at"], direction, 5.0)
        except Unreached:
            assert case["id"] not in CHECKED
            continue
        assert known.value - known.error <= upper
        if direction == case["direction"]:
            assert known.value + known.error >= lower
            assert known.error < 1e-6 * known.value or case["id"] not in CHECKED


def test_verdicts() -> None:
    lower, upper = Fraction(99, 100), Fraction(101, 100)
    assert judge(1.0, lower, upper) == Verdict("holds")
    assert str(judge(0.495, lower, upper)) == "refuted by 5.0e-01"
    assert str(judge(2.02, lower, upper)) == "loose by 1.0e+00"
    assert judge(float("inf"), lower, upper).word == "loose"
    for claim in (math.nan, -math.inf, np.float32(0.5)):
        assert judge(claim, lower, upper).word == "refuted"
    assert judge(np.float32(1.0), lower, upper).word == "holds"
    with pytest.raises(AssertionError, match="is refuted by"):
        check(SUITE[0], "delta", lambda case, question: 0.5 * float(Fraction(case["delta"]["lower"])))
    with pytest.raises(pytest.skip.Exception):
        check(SUITE[0], "delta", lambda case, question: None)
    assert verdict({"id": "none"}, "epsilon", lambda case, question: 1.0) is None


def test_the_plugin_asks_each_case_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "test_mine.py").write_text("def test_mine(case):\n    assert case['id']\n")
    monkeypatch.chdir(tmp_path)
    arguments = ["-p", "evr_conformance", "-p", "no:cacheprovider", "-q", "-c", "/dev/null", "--rootdir", str(tmp_path)]
    collected: list[str] = []

    class Plugin:
        def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
            collected.extend(item.name for item in items)

    assert pytest.main([*arguments, "test_mine.py"], plugins=[Plugin()]) == 0
    assert len(collected) == len(SUITE)
