"""Event trees: the right counts, or a refusal that names the place."""

from __future__ import annotations

import functools
import time

import pytest
from dp_accounting import NeighboringRelation, dp_event
from hypothesis import given, settings
from hypothesis import strategies as st

from evr._estimate.closed_forms import pair_delta
from evr._kernel.events import Composition
from evr._kernel.pairs import Direction, DominatingPair, Pairs, Step, infinite_loss_mass
from evr._kernel.pairs.exact import NON_PRIVATE_LAW
from evr._kernel.pairs.line.gaussian import GaussianPair
from evr.errors import UnsupportedEventError
from evr.events import DiscreteGaussianDpEvent, EpsilonDeltaDpEvent, ExponentialMechanismDpEvent, dpsgd
from helpers import near

MECHANISMS = [
    dp_event.GaussianDpEvent(1.0),
    dp_event.GaussianDpEvent(2.5),
    dp_event.LaplaceDpEvent(1.0),
    ExponentialMechanismDpEvent(0.25),
    dp_event.DiscreteLaplaceDpEvent(0.5, 2),
    DiscreteGaussianDpEvent(2.0, 1),
    EpsilonDeltaDpEvent(0.5, 1e-6),
    dp_event.MixtureOfGaussiansDpEvent(1.0, (0.0, 1.0), (0.5, 0.5)),
]
SAMPLED = [dp_event.PoissonSampledDpEvent(q, event) for q in (0.01, 0.5) for event in MECHANISMS]
REFUSED = [
    dp_event.UnsupportedDpEvent(),
    dp_event.SampledWithReplacementDpEvent(100, 10, dp_event.LaplaceDpEvent(1.0)),
    dp_event.SampledWithoutReplacementDpEvent(100, 10, dp_event.LaplaceDpEvent(1.0)),
]
FREE = [
    dp_event.NoOpDpEvent(),
    dp_event.PoissonSampledDpEvent(0.0, dp_event.GaussianDpEvent(1.0)),
    dp_event.PoissonSampledDpEvent(0.5, dp_event.NoOpDpEvent()),
]
NON_PRIVATE = [
    dp_event.NonPrivateDpEvent(),
    dp_event.GaussianDpEvent(0.0),
    dp_event.LaplaceDpEvent(0.0),
    DiscreteGaussianDpEvent(0.0),
    dp_event.PoissonSampledDpEvent(0.1, dp_event.NonPrivateDpEvent()),
    dp_event.PoissonSampledDpEvent(0.1, dp_event.GaussianDpEvent(0.0)),
    EpsilonDeltaDpEvent(float("inf"), 0.0),
    EpsilonDeltaDpEvent(1.0, 1.0),
]


def trees(leaves):
    """Compositions, repetitions and certain sampling over the given leaves, nested."""
    return st.recursive(
        st.sampled_from(leaves),
        lambda inner: st.one_of(
            st.lists(inner, max_size=4).map(dp_event.ComposedDpEvent),
            st.builds(dp_event.SelfComposedDpEvent, inner, st.integers(1, 1000)),
            inner.map(functools.partial(dp_event.PoissonSampledDpEvent, 1.0)),
        ),
        max_leaves=8,
    )


def counted(event, times=1):
    """How often each mechanism of the tree runs: the definition, by recursion."""
    if isinstance(event, dp_event.SelfComposedDpEvent):
        return counted(event.event, times * event.count)
    if isinstance(event, dp_event.PoissonSampledDpEvent) and event.sampling_probability == 1:
        return counted(event.event, times)
    if isinstance(event, dp_event.ComposedDpEvent):
        total: dict[dp_event.DpEvent, int] = {}
        for child in event.events:
            for mechanism, count in counted(child, times).items():
                total[mechanism] = total.get(mechanism, 0) + count
        return total
    return {} if event in FREE else {event: times}


def first_refused(event, path="event"):
    """The path of the first sub-event, in reading order, that has no pair."""
    if event in REFUSED:
        return path
    if isinstance(event, dp_event.ComposedDpEvent):
        found = (first_refused(child, f"{path}.events[{i}]") for i, child in enumerate(event.events))
        return next((place for place in found if place), None)
    if isinstance(event, dp_event.SelfComposedDpEvent | dp_event.PoissonSampledDpEvent):
        return first_refused(event.event, path + ".event")
    return None


@settings(max_examples=150, deadline=None)
@given(trees(MECHANISMS + SAMPLED + FREE))
def test_a_tree_composes_to_the_right_counts(event):
    composition = Composition.of(event)
    expected = counted(event)
    for direction in Direction:
        by_pair: dict[DominatingPair, int] = {}
        for mechanism, count in expected.items():
            (step,) = Composition.of(mechanism).steps(direction)
            assert step.count == 1
            by_pair[step.pair] = by_pair.get(step.pair, 0) + count
        assert {step.pair: step.count for step in composition.steps(direction)} == by_pair
        assert len(composition.steps(direction)) == len(by_pair), "equal pairs are merged"


@settings(max_examples=150, deadline=None)
@given(trees(MECHANISMS[:3] + FREE[:1] + REFUSED))
def test_a_tree_with_an_unsupported_event_is_refused_with_its_path(event):
    place = first_refused(event)
    if place is None:
        Composition.of(event)
        return
    with pytest.raises(UnsupportedEventError) as refusal:
        Composition.of(event)
    words = str(refusal.value).replace(":", " ").split()
    assert words[words.index("at") + 1] == place


@settings(max_examples=50, deadline=None)
@given(trees(MECHANISMS + SAMPLED + NON_PRIVATE))
def test_one_mechanism_without_privacy_makes_the_whole_so(event):
    assert Composition.of(event).is_non_private == any(mechanism in NON_PRIVATE for mechanism in counted(event))


@pytest.mark.parametrize("event", NON_PRIVATE, ids=repr)
def test_what_has_no_privacy(event):
    composition = Composition.of(event)
    assert composition.is_non_private
    for direction in Direction:
        assert [step.law for step in composition.steps(direction)] == [NON_PRIVATE_LAW]
    pair = Step(NON_PRIVATE_LAW, 1).pair
    assert pair_delta(pair, 1e6) == 1.0
    assert infinite_loss_mass(pair) == 1.0


@pytest.mark.parametrize("event", FREE, ids=repr)
def test_what_costs_nothing(event):
    assert Composition.of(event) == Composition((), ())


@pytest.mark.parametrize("probability", [0.0, 0.3, 1.0])
def test_sampling_a_mechanism_that_reveals_nothing_is_allowed(probability):
    trivial = dp_event.ZCDpEvent(0.0)
    nothing = EpsilonDeltaDpEvent(0.0, 0.0)  # has exact laws, too
    for one in (trivial, nothing) if probability < 1 else (trivial,):
        composition = Composition.of(dp_event.PoissonSampledDpEvent(probability, one))
        for direction in Direction:
            assert composition.simplified(direction) == ()


def test_sampling_with_certainty_is_the_unsampled_composition():
    inner = dp_event.SelfComposedDpEvent(dp_event.LaplaceDpEvent(1.0), 5)
    assert Composition.of(dp_event.PoissonSampledDpEvent(1.0, inner)) == Composition.of(inner)


@pytest.mark.parametrize("count", [1, 7])
def test_sampling_a_composition_of_gaussians_samples_one_gaussian(count):
    inner = dp_event.SelfComposedDpEvent(dp_event.GaussianDpEvent(2.0), count)
    one = dp_event.PoissonSampledDpEvent(0.1, dp_event.GaussianDpEvent(2.0 / count**0.5))
    for direction in Direction:
        (ours,) = Composition.of(dp_event.PoissonSampledDpEvent(0.1, inner)).steps(direction)
        (single,) = Composition.of(one).steps(direction)
        assert ours.count == 1
        assert pair_delta(ours.pair, 0.1) == near(pair_delta(single.pair, 0.1), rel=1e-12)


def test_sampling_several_mechanisms_at_once_is_refused_under_replace_one_with_a_remedy():
    client = dp_event.SelfComposedDpEvent(dp_event.PoissonSampledDpEvent(0.5, dp_event.GaussianDpEvent(1.0)), 3)
    event = dp_event.ComposedDpEvent([dp_event.NoOpDpEvent(), dp_event.PoissonSampledDpEvent(0.1, client)])
    assert Composition.of(event).is_never_drawn
    with pytest.raises(UnsupportedEventError, match=r"at event\.events\[1\] .*SelfComposedDpEvent"):
        Composition.of(event, "replace-one")


def test_a_million_equal_steps_cost_like_one():
    def seconds(event):
        times = []
        for _ in range(5):
            start = time.perf_counter()
            Composition.of(event)
            times.append(time.perf_counter() - start)
        return min(times)

    one, many = (dpsgd(noise_multiplier=1.0, sampling_probability=0.01, steps=n) for n in (1, 10**6))
    assert Composition.of(many).remove[0].count == 10**6
    assert seconds(many) < 10 * seconds(one) + 1e-3
    apart = dp_event.ComposedDpEvent([dp_event.GaussianDpEvent(1.0)] * 1000)
    assert [step.count for step in Composition.of(apart).add] == [1000]


@pytest.mark.parametrize(
    "wrap",
    [lambda e: dp_event.SelfComposedDpEvent(e, 1), lambda e: dp_event.ComposedDpEvent([e])],
    ids=["self", "composed"],
)
def test_depth_has_no_limit(wrap):
    event = functools.reduce(lambda inner, _: wrap(inner), range(5000), dp_event.GaussianDpEvent(1.0))
    assert Composition.of(event) == Composition.of(dp_event.GaussianDpEvent(1.0))


def test_counts_multiply_down_the_tree():
    event = functools.reduce(dp_event.SelfComposedDpEvent, (2, 3, 5), dp_event.LaplaceDpEvent(1.0))
    assert [step.count for step in Composition.of(event).remove] == [30]
    too_many = functools.reduce(dp_event.SelfComposedDpEvent, (2**40, 2**40), dp_event.LaplaceDpEvent(1.0))
    with pytest.raises(ValueError, match=r"count=\d+ is too large.*event\.event"):
        Composition.of(too_many)


def test_any_number_of_gaussians_is_one():
    event = dp_event.ComposedDpEvent([dpsgd(noise_multiplier=s, sampling_probability=1.0, steps=3) for s in (1.0, 2.0)])
    (step,) = Composition.of(event).simplified(Direction.ADD)
    assert isinstance(step.pair, GaussianPair)
    assert step.pair.mu == near((3 + 3 / 4) ** 0.5)


def test_symmetry_is_seen():
    assert Composition.of(dp_event.LaplaceDpEvent(1.0)).is_symmetric
    assert not Composition.of(dp_event.PoissonSampledDpEvent(0.01, dp_event.GaussianDpEvent(1.0))).is_symmetric


@pytest.mark.parametrize("relation", ["replace", 2, "REPLACE_ONE"])
def test_what_is_no_relation_is_refused(relation):
    with pytest.raises(ValueError, match=r"neighboring_relation=.*'add-or-remove', 'replace-one'"):
        Composition.of(dp_event.GaussianDpEvent(1.0), relation)


def test_a_composition_keeps_its_relation():
    composition = Composition.of(dp_event.GaussianDpEvent(1.0), "replace-one")
    assert Composition.of(composition, NeighboringRelation.REPLACE_ONE) is composition
    with pytest.raises(ValueError, match="is under 'replace-one'"):
        Composition.of(composition, "zero-out")


def test_the_refusal_says_what_is_supported():
    with pytest.raises(UnsupportedEventError, match=r"unsupported UnsupportedDpEvent at event: .*GaussianDpEvent"):
        Composition.of(dp_event.UnsupportedDpEvent())


def test_mechanisms_that_share_a_pair_in_one_direction_merge_there_only():
    mechanisms = (dp_event.GaussianDpEvent(1.0), dp_event.GaussianDpEvent(2.5), dp_event.LaplaceDpEvent(1.0))
    first, second, third = (Composition.of(event).remove[0].pair for event in mechanisms)
    parts = [(Pairs(first, second), 2), (Pairs(first, third), 3)]
    composition = Composition.from_counts(parts)
    assert composition.remove == (Step(first, 5),)
    assert composition.add == (Step(second, 2), Step(third, 3))
