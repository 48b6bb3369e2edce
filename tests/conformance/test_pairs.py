"""What every dominating pair must satisfy, in both directions, against laws written down independently in mpmath."""

from __future__ import annotations

import itertools
import math
import pickle
from functools import cache
from typing import Any

import numpy as np
import pytest
from dp_accounting import dp_event
from mpmath import mp, mpf
from scipy.special import logsumexp

from conformance import cases
from conformance.reference import Laplace, Normal, OnTheLine, delta
from evr._estimate.closed_forms import pair_delta
from evr._estimate.points import log_mgf
from evr._kernel.events import MECHANISMS, Mechanism, schemes
from evr._kernel.events.relations import Meaning, name_of
from evr._kernel.events.table import BUILT_IN
from evr._kernel.pairs import Direction, DiscretePair, Measure, infinite_loss_mass, loss_range
from evr.events import DiscreteGaussianDpEvent
from helpers import assert_mean_within, assert_uniform, ks_radius, near

REGISTERED = {
    event: one
    for event, one in MECHANISMS.items()
    if one.is_registered and not event.__module__.startswith("attacking")
}
"""Mechanisms of somebody else's file, where pytest has loaded it (``-p alarms``)."""
DIRECTIONS = ("remove", "add")
SAMPLES = 10_000
ULPS = 8 * np.finfo(float).eps

every_pair = pytest.mark.parametrize(
    ("event", "direction"), [pytest.param(e, d, id=f"{cases.name(e)}-{d}") for e in cases.EVENTS for d in DIRECTIONS]
)


@cache
def pair_of(event, direction):
    (step,) = cases.composition(event).steps(Direction(direction))
    return step.pair


def is_discrete(event, direction):
    return not isinstance(cases.reference(event, direction), OnTheLine)


@cache
def outcome_edges(event, direction):
    """Some ranks of reference outcomes, and the coordinates of evr's pair that cut there."""
    unsampled = cases.reference(cases.unsampled(event), direction)
    size = len(unsampled.p)
    ranks = sorted({0, size} | {round(size * k / 12) for k in range(1, 12)} | {i for i in (1, 2, size - 1) if i < size})
    pair = pair_of(cases.unsampled(event), direction)
    edges = []
    for rank in ranks[1:-1]:
        low, high = unsampled.loss(rank - 1), unsampled.loss(rank)
        cut = high - 1 if mp.isinf(low) else low + 1 if mp.isinf(high) else (low + high) / 2
        edges.append(float(pair.point(float(cut))))
    return ranks, np.array([-np.inf, *edges, np.inf])


@cache
def places_and_edges(event, direction):
    """Edges of intervals, for the reference and for evr's pair."""
    if is_discrete(event, direction):
        return outcome_edges(event, direction)
    reference = cases.reference(event, direction)
    inner = [float(reference.to_t(x)) for x in reference.places]
    return [-mp.inf, *reference.places, mp.inf], np.array([-np.inf, *inner, np.inf])


@cache
def epsilons(event, direction):
    """Ordinary values, and those at which the reference's loss reaches from its lower to its upper tail."""
    reference = cases.reference(event, direction)
    if is_discrete(event, direction):
        size = len(reference.p)
        losses = [reference.loss(i) for i in {0, size - 1, *(round((size - 1) * k / 16) for k in range(17))}]
        places = [x * factor for x in losses if mp.isfinite(x) for factor in (mpf("0.7"), mpf("0.999"), mpf("1.001"))]
    else:
        places = [reference.loss(x) for x in reference.places[::2]]
    return sorted({0.0, 0.1, 1.0, 5.0, -0.5, *(float(x) for x in places)})


def test_every_mechanism_has_cases():
    check_cases(BUILT_IN | REGISTERED)


def test_a_registered_mechanism_without_cases_is_found():
    one = Mechanism(dp_event.NoOpDpEvent, (), is_registered=True)
    with pytest.raises(AssertionError, match="give every registered event type a reference"):
        check_cases(BUILT_IN | {dp_event.NoOpDpEvent: one})


def check_cases(mechanisms: dict[type[dp_event.DpEvent], Mechanism]):
    """Fails unless each mechanism has a reference, events, and sampled ones."""
    tried = {type(cases.base(event)) for event in cases.EVENTS}
    sampled = {type(cases.base(event)) for event in cases.EVENTS if cases.base(event) is not event}
    under = {(type(case.event), case.relation) for case in cases.EVENTS if isinstance(case, cases.Under)}
    # schemes that run over a whole training have tests of their own
    lines = set(mechanisms) - {
        schemes.BallsInBinsDpEvent,
        schemes.RedrawnBinsDpEvent,
        schemes.RandomAllocationDpEvent,
        schemes.CyclicPoissonDpEvent,
        schemes.BMinSepDpEvent,
        schemes.MatrixMechanismDpEvent,
        schemes.ShuffledBatchesDpEvent,
        schemes.ZeroOutDpEvent,
        # tests/kernel/events/test_state.py
        dp_event.ZCDpEvent,
        schemes.ExponentialMechanismDpEvent,
        schemes.PermuteAndFlipDpEvent,
        # tests/kernel/events/test_variants.py
        schemes.AboveThresholdDpEvent,
        schemes.AdaptiveClippingDpEvent,
        schemes.SummedDiscreteGaussiansDpEvent,
        schemes.UsersDpEvent,
    }
    assert lines == set(cases.REFERENCES), "give every registered event type a reference in cases.py"
    for event in lines:
        answers = [one for variant in mechanisms[event].variants for one in variant.answers.values()]
        first, *others = [one for one in answers if isinstance(one, Meaning)]
        for relation in {one.relation for one in others if one.pair is not first.pair} - {first.relation}:
            case = (event, name_of(relation))
            assert case in cases.UNDER, f"give {case} a reference in cases.py"
            assert case in under, f"give {case} an event in cases.py"
    assert lines <= tried, "give every registered event type at least one event in cases.py"
    taking = {event for event in lines if mechanisms[event].takes_sampling}
    taking.remove(dp_event.RandomizedResponseDpEvent)  # refused, sampled by Poisson
    assert taking <= sampled, "give every registered event type a sampled event in cases.py"


@pytest.mark.parametrize("component", [Normal(mpf(1), mpf("0.1")), Normal(mpf(0), mpf(3)), Laplace(mpf(1), mpf("0.5"))])
@pytest.mark.parametrize("low", ["-4", "0.5", "1.2", "7"])
def test_reference_masses_are_the_integrals_of_the_densities(component, low):
    low = mpf(low)
    ends = [low, *(k for k in (mpf(0), mpf(1)) if low < k < low + 2), low + 2]
    assert mp.almosteq(component.mass(low, low + 2), mp.quad(component.density, ends, maxdegree=10), 1e-20)


@every_pair
def test_delta_is_exact_down_to_1e_30(event, direction):
    """To 1e-10 relative; where the curve is so steep that a last digit of epsilon changes more, to
    a few such digits.
    """
    reference, pair = cases.reference(event, direction), pair_of(event, direction)
    compared, previous = 0, 1.0
    for epsilon in epsilons(event, direction):
        expected = delta(reference, epsilon)
        value = pair_delta(pair, epsilon)
        assert 0 <= value <= previous * (1 + 1e-13), "it does not fall"
        previous = value
        compared += expected >= mpf("1e-30")
        if abs(value - expected) <= 1e-10 * expected or max(value, expected) < mpf("1e-30"):
            continue
        low, high = (delta(reference, epsilon + s * ULPS * abs(epsilon)) for s in (1, -1))
        slack = mpf("1e-10")
        assert low * (1 - slack) <= value <= high * (1 + slack), f"delta({epsilon!r}) is {value!r}, not {expected}"
    assert compared >= (1 if loss_range(pair)[1] == 0 else 3)


@every_pair
def test_delta_at_infinity(event, direction):
    pair = pair_of(event, direction)
    assert pair_delta(pair, -math.inf) == near(1.0, rel=1e-12)
    assert pair_delta(pair, math.inf) == near(infinite_loss_mass(pair), rel=1e-13)
    reference = cases.reference(event, direction)
    never: Any = 0
    if isinstance(reference, cases.OnOutcomes) and reference.q[-1] == 0:
        never = reference.p[-1]
    assert infinite_loss_mass(pair) == near(float(never), rel=1e-13)


@every_pair
def test_loss_is_the_log_ratio(event, direction):
    reference, pair = cases.reference(event, direction), pair_of(event, direction)
    if is_discrete(event, direction):
        ranks, edges = outcome_edges(event, direction)
        last = len(reference.p) - 1
        checked = [(rank - 1, edge) for rank, edge in zip(ranks[1:-1], edges[1:-1], strict=True)] + [(last, np.inf)]
        if isinstance(cases.base(event), DiscreteGaussianDpEvent):
            # its support here and there ends at different places, beyond what floats can tell
            checked = checked[:-1]
        checked = [(i, t) for i, t in checked if max(reference.p[i], reference.q[i]) > mpf("1e-300")]
    else:
        checked = [(x, float(reference.to_t(x))) for x in reference.places]
    for place, t in checked:
        expected = reference.loss(place)
        found = float(pair.privacy_loss(t))
        assert found == near(float(expected), rel=2e-10, abs=1e-300), f"at {t!r}"


@every_pair
def test_interval_probabilities(event, direction):
    for measure in Measure:
        check_intervals(event, direction, measure)


def check_intervals(event, direction, measure):
    reference, pair = cases.reference(event, direction), pair_of(event, direction)
    places, edges = places_and_edges(event, direction)
    found = pair.log_mass(measure, edges[:-1], edges[1:])
    assert float(logsumexp(found)) == near(0.0, abs=1e-12)
    assert float(pair.log_mass(measure, -np.inf, np.inf)) == near(0.0, abs=1e-12)
    assert all(pair.log_mass(measure, t, t) == -np.inf for t in (-1.0, 0.0, 0.5, 3.0))
    for low, high, value in zip(places[:-1], places[1:], found, strict=True):
        expected = reference.mass(measure.value, low, high)
        if expected < mpf("1e-40") and is_discrete(event, direction):
            continue  # the reference leaves such outcomes out
        assert value == near(float(mp.log(expected)), rel=0, abs=1e-10), f"({low}, {high}]"
    # Tails add up: from each edge on to the end, and from the start on to each edge.
    for i in range(1, len(edges) - 1):
        assert float(pair.log_mass(measure, edges[i], np.inf)) == near(float(logsumexp(found[i:])), abs=1e-10)
        assert float(pair.log_mass(measure, -np.inf, edges[i])) == near(float(logsumexp(found[:i])), abs=1e-10)


@every_pair
def test_exponential_of_minus_the_loss(event, direction):
    """``E_P[e^-loss]`` is the mass of ``Q`` where ``P`` has any: at most one."""
    reference, pair = cases.reference(event, direction), pair_of(event, direction)
    expected = 1.0
    if is_discrete(event, direction):
        expected -= float(sum(q for p, q in zip(reference.p, reference.q, strict=True) if p == 0))
    assert log_mgf(pair, 0.0) == 0.0
    value = math.exp(log_mgf(pair, -1.0))
    assert value <= 1 + 1e-10
    assert value == near(expected, rel=1e-9)


ORDERS = itertools.cycle([0.5, 20.0, -2.5])  # each at a third of the pairs
# at order 20 the cells of these are halved for half a minute
MANY_GAUSSIANS = (
    dp_event.MixtureOfGaussiansDpEvent,
    schemes.PoissonSampledUsersDpEvent,
    schemes.FixedBatchUsersDpEvent,
)


def order_for(event, order):
    return min(order, 5.0) if isinstance(cases.base(event), MANY_GAUSSIANS) else order


@pytest.mark.parametrize(
    ("event", "direction", "order"),
    [
        pytest.param(e, d, order_for(e, order), id=f"{cases.name(e)}-{d}-{order_for(e, order)}")
        for (e, d), order in zip(itertools.product(cases.EVENTS, DIRECTIONS), ORDERS, strict=False)
    ],
)
def test_log_mgf(event, direction, order):
    reference, pair = cases.reference(event, direction), pair_of(event, direction)
    if is_discrete(event, direction) and order > 0 and reference.q[-1] == 0:
        assert log_mgf(pair, order) == math.inf
        return
    inner = cases.base(event)
    if isinstance(inner, DiscreteGaussianDpEvent) and (order + 1) * inner.sensitivity > 30 * inner.sigma:
        # the tilted law lies beyond the outcomes that the pair keeps, whose probability is below
        # 1e-329
        return
    assert log_mgf(pair, order) == near(reference.mgf(order), rel=1e-12, abs=1e-8)


def loss_uniform(pair, measure, t, generator, discrete):
    """The probability integral transform of samples, spread evenly over the atoms of a discrete law."""

    def cdf(x):
        return np.exp(pair.log_mass(measure, -np.inf, x))

    if not discrete:
        return cdf(t)
    before = cdf(t - 1)
    return before + generator.random(t.shape) * (cdf(t) - before)


@every_pair
def test_samples_follow_the_law(event, direction):
    """Each KS test fails by chance with 1e-9."""
    for measure in Measure:
        check_samples(event, direction, measure)


def check_samples(event, direction, measure):
    reference, pair = cases.reference(event, direction), pair_of(event, direction)
    places, edges = places_and_edges(event, direction)
    generator = np.random.default_rng([2024, len(cases.name(event)), measure is Measure.P])
    t = pair.draw(measure, generator, SAMPLES)
    assert t.dtype == np.float64
    discrete = is_discrete(event, direction)
    assert_uniform(loss_uniform(pair, measure, t, generator, discrete))
    # against the reference itself, at the edges (the same DKW radius holds for all at once)
    total = reference.mass(measure.value, places[0], places[-1])
    inside = np.mean((t > edges[0]) & (t <= edges[-1]))
    assert abs(inside - float(total)) <= 2 * ks_radius(SAMPLES)
    for place, edge in zip(places[1:-1], edges[1:-1], strict=True):
        expected = float(reference.mass(measure.value, places[0], place))
        assert abs(np.mean((t > edges[0]) & (t <= edge)) - expected) <= 2 * ks_radius(SAMPLES)


@every_pair
def test_sampled_losses_have_the_probabilities_of_the_curve(event, direction):
    """The mean of ``(1 - e^{epsilon - loss})_+`` over samples of ``P`` is delta. Fails by chance with 1e-9 each."""
    pair = pair_of(event, direction)
    generator = np.random.default_rng([7, len(cases.name(event))])
    losses = pair.privacy_loss(pair.draw(Measure.P, generator, SAMPLES))
    for epsilon in (0.0, 0.3, 1.0):
        gains = np.where(losses > epsilon, -np.expm1(epsilon - np.maximum(losses, epsilon)), 0.0)
        assert_mean_within(gains, float(delta(cases.reference(event, direction), epsilon)), bounds=(0.0, 1.0))


def coordinates(pair):
    """Points all over the pair's span, fine near its ends."""
    low, high = pair.span()
    if isinstance(getattr(pair, "base", pair), DiscretePair):
        return np.arange(-1.0, high + 2.0)
    width = high - low
    return np.unique(np.concatenate([np.linspace(low - width, high + width, 5001), [-np.inf, np.inf]]))


@every_pair
def test_loss_is_monotone(event, direction):
    pair = pair_of(event, direction)
    losses = pair.privacy_loss(coordinates(pair))
    assert not np.any(np.isnan(losses))
    assert np.all(losses[1:] >= losses[:-1])
    least, greatest = loss_range(pair)
    assert least == losses[0]
    assert greatest == losses[-1]


@every_pair
def test_point_is_the_generalised_inverse_of_the_loss(event, direction):
    pair = pair_of(event, direction)
    t = coordinates(pair)
    losses = pair.privacy_loss(t)
    back = pair.point(losses)
    finite = np.isfinite(losses)
    # No point to the right of point(loss) has that loss or less, so that point is at or beyond
    # every such t ...
    strictly = losses[finite][1:] > losses[finite][:-1] + 1e-9 * np.abs(losses[finite][:-1])
    tolerance = 1e-6 if not isinstance(getattr(pair, "base", pair), DiscretePair) else 0.0
    assert np.all(
        back[finite][:-1][strictly] >= t[finite][:-1][strictly] - tolerance * (1 + np.abs(t[finite][:-1][strictly]))
    )
    # ... and point(loss) itself has at most that loss, up to rounding.
    reached = pair.privacy_loss(np.where(np.isneginf(back), t, back))
    slack = 1e-12 * np.abs(np.where(finite, losses, 0.0)) + 1e-14 * np.max(np.abs(losses[finite]), initial=0.0)
    assert np.all((reached <= losses + slack) | np.isinf(back))
    assert pair.point(np.inf) == np.inf or isinstance(getattr(pair, "base", pair), DiscretePair)
    least, greatest = loss_range(pair)
    if math.isfinite(greatest):
        assert pair.point(greatest + 1.0) == np.inf
    if math.isfinite(least):
        nothing = pair.point(least - 1.0)
        assert all(pair.log_mass(measure, -np.inf, nothing) == -np.inf for measure in Measure)


@every_pair
def test_point_never_cuts_an_atom(event, direction):
    pair = pair_of(event, direction)
    flats = pair.flats
    if not len(flats):
        return
    losses = pair.privacy_loss(flats[:, 1])
    assert np.all(flats[:, 0] < flats[:, 1])
    assert np.all(flats[1:, 0] >= flats[:-1, 1])
    assert np.all(pair.point(losses) >= flats[:, 1])
    apart = np.concatenate(([True], losses[1:] > losses[:-1]))
    below = np.nextafter(losses, -np.inf)
    assert np.all((pair.point(below) <= flats[:, 0])[apart & np.isfinite(losses)])


@every_pair
def test_pickle_hash_and_equality(event, direction):
    pair = pair_of(event, direction)
    pair_delta(pair, 0.5)
    pair.log_mass(Measure.P, 0.0, 1.0)  # fills caches, which are no part of the value
    again = cases.composition.__wrapped__(event).steps(Direction(direction))[0].pair
    copied = pickle.loads(pickle.dumps(pair))
    assert pair == again == copied
    assert hash(pair) == hash(again) == hash(copied)
    assert pair_delta(copied, 0.5) == pair_delta(pair, 0.5)
    assert isinstance(pair.describe(), str)
    assert "\n" not in pair.describe()
    assert pair != pair_of(cases.EVENTS[-1], direction) or event == cases.EVENTS[-1]
