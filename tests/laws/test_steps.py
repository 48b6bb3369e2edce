"""Floats decide nothing that an exact law decides, and the two forms of a law are compared."""

from __future__ import annotations

from fractions import Fraction

import pytest

import evr
import messages
from evr._kernel.pairs import TRIVIAL_PAIR, DiscretePair, Pairs, Step, simplify
from evr._kernel.pairs.exact import ExactGaussian, ExactLaplace, RationalOutcomes
from evr._kernel.pairs.line.gaussian import GaussianPair
from evr._kernel.pairs.line.laplace import LaplacePair
from evr.errors import UnsupportedEventError
from laws.registered import registered

REVEALING = RationalOutcomes.of([Fraction(9, 10), Fraction(1, 10)], [Fraction(1, 10), Fraction(9, 10)])
EQUAL = RationalOutcomes.of([Fraction(1, 3), Fraction(2, 3)], [Fraction(1, 3), Fraction(2, 3)])


def test_a_step_is_left_out_only_if_its_exact_law_reveals_nothing() -> None:
    assert simplify((Step(TRIVIAL_PAIR, 2, REVEALING),)) == (Step(TRIVIAL_PAIR, 2, REVEALING),)
    assert simplify((Step(TRIVIAL_PAIR, 2, EQUAL), Step(TRIVIAL_PAIR, 1))) == ()


def test_floats_that_reveal_nothing_are_no_strict_proof() -> None:
    with registered(Pairs.both(TRIVIAL_PAIR)) as event:
        assert evr.verify(event, epsilon=0.0, delta=0.0, method="sequential").accepted
        with pytest.raises(UnsupportedEventError, match=messages.no_exact_law()):
            evr.verify(event, epsilon=0.0, delta=0.0, method="strict")


outcomes = DiscretePair.from_probabilities


@pytest.mark.parametrize(
    "pairs",
    [
        Pairs.both(TRIVIAL_PAIR, REVEALING),
        Pairs.both(REVEALING.in_floats(), EQUAL),
        Pairs.both(GaussianPair(0.5), ExactGaussian(Fraction(1, 2))),  # m, and not its square
        Pairs.both(LaplacePair(2.0), ExactLaplace(Fraction(1, 2))),
        Pairs(outcomes([0.9, 0.1], [0.5, 0.5]), outcomes([0.5, 0.5], [0.9, 0.1]), exact=(
            RationalOutcomes.of([Fraction(1, 2)] * 2, [Fraction(9, 10), Fraction(1, 10)]),
            RationalOutcomes.of([Fraction(9, 10), Fraction(1, 10)], [Fraction(1, 2)] * 2),
        )),
    ],
    ids=["trivial", "equal", "gaussian", "laplace", "directions"],
)  # fmt: skip
@pytest.mark.parametrize("method", ["strict", "sequential"])
def test_two_laws_that_differ_are_refused(pairs: Pairs, method: str) -> None:
    with registered(pairs) as event, pytest.raises(ValueError, match=messages.TWO_FORMS_OF_ONE_LAW):
        evr.verify(event, epsilon=0.0, delta=0.0, method=method)


@pytest.mark.parametrize(
    "pairs",
    [
        Pairs.both(GaussianPair(1e-3), ExactGaussian(Fraction(1, 10**6))),
        Pairs.both(LaplacePair(1e-2), ExactLaplace(Fraction(1, 100))),
        Pairs.both(REVEALING.in_floats(), REVEALING),
    ],
    ids=["gaussian", "laplace", "outcomes"],
)
def test_two_forms_of_one_law_are_taken(pairs: Pairs) -> None:
    with registered(pairs) as event:
        assert evr.verify(event, epsilon=1.0, delta=1.0, method="strict").accepted
