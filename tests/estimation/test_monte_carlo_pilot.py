"""The pilot that centres a Monte Carlo tilt at about the epsilon of a delta."""

from __future__ import annotations

import pytest
from dp_accounting import dp_event

import evr
from helpers import near


@pytest.mark.parametrize("seed", [0, *(pytest.param(s, marks=pytest.mark.full) for s in (2, 3))])
def test_a_tilt_that_is_too_high_is_lowered(seed: int) -> None:
    # These pilots found nothing at the moments bound, 14.1, and took that for epsilon = 0: the
    # estimates were 3.9 to 4.6.
    event = evr.dpsgd(noise_multiplier=0.5, sampling_probability=1e-3, steps=500)
    found = evr.estimate_epsilon(event, 1e-13, method="monte_carlo", samples=5_000, seed=seed, direction="remove")
    assert found.value == near(9.8464762, rel=0.06)


def test_epsilon_zero() -> None:
    event = dp_event.GaussianDpEvent(20.0)
    assert evr.estimate_epsilon(event, 0.1, method="monte_carlo", samples=5_000, seed=1).value == 0.0
