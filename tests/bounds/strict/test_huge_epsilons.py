"""Epsilons whose exponential has no room in memory."""

from __future__ import annotations

import pytest
from dp_accounting import dp_event

import evr
from evr.mechanisms.events import EpsilonDeltaDpEvent


def test_an_epsilon_too_large_for_exact_arithmetic_is_refused() -> None:
    """Once it ended the process: an integer of 1e13 bits."""
    responses = dp_event.SelfComposedDpEvent(
        dp_event.RandomizedResponseDpEvent(0.9999999997748433, 2), 49
    )
    event = dp_event.ComposedDpEvent([EpsilonDeltaDpEvent(9.7e12, 0.0), responses])
    with pytest.raises(ValueError, match="too large for exact arithmetic"):
        evr.estimate_delta(event, 9.7e12, method="strict")
