"""Floats of exact laws are as near as ``floats.py`` says, against sixty digits of another library."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

import mpmath
import numpy as np
import pytest

import evr
from evr._kernel.pairs import Direction, DiscretePair, Measure, Pairs, Step, as_floats
from evr._kernel.pairs.exact import (
    Ball,
    ExactBins,
    ExactCurve,
    ExactGaussian,
    ExactLaplace,
    ExactMixture,
    ExactOutcomes,
    ExactShifted,
    RationalOutcomes,
    exact_sampled,
    exact_without_replacement,
)
from evr._kernel.pairs.floats import root
from evr._kernel.pairs.line.gaussian import GaussianPair
from evr._kernel.pairs.line.laplace import LaplacePair
from evr._kernel.pairs.line.poisson import SampledPair, WithoutReplacementPair
from evr._kernel.pairs.patterns.bins import IndependentBins
from evr._kernel.pairs.subsampled import poisson_sampled, without_replacement
from evr.errors import UnsupportedEventError
from helpers import near
from kernel.pairs.registered import registered

ULP = 2.0**-52


def random_fractions(count: int) -> list[Fraction]:
    rng = np.random.default_rng(7)
    return [Fraction(float(a)) / Fraction(float(b)) for a, b in np.exp(rng.normal(0.0, 40.0, (count, 2)))]


def test_roots_are_right_to_half_an_ulp() -> None:
    with mpmath.workdps(80):
        for square in random_fractions(300):
            truth = mpmath.sqrt(mpmath.mpf(square.numerator) / square.denominator)
            assert abs(root(square) / truth - 1) <= ULP / 2


def test_rational_roots_are_the_nearest_floats() -> None:
    """So that a Gaussian mechanism of noise ``s`` has the mean ``1 / s`` that floats divide to."""
    for noise in (1.1, 0.7, 3.3e-7, 1e100, 1e-100):
        assert root(1 / Fraction(noise) ** 2) == 1 / noise
        assert root(4 / Fraction(noise) ** 2) == 2 / noise


def test_roots_beyond_the_range_of_their_squares() -> None:
    assert root(Fraction(10) ** 400) == 1e200
    assert root(Fraction(10) ** -400) == 1e-200


@pytest.mark.parametrize(
    ("law", "floats"),
    [
        (ExactGaussian(Fraction(1, 4)), GaussianPair(0.5)),
        (ExactBins(Direction.ADD, 5, Fraction(1, 3)), IndependentBins(Direction.ADD, 5, 1 / 3)),
        (
            exact_sampled(ExactGaussian(Fraction(4)), Fraction(1, 4), Direction.ADD),
            SampledPair(GaussianPair(2.0), 0.25, Direction.ADD),
        ),
        (GaussianPair(0.3), GaussianPair(0.3)),
    ],
    ids=lambda law: type(law).__name__,
)
def test_floats_are_derived(law: object, floats: object) -> None:
    assert as_floats(law) == floats


def test_probabilities_of_sampling_are_rounded_up() -> None:
    """More records leak no less: the float of 1/3 is below it. Sampling twice rounds the product once."""
    third, base = Fraction(1, 3), ExactLaplace(Fraction(3))
    once = exact_sampled(base, third, Direction.REMOVE)
    for law, q in ((once, third), (exact_sampled(once, third, Direction.REMOVE), third**2)):
        floats = as_floats(law)
        assert isinstance(floats, SampledPair)
        assert q <= Fraction(floats.q) <= q * (1 + Fraction(ULP))
    share = as_floats(exact_without_replacement(base, third)).g  # type: ignore[attr-defined]
    assert third <= Fraction(share) <= third * (1 + Fraction(ULP))


def test_a_law_in_floats_stays_in_floats_and_an_exact_one_exact() -> None:
    q = Fraction(1, 4)
    assert isinstance(poisson_sampled(ExactGaussian(Fraction(1)), q, Direction.ADD), ExactCurve)
    assert isinstance(without_replacement(ExactGaussian(Fraction(1)), q), ExactCurve)
    assert poisson_sampled(GaussianPair(1.0), q, Direction.ADD) == SampledPair(GaussianPair(1.0), 0.25, Direction.ADD)
    assert without_replacement(GaussianPair(1.0), q) == WithoutReplacementPair(GaussianPair(1.0), 0.25)


def test_mixtures_have_means_right_to_an_ulp() -> None:
    sizes, square = (Fraction(0), Fraction(1, 3), Fraction(7)), Fraction(2, 7)
    floats = as_floats(ExactMixture(sizes, (Fraction(1, 3),) * 3, None, square))
    with mpmath.workdps(50):
        for mean, size in zip(floats.means, sizes, strict=True):  # type: ignore[attr-defined]
            truth = mpmath.sqrt(mpmath.mpf(2) / 7) * size.numerator / size.denominator
            assert abs(mean - truth) <= ULP / 2 * truth


def test_deltas_of_both_views_agree() -> None:
    laws: list[ExactCurve | ExactOutcomes] = [
        ExactGaussian(Fraction(1, 2)),
        ExactShifted(Fraction(1, 2), Fraction(1, 100)),
        ExactLaplace(Fraction(2)),
        RationalOutcomes.of([0.25, 0.75], [0.5, 0.5]),
    ]
    for law in laws:
        pair = Step(law, 1).pair
        for epsilon in (-0.3, 0.0, 0.4):
            p, q = (np.exp(pair.log_mass(one, pair.point(epsilon), np.inf)) for one in (Measure.P, Measure.Q))
            assert abs(float(law.hockey_stick(Fraction(epsilon))) - (p - np.exp(epsilon) * q)) < 1e-13


@dataclass(frozen=True)
class Own(ExactCurve):
    """A law of somebody else's: that of Laplace noise of scale 1."""

    def curve(self) -> Callable[[Ball], Ball]:
        return ExactLaplace(Fraction(1)).curve()


@dataclass(frozen=True)
class OwnWithFloats(ExactCurve):
    """The same, with floats."""

    def curve(self) -> Callable[[Ball], Ball]:
        return Own().curve()


def test_a_curve_of_ones_own_needs_floats() -> None:
    with (
        registered(Pairs.both(Own())) as event,
        pytest.raises(UnsupportedEventError, match=r"Own has no law in floats, .*: register one"),
    ):
        evr.estimate_delta(event, 0.5)
    evr.events.as_floats.register(OwnWithFloats, lambda law: LaplacePair(1.0))
    with registered(Pairs.both(OwnWithFloats())) as event:
        assert evr.estimate_delta(event, 0.5).value == near(1 - math.exp(-0.25), rel=1e-12)
        assert evr.verify(event, epsilon=0.5, delta=0.23, method="strict").accepted


def test_outcomes_of_ones_own_need_nothing_else() -> None:
    law = RationalOutcomes.of([Fraction(1, 4), Fraction(3, 4)], [Fraction(3, 4), Fraction(1, 4)])
    assert as_floats(law) == DiscretePair.from_probabilities([0.25, 0.75], [0.75, 0.25])
