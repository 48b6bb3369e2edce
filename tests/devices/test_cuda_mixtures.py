"""Laws in many dimensions by place: NumPy and a GPU draw the same, of the law that plain sampling
has. Where there is no GPU, kernels are compiled for the processor, and arrays that are as strict as
CuPy's stand for them (``host.py``).
"""

import math
from dataclasses import replace

import numpy as np
import pytest
from dp_accounting import dp_event

import evr
from devices.host import Array, HostBench
from evr._basics.randomness import Stream
from evr._devices import cuda, kernels
from evr._devices.cuda import moved, on_gpu, why_not
from evr._kernel.events import Composition
from evr._kernel.pairs import Direction
from evr._kernel.pairs.law import module_of
from evr._kernel.sampled.components import LocalBins, Replicas, ScaledBins, ScaledChain, Shifted
from evr._kernel.sampled.mixtures import MOST_COPIES, MixtureProposal
from evr._kernel.sampled.moments import Tilt
from evr._kernel.sampled.philox import Counter
from evr._kernel.sampled.plan import ByOrder, ByScale, ByShift, ByWindow, DrawPlan, MixturePlan, StepPlan
from evr._kernel.sampled.proposals import built
from evr._kernel.sampled.replica_tables import OccupancyTable
from evr._kernel.sampled.ring_table import RingTable
from evr._kernel.sampled.summary import Work, on_processor, summarize

E = evr.events

BINS = E.BallsInBinsDpEvent(2.0, 50, 5)
CORRELATED = E.BallsInBinsDpEvent(3.0, 60, 6, (1.0, 0.6, 0.3))
RING = E.BallsInBinsDpEvent(2.0, 60, 30, (1.0, 0.5))
CHAIN = E.BMinSepDpEvent(1.5, 24, 3, 0.15, True, (1.0, 0.5))
COLD = E.BMinSepDpEvent(1.5, 23, 4, 0.2, False, (1.0, 0.5, 0.25))
COLUMNS = E.BMinSepDpEvent(1.5, 5, 2, 0.3, True, [[1.0, 0.5], [1.0, 0.4], [0.9], [1.0, 0.1], [1.0]])

PLAIN = MixturePlan(ByScale(1.0, 1.0))
CASES: dict[str, tuple[dp_event.DpEvent, str, MixturePlan]] = {
    "scaled": (BINS, "remove", MixturePlan(ByScale(3.0, 1.0))),
    "plain": (BINS, "remove", PLAIN),
    "order": (BINS, "remove", MixturePlan(ByOrder(4))),
    "order beside a window": (BINS, "remove", MixturePlan(ByOrder(4), beside=ByWindow(3, 1, 0.0), share=0.4)),
    "shift": (BINS, "add", MixturePlan(ByShift(-6.0))),
    "shift, redrawn": (E.RedrawnBinsDpEvent(2.0, 7, 3), "add", MixturePlan(ByShift(-2.5))),
    "redrawn": (E.RedrawnBinsDpEvent(2.0, 7, 3), "remove", MixturePlan(ByOrder(3))),
    "redrawn, scaled": (E.RedrawnBinsDpEvent(2.0, 7, 3), "remove", MixturePlan(ByScale(1.5, 1.0))),
    "occupancy": (CORRELATED, "remove", MixturePlan(ByOrder(3))),
    "scaled, correlated": (CORRELATED, "remove", MixturePlan(ByScale(2.0, 1.0))),
    "ring": (RING, "remove", MixturePlan(ByOrder(5))),
    "ring beside a window": (RING, "remove", MixturePlan(ByOrder(5), beside=ByWindow(4, 3, 2.0), share=0.6)),
    "shift, correlated": (CORRELATED, "add", MixturePlan(ByShift(-3.0))),
    "chain": (CHAIN, "remove", MixturePlan(ByOrder(3))),
    "chain, scaled": (CHAIN, "remove", MixturePlan(ByScale(2.0, 2.4))),
    "chain, cold": (COLD, "remove", MixturePlan(ByScale(1.5, 2.5))),
    "chain, cold order": (COLD, "remove", MixturePlan(ByOrder(2))),
    "chain, columns": (COLUMNS, "remove", MixturePlan(ByOrder(2))),
    "chain, steep": (E.BMinSepDpEvent(0.02, 6, 2, 0.3, True, (1.0, 0.5)), "remove", PLAIN),
    "chain, below floats": (E.BMinSepDpEvent(0.02, 4, 2, 1.0, False), "add", MixturePlan(ByShift(-0.04))),
    "chain, steep order": (E.BMinSepDpEvent(0.21, 4, 4, 0.3, True, (1.0, 0.6, 0.3)), "remove", MixturePlan(ByOrder(5))),
    "chain, shift": (CHAIN, "add", MixturePlan(ByShift(-2.0))),
    "chain, certain": (E.BMinSepDpEvent(1.5, 24, 3, 1.0, False, (1.0, 0.5)), "remove", MixturePlan(ByScale(1.5, 1.0))),
    "with a step on a line": (
        dp_event.ComposedDpEvent([BINS, evr.dpsgd(noise_multiplier=2.0, sampling_probability=0.1, steps=3)]),
        "remove",
        MixturePlan(ByOrder(3)),
    ),
}
case = pytest.mark.parametrize("name", CASES)


def proposal_of(name, *, by_place=True):
    event, direction, plan = CASES[name]
    steps = Composition.of(event).simplified(Direction(direction))
    line = StepPlan(Tilt(1.0, 50.0, -1.0), tuple(np.linspace(-8.0, 8.0, 400).tolist()))
    kinds = (line,) * sum(step.is_on_a_line for step in steps)
    found = built(replace(plan, kinds=kinds, by_place=by_place), steps)
    assert isinstance(found, MixtureProposal)
    return found


def block(number=3):
    return Stream(1, "test").block(number)


@pytest.fixture(scope="module")
def built_bench(tmp_path_factory):
    return HostBench(tmp_path_factory.mktemp("cuda"))


@pytest.fixture
def bench(built_bench, monkeypatch):
    monkeypatch.setattr(kernels, "launch", built_bench.launch)
    kernels.serve(Array, built_bench.arrays)
    return built_bench


def on_host(proposal, bench):
    """As on a GPU, in a few spans."""
    return moved(proposal, bench.arrays, 3000)


@case
def test_other_arrays_and_kernels_draw_the_numbers_of_numpy(bench, name):
    proposal, size = proposal_of(name), 220
    expected = proposal.draw(block(), size)
    found = on_host(proposal, bench).draw(block(), size)
    losses, log_weights = found.losses.held, found.log_weights.held
    np.testing.assert_allclose(losses, expected.losses, rtol=1e-10, atol=1e-11)
    held = expected.log_weights > -math.inf
    np.testing.assert_array_equal(log_weights > -math.inf, held)
    assert held.sum() > size / 4
    np.testing.assert_allclose(log_weights[held], expected.log_weights[held], rtol=1e-10, atol=1e-9)
    values = expected.values(0.1, -1.0)
    one = summarize(values, 0, 5.0, 0.9, 0.1)
    other = summarize(found.values(0.1, -1.0), 0, 5.0, 0.9, 0.1)
    np.testing.assert_allclose(other[2:7], one[2:7], rtol=1e-9)


@pytest.mark.parametrize("name", ["ring", "chain", "chain, steep"])
@pytest.mark.parametrize("place", [0, 1])
def test_what_is_not_a_number_stays_that(bench, name, place, monkeypatch):
    """A coordinate that is none makes a loss that is none, refused draws apart."""
    there = on_host(proposal_of(name), bench)
    (component,) = there.laws[0].components
    correct = component.draw

    def wrong(generator, size):
        x = correct(generator, size)
        refused = np.isnan(x.held[:, 0])
        x.held[~refused, place] = math.nan
        if place == 0:
            component.refuses = False
        return x

    monkeypatch.setattr(component, "draw", wrong)
    found = there.draw(block(), 50)
    held = found.log_weights.held != -math.inf
    assert held.any()
    assert np.isnan(found.losses.held[held]).all()
    assert np.isnan(found.log_weights.held[held]).all()


def test_arrays_are_as_strict_as_those_of_a_gpu(bench):
    one = bench.arrays.zeros(3)
    for wrong in (lambda: one + np.zeros(3), lambda: np.asarray(one), lambda: one[np.arange(2)]):
        with pytest.raises(TypeError):
            wrong()
    assert module_of(np.exp(one)) is bench.arrays


@pytest.mark.skipif(why_not() is not None, reason="no GPU here")
@case
def test_a_gpu_draws_the_numbers_of_numpy(name):
    proposal = proposal_of(name)
    assert cuda.draws(proposal)
    work = Work(proposal, Stream(1, "test"), 5000, 0.1, -1.0, math.inf, 5.0, 0.9, on_gpu)
    expected, found = on_processor(work, 3, 4500, 0.1), on_gpu(work, 3, 4500, 0.1)
    assert on_gpu(work, 3, 4500, 0.1) == found
    np.testing.assert_allclose(found[2:7], expected[2:7], rtol=1e-9)


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

    right = Counter.words

    def words(self, call, sample, part):
        counters = np.broadcast_arrays(*map(np.asarray, (call, sample, part)))
        where = np.broadcast_to(np.array([*self.key, self.block]), (counters[0].size, 3))
        used.append(np.column_stack([where, *(x.reshape(-1) for x in counters)]))
        return right(self, call, sample, part)

    monkeypatch.setattr(Counter, "words", words)
    proposal = proposal_of(name)
    proposal.line = None
    proposal.draw(block(), 300)
    places = np.concatenate(used)
    assert len(np.unique(places, axis=0)) == len(places)
    assert places[:, 4].max() < 300 * proposal.laws[0].count


def test_every_part_and_table_is_among_the_cases():
    parts = [part for name in CASES for own in proposal_of(name).laws for part in own.components]
    kinds = {Replicas, LocalBins, ScaledBins, ScaledChain, Shifted}
    assert {type(part) for part in parts} == kinds
    tables = {type(part.table) for part in parts if hasattr(part, "table")}
    assert {OccupancyTable, RingTable} <= tables


def test_a_plan_says_that_parts_are_drawn_by_place():
    proposal = proposal_of("scaled")
    again = DrawPlan.from_json(DrawPlan(proposal.plan).to_json()).proposal
    assert again == proposal.plan
    assert again.by_place
    plain = proposal_of("scaled", by_place=False)
    assert not plain.plan.by_place
    assert proposal.rounding(1.0).loss > plain.rounding(1.0).loss


def test_more_copies_than_have_places_are_refused():
    event = E.RedrawnBinsDpEvent(2.0, 3, MOST_COPIES + 1)
    steps = Composition.of(event).simplified(Direction.REMOVE)
    with pytest.raises(ValueError, match="have no counters"):
        built(MixturePlan(ByOrder(2), by_place=True), steps)
