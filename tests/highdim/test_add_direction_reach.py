"""Few bins and tiny deltas: the tilted bins lie far below their mean."""

from __future__ import annotations

import numpy as np
import pytest

import evr
from evr.bounds.bins import InverseMoment
from evr.sampling.inverse_order import InverseOrderSampler

TWO_BINS = evr.events.BallsInBinsDpEvent(1.0, iterations=2, cycle_length=2)


@pytest.mark.parametrize(
    ("epsilon", "truth"), [(13.5, 8.6014355968197775e-78), (14.0, 1.3823577362157056e-83)]
)
def test_a_false_claim_of_the_add_direction_is_rejected(epsilon: float, truth: float) -> None:
    """Half of a delta that a quadrature in two dimensions gives was once accepted."""
    found = evr.verify(
        TWO_BINS,
        epsilon=epsilon,
        delta=0.45 * truth,
        tau=0.9,
        direction="add",
        seed=3,
        max_samples=200_000,
    )
    assert not found.accepted


def test_what_is_drawn_is_what_weights_assume() -> None:
    """The mean of ``-log L`` is the derivative of ``log M``; once 12.34 instead of 12.47."""
    theta, step, size = 24.0, 1e-3, 20_000
    moment = InverseMoment(2, 1.0)
    slope = (moment.log_bound(theta + step) - moment.log_bound(theta - step)) / (2 * step)
    drawn = InverseOrderSampler(2, 1.0, theta).draw(np.random.default_rng(1), size)
    losses = np.log(2.0) - np.logaddexp.reduce(drawn - 0.5, axis=1)
    error = float(np.std(losses)) / np.sqrt(size)
    assert abs(float(np.mean(losses)) - slope) < 5.0 * error + 0.01


def test_an_order_beyond_the_rule_is_refused() -> None:
    with pytest.raises(ValueError, match="does not reach what would be drawn"):
        InverseOrderSampler(2, 1.0, 1e4)
