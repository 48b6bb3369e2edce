"""Schemes in many dimensions under replace-one (docs/guarantees_relations.md, R8): what two bins are exactly, instances
by brute force, bounds on samples, false claims.
"""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest
from dp_accounting import dp_event

import evr
from evr._basics.randomness import Stream
from evr._estimate.mixtures import mixture_proposal, with_lines
from evr._kernel.events import Composition
from evr._kernel.pairs.patterns.law import ReplacedPatterns
from evr._kernel.sampled.plan import ByOrder, ByScale
from evr.events import BallsInBinsDpEvent, BMinSepDpEvent, CyclicPoissonDpEvent, RedrawnBinsDpEvent
from helpers import assert_mean_within, near

REPLACED: dict[str, Any] = {"neighboring_relation": "replace-one"}
DRAWS = Stream(entropy=7, purpose="test")

# noise, epsilon, delta: the inner integral in closed form, the outer by quadrature
TWO_BINS = [(1.0, 1.0, 0.2862082119), (2.0, 0.5, 0.1237248796), (1.5, 2.0, 0.01430118295)]


def laws_of(event: Any) -> tuple[Any, ...]:
    return Composition.of(event, "replace-one").simplified("remove")


@pytest.mark.parametrize(("noise", "epsilon", "expected"), TWO_BINS)
def test_two_bins_are_a_gaussian_mechanism(noise: float, epsilon: float, expected: float) -> None:
    """Plain samples, those of scaled means and those of an order all have its delta for their mean."""
    gaussian = dp_event.GaussianDpEvent(noise / math.sqrt(2))
    assert evr.estimate_delta(gaussian, epsilon).value == near(expected, rel=1e-9)
    steps = laws_of(BallsInBinsDpEvent(noise, 2, 2))
    for part, order in ((ByScale(1.0, 1.0), 0.0), (ByScale(1.6, 1.0), 0.6), (ByOrder(2), 1.0)):
        proposal = with_lines(steps, part, order)
        values = proposal.draw(DRAWS.block(0), 60_000).values(epsilon)
        assert_mean_within(values, expected, bounds=(0.0, math.exp(proposal.log_greatest(epsilon)) * (1 + 1e-9)))


def test_one_bin_is_the_gaussian_mechanism() -> None:
    assert evr.estimate_delta(BallsInBinsDpEvent(2.0, 3, 1), 1.0, **REPLACED).value == near(
        evr.estimate_delta(dp_event.GaussianDpEvent(2.0 / (2 * math.sqrt(3))), 1.0).value, rel=1e-9
    )


def test_a_step_of_min_sep_is_poisson_sampling() -> None:
    """Of one step, from a cold start: the mixture of R5.2."""
    sampled = dp_event.PoissonSampledDpEvent(0.3, dp_event.GaussianDpEvent(1.0))
    truth = evr.estimate_delta(sampled, 0.5, **REPLACED).value
    steps = laws_of(BMinSepDpEvent(1.0, 1, 2, 0.3, False))
    proposal = with_lines(steps, ByScale(1.0, 1.0), 0.0)
    assert isinstance(steps[0].law, ReplacedPatterns)
    assert_mean_within(proposal.draw(DRAWS.block(1), 60_000).values(0.5), truth, bounds=(0.0, 1.0))


def test_groups_by_turns_are_sampled_steps() -> None:
    cyclic = CyclicPoissonDpEvent(2.0, 40, 4, 0.2, "fixed", (1.0,))
    steps = dp_event.SelfComposedDpEvent(dp_event.PoissonSampledDpEvent(0.2, dp_event.GaussianDpEvent(2.0)), 10)
    found, wanted = (evr.estimate_delta(one, 1.0, method="strict", **REPLACED).value for one in (cyclic, steps))
    assert found == wanted


def test_no_matrix_mechanism_of_two_steps_exceeds_the_pair() -> None:
    """Random matrices without negative entries, random laws of the set of steps, contributions that depend on the first
    output: 40 instances, both sides by a sum over the plane.
    """
    rng, axis = np.random.default_rng(4), np.linspace(-11.0, 11.0, 441)
    y1, y2 = np.meshgrid(axis, axis, indexing="ij")
    cell = (axis[1] - axis[0]) ** 2

    def law(weights: Any, matrix: Any, first: float, second: Any) -> Any:
        found = np.zeros_like(y1)
        for weight, (one, two) in zip(weights, itertools.product((0, 1), repeat=2), strict=True):
            m1 = matrix[0, 0] * one * first
            m2 = matrix[1, 0] * one * first + matrix[1, 1] * two * second
            found += weight * np.exp(-((y1 - m1) ** 2 + (y2 - m2) ** 2) / 2) / (2 * math.pi)
        return found

    for _ in range(40):
        matrix, weights = rng.uniform(0.0, 1.3, (2, 2)), rng.dirichlet(np.ones(4))
        epsilon = float(rng.uniform(-0.5, 1.2))
        (a, c), (slope, other) = rng.uniform(-1, 1, 2), rng.normal(size=2) * 3
        worlds = (law(weights, matrix, a, np.tanh(slope * y1)), law(weights, matrix, c, np.tanh(other * y1 + 0.3)))
        claimed = (law(weights, matrix, 1.0, 1.0), law(weights, matrix, -1.0, -1.0))
        instance, claim = (float(np.maximum(p - math.exp(epsilon) * q, 0.0).sum() * cell) for p, q in (worlds, claimed))
        assert instance <= claim * (1 + 1e-3)


@pytest.mark.parametrize(
    "event",
    [
        BallsInBinsDpEvent(1.0, 40, 20),
        BallsInBinsDpEvent(1.5, 20, 10, (1.0, 0.5)),
        BMinSepDpEvent(1.0, 20, 4, 0.3, True, (1.0, 0.5)),
        dp_event.ComposedDpEvent([RedrawnBinsDpEvent(2.0, 10, 2), dp_event.LaplaceDpEvent(4.0)]),
    ],
)
def test_proposals_agree_and_keep_their_bounds(event: Any) -> None:
    """The proposal that is chosen, and plain samples."""
    steps = laws_of(event)
    epsilon = 2.0
    plain = with_lines(steps, ByScale(1.0, 1.0), 0.0)
    first = plain.draw(DRAWS.block(2), 200_000).values(epsilon)
    mean, spread = float(first.mean()), float(first.std()) / math.sqrt(first.size)
    for chosen in (mixture_proposal(steps, epsilon), with_lines(steps, ByScale(1.8, 1.0), 0.8)):
        drawn = chosen.draw(DRAWS.block(3), 40_000).values(epsilon)
        error = math.hypot(spread, float(drawn.std()) / math.sqrt(drawn.size))
        assert abs(float(drawn.mean()) - mean) <= 6.5 * error  # fails with probability 1e-10
        assert drawn.max() <= math.exp(chosen.log_greatest(epsilon)) * (1 + 1e-9)


def test_true_claims_are_accepted_and_false_ones_are_not() -> None:
    event = BallsInBinsDpEvent(1.5, 2, 2)
    truth = 0.01430118295
    asked = {"epsilon": 2.0, "seed": 5, "tau": 0.85, "method": "sequential", **REPLACED}
    accepted = evr.verify(event, delta=truth / 0.85, **asked)
    assert accepted.accepted
    assert not evr.verify(event, delta=truth * 0.95, **asked, max_samples=200_000).accepted


def test_a_replacement_is_another_law_than_a_removal() -> None:
    event = BallsInBinsDpEvent(1.0, 30, 30)
    removed = evr.estimate_delta(event, 2.0).value
    replaced = evr.estimate_delta(event, 2.0, **REPLACED, method="monte_carlo", samples=20_000, seed=1)
    assert replaced.value > removed + 6 * replaced.standard_error


def test_laws_of_two_relations_are_not_drawn_together() -> None:
    """How fast weights fall with the loss is one number for all laws of a proposal."""
    event = BallsInBinsDpEvent(2.0, 2, 2)
    steps = (*laws_of(event), *Composition.of(event).simplified("remove"))
    for some in (steps, steps[::-1], (steps[0], *Composition.of(event).simplified("add"))):
        with pytest.raises(ValueError, match="describe all under one relation"):
            with_lines(some, ByScale(1.0, 1.0), 0.0)


def test_a_proposal_whose_samples_are_far_below_their_bound_is_judged() -> None:
    """The square of their mean is below all floats."""
    event = BallsInBinsDpEvent(0.7, 6, 2, (1.0, 0.3, 2.0, 0.5, 2.0, 0.5))
    found = evr.estimate_delta(event, 0.0, **REPLACED)
    assert found.value == near(1.0, abs=1e-5)
