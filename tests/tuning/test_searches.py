"""Selections as events: estimates, strict proofs, certificates, replay, files, and what is refused."""

from __future__ import annotations

import dataclasses
import json
import math
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from dp_accounting import dp_event

import evr
from evr import _spec as spec
from evr._estimate.fft import FftCurve
from evr._kernel.events import Composition
from evr._kernel.pairs import Direction
from evr._kernel.strict import CurvePlan, ProofPlan, SelectionPlan, prove, prove_curve
from evr._kernel.strict.tradeoff import Selected
from evr._kernel.verdict.results import Verdict
from evr._wording.events import describe
from evr.errors import CertificateError, SpecError, UnsupportedEventError
from evr.events import BinomialSelectDpEvent, ThresholdSelectDpEvent
from helpers import near
from tuning.independent import Plain, binomial, gaussian_delta, negative_binomial, poisson

GAUSSIAN = dp_event.GaussianDpEvent(2.0)  # mu = 0.5, as in the table of test_bounds
DPSGD = evr.dpsgd(noise_multiplier=1.0, sampling_probability=0.01, steps=500)
EVENTS = {
    "geometric": dp_event.RepeatAndSelectDpEvent(GAUSSIAN, 10, 1),
    "poisson": dp_event.RepeatAndSelectDpEvent(GAUSSIAN, 10, math.inf),
    "logarithmic": dp_event.RepeatAndSelectDpEvent(GAUSSIAN, 99 / math.log(100), 0),
    "binomial": BinomialSelectDpEvent(GAUSSIAN, 20, 0.5),
    "threshold": ThresholdSelectDpEvent(GAUSSIAN, 0.1),
}
TRUE = {"geometric": 2.231e-10, "poisson": 2.080e-6, "logarithmic": 3.704e-10, "binomial": 5.26e-5}  # at epsilon 4
LIMIT = {"geometric": 2.473e-10, "poisson": 2.765e-6, "logarithmic": 4.038e-10}  # of the formulas, at epsilon 4
ON_CELLS = {"binomial": 0.00014057258, "threshold": 1.6158389e-12}


@pytest.mark.parametrize("name", list(EVENTS))
def test_estimate_and_strict_bound(name: str) -> None:
    event = EVENTS[name]
    estimate = evr.estimate_delta(event, 4.0).value
    strict = evr.estimate_delta(event, 4.0, method="strict")
    assert isinstance(strict, evr.UpperBound)
    assert estimate * (1 - 1e-6) <= strict.value <= estimate * (1 + 1e-3)
    assert strict.value > TRUE.get(name, 0.0)  # no bound is below a selection that exists
    if name in LIMIT:
        assert LIMIT[name] * 0.999 <= strict.value <= LIMIT[name] * 1.07
    else:
        assert strict.value < ON_CELLS[name]
    if name in ("geometric", "threshold"):
        assert evr.estimate_epsilon(event, strict.value, method="strict").value == near(4.0, 1e-3)


@cache
def curves_and_points() -> tuple[dict[Direction, FftCurve], dict[Direction, list[tuple[Fraction, Fraction]]]]:
    composition = Composition.of(DPSGD)
    curves = {one: FftCurve(composition.simplified(one)) for one in Direction}
    points = {
        one: [(Fraction(k / 10), Fraction(min(1.0, curve.delta(k / 10).value))) for k in range(31)]
        for one, curve in curves.items()
    }
    return curves, points


@pytest.mark.parametrize(
    ("law", "r", "remove", "add"),
    [
        (poisson(10), (1.140833, 1.140833), 0.005931084, 0.0003618192),
        (negative_binomial(1, 0.1), (0.5065595, 0.5408819), 2.188175e-5, 1.1e-10),
        (negative_binomial(0, 0.01), (0.4693448, None), 3.362501e-5, None),
    ],
)
def test_the_oracles_of_dpsgd(law: Plain, r: tuple[float, float | None], remove: float, add: float | None) -> None:
    """The simple bound at epsilon 2, r from points 0, 0.1, ..., 3; between points evr takes chords."""
    curves, points = curves_and_points()
    for one, expected, of_r in ((Direction.REMOVE, remove, r[0]), (Direction.ADD, add, r[1])):
        if expected is None or of_r is None:
            continue
        tolerance = 2e-3 if law.rule.factor != 10 or expected < 1e-4 else 2e-6  # r is printed to 7 digits
        other = Direction.ADD if one is Direction.REMOVE else Direction.REMOVE
        found = Selected.of(law.rule, points[one], points[other], 1)
        ours = -math.log(found.greatest[0].ratio / 2**found.bits)
        assert ours == near(of_r, 1e-6)
        assert float(law.rule.factor) * curves[one].delta(2 - ours).value == near(expected, tolerance)
        by_chords = Selected(found.curve, found.bits, found.greatest).delta(Fraction(2))
        assert expected < float(by_chords) * (1 + tolerance) < 4 * expected


def test_the_selections_of_dp_accounting_are_never_tighter() -> None:
    for name in ("geometric", "poisson", "logarithmic"):
        ours = evr.estimate_epsilon(EVENTS[name], 1e-6, method="strict").value
        theirs = evr.estimate_epsilon(EVENTS[name], 1e-6, method="rdp").value
        assert ours < theirs


@pytest.mark.parametrize("name", ["geometric", "poisson", "binomial", "logarithmic"])
def test_false_claims_are_rejected(name: str) -> None:
    """A delta that a selection exceeds, which exists: the explicit one of the table."""
    false = evr.verify(EVENTS[name], epsilon=4.0, delta=0.999 * TRUE[name])
    assert false.verdict is Verdict.REJECTED
    assert false.guarantee is None
    bound = evr.estimate_delta(EVENTS[name], 4.0, method="strict").value
    held = evr.verify(EVENTS[name], epsilon=4.0, delta=bound * 1.02)
    assert held.method == "strict"
    assert held.guarantee == evr.Guarantee(4.0, bound * 1.02)


def test_directions_are_not_swapped() -> None:
    """Under add, DP-SGD costs far less than under remove; so does a selection among its runs."""
    step = dp_event.PoissonSampledDpEvent(0.1, dp_event.GaussianDpEvent(1.0))
    event = dp_event.RepeatAndSelectDpEvent(step, 5, 1)
    remove, add = (evr.estimate_delta(event, 0.2, direction=one).value for one in ("remove", "add"))
    assert add < 0.8 * remove
    strict = evr.estimate_delta(event, 0.2, direction="add", method="strict").value
    assert add * (1 - 1e-6) <= strict <= add * 1.01


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tuned")
    path = folder / "search.certificate.json"
    evr.certify(EVENTS["geometric"], delta=1e-6, ledger=folder / "ledger.sqlite", path=path)
    return path


def test_a_certificate_replays(certificate: Path) -> None:
    found = evr.Certificate.load(certificate)
    assert found.verdict == "accepted"
    assert found.verification.method == "strict"
    assert found.guarantee is not None
    assert found.guarantee.epsilon == near(evr.estimate_epsilon(EVENTS["geometric"], 1e-6).value, 0.01)
    assert "the best of a random number of runs (geometric law, mean 10)" in found.statement
    assert "neither it nor the other runs nor the time that they took was shown" in found.statement
    assert evr.replay(found).agrees


def test_an_altered_certificate_does_not_replay(certificate: Path) -> None:
    document = json.loads(certificate.read_text())
    document.pop("digest")
    for change in (_fewer_runs, _smaller_bound, _other_plan):
        altered = evr.Certificate.sealed(change(json.loads(json.dumps(document))))
        assert not evr.replay(altered).agrees


def _fewer_runs(document: dict[str, Any]) -> dict[str, Any]:
    document["event"]["mean"] = 20
    return document


def _smaller_bound(document: dict[str, Any]) -> dict[str, Any]:
    for section in document["verification"]["directions"].values():
        section["strict"]["bound"] = str(Fraction(section["strict"]["bound"]) * Fraction(9, 10))
    return document


def _other_plan(document: dict[str, Any]) -> dict[str, Any]:
    for section in document["verification"]["directions"].values():
        section["strict"]["plan"]["selections"][0]["fineness"] = 1
    return document


def _plan() -> tuple[Any, ProofPlan]:
    steps = Composition.of(EVENTS["geometric"]).exact("remove")
    epsilons = tuple(Fraction(k, 10) for k in range(40))
    curve = CurvePlan(epsilons, ProofPlan.of_one_step(120))
    selection = SelectionPlan(100, (curve,), (curve,), ())
    return steps, dataclasses.replace(ProofPlan.of_one_step(120), selections=(selection,))


def test_plans_are_data_and_any_plan_gives_a_true_bound() -> None:
    steps, plan = _plan()
    good = prove(steps, Fraction(4), plan)
    assert float(good.delta) > TRUE["geometric"]
    assert ProofPlan.from_json(json.loads(json.dumps(plan.to_json()))) == plan
    (one,) = plan.selections
    hostile = [
        dataclasses.replace(one, fineness=1),
        dataclasses.replace(one, ahead=()),
        dataclasses.replace(one, back=()),
        dataclasses.replace(one, ahead=(), back=()),
        dataclasses.replace(one, ahead=(CurvePlan((Fraction(0),), ProofPlan.of_one_step(1)),)),
        dataclasses.replace(one, back=(CurvePlan((Fraction(10**5),), ProofPlan.of_one_step(8)),)),
    ]
    for bad in hostile:
        proof = prove(steps, Fraction(4), dataclasses.replace(plan, selections=(bad,)))
        assert good.delta < proof.delta <= 1


def test_plans_that_no_plan_can_be_are_refused() -> None:
    steps, plan = _plan()
    (one,) = plan.selections
    for fields in (
        {"fineness": 0},
        {"fineness": 10**9},
        {"at": (Fraction(-1),)},
        {"at": (Fraction(1),) * 5000},
        {"ahead": one.ahead * 65},
        {"ahead": (CurvePlan((Fraction(1),), plan),)},
    ):
        with pytest.raises(ValueError, match="selection"):
            dataclasses.replace(one, **fields)
    with pytest.raises(ValueError, match="has 0 selections, and the steps have 1"):
        prove(steps, Fraction(1), ProofPlan.of_one_step(80))
    with pytest.raises(ValueError, match="has 1 selections, and the steps have 0"):
        prove_curve(Composition.of(DPSGD).exact("remove"), [Fraction(1)], _with_grids(plan))
    for document in ({}, {**plan.to_json(), "selections": 3}, {**plan.to_json(), "selections": [{"fineness": 1}]}):
        with pytest.raises(ValueError, match=r"selection|plan"):
            ProofPlan.from_json(document)


def _with_grids(plan: ProofPlan) -> ProofPlan:
    from evr._plan.strict import StrictCurve

    (grids,) = {p.plan for p in StrictCurve(Composition.of(DPSGD).exact("remove")).points([1.0])}
    assert grids is not None
    return dataclasses.replace(grids, selections=plan.selections)


def test_a_search_beside_other_mechanisms() -> None:
    """It composes: between the greater part and the sum of both, and next to the estimate."""
    other = dp_event.GaussianDpEvent(4.0)
    both = dp_event.ComposedDpEvent([EVENTS["geometric"], other])
    estimate = evr.estimate_delta(both, 3.0).value
    strict = evr.estimate_delta(both, 3.0, method="strict").value
    assert estimate * 0.999 < strict < estimate * 1.02
    assert strict > evr.estimate_delta(EVENTS["geometric"], 3.0).value
    shares = [(1.0 + k / 10, evr.estimate_delta(EVENTS["geometric"], 1.0 + k / 10).value) for k in range(20)]
    sums = [first + math.exp(at) * gaussian_delta(0.25, 3.0 - at) for at, first in shares]
    assert strict < min(sums)
    nothing = dp_event.ComposedDpEvent([EVENTS["geometric"], dp_event.NoOpDpEvent()])
    assert evr.estimate_delta(nothing, 3.0).value == evr.estimate_delta(EVENTS["geometric"], 3.0).value


def test_one_run_is_the_run() -> None:
    alone = evr.estimate_delta(GAUSSIAN, 1.0).value
    for event in (dp_event.RepeatAndSelectDpEvent(GAUSSIAN, 1, 0.5), ThresholdSelectDpEvent(GAUSSIAN, 1.0)):
        assert evr.estimate_delta(event, 1.0).value == alone
    free = dp_event.RepeatAndSelectDpEvent(dp_event.NoOpDpEvent(), 5, 1)
    assert evr.estimate_delta(free, 0.0).value == 0
    nothing = dp_event.RepeatAndSelectDpEvent(dp_event.NonPrivateDpEvent(), 5, 1)
    assert evr.estimate_delta(nothing, 9.0).value == 1


@pytest.mark.parametrize(("mean", "shape"), [(1.0000001, 0.0), (50, -0.99), (2, 1e6), (1e9, 1.0), (0.01, math.inf)])
def test_laws_at_the_ends_of_their_ranges(mean: float, shape: float) -> None:
    event = dp_event.RepeatAndSelectDpEvent(dp_event.GaussianDpEvent(10.0), mean, shape)
    estimate = evr.estimate_delta(event, 1.0).value
    assert estimate * (1 - 1e-6) <= evr.estimate_delta(event, 1.0, method="strict").value <= min(estimate * 1.01, 1.0)
    if shape != math.inf:
        assert estimate >= gaussian_delta(0.1, 1.0)


def test_infinite_losses_grow_by_the_number_of_runs() -> None:
    event = dp_event.RepeatAndSelectDpEvent(evr.events.EpsilonDeltaDpEvent(0.5, 1e-8), 10, 1)
    assert evr.estimate_delta(event, math.inf, method="strict").value == near(1e-7, 1e-9)
    assert 1e-7 * (1 - 1e-9) < evr.estimate_delta(event, 20.0, method="strict").value < 1.2e-7
    pure = dp_event.RepeatAndSelectDpEvent(dp_event.LaplaceDpEvent(2.0), 10, 1)
    assert evr.estimate_delta(pure, 1.5, method="strict").value == 0  # 2 + shape times 0.5


@pytest.mark.parametrize(
    ("event", "error", "match"),
    [
        (dp_event.RepeatAndSelectDpEvent(GAUSSIAN, 0.5, 1), ValueError, "mean=0.5 is below 1"),
        (dp_event.RepeatAndSelectDpEvent(GAUSSIAN, math.nan, 1), ValueError, "mean=nan is not in"),
        (dp_event.RepeatAndSelectDpEvent(GAUSSIAN, -3, math.inf), ValueError, "mean=-3 is not in"),
        (dp_event.RepeatAndSelectDpEvent(GAUSSIAN, 1e300, 1), ValueError, r"mean=1e\+300 is not in"),
        (dp_event.RepeatAndSelectDpEvent(GAUSSIAN, "ten", 1), TypeError, "mean='ten' is not a number"),
        (dp_event.RepeatAndSelectDpEvent(GAUSSIAN, 10, -1), ValueError, "shape=-1 is not in"),
        (dp_event.RepeatAndSelectDpEvent(GAUSSIAN, 10, math.nan), ValueError, "shape=nan is not in"),
        (dp_event.RepeatAndSelectDpEvent(GAUSSIAN, 10**6, math.inf), ValueError, "geometric law"),
        (BinomialSelectDpEvent(GAUSSIAN, 20, 1.0), ValueError, "probability=1.0 is not in"),
        (BinomialSelectDpEvent(GAUSSIAN, 0, 0.5), ValueError, "most_runs=0 is not an integer"),
        (BinomialSelectDpEvent(GAUSSIAN, 10**6, 0.5), ValueError, "fewer"),
        (ThresholdSelectDpEvent(GAUSSIAN, 0.0), ValueError, "stop_probability=0.0 is not in"),
        (dp_event.RepeatAndSelectDpEvent(EVENTS["poisson"], 10, 1), UnsupportedEventError, "another selection"),
        (dp_event.PoissonSampledDpEvent(0.1, EVENTS["poisson"]), UnsupportedEventError, "around the sampling"),
        (
            dp_event.RepeatAndSelectDpEvent(evr.events.BMinSepDpEvent(1.0, 20, 4, 0.2, False), 10, 1),
            UnsupportedEventError,
            "known by samples only",
        ),
    ],
)
def test_what_is_refused(event: Any, error: type[Exception], match: str) -> None:
    with pytest.raises(error, match=match):
        evr.estimate_delta(event, 1.0)


@pytest.mark.parametrize("options", [{"method": "sequential"}, {"method": "fixed"}, {"method": "both"}, {"seed": 1}])
def test_no_sample_is_drawn_of_a_selection(options: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises(UnsupportedEventError, match="method='strict'"):
        evr.verify(EVENTS["geometric"], epsilon=4.0, delta=1e-3, **options)
    ledger = tmp_path / "ledger.sqlite"
    with pytest.raises(UnsupportedEventError, match="method='strict'"):
        evr.certify(EVENTS["geometric"], epsilon=4.0, delta=1e-3, ledger=ledger, **options)
    assert not ledger.exists() or not evr.Ledger(ledger).attempts()  # nothing is counted


def test_files_describe_searches() -> None:
    text = '[[mechanism]]\nkind = "gaussian"\nnoise_multiplier = 2.0\n\n[tuning]\n'
    for keys, name in (
        ("mean = 10\n", "geometric"),
        ("mean = 10\nshape = inf\n", "poisson"),
        ("most_runs = 20\nprobability = 0.5\n", "binomial"),
        ("stop_probability = 0.1\n", "threshold"),
    ):
        assert spec.parse(text + keys).event() == EVENTS[name]
    for keys, match in (
        ("", "which law has the number of runs"),
        ("shape = 1\n", "which law"),
        ("mean = 10\nstop_probability = 0.1\n", "which law"),
        ("most_runs = 10\n", "needs both"),
        ("mean = 0.5\n", "tuning: mean=0.5 is below 1"),
        ("maen = 10\n", "did you mean 'mean'"),
    ):
        with pytest.raises(SpecError, match=match):
            spec.parse(text + keys).event()


def test_words() -> None:
    assert describe(EVENTS["threshold"]).startswith("the first good one of several runs")
    assert "binomial law, at most 20, each with probability 0.5" in describe(EVENTS["binomial"])
    other = describe(dp_event.RepeatAndSelectDpEvent(GAUSSIAN, 10, 0.5))
    assert "truncated negative binomial law, mean 10, shape 0.5" in other
    assert other.endswith("each of them a Gaussian mechanism (noise multiplier 2)")


def test_a_certificate_of_an_unknown_law_is_refused(certificate: Path) -> None:
    document = json.loads(certificate.read_text())
    document.pop("digest")
    document["event"]["type"] = "RepeatForeverDpEvent"
    with pytest.raises(CertificateError):
        evr.Certificate.sealed(document).dp_event()


def test_risk_of_a_search() -> None:
    found, of_one = evr.risk(EVENTS["geometric"]), evr.risk(GAUSSIAN)
    assert of_one.advantage < found.advantage < 1


def test_other_neighbours() -> None:
    event = dp_event.RepeatAndSelectDpEvent(dp_event.GaussianDpEvent(4.0), 10, 1)  # twice the sensitivity
    bound = evr.estimate_delta(event, 4.0, neighboring_relation="replace-one").value
    assert bound == near(evr.estimate_delta(EVENTS["geometric"], 4.0).value, 1e-9)


def test_binomial_of_independent_letters() -> None:
    assert float(binomial(20, 0.5).rule.factor) == 10
