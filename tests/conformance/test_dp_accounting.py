"""Single steps against dp_accounting's privacy loss distributions, in both directions.

Its pessimistic estimate must not be below our exact value, and not be far above it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from dp_accounting import dp_event
from dp_accounting.pld import privacy_loss_distribution as pld

from evr._estimate.closed_forms import pair_delta
from evr._kernel.events import Composition
from evr._kernel.pairs import Direction
from evr.events import DiscreteGaussianDpEvent
from helpers import near

INTERVAL = 1e-3
PLD = {"pessimistic_estimate": True, "value_discretization_interval": INTERVAL}


def sampled(q, event):
    return event if q == 1 else dp_event.PoissonSampledDpEvent(q, event)


CASES: dict[str, tuple[dp_event.DpEvent, Callable[..., Any]]] = {
    **{
        f"gaussian-{s}-{q}": (
            sampled(q, dp_event.GaussianDpEvent(s)),
            lambda s=s, q=q: pld.from_gaussian_mechanism(s, sampling_prob=q, **PLD),
        )
        for s in (0.5, 1.0, 10.0)
        for q in (1, 0.2, 0.01)
    },
    **{
        f"laplace-{b}-{q}": (
            sampled(q, dp_event.LaplaceDpEvent(b)),
            lambda b=b, q=q: pld.from_laplace_mechanism(b, sampling_prob=q, **PLD),
        )
        for b in (0.5, 1.0, 10.0)
        for q in (1, 0.2, 0.01)
    },
    **{
        f"discrete-laplace-{a}-{c}-{q}": (
            sampled(q, dp_event.DiscreteLaplaceDpEvent(a, c)),
            lambda a=a, c=c, q=q: pld.from_discrete_laplace_mechanism(a, sensitivity=c, sampling_prob=q, **PLD),
        )
        for a, c in ((0.1, 1), (1.0, 1), (0.4, 3))
        for q in (1, 0.2)
    },
    **{
        f"discrete-gaussian-{s}-{c}-{q}": (
            sampled(q, DiscreteGaussianDpEvent(s, c)),
            lambda s=s, c=c, q=q: pld.from_discrete_gaussian_mechanism(s, sensitivity=c, sampling_prob=q, **PLD),
        )
        for s, c in ((1.0, 1), (5.0, 3))
        for q in (1, 0.2)
    },
    "mixture": (
        dp_event.MixtureOfGaussiansDpEvent(3.0, (0.0, 1.0, 2.0), (0.5, 0.25, 0.25)),
        lambda: pld.from_mixture_gaussian_mechanism(3.0, [0.0, 1.0, 2.0], [0.5, 0.25, 0.25], **PLD),
    ),
    **{
        f"randomized-response-{p}-{k}": (
            Composition.of(dp_event.RandomizedResponseDpEvent(p, k), "replace-one"),
            lambda p=p, k=k: pld.from_randomized_response(p, k, **PLD),
        )
        for p, k in ((0.1, 2), (0.5, 10))
    },
}


def one_direction(distribution, direction):
    """Its ``delta`` of one direction alone; a symmetric distribution keeps only one."""
    # dp_accounting offers the maximum of both directions only, so the two parts are read from its
    # attributes.
    part = distribution._pmf_remove if direction is Direction.REMOVE else distribution._pmf_add
    return part.get_delta_for_epsilon


@pytest.mark.parametrize("name", CASES)
def test_single_step(name):
    event, build = CASES[name]
    distribution = build()
    for direction in Direction:
        theirs = one_direction(distribution, direction)
        (step,) = Composition.of(event).steps(direction)
        for epsilon in (0.0, 0.05, 0.3, 1.0, 2.5):
            ours, bound = pair_delta(step.pair, epsilon), float(theirs(epsilon))
            assert ours <= bound * (1 + 1e-9) + 1e-14, direction
            # Rounding losses up by at most an interval moves delta as moving epsilon down by one
            # does.
            most = pair_delta(step.pair, epsilon - INTERVAL) * (1 + 1e-6) + 1e-12
            assert bound <= most, direction


def test_the_whole_of_a_sampled_gaussian_is_the_maximum_of_both_directions():
    event = dp_event.PoissonSampledDpEvent(0.2, dp_event.GaussianDpEvent(1.0))
    theirs = pld.from_gaussian_mechanism(1.0, sampling_prob=0.2, **PLD)
    composition = Composition.of(event)
    for epsilon in (0.05, 0.5):
        ours = max(pair_delta(composition.steps(d)[0].pair, epsilon) for d in Direction)
        assert theirs.get_delta_for_epsilon(epsilon) == near(ours, rel=0.01)
