"""The attack itself: a small part of it, what it must notice, and that it goes
on where it ended.
"""

from __future__ import annotations

import json
import math
import os
import runpy
import sys
import time
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from dp_accounting import dp_event

import evr
from attacking import summary, trials
from attacking.events import BINS_EVERY, BINS_FIRST, FALSE_BY, MECHANISMS, TAUS, make
from attacking.laws import Unreached
from attacking.running import Results, records, run
from attacking.trials import (
    CRASHED,
    FAILURES,
    GOOD,
    QUESTIONS,
    REFUSED,
    SLOW,
    STRICT_EVERY,
    UNKNOWN,
    WRONG,
    Limits,
    TooSlow,
    attack,
    attack_strict,
    limited,
)
from evr._estimate.results import Estimate
from helpers import near

ROOT = Path(__file__).resolve().parents[2]
SEED = 12
SLOW_ONES = (3, 4, 10, 11, *range(12, 24))
SMALL_PART = [pytest.param(i, marks=pytest.mark.full) if i in SLOW_ONES else i for i in range(24)]
LIMITS = Limits(truth=3.0, answer=4.0)


@pytest.mark.parametrize("index", SMALL_PART)
def test_a_small_part_of_the_attack(index):
    record = attack(make(SEED, index), LIMITS)
    assert summary.failures([record]) == []


# --- what it must notice --------------------------------------------------------------------------

EVENT = evr.dpsgd(noise_multiplier=2.0, sampling_probability=0.01, steps=1500)
CASE = replace(make(SEED, 1), kind="dpsgd", event=EVENT, epsilon=1.0, tau_true=0.5, tau_false=0.5, false_by=0.2)


def outcomes(record):
    return {question: answer["outcome"] for question, answer in record["answers"].items()}


def test_a_sound_answer_is_good():
    record = attack(CASE, LIMITS)
    assert set(outcomes(record).values()) == {GOOD}
    assert record["truth"]["remove"]["value"] == near(9.4696576452e-8, rel=1e-9)


def test_an_estimate_outside_its_error_is_wrong(monkeypatch):
    real = evr.estimate_delta

    def off(*arguments, **options):
        found = real(*arguments, **options)
        return replace(found, value=found.value * (1 + 1e-6)) if isinstance(found, Estimate) else found

    monkeypatch.setattr(evr, "estimate_delta", off)
    found = outcomes(attack(CASE, LIMITS))
    assert found["estimate, remove"] == found["estimate, add"] == WRONG
    assert found["false claim"] == GOOD


def test_a_bound_below_the_truth_is_wrong(monkeypatch):
    real = evr.estimate_delta

    def low(*arguments, method="fft", **options):
        found = real(*arguments, method=method, **options)
        return replace(found, value=found.value * 0.999) if method == "strict" else found

    monkeypatch.setattr(evr, "estimate_delta", low)
    assert outcomes(attack(replace(CASE, index=STRICT_EVERY), LIMITS))["strict bound"] == WRONG


# one Laplace step by its closed form: the strict bound takes milliseconds
LAPLACE = replace(CASE, kind="laplace", event=dp_event.LaplaceDpEvent(1.0), epsilon=0.5)
DELTA = 1 - math.exp((0.5 - 1.0) / 2)


def truths_of(value):
    truth = {"value": value, "error": 0.0, "way": "closed form"}
    return {"remove": truth, "add": truth}


def test_a_strict_bound_is_judged_by_the_truth_of_a_record():
    record = attack_strict(LAPLACE, LIMITS, truths_of(DELTA * (1 - 1e-15)))
    assert record["relative"] == 0.0
    assert record["answers"]["strict bound"]["outcome"] == GOOD


@pytest.mark.parametrize("factor", [0.5, 2.0])
def test_a_truth_that_is_not_between_the_strict_bounds_is_computed_again(factor):
    record = attack_strict(LAPLACE, LIMITS, truths_of(factor * DELTA))
    assert record["answers"]["strict bound"]["outcome"] == GOOD
    assert record["answers"]["strict bound"]["measure"] == near(0.0, abs=1e-12)


def test_a_strict_bound_below_the_truth_stays_wrong(monkeypatch):
    real = evr.estimate_delta

    def low(*arguments, **options):
        found = real(*arguments, **options)
        return replace(found, value=found.value * (1 - 1e-12))

    monkeypatch.setattr(evr, "estimate_delta", low)
    for truths in (None, truths_of(DELTA)):
        assert outcomes(attack_strict(LAPLACE, LIMITS, truths))["strict bound"] == WRONG


def test_a_lower_bound_above_the_truth_stays_wrong(monkeypatch):
    real = evr.refute

    def high(*arguments, **options):
        found = real(*arguments, **options)
        return replace(found, lower=found.lower * (1 + 1e-12))

    monkeypatch.setattr(evr, "refute", high)
    for truths in (None, truths_of(DELTA)):
        assert outcomes(attack_strict(LAPLACE, LIMITS, truths))["strict bound"] == WRONG


def test_a_truth_that_is_unknown_judges_nothing():
    record = attack_strict(LAPLACE, LIMITS, {"remove": None, "add": None})
    assert record["relative"] is None
    assert outcomes(record)["strict bound"] == UNKNOWN


def test_where_nothing_else_leads_to_the_truth_it_is_enclosed(monkeypatch):
    """Two bounds judge estimates and claims, but not the strict bound."""

    def unreached(*arguments):
        raise Unreached("no way led to it")

    monkeypatch.setattr(trials, "truth", unreached)
    case = replace(CASE, index=STRICT_EVERY)
    record = attack(case, LIMITS)
    assert {one["way"] for one in record["truth"].values()} == {"enclosure"}
    assert outcomes(record) == dict.fromkeys(QUESTIONS, GOOD) | {"strict bound": UNKNOWN}
    real = evr.estimate_delta
    monkeypatch.setattr(evr, "estimate_delta", lambda *a, **k: replace(real(*a, **k), value=real(*a, **k).value * 1.01))
    assert outcomes(attack(case, LIMITS))["estimate, remove"] == WRONG


@pytest.mark.parametrize(("verdict", "expected"), [(True, (WRONG, GOOD)), (False, (GOOD, WRONG))])
def test_a_verifier_with_one_answer_is_wrong_once(monkeypatch, verdict, expected):
    real = evr.verify

    def stubborn(*arguments, **options):
        found = vars(real(*arguments, **options))  # a real one cannot be made to lie
        return SimpleNamespace(**found, accepted=verdict)

    monkeypatch.setattr(evr, "verify", stubborn)
    found = outcomes(attack(CASE, LIMITS))
    assert (found["false claim"], found["true claim"]) == expected


def test_a_verifier_that_tests_another_claim_is_wrong(monkeypatch):
    real = evr.verify
    monkeypatch.setattr(evr, "verify", lambda *a, delta, **o: real(*a, delta=2.2 * delta, **o))
    assert outcomes(attack(CASE, LIMITS))["false claim"] == WRONG


def test_refusals_crashes_and_time(monkeypatch):
    rare = dp_event.PoissonSampledDpEvent(1e-300, dp_event.GaussianDpEvent(1.0))
    refused = attack(replace(CASE, event=rare), LIMITS)
    assert outcomes(refused)["estimate, remove"] == REFUSED
    assert "sampling_probability=1e-300 is below" in refused["answers"]["estimate, remove"]["detail"]

    def crash(*_, **__):
        raise KeyError("nothing")

    def sleepless(*_, **__):
        while True:
            pass

    monkeypatch.setattr(evr, "estimate_delta", crash)
    monkeypatch.setattr(evr, "verify", sleepless)
    found = outcomes(attack(CASE, Limits(truth=3.0, answer=0.2)))
    assert found["estimate, remove"] == CRASHED
    assert found["false claim"] == SLOW


def test_errors_of_python_are_no_refusals(monkeypatch):
    """``math domain error`` is a ValueError too."""
    monkeypatch.setattr(evr, "estimate_delta", lambda *_, **__: __import__("math").log(-1.0))
    assert outcomes(attack(CASE, LIMITS))["estimate, add"] == CRASHED


def test_the_limit_counts_processor_time():
    with limited(0.2):
        time.sleep(0.4)

    def endless():
        while True:
            pass

    with pytest.raises(TooSlow), limited(0.1):
        endless()


# --- events ---------------------------------------------------------------------------------------


def test_events_come_again_from_seed_and_index():
    for index in range(6):
        again = make(SEED, index)
        assert repr(make(SEED, index)) == repr(again)
        assert repr(make(SEED + 1, index)) != repr(again)


def test_events_cover_the_domain():
    cases = [make(3, index) for index in range(150)]
    kinds = " ".join(case.kind for case in cases)
    for name in [*MECHANISMS, "corner", "sampled", " + ", "bins"]:
        assert name in kinds
    assert len({case.kind for case in cases if case.kind.startswith("corner")}) == 7
    bins = {make(3, index).kind for index in range(BINS_FIRST, 480, BINS_EVERY)}
    assert {"bins", "bins + gaussian", "bins + sampled gaussian", "bins + laplace"} <= bins
    assert {case.tau_true for case in cases} == set(TAUS)
    assert {case.false_by for case in cases} == set(FALSE_BY)
    epsilons = [case.epsilon for case in cases]
    assert min(epsilons) == 0
    assert max(epsilons) > 1000
    assert sum(1e-8 < epsilon < 1e-3 for epsilon in epsilons) > 5


# --- running --------------------------------------------------------------------------------------


def square(index):
    if index == 3:
        os._exit(1)
    return {"index": index, "square": index * index}


def test_workers_do_everything_and_survive_a_death():
    found = {record["index"]: record for record in run(square, list(range(8)), 2, 10.0)}
    assert sorted(found) == list(range(8))
    assert "died" in found[3]
    assert found[7]["square"] == 49


def test_a_cut_off_line_is_left_out_and_mended(tmp_path):
    path = tmp_path / "records.jsonl"
    with Results(path) as results:
        results.add({"index": 1})
    with path.open("a") as file:
        file.write('{"index": 2, "ki')
    assert set(records(path)) == {1}
    with Results(path) as results:
        results.add({"index": 3})
    assert set(records(path)) == {1, 3}


@pytest.fixture
def script(tmp_path, monkeypatch, capsys):
    """The exit code of the script, what it prints and what it complains of."""

    def ran(*arguments):
        monkeypatch.setattr(sys, "argv", ["attack.py", "--results", str(tmp_path), *arguments])
        with pytest.raises(SystemExit) as left:
            runpy.run_path(str(ROOT / "benchmarks" / "attack.py"), run_name="__main__")
        return left.value.code, *capsys.readouterr()

    return ran


def test_the_script_continues_where_it_ended_and_writes_its_page(tmp_path, script):
    answers = {question: {"outcome": GOOD, "detail": "", "seconds": 0.1, "measure": 0.5} for question in QUESTIONS}
    known = {"remove": {"value": 0.1, "error": 1e-16, "way": "contour"}, "add": None}
    stored = [{"index": i, "kind": "gaussian", "truth": known, "answers": answers, "seconds": 1.0} for i in range(3)]
    stored[2] = {
        **stored[2],
        "answers": {**answers, "false claim": {**answers["false claim"], "outcome": WRONG, "detail": "bad"}},
    }
    (tmp_path / "seed-1.part-1-of-2.jsonl").write_text("".join(json.dumps(r) + "\n" for r in stored))
    page = tmp_path / "attack.md"
    code, out, err = script("--events", "3", "--write", str(page))
    assert code == 1, err
    assert "--seed 1 --only 2" in out
    text = page.read_text()
    assert "| false claim | 2 | 0 | 0 | 0 | 1 | 0 |" in text
    assert "| 2 | gaussian | false claim | WRONG | bad |" in text


def test_strict_records_are_made_of_other_records_and_told_on_the_page(tmp_path, script):
    done = {
        "index": 0,
        "kind": "gaussian",
        "relative": 1e-12,
        "answers": {"strict bound": {"outcome": GOOD, "detail": "", "seconds": 0.1, "measure": 2e-4}},
        "seconds": 0.1,
    }
    (tmp_path / "strict-1.jsonl").write_text(json.dumps(done) + "\n")
    unknown = {"index": 1, "truth": {"remove": None, "add": None}, "answers": {}, "seconds": 1.0}
    (tmp_path / "seed-1.jsonl").write_text(
        "".join(json.dumps(unknown | {"index": i, "kind": "gaussian"}) + "\n" for i in range(2))
    )
    code, out, err = script("--events", "2", "--strict")
    assert code == 0, err
    assert "| strict bound | 1 | 0 | 0 | 1 | 0 | 0 |" in out
    assert set(records(tmp_path / "strict-1.jsonl")) == {0, 1}
    known, strict = (list(records(tmp_path / name).values()) for name in ("seed-1.jsonl", "strict-1.jsonl"))
    text = summary.page(known, strict, seed=1, version="0")
    assert "and 1 bounds were judged" in text
    assert "| greatest | 0.0002 |" in text


def test_a_part_that_is_none_is_refused(script):
    code, _, err = script("--part", "5/4")
    assert code == 2
    assert "is not a part such as 3/20" in err


def test_failures_are_the_two_capital_outcomes():
    assert {WRONG, CRASHED} == set(FAILURES)
