"""Plain sampling: its moment bound is never worse than the paper's corollary."""

from __future__ import annotations

import math

import pytest

from evr._kernel.events import Composition
from evr._kernel.sampled.simple import SimpleProposal
from evr.events import dpsgd
from single_tilt import SingleBounds
from theorems import log_simple_moment


@pytest.mark.parametrize(
    ("epsilon", "k", "q", "noise"), [(1.5, 100, 1e-3, 0.6), (1.0, 1500, 0.01, 2.0), (2.0, 360, 4096 / 50000, 5.971)]
)
def test_second_moment_is_at_most_the_papers(epsilon: float, k: int, q: float, noise: float) -> None:
    """Large orders count: the best is 30 in the last setting."""
    event = dpsgd(noise_multiplier=noise, sampling_probability=q, steps=k)
    proposal = SimpleProposal(Composition.of(event).simplified("remove"))
    papers = math.exp(log_simple_moment(SingleBounds(1 / noise, q, k), epsilon, 2.0))
    assert math.exp(proposal.log_moment(epsilon, 2.0)) <= 1.02 * papers
