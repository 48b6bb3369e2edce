"""Random trees of events: what is composed has one unit, that of its statement, and under replace-one one law for both
directions; whatever else is refused in words.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from fractions import Fraction
from typing import Any

import attr
import pytest
from dp_accounting import dp_event

import evr
from evr._kernel.events import MECHANISMS, Composition, schemes
from evr._kernel.events.meaning import hypotheses_of, unit_of
from evr._kernel.events.noise import NOTHING
from evr._kernel.events.relations import NAMES
from evr._kernel.pairs import Pairs
from evr._kernel.pairs.exact import RationalOutcomes


@attr.s(frozen=True, slots=True, auto_attribs=True)
class SumDpEvent(dp_event.DpEvent):
    """Registered noise on a sum."""


@attr.s(frozen=True, slots=True, auto_attribs=True)
class TwiceDpEvent(dp_event.DpEvent):
    """Registered; a composition stands for it."""

    event: dp_event.DpEvent


@pytest.fixture(autouse=True)
def _registered() -> Iterator[None]:
    evr.register(SumDpEvent, lambda event: dp_event.LaplaceDpEvent(2.0), adds_noise_to_a_sum=True)
    evr.register(TwiceDpEvent, lambda event: dp_event.SelfComposedDpEvent(event.event, 2))
    try:
        yield
    finally:
        del MECHANISMS[SumDpEvent], MECHANISMS[TwiceDpEvent]


BINS = schemes.BallsInBinsDpEvent(2.0, 4, 4)
GROUPS = [schemes.CyclicPoissonDpEvent(2.0, 6, 3, 0.5, partition) for partition in ("fixed", "independent")]
LEAVES = [
    dp_event.GaussianDpEvent(2.0),
    dp_event.LaplaceDpEvent(2.0),
    schemes.DiscreteGaussianDpEvent(3.0),
    dp_event.NoOpDpEvent(),
    dp_event.NonPrivateDpEvent(),
    schemes.EpsilonDeltaDpEvent(0.1, 1e-6),
    dp_event.RandomizedResponseDpEvent(0.5, 2),
    schemes.AdaptiveClippingDpEvent(2.0, 10.0),
    SumDpEvent(),
    BINS,
    *GROUPS,
    schemes.MatrixMechanismDpEvent(2.0, (1.0,), 4, 2),
    schemes.ShuffledBatchesDpEvent(2.0, 2),
    schemes.PoissonSampledUsersDpEvent(3.0, 0.1, 2),
    *(schemes.UsersDpEvent(scheme, 2) for scheme in (BINS, *GROUPS)),
    schemes.FixedBatchUsersDpEvent(3.0, 20, 4, 2),
    dp_event.TruncatedSubsampledGaussianDpEvent(50, 0.1, 8, 2.0),
]
WRAPPERS: list[Callable[[Any, random.Random], dp_event.DpEvent]] = [
    lambda inner, rng: dp_event.PoissonSampledDpEvent(rng.choice([0.0, 0.1, 1.0]), inner()),
    lambda inner, rng: dp_event.SampledWithoutReplacementDpEvent(10, rng.choice([0, 3, 10]), inner()),
    lambda inner, rng: dp_event.SampledWithReplacementDpEvent(10, 2, inner()),
    lambda inner, rng: dp_event.ComposedDpEvent([inner() for _ in range(rng.randrange(3))]),
    lambda inner, rng: dp_event.SelfComposedDpEvent(inner(), rng.choice([1, 3])),
    lambda inner, rng: schemes.ParallelDpEvent(inner()),
    lambda inner, rng: schemes.ZeroOutDpEvent(inner()),
    lambda inner, rng: schemes.OneOfDpEvent([inner() for _ in range(rng.choice([1, 2]))]),
    lambda inner, rng: schemes.AllocatedDpEvent(inner(), 1, 3),
    lambda inner, rng: schemes.ThresholdSelectDpEvent(inner(), 0.5),
    lambda inner, rng: TwiceDpEvent(inner()),
]


def tree(rng: random.Random, depth: int) -> dp_event.DpEvent:
    if depth == 0 or rng.random() < 0.25:
        return rng.choice(LEAVES)
    return rng.choice(WRAPPERS)(lambda: tree(rng, depth - 1), rng)


@pytest.mark.parametrize("relation", [None, *NAMES])
def test_what_is_composed_is_said_of_one_unit(relation: str | None) -> None:
    rng, composed = random.Random(5), 0
    for _ in range(400):
        event = tree(rng, rng.choice([1, 2, 3]))
        try:
            composition = Composition.of(event, relation)
        except (ValueError, TypeError):  # of a value, or of what has no law here
            continue
        composed += 1
        assert composition.unit == unit_of(event)
        hypotheses_of(event, composition.relation)  # raises where something in the tree has no meaning
        assert relation != "replace-one" or composition.remove == composition.add
    assert composed > 100


@pytest.mark.parametrize(
    "around",
    [
        lambda inner: dp_event.PoissonSampledDpEvent(0.1, dp_event.SelfComposedDpEvent(inner, 2)),
        lambda inner: schemes.OneOfDpEvent([inner, dp_event.GaussianDpEvent(1.0)]),
        lambda inner: schemes.BinomialSelectDpEvent(inner, 3, 0.5),
    ],
)
def test_one_direction_may_reveal_nothing(around: Callable[[Any], Any]) -> None:
    """Of a registered mechanism; groups and selections took their first step for granted."""
    coin = RationalOutcomes((Fraction(1, 4), Fraction(3, 4)), (Fraction(3, 4), Fraction(1, 4)))
    evr.register(SumDpEvent, lambda event: Pairs(NOTHING.remove, coin))
    assert 0 <= evr.estimate_delta(around(SumDpEvent()), epsilon=0.1, method="strict").value < 0.5
