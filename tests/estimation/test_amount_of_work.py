"""How much work an estimate is: plans and grids are counted, for seconds depend on the machine."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from dp_accounting import dp_event

import evr
from evr._estimate import fft, refining, schedules, tilting
from evr._estimate.points import points_of
from evr._kernel.events import Composition
from evr._kernel.pairs import grouping
from evr._kernel.pairs.line.poisson import SampledPair
from evr.events import EpsilonDeltaDpEvent
from helpers import near

JUMPS = evr.dpsgd(noise_multiplier=0.5, sampling_probability=1e-5, steps=100)
BULK = evr.dpsgd(noise_multiplier=2.0, sampling_probability=0.01, steps=1500)
BETWEEN = evr.dpsgd(noise_multiplier=0.6, sampling_probability=1e-3, steps=1000)


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> dict[str, int]:
    """Plans, grids and sets of rough points made since."""
    counts = {"plans": 0, "grids": 0, "points": 0}

    def counted(module: Any, name: str, kind: str) -> None:
        plain = getattr(module, name)

        def also(*arguments: Any, **options: Any) -> Any:
            counts[kind] += 1
            return plain(*arguments, **options)

        monkeypatch.setattr(module, name, also)

    counted(fft, "plan_tilt", "plans")
    counted(refining, "law_on_grid", "grids")
    counted(tilting, "rough_points", "points")
    tilting._halved.cache_clear()
    return counts


@pytest.mark.parametrize(("event", "delta"), [(JUMPS, 6.78e-11), (JUMPS, 1e-6), (BETWEEN, 1e-6), (BULK, 1e-7)])
def test_a_root_needs_few_plans(made: dict[str, int], event: Any, delta: float) -> None:
    """A plan was made for every epsilon on the way to the root: up to fourteen."""
    evr.estimate_epsilon(event, delta, direction="remove")
    assert made["plans"] <= 3
    assert made["grids"] <= 5


@pytest.mark.parametrize(("event", "epsilon"), [(JUMPS, 1.0), (BETWEEN, 1.5), (BULK, 1.0)])
def test_a_plan_needs_few_points(made: dict[str, int], event: Any, epsilon: float) -> None:
    """Points were made for every order on the way to the right one: nine sets of them."""
    assert evr.estimate_delta(event, epsilon, direction="remove").value > 0
    assert made["plans"] == 1
    assert made["points"] <= 6  # one of them tells whether delta is 1


def test_laws_of_a_curve_serve_many_epsilons(made: dict[str, int]) -> None:
    """Where single jumps rule, cells are finest about the epsilon that a law was made for; nearly
    every other one had a law of its own.
    """
    curve = evr.privacy_curve(JUMPS, [i / 10 for i in range(1, 21)], direction="remove")
    assert made["plans"] <= 4
    for epsilon, delta in list(zip(curve.epsilons, curve.deltas, strict=True))[::6]:
        alone = evr.estimate_delta(JUMPS, epsilon, direction="remove")
        assert delta == near(alone.value, rel=2e-7)


def test_a_direction_far_below_the_other_costs_no_grid(made: dict[str, int]) -> None:
    """At 0.5 the added record's delta is 2e-78, and was computed."""
    event = evr.dpsgd(noise_multiplier=1.0, sampling_probability=1e-3, steps=1000)
    one = evr.estimate_delta(event, 0.5, direction="remove")
    alone = made["grids"]
    both = evr.estimate_delta(event, 0.5)
    assert both.value == one.value
    assert both.error == one.error
    assert made["grids"] == 2 * alone


def test_what_is_left_out_is_in_the_error() -> None:
    steps = Composition.of(BETWEEN).simplified("remove")
    truth = fft.FftCurve(steps).delta(1.5)
    for floor in (1e-12, 1e-5, 1e-2, 1.0):
        found = fft.FftCurve(steps).delta(1.5, floor)
        assert abs(found.value - truth.value) <= found.error + truth.error
    assert found.value < truth.value


def test_a_root_beside_the_greatest_loss_is_not_approached_by_grids(made: dict[str, int]) -> None:
    """Grids were planned at the greatest of all losses, where ever steeper tilts take ever more
    points: sixteen seconds.
    """
    step = dp_event.ComposedDpEvent([dp_event.LaplaceDpEvent(3.0), EpsilonDeltaDpEvent(0.01, 1e-3)])
    found = evr.estimate_epsilon(step, 2.5e-3)
    assert evr.estimate_delta(step, found.value).value == near(2.5e-3)
    assert made["points"] <= 40


def test_the_greatest_loss_is_no_place_for_grids(made: dict[str, int]) -> None:
    """The search began there: by rounding some losses exceeded it, and grids of two million places looked for them."""
    laplace = dp_event.SelfComposedDpEvent(dp_event.LaplaceDpEvent(0.32349591211310186), 93)
    found = evr.estimate_epsilon(laplace, 6.444656944734543e-09, direction="remove")
    assert evr.estimate_delta(laplace, found.value, direction="remove").value == near(6.444656944734543e-09)
    assert made["grids"] <= 12


def test_losses_that_cannot_matter_have_no_fine_cells() -> None:
    """Those down to -230 were cut as finely as those near epsilon: four million cells."""
    step = dp_event.PoissonSampledDpEvent(0.5, dp_event.GaussianDpEvent(0.0476))
    steps = Composition.of(dp_event.ComposedDpEvent([step, dp_event.GaussianDpEvent(1e4)])).simplified("add")
    plan = tilting.plan_tilt(steps, 0.69)
    assert plan is not None
    pair = next(step.pair for step in steps if isinstance(step.pair, SampledPair))
    made = [points_of(pair, plan.order, plan.cap, 2**14, 1e-5, bottom=bottom) for bottom in (plan.bottom, -np.inf)]
    assert made[0].losses.size < made[1].losses.size / 10
    kept = [points.log_weights[points.losses > plan.bottom] for points in made]
    assert np.exp(kept[0]).sum() == near(np.exp(kept[1]).sum(), rel=1e-6)


def test_a_sample_of_several_mechanisms_is_one_curve(made: dict[str, int]) -> None:
    """Every epsilon had a curve of its own inside, and that a plan and grids."""
    sample = dp_event.ComposedDpEvent([dp_event.GaussianDpEvent(2.0), dp_event.LaplaceDpEvent(3.0)])
    evr.estimate_epsilon(dp_event.PoissonSampledDpEvent(0.1, sample), 1e-4, direction="remove")
    assert made["plans"] <= 4


def test_the_search_for_epsilon_of_a_schedule_makes_few_plans(
    made: dict[str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The doubt of grouping was taken for the grid's, and each epsilon had a plan of its own."""
    for module, name, most in ((grouping, "MOST_KINDS", 5), (schedules, "_MOST_KINDS", 5), (fft, "_GROUPS", 4)):
        monkeypatch.setattr(module, name, most)
    for cached in (grouping.grouped, schedules.condensed):
        cached.cache_clear()
    steps = [evr.dpsgd(noise_multiplier=1 + i / 50, sampling_probability=0.02, steps=1) for i in range(30)]
    evr.estimate_epsilon(dp_event.ComposedDpEvent(steps), 1e-6, direction="remove")
    assert made["plans"] <= 4
    for cached in (grouping.grouped, schedules.condensed):
        cached.cache_clear()
