"""Laws in many dimensions by place: kernels and NumPy draw the same, of the law that plain sampling
has.
"""

import math

import numpy as np
import pytest
from dp_accounting import dp_event

import evr
from evr.bounds.replica_tables import OccupancyTable, RingTable
from evr.bounds.tilt import Tilt
from evr.laws import Direction
from evr.laws.mixture.law import MixtureLaw
from evr.randomness import Stream
from evr.sampling import Plan, built, cuda
from evr.sampling.cuda import Terms, why_not
from evr.sampling.cuda.mixtures import MixtureOnDevice
from evr.sampling.cuda.parts import PARTS
from evr.sampling.mixtures import Component, MixtureProposal, to_numbers
from evr.sampling.philox import Place, philox
from evr.sampling.placed_parts import MOST_COPIES, NAME
from evr.sampling.plan import Kind
from evr.sampling.proposals import Block
from evr.verification.summary import summed
from sampling.host import HostBench

E = evr.events

BINS = E.BallsInBinsDpEvent(2.0, 50, 5)
CORRELATED = E.BallsInBinsDpEvent(3.0, 60, 6, (1.0, 0.6, 0.3))
RING = E.BallsInBinsDpEvent(2.0, 60, 30, (1.0, 0.5))
CHAIN = E.BMinSepDpEvent(1.5, 24, 3, 0.15, True, (1.0, 0.5))
COLD = E.BMinSepDpEvent(1.5, 23, 4, 0.2, False, (1.0, 0.5, 0.25))
COLUMNS = E.BMinSepDpEvent(1.5, 5, 2, 0.3, True, [[1.0, 0.5], [1.0, 0.4], [0.9], [1.0, 0.1], [1.0]])

CASES = {
    "scaled": (BINS, "remove", [{"scale": 3.0}, {"scale": 1.0}]),
    "order": (BINS, "remove", [{"order": 4.0}, {"scale": 2.0}, {"shift": 1.0}]),
    "inverse": (BINS, "add", [{"inverse_order": 6.0}]),
    "inverse, redrawn": (E.RedrawnBinsDpEvent(2.0, 7, 3), "add", [{"inverse_order": 2.5}]),
    "redrawn": (E.RedrawnBinsDpEvent(2.0, 7, 3), "remove", [{"order": 3.0}, {"scale": 1.5}]),
    "occupancy": (
        CORRELATED,
        "remove",
        [{"order": 3.0}, {"scale": 2.0}, {"scale": 1.2, "width": 1.0, "shift": 0.7}],
    ),
    "ring": (RING, "remove", [{"order": 5.0}, {"scale": 3.0, "width": 0.7, "shift": 0.0}]),
    "shift, correlated": (CORRELATED, "add", [{"shift": -3.0}]),
    "chain": (CHAIN, "remove", [{"order": 3.0}, {"scale": 2.0, "probability": 0.3}]),
    "chain, cold": (COLD, "remove", [{"scale": 1.5, "probability": 0.4}, {"order": 2.0}]),
    "chain, columns": (COLUMNS, "remove", [{"order": 2.0}, {"scale": 2.0, "probability": 0.3}]),
    "chain, steep": (
        E.BMinSepDpEvent(0.02, 6, 2, 0.3, True, (1.0, 0.5)),
        "remove",
        [{"scale": 1.0, "probability": 0.3}],
    ),
    "chain, below floats": (
        E.BMinSepDpEvent(0.02, 4, 2, 1.0, False),
        "add",
        [{"shift": -0.04}],
    ),
    "chain, steep order": (
        E.BMinSepDpEvent(0.21, 4, 4, 0.3, True, (1.0, 0.6, 0.3)),
        "remove",
        [{"order": 5.0}],
    ),
    "chain, shift": (CHAIN, "add", [{"shift": -2.0}]),
    "chain, certain": (
        CHAIN,
        "remove",
        [{"scale": 1.5, "probability": 1.0}, {"scale": 1.0, "probability": 0.15}],
    ),
    "with a step on a line": (
        dp_event.ComposedDpEvent(
            [BINS, evr.dpsgd(noise_multiplier=2.0, sampling_probability=0.1, steps=3)]
        ),
        "remove",
        [{"order": 3.0}, {"scale": 2.0}],
    ),
}
case = pytest.mark.parametrize("name", CASES)


def proposal_of(name, *, by_place=True):
    event, direction, parts = CASES[name]
    steps = evr.Composition.of(event).simplified(Direction(direction))
    many = [isinstance(step.law, MixtureLaw) for step in steps]
    weights = np.arange(1.0, len(parts) + 1) / np.arange(1.0, len(parts) + 1).sum()
    components = [
        Component.of(float(weight), *([part] * sum(many)))
        for weight, part in zip(weights, parts, strict=True)
    ]
    named = NAME if by_place else ""
    line = Kind(Tilt(1.0, 50.0, -1.0), tuple(np.linspace(-8.0, 8.0, 200).tolist()))
    kinds = tuple(Kind(Tilt(), sampler=named) if one else line for one in many)
    found = built(Plan("mixture", kinds, cells=512, numbers=to_numbers(components)), steps)
    assert isinstance(found, MixtureProposal)
    return found


def block(number=3):
    return Stream(1, "test").block(number)


@pytest.fixture(scope="module")
def bench(tmp_path_factory):
    return HostBench(tmp_path_factory.mktemp("cuda"))


@case
def test_the_kernels_draw_the_numbers_of_numpy(bench, name):
    proposal, size = proposal_of(name), 220
    proposal.line = None  # its steps have tests of their own
    expected = proposal.draw(block(), size)
    losses, heights = np.zeros((2, size))
    MixtureOnDevice(proposal, bench).draw(block(), size, losses, heights)
    np.testing.assert_allclose(losses, expected.losses, rtol=1e-10, atol=1e-11)
    np.testing.assert_array_equal(heights == math.inf, expected.log_weights == -math.inf)
    held = expected.log_weights > -math.inf
    assert held.sum() > size / 4
    np.testing.assert_allclose(-heights[held], expected.log_weights[held], rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("name", ["ring", "chain", "chain, steep"])
@pytest.mark.parametrize("place", [0, 1])
def test_the_kernels_keep_what_is_not_a_number(bench, name, place, monkeypatch):
    """A coordinate that is none makes a loss that is none, refused draws apart."""
    proposal, size = proposal_of(name), 50
    on_device = MixtureOnDevice(proposal, bench)
    (own,) = on_device._own
    correct = own._kernels.coordinates

    def wrong(*orders):
        x = correct(*orders)
        x[place] = math.nan
        return x

    monkeypatch.setattr(own._kernels, "coordinates", wrong)
    losses, heights = np.zeros((2, size))
    on_device.draw(block(), size, losses, heights)
    held = heights != math.inf
    assert held.any()
    assert np.isnan(losses[held]).all()
    assert np.isnan(heights[held]).all()


@pytest.mark.parametrize(("loss", "height"), [(math.nan, 0.0), (1.0, math.nan), (1.0, -1e9)])
def test_a_sum_shows_what_is_not_a_number(bench, loss, height):
    losses, heights = np.ones(100), np.zeros(100)
    losses[5], heights[5] = loss, height
    sums, histogram = np.zeros((1, 6)), np.zeros(43, np.uint64)
    terms = (0.1, 0.0, 0.0, 5.0, 0.9, 0.1)
    bench.launch("summarise", 1, *terms, 100, losses, heights, sums, histogram)
    values = Block(losses, -heights).values(0.1)
    np.testing.assert_allclose(sums[0, 0], values.sum(), rtol=1e-12)


@pytest.mark.skipif(why_not() is not None, reason="no GPU here")
@case
def test_a_gpu_draws_the_numbers_of_numpy(name):
    proposal, size, terms = proposal_of(name), 5000, Terms(0.1, -1.0, 5.0, 0.9, 0.1)
    assert cuda.draws(proposal)
    values = proposal.draw(block(), size).values(terms.epsilon, terms.log_unit)
    expected = summed(values, 0, terms.clip, terms.mean, terms.stake)
    sums, histogram = cuda.sums_of_block(proposal, block(), size, size, terms)
    again, _ = cuda.sums_of_block(proposal, block(), size, size, terms)
    assert sums.tolist() == again.tolist()
    np.testing.assert_allclose(sums[:5], expected[2:7], rtol=1e-9)
    assert tuple(histogram.tolist()) == expected.histogram


@case
def test_the_law_is_that_of_generators(name):
    """Means of samples, to six standard errors, and of losses in the middle."""
    size = 20_000
    by_place = proposal_of(name).draw(block(1), size)
    other = proposal_of(name, by_place=False).draw(block(2), size)
    for epsilon in (0.0, 0.5):
        one, two = by_place.values(epsilon), other.values(epsilon)
        error = math.hypot(one.std(), two.std()) / math.sqrt(size)
        assert abs(one.mean() - two.mean()) <= 6.0 * error
    for place in np.quantile(other.losses, [0.2, 0.5, 0.8]):
        shares = [np.mean(found.losses <= place) for found in (by_place, other)]
        assert abs(shares[0] - shares[1]) < 6.0 * math.sqrt(0.5 / size)


@case
def test_the_first_samples_of_a_block_do_not_depend_on_the_others(name):
    proposal = proposal_of(name)
    proposal.line = None
    some, more = proposal.draw(block(), 40), proposal.draw(block(), 90)
    np.testing.assert_allclose(some.losses, more.losses[:40], rtol=1e-12)
    np.testing.assert_allclose(some.log_weights, more.log_weights[:40], rtol=1e-11, atol=1e-12)


@case
def test_no_number_serves_twice(name, monkeypatch):
    used = []

    def words(self, call, sample, part):
        counters = np.broadcast_arrays(*map(np.asarray, (call, sample, part)))
        where = np.broadcast_to(np.array([*self.key, self.block]), (counters[0].size, 3))
        used.append(np.column_stack([where, *(x.reshape(-1) for x in counters)]))
        a, b, c, d = philox((call, sample, part, self.block), self.key)
        return a | (b << np.uint64(32)), c | (d << np.uint64(32))

    monkeypatch.setattr(Place, "words", words)
    proposal = proposal_of(name)
    proposal.line = None
    proposal.draw(block(), 300)
    places = np.concatenate(used)
    assert len(np.unique(places, axis=0)) == len(places)
    assert places[:, 4].max() < 300 * proposal.laws[0][1]


def test_every_part_and_table_is_among_the_cases():
    parts = [part for name in CASES for row in proposal_of(name).parts for part in row]
    assert {type(part) for part in parts} == set(PARTS)
    tables = {type(part.table) for part in parts if hasattr(part, "table")}
    assert {OccupancyTable, RingTable} <= tables


def test_a_plan_says_that_parts_are_drawn_by_place():
    proposal = proposal_of("scaled")
    again = Plan.from_json(proposal.plan().to_json())
    assert again.kinds[0].sampler == NAME
    rebuilt = built(again, proposal.steps)
    assert isinstance(rebuilt, MixtureProposal)
    assert rebuilt.by_place
    plain = proposal_of("scaled", by_place=False)
    assert plain.plan().kinds[0].sampler == ""
    assert proposal.rounding(1.0).loss > plain.rounding(1.0).loss


@pytest.mark.parametrize("name", ["parts_philox/2", "mixture_philox/1"])
def test_an_unknown_sampler_of_parts_is_refused(name):
    steps = evr.Composition.of(BINS).simplified(Direction.REMOVE)
    numbers = to_numbers([Component.of(1.0, {"scale": 2.0})])
    with pytest.raises(ValueError, match="parts_philox/1"):
        built(Plan("mixture", (Kind(Tilt(), sampler=name),), numbers=numbers), steps)


def test_more_copies_than_have_places_are_refused():
    event = E.RedrawnBinsDpEvent(2.0, 3, MOST_COPIES + 1)
    steps = evr.Composition.of(event).simplified(Direction.REMOVE)
    numbers = to_numbers([Component.of(1.0, {"scale": 2.0})])
    with pytest.raises(ValueError, match="have no places"):
        built(Plan("mixture", (Kind(Tilt(), sampler=NAME),), numbers=numbers), steps)
