"""Exact laws of every mechanism against laws written down independently, in sixty digits; both
directions, sampled too.
"""

from __future__ import annotations

import math
import random
from dataclasses import replace
from fractions import Fraction
from typing import Any

import pytest
from dp_accounting import dp_event
from flint import arb, ctx
from mpmath import mp, mpf

from conformance import cases
from conformance.reference import delta
from evr import events
from evr._described import register
from evr._kernel.events import MECHANISMS, Composition
from evr._kernel.pairs import Direction, DiscretePair, Pairs, Step
from evr._kernel.pairs.exact import (
    ExactGaussian,
    ExactLaplace,
    ExactMixture,
    RationalOutcomes,
    SampledCurve,
    exact_sampled,
)
from evr._kernel.pairs.line.gaussian import GaussianPair
from evr._kernel.strict import Grid, ProofPlan
from evr._kernel.strict.alone import one_step_delta, stays_within
from evr._kernel.strict.grid_law import GridLaw
from evr._kernel.strict.last_sum import halves
from evr._kernel.strict.masses import NOTHING
from evr.errors import UnsupportedEventError

BITS = 160
EPSILONS = (-4.0, -0.7, -1e-3, 0.0, 1e-9, 0.01, 0.4, 1.0, 3.7, 12.0)

CASES = [(e, d, f"{cases.name(e)}-{d}") for e in cases.EVENTS for d in ("remove", "add")]
all_cases = pytest.mark.parametrize(("event", "direction"), [pytest.param(e, d, id=name) for e, d, name in CASES])


def law_of(event, direction):
    steps = cases.composition(event).exact(direction)
    assert sum(step.count for step in steps) <= 1
    return steps[0].exact_law if steps else None


def as_mp(number):
    return mpf(number.numerator) / number.denominator


@all_cases
def test_curves_are_those_of_the_definitions(event, direction):
    law, reference = law_of(event, direction), cases.reference(event, direction)
    for epsilon in EPSILONS:
        found, expected = (as_mp(one_step_delta(law, Fraction(epsilon), BITS)), delta(reference, epsilon))
        assert -(mpf(10) ** -50) <= found - expected <= mpf(2) ** (1 - BITS) + mpf(10) ** -44, epsilon


@all_cases
def test_one_step_on_any_grid_is_never_below(event, direction):
    law, reference = law_of(event, direction), cases.reference(event, direction)
    rng = random.Random(f"{event}{direction}")
    reach = 3.0 if isinstance(law, SampledCurve) else 8.0
    for _ in range(2):
        spacing = Fraction(rng.uniform(0.01, 0.2) * reach)
        floor, top = -rng.randint(2, 30), rng.randint(2, 30)
        low = rng.randint(floor, top - 1)
        grid = Grid(Fraction(rng.uniform(-0.1, 0.1)), rng.randint(0, 2), low, rng.randint(low + 1, top), floor, top)
        found = halves((Step(law, 1),), ProofPlan(rng.randint(12, 60), spacing, (grid,), ()))
        for epsilon in (0.0, 0.4, 1.0, 3.7):
            assert as_mp(found.delta(Fraction(epsilon))) >= delta(reference, epsilon) - mpf(10) ** -50


def test_gaussians_fold_exactly():
    event = dp_event.ComposedDpEvent(
        [dp_event.SelfComposedDpEvent(dp_event.GaussianDpEvent(3.0), 7), dp_event.GaussianDpEvent(0.1)]
    )
    (step,) = Composition.of(event).exact("remove")
    assert step.exact_law == ExactGaussian(Fraction(7, 9) + 1 / Fraction(0.1) ** 2)
    assert step.count == 1


def test_parameters_are_those_of_the_event_and_not_of_derived_floats():
    noise = 1.1
    (step,) = Composition.of(events.dpsgd(noise_multiplier=noise, sampling_probability=0.1, steps=3)).exact("add")
    assert step.exact_law == SampledCurve(ExactGaussian(1 / Fraction(noise) ** 2), Fraction(0.1), Direction.ADD)
    assert ExactGaussian(1 / Fraction(noise) ** 2) != ExactGaussian(Fraction(1 / noise) ** 2)
    other = dp_event.RandomizedResponseDpEvent(0.3, 7)
    (step,) = Composition.of(other, "replace-one").exact("remove")
    assert isinstance(step.exact_law, RationalOutcomes)
    assert sum(step.exact_law.p) == 1
    assert step.exact_law.p[0] == Fraction(0.3) / 7


def test_events_of_equal_floats_and_different_parameters_stay_apart():
    pairs = ((x, math.nextafter(x, 2.0)) for x in (1.9 + n / 1000 for n in range(99)))
    first, second = next((x, y) for x, y in pairs if 1 / x == 1 / y)
    event = dp_event.ComposedDpEvent([dp_event.GaussianDpEvent(first), dp_event.GaussianDpEvent(second)])
    (step,) = Composition.of(event).exact("remove")
    assert isinstance(step.exact_law, ExactGaussian)
    assert step.exact_law.square == 1 / Fraction(first) ** 2 + 1 / Fraction(second) ** 2


def test_balls_that_cannot_decide_a_case_still_hold_the_truth():
    """Ratios enclosed so widely that they are on both sides of where a curve changes its form."""
    q = Fraction(1, 10)
    gaussian = ExactGaussian(Fraction(1))
    mixture = ExactMixture((Fraction(0), Fraction(1)), (Fraction(1, 3), Fraction(2, 3)), Direction.REMOVE)
    laws = {
        "sampled": (SampledCurve(gaussian, q, Direction.REMOVE), 0.9),
        "sampled add": (SampledCurve(gaussian, q, Direction.ADD), 1 / 0.9),
        "mixture": (mixture, 1 / 3),
        "mixture add": (replace(mixture, direction=Direction.ADD), 3.0),
        "laplace": (ExactLaplace(Fraction(2)), float(mp.exp(mpf("0.5")))),
    }
    for name, (law, place) in laws.items():
        with ctx.workprec(200):
            curve = law.curve()
            wide = curve(arb(place, 1e-3))
            for shift in (-9e-4, -1e-5, 0.0, 1e-5, 9e-4):
                assert wide.overlaps(curve(arb(place) + arb(shift))), (name, shift)


def test_no_loss_beyond_epsilon_is_decided_exactly():
    laplace = Step(ExactLaplace(Fraction(10)), 7)
    assert stays_within((laplace,), Fraction(7, 10))
    assert not stays_within((laplace,), Fraction(7, 10) - Fraction(1, 10**40))
    remove, add = (exact_sampled(ExactLaplace(Fraction(10)), Fraction(1, 2), one) for one in Direction)
    assert stays_within((Step(add, 7),), Fraction(4, 10))
    assert not stays_within((Step(remove, 7),), Fraction(35, 100))


def test_probabilities_must_sum_to_exactly_one():
    with pytest.raises(ValueError, match="not exactly 1: give Fractions"):
        RationalOutcomes.of([0.1, 0.9], [0.5, 0.5])
    assert RationalOutcomes.of([Fraction(1, 10), Fraction(9, 10)], [0.5, 0.5]).p[0] == Fraction(1, 10)
    with pytest.raises(ValueError, match="2 and 1 entries"):
        RationalOutcomes.of([0.5, 0.5], [1.0])


@pytest.mark.parametrize(("p", "q"), [((0.5, 0.5), (1, 1)), ((1.5, -0.5), (0.5, 0.5)), ((), ())])
def test_laws_that_are_none_are_refused_by_whatever_makes_them(p, q):
    """Halves against ones, and no outcomes at all: both were proved to be (0, 0)."""
    with pytest.raises(ValueError, match=r"not exactly 1|at least 1"):
        RationalOutcomes(tuple(map(Fraction, p)), tuple(map(Fraction, q)))


class PlainDpEvent(dp_event.DpEvent):
    """A mechanism of somebody's own, without an exact law."""


def test_a_law_of_ones_own_without_an_exact_one_is_refused_by_name():
    pair = DiscretePair.from_probabilities([0.3, 0.7], [0.6, 0.4])
    register(PlainDpEvent, lambda event: Pairs(pair, pair))
    try:
        composition = Composition.of(dp_event.PoissonSampledDpEvent(0.5, PlainDpEvent()))
        with pytest.raises(UnsupportedEventError, match=r"SampledPair.*offers no exact law"):
            composition.exact("remove")
    finally:
        del MECHANISMS[PlainDpEvent]


def test_laws_are_merged_by_their_exact_parameters():
    """A composition's steps are known as exactly as it is; laws whose floats are equal are not merged."""
    composition = Composition.of(dp_event.ComposedDpEvent([dp_event.LaplaceDpEvent(3.0)] * 2))
    assert Composition(composition.remove, composition.add).exact("add") == composition.exact("add")
    laws = [RationalOutcomes.of([p, 1 - p], [Fraction(3, 5), Fraction(2, 5)]) for p in (Fraction(3, 10), Fraction(0.3))]
    parts = [(Pairs.both(law), 2) for law in (laws[0], laws[1], laws[0])]
    found = Composition.from_counts(parts).exact("remove")
    assert [(step.exact_law, step.count) for step in found] == [(laws[0], 4), (laws[1], 2)]


def test_gaussians_add_up_exactly():
    other = ExactLaplace(Fraction(3))
    parts = [(Pairs.both(law), 3) for law in (other, ExactGaussian(Fraction(1, 4)), ExactGaussian(Fraction(1, 100)))]
    found = Composition.from_counts(parts).exact("remove")
    assert [(step.exact_law, step.count) for step in found] == [(ExactGaussian(Fraction(78, 100)), 1), (other, 3)]


def test_one_gaussian_in_floats_leaves_all_without_a_proof():
    parts = [(Pairs.both(GaussianPair(0.5)), 1), (Pairs.both(ExactGaussian(Fraction(1, 100))), 1)]
    composition = Composition.from_counts(parts)
    assert [step.floats for step in composition.simplified("remove")] == [GaussianPair(0.1), GaussianPair(0.5)]
    with pytest.raises(UnsupportedEventError, match=r"GaussianPair.*offers no exact law"):
        composition.exact("remove")


def test_a_pair_is_made_of_laws():
    law = ExactLaplace(Fraction(3))
    wrongs: list[Any] = [(law, law), None, 0.5]
    for wrong in wrongs:
        with pytest.raises(TypeError, match="is not a law: give an exact law"):
            Pairs(law, wrong)


def test_an_infinite_mass_above_1_is_refused() -> None:
    """Where both factors had twice the mass, the product's formula would give none."""
    bits = 8
    nothing = GridLaw(0, NOTHING, NOTHING, 1 << bits, Fraction(1), bits)
    assert nothing.times(nothing).infinite == 1 << bits
    for wrong in (-1, 2 << bits):
        with pytest.raises(ValueError, match=r"infinite=.* is not in \[0, 2\^8\]"):
            replace(nothing, infinite=wrong)
