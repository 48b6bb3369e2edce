"""Numbers that have no room in memory: FLINT would end the process."""

from __future__ import annotations

import pytest
from dp_accounting import dp_event
from flint import arb

import evr
from evr._kernel.strict.rounding import ceiling, units_above
from evr.events import EpsilonDeltaDpEvent
from helpers import answers, near, together

# of 2^38 + 2^36 bits, at which GMP raises SIGFPE; a few more or fewer, and it is SIGSEGV
_HUGE = arb((1, 2**38 + 2**36))


@pytest.mark.parametrize(
    ("epsilon", "delta", "noise", "buckets", "steps"),
    [(9.7e12, 0.0, 0.9999999997748433, 2, 49), (5.9e13, 1.1881802917630182e-14, 0.9990713793595454, 3, 13)],
)
def test_an_epsilon_too_large_for_exact_arithmetic_is_refused(
    epsilon: float, delta: float, noise: float, buckets: int, steps: int
) -> None:
    """Once they ended the process, the first by SIGSEGV, the second by SIGFPE."""
    event = together(EpsilonDeltaDpEvent(epsilon, delta), (answers(noise, buckets), steps))
    with pytest.raises(ValueError, match="too large for exact arithmetic"):
        evr.estimate_delta(event, epsilon, method="strict")


def test_no_integer_is_made_that_has_no_room() -> None:
    assert ceiling(_HUGE) is None
    assert ceiling(-_HUGE) is None


def test_a_ball_that_is_wide_beyond_measure_is_an_error() -> None:
    """Its upper end is what ``units_above`` falls back on."""
    with pytest.raises(ValueError, match="no finite enclosure"):
        units_above(lambda: arb(0).union(_HUGE), 80)


def test_an_enclosure_is_narrowed_before_it_becomes_an_integer() -> None:
    pure = EpsilonDeltaDpEvent(1.0, 1e-5)
    assert evr.estimate_delta(pure, 1e100, method="strict").value == near(1e-5)
    with pytest.raises(ValueError, match="too large for exact arithmetic"):
        evr.estimate_delta(dp_event.GaussianDpEvent(2.0), 1e100, method="strict")


def test_no_privacy_beside_other_steps_is_enclosed() -> None:
    """Once numpy's error of an empty array, for want of finite losses."""
    event = dp_event.ComposedDpEvent([dp_event.GaussianDpEvent(1.0), dp_event.NonPrivateDpEvent()])
    found = evr.enclose_delta(event, 1.0)
    assert (found.lower, found.upper) == (1.0, 1.0)
    assert not evr.refute(event, epsilon=1.0, delta=0.5).refuted  # no training is known to have as much


def test_a_delta_too_small_for_the_square_of_floats_is_bounded() -> None:
    """Once a division by zero."""
    event = dp_event.SelfComposedDpEvent(EpsilonDeltaDpEvent(0.0, 1e-30), 10**6)
    assert 1e-24 <= evr.estimate_delta(event, 1.0, method="strict") <= 1.0005e-24
