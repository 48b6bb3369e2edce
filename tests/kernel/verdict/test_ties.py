"""Claims of delta = 0 next to the greatest loss: floats accept none that is false (docs/guarantees.md, Section 6.6)."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest
from dp_accounting import dp_event as d

import evr
from evr._kernel.events import Composition
from evr._kernel.pairs import Pairs
from evr._kernel.pairs.exact import Ball, RationalOutcomes
from evr._kernel.pairs.exact.law import at_precision, ball
from kernel.pairs.registered import registered

RESPONSE = d.RandomizedResponseDpEvent(0.3, 4)
CASES = {
    "laplace": (d.LaplaceDpEvent(0.7), "add-or-remove"),
    "small laplace": (d.LaplaceDpEvent(3e7), "add-or-remove"),
    "discrete laplace": (d.DiscreteLaplaceDpEvent(0.3, 7), "add-or-remove"),
    "response": (RESPONSE, "replace-one"),
    "nearly no response": (d.RandomizedResponseDpEvent(0.9999999, 4), "replace-one"),
    "epsilon": (evr.events.EpsilonDeltaDpEvent(0.1, 0.0), "replace-one"),
    "choice": (evr.events.ExponentialMechanismDpEvent(0.3), "replace-one"),
    "sampled response": (d.SampledWithoutReplacementDpEvent(1000, 7, RESPONSE), "replace-one"),
    "sampled laplace": (d.PoissonSampledDpEvent(0.01, d.LaplaceDpEvent(0.7)), "add-or-remove"),
    "rarely sampled": (d.PoissonSampledDpEvent(1e-44, d.LaplaceDpEvent(0.01)), "add-or-remove"),
    "rare and large": (d.PoissonSampledDpEvent(3.5e-245, d.LaplaceDpEvent(1 / 563)), "add-or-remove"),
    "beyond 600": (d.PoissonSampledDpEvent(1e-249, d.LaplaceDpEvent(1 / 601)), "add-or-remove"),
    "rare outcomes": (d.PoissonSampledDpEvent(3.5e-245, d.DiscreteLaplaceDpEvent(563.0, 1)), "add-or-remove"),
    "two-sided": (d.PoissonSampledDpEvent(0.1, d.LaplaceDpEvent(2.0)), "replace-one"),
    "rare, two-sided": (d.PoissonSampledDpEvent(1.0998e-44, d.LaplaceDpEvent(197.4445)), "replace-one"),
    "rarer, two-sided": (d.PoissonSampledDpEvent(7.4873e-238, d.LaplaceDpEvent(0.443931573)), "replace-one"),
    "two-sided outcomes": (d.PoissonSampledDpEvent(1e-44, d.DiscreteLaplaceDpEvent(101.3, 1)), "replace-one"),
}  # fmt: skip


def greatest(event: d.DpEvent, relation: str) -> Fraction:
    """The greatest loss, a little below it."""
    laws = Composition.of(event, relation).exact_directions()
    with at_precision(2000):
        found = [sum((s.count * _ball(s.exact_law.greatest()) for s in steps), Ball(0)) for steps in laws.values()]
        most = max(found, key=lambda one: float(one.mid()))
        return Fraction(int((most.lower() * (1 << 1900)).floor().unique_fmpz()), 1 << 1900)


def _ball(number: Fraction | Ball) -> Ball:
    return ball(number) if isinstance(number, Fraction) else number


def is_accepted(event: d.DpEvent, epsilon: float, relation: str | None = None) -> bool:
    try:
        return evr.verify(
            event, epsilon=epsilon, delta=0.0, tau=0.9, method="sequential", neighboring_relation=relation
        ).accepted
    except ValueError as error:
        if "to within rounding, the greatest loss is epsilon" not in str(error):
            raise
        return False


@pytest.mark.parametrize("count", [1, 7, 1000])
@pytest.mark.parametrize(("event", "relation"), CASES.values(), ids=CASES)
def test_no_claim_below_the_greatest_loss_is_accepted(event: d.DpEvent, relation: str, count: int) -> None:
    steps = d.SelfComposedDpEvent(event, count)
    most = greatest(steps, relation)
    for below in (0.0, 1e-16, 3e-16, 1e-15, 1e-14, 1e-13, 1e-12):
        epsilon = float(most) * (1 - below)
        while Fraction(epsilon) >= most:
            epsilon = math.nextafter(epsilon, 0.0)
        assert not is_accepted(steps, epsilon, relation)
    # and one that floats can tell is: absolute errors are some 1e-14 of the numbers that are computed with
    assert is_accepted(steps, float(most) * (1 + 1e-9) + 1e-300, relation)


def test_a_registered_law_near_ratio_1() -> None:
    """The mechanism of docs/extending.md: differences of logarithms accept what is 1e-18 off."""
    hit, alarm = 0.500001, 0.499999
    exact = RationalOutcomes.of(*((1 - Fraction(x), Fraction(x)) for x in (hit, alarm)))
    swapped = RationalOutcomes(exact.q, exact.p)
    with registered(Pairs(exact, swapped)) as event:
        most = greatest(event, "add-or-remove")
        epsilon = math.nextafter(float(most), 0.0)
        for lower in (epsilon, epsilon * (1 - 1e-14), epsilon * (1 - 1e-12)):
            assert not is_accepted(event, lower)
        assert is_accepted(event, epsilon * (1 + 1e-13))
