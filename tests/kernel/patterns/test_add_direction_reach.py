"""Few bins and tiny deltas of the add direction."""

from __future__ import annotations

import pytest

import evr

TWO_BINS = evr.events.BallsInBinsDpEvent(1.0, iterations=2, cycle_length=2)


@pytest.mark.parametrize(("epsilon", "truth"), [(13.5, 8.6014355968197775e-78), (14.0, 1.3823577362157056e-83)])
def test_a_false_claim_of_the_add_direction_is_rejected(epsilon: float, truth: float) -> None:
    """Half of a delta that a quadrature in two dimensions gives was once accepted."""
    found = evr.verify(
        TWO_BINS, epsilon=epsilon, delta=0.45 * truth / 0.9, tau=0.9, direction="add", seed=3, max_samples=200_000
    )
    assert not found.accepted
