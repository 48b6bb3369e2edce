"""Folding is exact: floats decide nothing that an exact law decides."""

from __future__ import annotations

from fractions import Fraction

import pytest

import evr
from evr._kernel.pairs import TRIVIAL_PAIR, DiscretePair, Pairs, Step, is_non_private, simplify
from evr._kernel.pairs.exact import (
    NON_PRIVATE_LAW,
    ExactBoundedRange,
    ExactConcentrated,
    ExactEpsilonDelta,
    ExactGaussian,
    ExactLaplace,
    ExactRun,
    RationalOutcomes,
)
from evr._kernel.pairs.exact.bounded_range import MOST_STEPS
from evr.errors import UnsupportedEventError
from kernel.pairs.registered import registered

HALF, THIRD, TENTH = Fraction(1, 2), Fraction(1, 3), Fraction(1, 10)
EQUAL = RationalOutcomes.of([THIRD, 1 - THIRD], [THIRD, 1 - THIRD])
NEARLY_EQUAL = RationalOutcomes.of([HALF, HALF], [HALF + Fraction(1, 10**400), HALF - Fraction(1, 10**400)])


def test_a_step_is_left_out_only_if_its_exact_law_reveals_nothing() -> None:
    free = Step(EQUAL, 2), Step(TRIVIAL_PAIR, 1), Step(ExactEpsilonDelta(Fraction(0), Fraction(0)), 5)
    assert simplify(free) == ()
    assert Step(NEARLY_EQUAL, 1).floats == TRIVIAL_PAIR
    assert simplify((Step(NEARLY_EQUAL, 2),)) == (Step(NEARLY_EQUAL, 2),)


def test_laws_that_add_become_one_step_of_each_kind_gaussians_first() -> None:
    steps = (
        Step(ExactConcentrated(TENTH), 2),
        Step(ExactLaplace(Fraction(3)), 4),
        Step(ExactGaussian(TENTH), 3),
        Step(ExactConcentrated(THIRD, TENTH), 1),
    )
    zcdp = ExactConcentrated(Fraction(8, 15), TENTH)
    assert simplify(steps) == (Step(ExactGaussian(3 * TENTH), 1), Step(zcdp, 1), Step(ExactLaplace(Fraction(3)), 4))


@pytest.mark.parametrize("count", [1, 2, MOST_STEPS, MOST_STEPS + 1, 2 * MOST_STEPS + 7])
def test_runs_hold_every_step_of_bounded_range(count: int) -> None:
    runs = simplify((Step(ExactBoundedRange(HALF), count),))
    lengths = [(step.law.steps if isinstance(step.law, ExactRun) else 1, step.count) for step in runs]
    assert sum(length * times for length, times in lengths) == count
    assert max(length for length, _ in lengths) <= MOST_STEPS


def test_what_is_not_private_is_known_however_it_is_written() -> None:
    assert is_non_private(NON_PRIVATE_LAW)
    assert is_non_private(RationalOutcomes.of([THIRD, 1 - THIRD, 0], [0, 0, 1]))
    assert is_non_private(DiscretePair.from_probabilities([0.0, 1.0], [1.0, 0.0]))
    assert not is_non_private(NEARLY_EQUAL)
    assert not is_non_private(ExactGaussian(Fraction(10**9)))


def test_floats_that_reveal_nothing_are_no_strict_proof() -> None:
    with registered(Pairs.both(TRIVIAL_PAIR)) as event:
        assert evr.verify(event, epsilon=0.0, delta=0.0, method="sequential").accepted
        with pytest.raises(UnsupportedEventError, match=r".*offers no exact law"):
            evr.verify(event, epsilon=0.0, delta=0.0, method="strict")
