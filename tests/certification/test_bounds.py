"""Proved bounds on delta: never below the truth, near it where they should be."""

from __future__ import annotations

from typing import Any

import pytest
from dp_accounting import dp_event

import evr
from evr.proving import proved_delta

SAMPLED = dp_event.PoissonSampledDpEvent(0.3, dp_event.RandomizedResponseDpEvent(0.5, 3))


@pytest.mark.parametrize(
    ("event", "epsilon", "within"),
    [
        (dp_event.GaussianDpEvent(2.0), 1.0, 1.001),
        (dp_event.SelfComposedDpEvent(dp_event.GaussianDpEvent(10.0), 25), 1.0, 1.001),
        (evr.dpsgd(noise_multiplier=1.0, sampling_probability=1e-3, steps=1000), 0.5, 50.0),
        (evr.dpsgd(noise_multiplier=2.0, sampling_probability=0.01, steps=1500), 1.0, 20.0),
        (dp_event.SelfComposedDpEvent(dp_event.LaplaceDpEvent(5.0), 20), 2.0, 20.0),
        (dp_event.SelfComposedDpEvent(SAMPLED, 5), 0.5, 20.0),
        (evr.events.EpsilonDeltaDpEvent(0.5, 1e-6), 0.5, 1.001),
        (
            dp_event.ComposedDpEvent(
                [dp_event.GaussianDpEvent(2.0), evr.events.EpsilonDeltaDpEvent(0.5, 1e-6)]
            ),
            3.0,
            2.0,
        ),
        (dp_event.SelfComposedDpEvent(dp_event.GaussianDpEvent(0.1), 2), 0.0, 1.001),
    ],
    ids=str,
)
def test_at_least_the_truth_and_not_far_above(event: Any, epsilon: float, within: float) -> None:
    for direction, bound in proved_delta(event, epsilon).items():
        truth = float(evr.estimate_delta(event, epsilon, direction=direction))
        assert bound >= truth * (1 - 1e-9)
        if truth > 1e-20:
            assert bound <= truth * within


def test_nothing_and_everything() -> None:
    assert proved_delta(dp_event.NoOpDpEvent(), 0.0) == {"remove": 0.0, "add": 0.0}
    assert proved_delta(dp_event.NonPrivateDpEvent(), 5.0) == {"remove": 1.0, "add": 1.0}
    both = dp_event.ComposedDpEvent([dp_event.NonPrivateDpEvent(), dp_event.GaussianDpEvent(1.0)])
    assert proved_delta(both, 5.0) == {"remove": 1.0, "add": 1.0}
