"""Strict bounds: at least the truth, close above it, in both directions, for every kind of
mechanism.
"""

from __future__ import annotations

import ast
import math
from fractions import Fraction
from pathlib import Path

import pytest
from dp_accounting import dp_event
from flint import ctx

import evr
from estimation.references import REFERENCES
from evr import events
from evr._kernel import strict
from evr._kernel.events import MECHANISMS, Composition
from evr._kernel.pairs import DiscretePair, Pairs
from evr._kernel.strict import rounded_up
from evr._plan.strict import StrictCurve
from evr._spec import load
from evr.errors import UnsupportedEventError
from helpers import answers, near, together

ROOT = Path(__file__).parents[2]
TOLERANCE = 5e-4


def repeated(event, count, probability=1.0):
    sampled = event if probability == 1 else dp_event.PoissonSampledDpEvent(probability, event)
    return dp_event.SelfComposedDpEvent(sampled, count)


def chosen():
    """All references but the random ones, and every tenth of those; a million steps once."""
    random = [r for r in REFERENCES if r.group == "random"]
    long = [r for r in REFERENCES if r.group != "random" and r.steps >= 10**6]
    return [r for r in REFERENCES if r.group != "random" and r not in long[1:]] + random[::10]


@pytest.mark.parametrize("reference", chosen(), ids=str)
def test_bounds_are_above_the_references_and_close(reference):
    event = evr.dpsgd(
        noise_multiplier=reference.noise, sampling_probability=reference.probability, steps=reference.steps
    )
    bound = evr.estimate_delta(event, reference.epsilon, method="strict", direction=reference.direction)
    assert isinstance(bound, evr.UpperBound)
    assert bound.direction == reference.direction
    excess = bound.value / reference.delta - 1
    assert -4e-11 <= excess <= TOLERANCE  # references are known to some 1e-11


ANY = {
    "the mixed specification": (load(ROOT / "examples" / "mixed.toml").event(), 0.6),
    "Gaussians": (repeated(dp_event.GaussianDpEvent(70.0), 1200), 1.0),
    "randomized response": (together((answers(0.6, 3), 8)), 6.0),
    "sampled randomized response": (together((answers(0.6, 3, 0.1), 400)), 9.0),
    "discrete Laplace": (repeated(dp_event.DiscreteLaplaceDpEvent(0.3, 4), 20), 18.0),
    "discrete Gaussian": (repeated(events.DiscreteGaussianDpEvent(4.0, 1), 100), 8.0),
    "sampled discrete Gaussian": (repeated(events.DiscreteGaussianDpEvent(2.0, 3), 300, 0.05), 3.0),
    "epsilon and delta": (repeated(events.EpsilonDeltaDpEvent(0.1, 1e-7), 100), 3.0),
    "sampled epsilon and delta": (repeated(events.EpsilonDeltaDpEvent(0.3, 1e-6), 30, 0.2), 1.5),
    "Laplace": (repeated(dp_event.LaplaceDpEvent(10.0), 50), 2.0),
    "sampled Laplace": (repeated(dp_event.LaplaceDpEvent(3.0), 200, 0.1), 1.0),
    "mixture": (repeated(dp_event.MixtureOfGaussiansDpEvent(4.0, (0.0, 1.0, 2.0), (0.5, 0.3, 0.2)), 60), 4.0),
    "sampled mixture": (repeated(dp_event.MixtureOfGaussiansDpEvent(2.0, (1.0, 2.0), (0.5, 0.5)), 60, 0.1), 2.0),
    "two trainings": (
        dp_event.ComposedDpEvent(
            [repeated(dp_event.GaussianDpEvent(1.0), 300, 0.01), repeated(dp_event.GaussianDpEvent(0.6), 999, 1e-3)]
        ),
        1.0,
    ),
}


SAME = [  # as in the other direction
    (name, "add")
    for name in (
        "Gaussians",
        "randomized response",
        "discrete Laplace",
        "discrete Gaussian",
        "epsilon and delta",
        "Laplace",
    )
]


@pytest.mark.parametrize(
    ("name", "direction"), [(name, way) for name in ANY for way in ("remove", "add") if (name, way) not in SAME]
)
def test_every_mechanism_in_both_directions(name, direction):
    event, epsilon = ANY[name]
    estimate = evr.estimate_delta(event, epsilon, direction=direction)
    bound = evr.estimate_delta(event, epsilon, method="strict", direction=direction)
    assert -1e-7 - 2 * estimate.error / estimate.value <= bound.value / estimate.value - 1 <= TOLERANCE


def test_what_cannot_happen_has_delta_0_and_what_has_no_privacy_1():
    laplace = repeated(dp_event.LaplaceDpEvent(2.0), 4)
    assert evr.estimate_delta(laplace, 2.0, method="strict").value == 0.0
    assert 0.0 < evr.estimate_delta(laplace, 1.99, method="strict").value < 1e-2
    assert evr.estimate_delta(dp_event.NoOpDpEvent(), 0.0, method="strict").value == 0.0
    nothing = dp_event.ComposedDpEvent([dp_event.NonPrivateDpEvent(), dp_event.GaussianDpEvent(1.0)])
    assert evr.estimate_delta(nothing, 5.0, method="strict").value == 1.0
    fails = repeated(events.EpsilonDeltaDpEvent(0.1, 1e-3), 7)
    assert evr.estimate_delta(fails, math.inf, method="strict").value == near(1 - 0.999**7, rel=1e-12)


@pytest.mark.parametrize(
    ("event", "epsilon"),
    [
        (evr.dpsgd(noise_multiplier=1.0, sampling_probability=0.01, steps=100), 1e3),
        (evr.dpsgd(noise_multiplier=1.0, sampling_probability=0.01, steps=100), 1e12),
        (dp_event.ComposedDpEvent([dp_event.GaussianDpEvent(1.0), dp_event.LaplaceDpEvent(1.0)]), 1e12),
        (dp_event.SelfComposedDpEvent(events.DiscreteGaussianDpEvent(1.0), 3), 1e12),
    ],
    ids=["dpsgd", "dpsgd, huge", "two kinds", "discrete"],
)
def test_where_delta_is_below_all_floats_the_bound_is_next_to_nothing(event, epsilon):
    """It was 1 here, and at 1e30 there was a crash."""
    assert 0 < evr.estimate_delta(event, epsilon, method="strict").value < 1e-250


@pytest.mark.parametrize(
    ("event", "count"),
    [
        (events.EpsilonDeltaDpEvent(0.3, 1e-9), 1000),
        (events.EpsilonDeltaDpEvent(1e-3, 1e-9), 10**6),
        (events.EpsilonDeltaDpEvent(1.17e-6, 6e-44), 2),
    ],
    ids=["many", "very many", "two, tiny"],
)
def test_beyond_all_finite_losses_the_bound_is_the_mass_of_infinite_ones(event, count):
    """It was 1, but for the last, where it was 4e22 times what it should be."""
    found = evr.estimate_delta(repeated(event, count), count * event.epsilon, method="strict").value
    truth = -math.expm1(count * math.log1p(-event.delta))
    assert truth <= found <= truth * (1 + TOLERANCE)


def test_losses_that_are_far_apart():
    """A loss of a step is 0.0377 or -500: the bound at 0 was 1."""
    sampled = dp_event.PoissonSampledDpEvent(0.037, dp_event.DiscreteLaplaceDpEvent(503.4, 1))
    found = evr.estimate_delta(dp_event.SelfComposedDpEvent(sampled, 27), 0.0, method="strict", direction="add")
    truth = 1 - (1 - 0.037) ** 27
    assert truth * (1 - 1e-12) <= found.value <= truth * (1 + TOLERANCE)


@pytest.mark.parametrize(
    ("event", "epsilon"),
    [
        (
            dp_event.ComposedDpEvent(
                [repeated(events.EpsilonDeltaDpEvent(1.2221467870001965, 0.0), 5), dp_event.GaussianDpEvent(388.396)]
            ),
            3.666498385405616,
        ),
        (repeated(dp_event.LaplaceDpEvent(10.75), 5, 4.63e-9), 0.0),
    ],
    ids=["atoms beside a narrow Gaussian", "atoms and a density, tiny"],
)
def test_atoms_are_on_the_grid_beside_densities(event, epsilon):
    """The bounds were 0.1% and 2% above delta."""
    found = evr.estimate_delta(event, epsilon, method="strict").value
    truth = evr.estimate_delta(event, epsilon).value
    assert truth * (1 - 1e-9) <= found <= truth * (1 + TOLERANCE)


def test_both_directions_are_covered_and_the_greater_is_told():
    event = repeated(dp_event.GaussianDpEvent(2.0), 1500, 0.01)
    both = evr.estimate_delta(event, 1.0, method="strict")
    single = {d: evr.estimate_delta(event, 1.0, method="strict", direction=d).value for d in ("remove", "add")}
    assert both.direction == "remove"
    assert both.value == single["remove"] > single["add"]
    at_zero = evr.estimate_delta(event, 0.0, method="strict")
    assert at_zero.value >= max(evr.estimate_delta(event, 0.0, direction=d).value for d in ("remove", "add"))


def test_a_smaller_tolerance_is_met():
    event = evr.dpsgd(noise_multiplier=1.0, sampling_probability=1e-3, steps=1000)
    found = evr.estimate_delta(event, 0.5, method="strict", tolerance=2e-5).value
    assert 1 <= found / 2.05824121613704e-10 <= 1 + 2e-5
    with pytest.raises(ValueError, match="tolerance=0"):
        evr.estimate_delta(event, 0.5, method="strict", tolerance=0)
    with pytest.raises(TypeError, match="takes no option 'tolerance'"):
        evr.estimate_delta(event, 0.5, tolerance=1e-3)


TRAINING, LAPLACE = (
    evr.dpsgd(noise_multiplier=0.8, sampling_probability=0.01, steps=300),
    dp_event.LaplaceDpEvent(3.0),
)


@pytest.mark.parametrize(
    ("event", "delta"),
    [
        pytest.param(TRAINING, 1e-5, id="training"),
        pytest.param(TRAINING, 0.3, id="training, large delta"),
        pytest.param(repeated(LAPLACE, 20), 1e-3, id="Laplace"),
        pytest.param(dp_event.GaussianDpEvent(2.0), 1e-12, id="one Gaussian"),
    ],
)
def test_epsilons_are_proved_and_close(event, delta):
    found = evr.estimate_epsilon(event, delta, method="strict")
    estimate = evr.estimate_epsilon(event, delta).value
    assert isinstance(found, evr.UpperBound)
    assert estimate - 1e-8 <= found.value <= estimate + 2e-3 * max(estimate, 0.1)
    for curve in (StrictCurve(Composition.of(event).exact(d)) for d in ("remove", "add")):
        assert curve.bound(found.value, 1e-5, Fraction(delta)) <= Fraction(delta)


def test_epsilons_at_the_ends():
    laplace = repeated(dp_event.LaplaceDpEvent(10.0), 7)
    assert evr.estimate_epsilon(laplace, 0.0, method="strict").value == near(0.7, abs=1e-15)
    assert evr.estimate_epsilon(laplace, 1.0, method="strict").value == 0.0
    fails = events.EpsilonDeltaDpEvent(0.1, 1e-3)
    assert evr.estimate_epsilon(fails, 1e-4, method="strict").value == math.inf
    assert evr.estimate_epsilon(fails, 0.9, method="strict").value == 0.0


def test_curves_take_it():
    event = evr.dpsgd(noise_multiplier=1.0, sampling_probability=0.01, steps=100)
    curve = evr.privacy_curve(event, [0.0, 0.5, 1.0], method="strict")
    estimates = evr.privacy_curve(event, [0.0, 0.5, 1.0])
    assert curve.method == "strict"
    for bound, estimate in zip(curve.deltas, estimates.deltas, strict=True):
        assert 1 - 1e-7 <= bound / estimate <= 1 + TOLERANCE


class UnknownDpEvent(dp_event.DpEvent):
    """A mechanism of somebody's own, without an exact law."""


def test_a_mechanism_without_an_exact_law_is_refused_by_name():
    pair = DiscretePair.from_probabilities([0.3, 0.7], [0.6, 0.4])
    evr.register(UnknownDpEvent, lambda event: Pairs(pair, pair))
    try:
        with pytest.raises(UnsupportedEventError, match=r"DiscretePair.*offers no exact law"):
            evr.estimate_delta(UnknownDpEvent(), 0.1, method="strict")
    finally:
        del MECHANISMS[UnknownDpEvent]


def test_floats_are_rounded_up():
    assert rounded_up(Fraction(1, 3)) > Fraction(1, 3)
    assert rounded_up(Fraction(1, 4)) == 0.25
    assert rounded_up(Fraction(1, 10**400)) == 5e-324


def test_integers_do_not_depend_on_the_precision_of_balls(monkeypatch):
    """Each ceiling is decided, so more bits lead to the same integers."""
    event = evr.dpsgd(noise_multiplier=1.0, sampling_probability=0.01, steps=20)
    curve = StrictCurve(Composition.of(event).exact("remove"))
    proof = strict.prove_within(curve.steps, Fraction(1), curve.plans(1.0, 0.01))
    for guard in (24, 48, 160):
        for module in (strict.rounding, strict.one_step, strict.ratios):
            monkeypatch.setattr(module, "GUARD", guard)
        strict.grid_law.shares_up.cache_clear()
        with ctx.workprec(30):
            again = strict.halves(curve.steps, proof.plan)
        assert again.digest(proof.plan) == proof.digest
        assert again.delta(Fraction(1)) == proof.delta


def test_the_kernel_has_no_floats():
    """No float constant, no call of float(), no module of floating-point functions in what a proof
    rests on.
    """
    for path in sorted(Path(strict.__file__).parent.glob("*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        for node in ast.walk(tree):
            assert not (isinstance(node, ast.Constant) and isinstance(node.value, float)), path
            assert not (isinstance(node, ast.Call) and getattr(node.func, "id", "") == "float"), path
            if isinstance(node, ast.Import):
                assert {a.name for a in node.names} <= {"math", "hashlib", "functools", "json", "re"}, path
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "math":
                shown = path.name == "proof.py" and node.attr in ("nextafter", "inf")  # after everything is decided
                assert node.attr in ("lcm", "prod") or shown, path


@pytest.mark.parametrize("epsilon", [1.0, 2.0, 4.0])
def test_beyond_the_losses_of_a_selection_that_may_fail(epsilon):
    """On outcomes it fails more often than alone, which a plan did not know: it asked for places beyond all limits."""
    runs = dp_event.RepeatAndSelectDpEvent(events.EpsilonDeltaDpEvent(0.05, 0.05), 3.0, 0.5)
    event = dp_event.ComposedDpEvent([repeated(runs, 3), dp_event.RandomizedResponseDpEvent(0.9, 2)])
    bound = evr.estimate_delta(event, epsilon, method="strict", neighboring_relation="replace-one").value
    assert 1 - (1 - 0.05) ** 3 < bound < 0.3863


def test_what_no_grid_holds_is_refused_with_a_remedy():
    grid = strict.Grid(Fraction(0), 0, 0, 0, 0, 1 << 27)
    with pytest.raises(
        ValueError, match=r"exact proof of this would need .*: claim a greater delta or a smaller epsilon"
    ):
        strict.ProofPlan(64, Fraction(1), (grid,), ())


def test_at_an_infinite_epsilon_only_infinite_losses_count():
    training = evr.dpsgd(noise_multiplier=1.0, sampling_probability=0.05, steps=10)
    assert evr.estimate_delta(training, math.inf, method="strict").value == 0.0
    failing = dp_event.ComposedDpEvent([training, events.EpsilonDeltaDpEvent(1.0, 0.25)])
    assert evr.estimate_delta(failing, math.inf, method="strict").value == 0.25
