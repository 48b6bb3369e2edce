"""Exact laws of every mechanism against laws written down independently, in sixty digits; both
directions, sampled too.
"""

from __future__ import annotations

import math
import random
from dataclasses import replace
from fractions import Fraction

import pytest
from dp_accounting import dp_event
from flint import arb, ctx
from mpmath import mp, mpf

from conformance import cases
from conformance.reference import delta
from evr import events
from evr.bounds.strict import Grid, StrictPlan, halves, one_step_delta, stays_within
from evr.bounds.strict.grid_law import GridLaw
from evr.bounds.strict.masses import NOTHING
from evr.errors import UnsupportedEventError
from evr.laws import Direction, DiscretePair, Pairs
from evr.laws.exact import (
    ExactGaussian,
    ExactLaplace,
    ExactMixture,
    ExactPairs,
    ExactStep,
    RationalOutcomes,
    SampledCurve,
    exact_sampled,
)
from evr.mechanisms import MECHANISMS, Composition, register

BITS = 160
EPSILONS = (-4.0, -0.7, -1e-3, 0.0, 1e-9, 0.01, 0.4, 1.0, 3.7, 12.0)

CASES = [(e, d, f"{cases.name(e)}-{d}") for e in cases.EVENTS for d in ("remove", "add")]
# sums of many thousand terms; it is symmetric, and the other direction stays
SLOW = "DiscreteGaussian(1000.0,1)-add"
all_cases = pytest.mark.parametrize(
    ("event", "direction"), [pytest.param(e, d, id=name) for e, d, name in CASES]
)


def law_of(event, direction):
    steps = cases.composition(event).exact(direction)
    assert sum(step.count for step in steps) <= 1
    return steps[0].law if steps else None


def as_mp(number):
    return mpf(number.numerator) / number.denominator


@pytest.mark.parametrize(
    ("event", "direction"),
    [
        pytest.param(e, d, id=name, marks=[pytest.mark.full] if name == SLOW else [])
        for e, d, name in CASES
    ],
)
def test_curves_are_those_of_the_definitions(event, direction):
    law, reference = law_of(event, direction), cases.reference(event, direction)
    for epsilon in EPSILONS:
        found, expected = (
            as_mp(one_step_delta(law, Fraction(epsilon), BITS)),
            delta(reference, epsilon),
        )
        assert -(mpf(10) ** -50) <= found - expected <= mpf(2) ** (1 - BITS) + mpf(10) ** -44, (
            epsilon
        )


@all_cases
def test_one_step_on_any_grid_is_never_below(event, direction):
    law, reference = law_of(event, direction), cases.reference(event, direction)
    rng = random.Random(f"{event}{direction}")
    reach = 3.0 if isinstance(law, SampledCurve) else 8.0
    for _ in range(2):
        spacing = Fraction(rng.uniform(0.01, 0.2) * reach)
        floor, top = -rng.randint(2, 30), rng.randint(2, 30)
        low = rng.randint(floor, top - 1)
        grid = Grid(
            Fraction(rng.uniform(-0.1, 0.1)),
            rng.randint(0, 2),
            low,
            rng.randint(low + 1, top),
            floor,
            top,
        )
        found = halves((ExactStep(law, 1),), StrictPlan(rng.randint(12, 60), spacing, (grid,), ()))
        for epsilon in (0.0, 0.3, 1.0, 2.2):
            assert (
                as_mp(found.delta(Fraction(epsilon))) >= delta(reference, epsilon) - mpf(10) ** -50
            )


def test_gaussians_fold_exactly():
    event = dp_event.ComposedDpEvent(
        [
            dp_event.SelfComposedDpEvent(dp_event.GaussianDpEvent(3.0), 7),
            dp_event.GaussianDpEvent(0.1),
        ]
    )
    (step,) = Composition.of(event).exact("remove")
    assert step.law == ExactGaussian(Fraction(7, 9) + 1 / Fraction(0.1) ** 2)
    assert step.count == 1


def test_parameters_are_those_of_the_event_and_not_of_derived_floats():
    noise = 1.1
    (step,) = Composition.of(
        events.dpsgd(noise_multiplier=noise, sampling_probability=0.1, steps=3)
    ).exact("add")
    assert step.law == SampledCurve(
        ExactGaussian(1 / Fraction(noise) ** 2), Fraction(0.1), Direction.ADD
    )
    assert ExactGaussian(1 / Fraction(noise) ** 2) != ExactGaussian(Fraction(1 / noise) ** 2)
    other = dp_event.RandomizedResponseDpEvent(0.3, 7)
    (step,) = Composition.of(other).exact("remove")
    assert isinstance(step.law, RationalOutcomes)
    assert sum(step.law.p) == 1
    assert step.law.p[0] == Fraction(0.3) / 7


def test_events_of_equal_floats_and_different_parameters_stay_apart():
    pairs = ((x, math.nextafter(x, 2.0)) for x in (1.9 + n / 1000 for n in range(99)))
    first, second = next((x, y) for x, y in pairs if 1 / x == 1 / y)
    event = dp_event.ComposedDpEvent(
        [dp_event.GaussianDpEvent(first), dp_event.GaussianDpEvent(second)]
    )
    (step,) = Composition.of(event).exact("remove")
    assert isinstance(step.law, ExactGaussian)
    assert step.law.square == 1 / Fraction(first) ** 2 + 1 / Fraction(second) ** 2


def test_balls_that_cannot_decide_a_case_still_hold_the_truth():
    """Ratios enclosed so widely that they are on both sides of where a curve changes its form."""
    q = Fraction(1, 10)
    gaussian = ExactGaussian(Fraction(1))
    mixture = ExactMixture(
        (Fraction(0), Fraction(1)), (Fraction(1, 3), Fraction(2, 3)), Direction.REMOVE
    )
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
    laplace = ExactStep(ExactLaplace(Fraction(10)), 7)
    assert stays_within((laplace,), Fraction(7, 10))
    assert not stays_within((laplace,), Fraction(7, 10) - Fraction(1, 10**40))
    sampled = exact_sampled(ExactPairs.both(ExactLaplace(Fraction(10))), Fraction(1, 2))
    assert stays_within((ExactStep(sampled.add, 7),), Fraction(4, 10))
    assert not stays_within((ExactStep(sampled.remove, 7),), Fraction(35, 100))


def test_probabilities_must_sum_to_exactly_one():
    with pytest.raises(ValueError, match="not exactly 1: give Fractions"):
        RationalOutcomes.of([0.1, 0.9], [0.5, 0.5])
    assert RationalOutcomes.of([Fraction(1, 10), Fraction(9, 10)], [0.5, 0.5]).p[0] == Fraction(
        1, 10
    )
    with pytest.raises(ValueError, match="2 and 1 entries"):
        RationalOutcomes.of([0.5, 0.5], [1.0])


class PlainDpEvent(dp_event.DpEvent):
    """A mechanism of somebody's own, without an exact law."""


def test_a_law_of_ones_own_without_an_exact_one_is_refused_by_name():
    pair = DiscretePair.from_probabilities([0.3, 0.7], [0.6, 0.4])
    register(PlainDpEvent, lambda event: Pairs(pair, pair))
    try:
        composition = Composition.of(dp_event.PoissonSampledDpEvent(0.5, PlainDpEvent()))
        with pytest.raises(UnsupportedEventError, match=r"SampledPair .* offers no exact law"):
            composition.exact("remove")
    finally:
        del MECHANISMS[PlainDpEvent]
    by_hand = Composition(composition.remove, composition.add)
    with pytest.raises(UnsupportedEventError, match="built from pairs"):
        by_hand.exact("add")


def test_an_infinite_mass_above_1_is_refused() -> None:
    """Where both factors had twice the mass, the product's formula would give none."""
    bits = 8
    nothing = GridLaw(1, 0, NOTHING, NOTHING, 1 << bits, Fraction(1), bits)
    assert nothing.times(nothing).infinite == 1 << bits
    for wrong in (-1, 2 << bits):
        with pytest.raises(ValueError, match=r"infinite=.* is not in \[0, 2\^8\]"):
            replace(nothing, infinite=wrong)
