"""What a seed draws stays the same, or ``DRAWING`` is raised: else certificates that were made
before no longer replay, unexplained.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest
from dp_accounting import dp_event

import evr
from evr.laws import Step
from evr.mechanisms import Composition
from evr.randomness import Stream
from evr.sampling import DRAWING, Proposal
from evr.search import capped_proposal, merged_steps, simple_proposal, single_proposal


def merged_proposal(steps: tuple[Step, ...], epsilon: float) -> Proposal:
    return capped_proposal(merged_steps(steps, epsilon, 1e-9, 1e-3), epsilon)


SGD = evr.dpsgd(noise_multiplier=1.0, sampling_probability=0.01, steps=100)
GAUSSIAN = dp_event.SelfComposedDpEvent(dp_event.GaussianDpEvent(20.0), 100)
LONG = evr.dpsgd(noise_multiplier=1.0, sampling_probability=1e-4, steps=100_000)
LAPLACE = dp_event.SelfComposedDpEvent(
    dp_event.PoissonSampledDpEvent(0.1, dp_event.LaplaceDpEvent(1.0)), 30
)
RESPONSE = dp_event.SelfComposedDpEvent(dp_event.RandomizedResponseDpEvent(0.8, 5), 12)

DRAWN: dict[str, tuple[Callable[..., Proposal], dp_event.DpEvent, str, float, float]] = {
    "mixture": (capped_proposal, SGD, "remove", 260.81050148406445, -1200.1227750642252),
    "envelope": (capped_proposal, SGD, "add", 507.7636519068499, -17445.334402965687),
    "untilted": (simple_proposal, SGD, "remove", 6.670024948113161, 0.0),
    "paper": (single_proposal, SGD, "remove", 908.253568079011, -8310.369595840122),
    "gaussian": (capped_proposal, GAUSSIAN, "remove", 879.061042429134, -1227.619755629607),
    "cells": (capped_proposal, LAPLACE, "remove", 822.1963073610848, -893.5906495765175),
    "merged": (merged_proposal, LONG, "remove", 482.05650989853376, -34267.68446841255),
    "outcomes": (capped_proposal, RESPONSE, "remove", 2592.5439012436027, -54.95328005602985),
}
"""Sums over 1000 samples of the losses and of the log weights, at epsilon 0.5, as version 1 draws
them.
"""


@pytest.mark.parametrize("name", DRAWN)
def test_a_seed_draws_what_it_always_did(name: str) -> None:
    make, event, direction, losses, log_weights = DRAWN[name]
    proposal = make(Composition.of(event).simplified(direction), 0.5)
    block = proposal.draw(Stream(1, "test").block(0), 1000)
    assert DRAWING == 1, "draw these numbers anew for the new version"
    assert float(block.losses.sum()) == pytest.approx(losses, rel=1e-8)
    assert float(block.log_weights.sum()) == pytest.approx(log_weights, rel=1e-8)
