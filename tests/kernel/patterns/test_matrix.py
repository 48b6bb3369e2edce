"""Matrix mechanisms with random participation: laws, tables, samples, estimates, verification.

Oracles of Section 8 of the notes: quadratures, privacy losses of JAX Privacy (commit 8967688), and
plain sampling in as many dimensions as there are steps.
"""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest
from dp_accounting import dp_event
from mpmath import mp

import evr
from conformance.proposal_checks import check_bounds, check_mean, check_order
from evr._basics.randomness import Stream
from evr._estimate.mixtures import mixture_proposal
from evr._kernel.events import Composition
from evr._kernel.pairs import Direction, Step
from evr._kernel.pairs.patterns.bins import CorrelatedBins, IndependentBins
from evr._kernel.pairs.patterns.law import PatternLaw
from evr._kernel.pairs.patterns.min_sep import Chain, MinSep
from evr._kernel.pairs.patterns.strategy import Strategy
from evr._kernel.sampled import components, replica_tables
from evr._kernel.sampled.chain_table import ChainTable
from evr._kernel.sampled.components import component_of, log_hoelder, with_odds
from evr._kernel.sampled.mixtures import MixtureProposal
from evr._kernel.sampled.plan import ByOrder, ByScale, ByShift, ByWindow, DrawPlan, MixturePlan
from evr._kernel.sampled.proposals import built
from evr._kernel.sampled.replica_tables import OccupancyTable, table_of
from evr._kernel.sampled.ring_table import RingTable, ring_sums
from helpers import assert_mean_within, near
from kernel.patterns.exact_small import bins_linear, delta_by_quadrature, dense, gram_of
from kernel.patterns.small_events import BAND, EVENTS, exact_delta

E = evr.events
REMOVE, ADD = Direction.REMOVE, Direction.ADD


def root_column(bands: int) -> tuple[float, ...]:
    """The column of a square root of the matrix of prefix sums, cut and of norm 1."""
    column = [1.0]
    for j in range(1, bands):
        column.append(column[-1] * (2 * j - 1) / (2 * j))
    return tuple((np.array(column) / np.linalg.norm(column)).tolist())


def correlated(direction: Direction, bins: int, steps: int, noise: float) -> CorrelatedBins:
    return CorrelatedBins(direction, noise, bins, Strategy.of(BAND, steps))


def min_sep(direction: Direction, *, warm: bool, probability: float = 0.5) -> MinSep:
    return MinSep(direction, 1.5, 2, probability, warm, Strategy.of(BAND, 3))


# --- laws: somebody else's numbers ----------------------------------------------------------------


@pytest.mark.parametrize(
    ("z", "column", "loss"),
    [
        ((1, 0, 1, 0), (1.0,), 0.4337808304830272),
        ((1, 0.5, 1, 0.5), (1.0, 0.5), 0.9052974004451105),
        ((1, 1, 1, 1), (1.0, 1.0, 0.5, 0.5), 1.5799760835798948),
    ],
)
def test_losses_of_bins_are_those_of_jax_privacy(z: tuple[float, ...], column: tuple[float, ...], loss: float) -> None:
    strategy = Strategy.of(column, 4)
    law = CorrelatedBins(REMOVE, 1.0, 2, strategy)
    patterns = np.array([[1, 0, 1, 0], [0, 1, 0, 1]], float)
    coordinates = strategy.applied(patterns) @ np.array(z)
    assert law.log_ratio(coordinates[None, :])[0] == near(loss, abs=1e-12)


@pytest.mark.parametrize(
    ("column", "warm", "loss"),
    [
        ((1.0,), False, 0.6070560625306676),
        ((1.0, 0.5), False, 0.9239798890121712),
        ((1.0, 0.5), True, 0.8329398380809252),
    ],
)
def test_losses_of_min_sep_are_those_of_jax_privacy(column: tuple[float, ...], warm: bool, loss: float) -> None:
    strategy = Strategy.of(column, 3)
    law = MinSep(REMOVE, 1.0, 2, 0.5, warm, strategy)
    coordinates = strategy.correlated(np.ones((1, 3)))
    assert law.log_ratio(coordinates)[0] == near(loss, abs=1e-12)


QUADRATURE = {  # of somebody else: remove and add at epsilon
    "bins": {
        1.0: (1.055605e-1, 1.046874e-1),
        2.0: (1.397956e-2, 1.343551e-2),
        3.0: (7.53251e-4, 6.687391e-4),
        4.0: (1.590083e-5, 1.195892e-5),
    },
    "cold": {1.0: (2.48562777e-2, 5.63966975e-3), 2.0: (8.62629705e-4, 0.0)},
    "warm": {1.0: (1.63077449e-2, 1.90491511e-3), 2.0: (3.23590770e-4, 0.0)},
}


@pytest.mark.parametrize("name", QUADRATURE)
def test_quadratures_agree(name: str) -> None:
    for epsilon, expected in QUADRATURE[name].items():
        for direction, value in zip(("remove", "add"), expected, strict=True):
            found = exact_delta(name, epsilon, direction)
            assert found == near(value, rel=2e-6, abs=1e-7)


@pytest.mark.parametrize("name", QUADRATURE)
def test_estimates(name: str) -> None:
    for epsilon, expected in QUADRATURE[name].items():
        for direction, value in zip(("remove", "add"), expected, strict=True):
            if epsilon in (1.0, 3.0) or value == 0.0:
                found = evr.estimate_delta(EVENTS[name], epsilon, direction=direction)
                assert found.value == near(value, abs=4 * (found.standard_error or 0.0) + 1e-15)
                assert (found.standard_error or 0.0) <= 0.0031 * value + 1e-15
                assert found.method == "monte_carlo"


PLAIN = [  # of somebody else, by plain sampling: event, epsilon, remove, its standard error
    (E.BallsInBinsDpEvent(2.0, 100, 20, root_column(6)), 1.0, 1.746e-2, 0.012e-2),
    (E.BMinSepDpEvent(2.0, 200, 8, 0.05, True, root_column(8)), 1.0, 2.723e-2, 0.011e-2),
]


@pytest.mark.full
@pytest.mark.parametrize(("event", "epsilon", "expected", "error"), PLAIN, ids=["bins", "min_sep"])
def test_estimates_against_plain_sampling_of_somebody_else(
    event: dp_event.DpEvent, epsilon: float, expected: float, error: float
) -> None:
    found = evr.estimate_delta(event, epsilon, method="monte_carlo", direction="remove", samples=30_000, seed=3)
    assert abs(found.value - expected) <= 4 * math.hypot(error, found.standard_error or 0.0)


# --- limits ---------------------------------------------------------------------------------------


def test_certain_participation_from_a_warm_start_has_the_losses_of_bins() -> None:
    strategy, generator = Strategy.of((1.0, 0.6, 0.3), 20), np.random.default_rng(1)
    z = generator.standard_normal((50, 20))
    chain = MinSep(REMOVE, 1.3, 5, 1.0, True, strategy)
    bins = CorrelatedBins(REMOVE, 1.3, 5, strategy)
    patterns = np.array([[float(i % 5 == j) for i in range(20)] for j in range(5)])
    ratios = bins.log_ratio(z @ strategy.applied(patterns).T / 1.3)
    np.testing.assert_allclose(chain.log_ratio(strategy.correlated(z) / 1.3), ratios, rtol=1e-12)
    assert chain.mean.energy == near(bins.mean.energy, rel=1e-12)
    assert chain.mean.square == near(bins.mean.square, rel=1e-12)


def test_a_separation_of_one_step_has_the_losses_of_poisson_sampling() -> None:
    law = MinSep(REMOVE, 1.3, 1, 0.2, False, Strategy.of((1.0,), 12))
    z = np.random.default_rng(2).standard_normal((50, 12))
    product = np.log(0.8 + 0.2 * np.exp(z / 1.3 - 1 / (2 * 1.3**2))).sum(axis=1)
    np.testing.assert_allclose(law.log_ratio(z / 1.3), product, rtol=1e-12)


def test_larger_inner_products_dominate() -> None:
    """More bands, all else equal: entry by entry a larger Gram matrix."""
    gram = gram_of(BAND, [[0, 2], [1, 3]], 4, 1.5)
    for direction, epsilon in itertools.product(("remove", "add"), (0.5, 1.5, 3.0)):
        deltas = [
            delta_by_quadrature(gram + more * np.ones((2, 2)), bins_linear(2), epsilon, direction)
            for more in (0.0, 0.1, 0.3)
        ]
        assert deltas == sorted(deltas)


# --- tables ---------------------------------------------------------------------------------------


def replica_sum(gram: np.ndarray, bins: list[int], order: int) -> float:
    """``M_k`` by enumeration."""
    total = 0.0
    for replicas in itertools.product(bins, repeat=order):
        total += math.exp(sum(gram[i, j] for i, j in itertools.combinations(replicas, 2)))
    return total / len(bins) ** order


SIX = CorrelatedBins(REMOVE, 1.5, 6, Strategy.of((1.0, 0.6, 0.3), 14))
GRAM = SIX.gram


@pytest.mark.parametrize("order", [2, 3, 4])
def test_moments_of_few_bins_by_enumeration(order: int) -> None:
    found = math.exp(OccupancyTable(SIX, order).log_moment)
    assert found == near(replica_sum(GRAM, list(range(6)), order), rel=1e-12)


@pytest.mark.parametrize("order", [2, 3])
def test_moments_of_a_ring_by_enumeration(order: int) -> None:
    """The table's moment is that of the greatest inner products; what is accepted, and where the
    replicas are, is right for the inner products themselves.
    """
    greatest, reach = SIX.greatest, 3
    assert greatest.size == reach
    ring = [[min((i - j) % 6, (j - i) % 6) for j in range(6)] for i in range(6)]
    above = np.array([[greatest[d] if d < reach else 0.0 for d in row] for row in ring])
    table = RingTable(SIX, order)
    moment = math.exp(table.log_moment)
    assert moment == near(replica_sum(above, list(range(2, 6)), order), rel=1e-12)
    assert moment >= replica_sum(GRAM, list(range(6)), order)
    occupancies, pulled, accepted = table.draw(np.random.default_rng(1), 40_000)
    assert np.all(occupancies.sum(axis=1) == order)
    np.testing.assert_allclose(pulled, occupancies @ GRAM, rtol=1e-14)
    windows = [[(first + t) % 6 for t in range(4)] for first in range(6)]
    chance = sum(replica_sum(GRAM, one, order) for one in windows) / 6 / moment
    assert_mean_within(accepted.astype(float), chance, 1e-7)
    pairs = [
        math.exp(sum(GRAM[i, j] for i, j in itertools.combinations(x, 2))) * x.count(0)
        for one in windows
        for x in itertools.product(one, repeat=order)
    ]
    in_first = sum(pairs) / len(windows) / 4**order / moment
    assert_mean_within(np.where(accepted, occupancies[:, 0], 0).astype(float), in_first, 1e-7)


@pytest.mark.parametrize(("order", "window"), [(2, 1), (3, 2), (2, 3), (3, 3)])
def test_moments_of_a_window_by_enumeration(order: int, window: int) -> None:
    """Of a dense matrix too: within half of a ring, chain distances are ring distances."""
    law = CorrelatedBins(REMOVE, 2.0, 6, Strategy.of((1.0, 0.7, 0.6, 0.5, 0.4, 0.3), 14))
    table = RingTable(law, order, window)
    ring = [[min((i - j) % 6, (j - i) % 6) for j in range(6)] for i in range(6)]
    above = np.array([[law.greatest[d] for d in row] for row in ring])
    moment = math.exp(table.log_moment)
    assert moment == near(replica_sum(above, list(range(window)), order), rel=1e-12)
    occupied, _, accepted = table.draw(np.random.default_rng(1), 40_000)
    assert np.all(occupied.sum(axis=1) == order)
    places = [[(first + t) % 6 for t in range(window)] for first in range(6)]
    chance = sum(replica_sum(law.gram, one, order) for one in places) / 6 / moment
    assert_mean_within(accepted.astype(float), chance, 1e-7)


def test_bins_that_do_not_reach_each_other() -> None:
    """A matrix with one band that is no multiple of the identity."""
    strategy = Strategy.of(tuple((1.0 + 0.1 * i,) for i in range(8)), 8)
    law = CorrelatedBins(REMOVE, 1.0, 4, strategy)
    assert law.greatest.tolist() == [law.gram.max()]
    found = math.exp(RingTable(law, 3).log_moment)
    greatest = np.eye(4) * law.gram.max()
    assert found == near(replica_sum(greatest, list(range(4)), 3), rel=1e-12)


@pytest.mark.parametrize(("bins", "order"), [(2, 3), (3, 4), (3, 2), (5, 3)])
def test_moments_of_independent_bins_by_enumeration(bins: int, order: int) -> None:
    """Listed up to the order of bins, and as a ring of which no bin is left out."""
    law = IndependentBins(REMOVE, bins, 0.7)
    listed, ring = OccupancyTable(law, order), RingTable(law, order)
    total = replica_sum(0.7 * np.eye(bins), list(range(bins)), order)
    assert listed.log_moment == near(math.log(total), rel=1e-13)
    assert ring.log_moment == near(math.log(total), rel=1e-13)
    occupied, pulled, accepted = ring.draw(np.random.default_rng(1), 20_000)
    assert accepted.all()
    np.testing.assert_allclose(pulled, 0.7 * occupied, rtol=1e-14)
    all_in_one = bins * math.exp(0.7 * order * (order - 1) / 2) / bins**order / total
    for drawn in (occupied, listed.draw(np.random.default_rng(1), 20_000)):
        assert_mean_within((drawn.max(axis=1) == order).astype(float), all_in_one, 1e-7)


def test_many_independent_bins_have_no_matrix() -> None:
    """Of 100,000 bins it would have 80 GB. For so many, ``M_k`` is that of ``E[A^j]`` and 1/b."""
    law = IndependentBins(REMOVE, 100_000, 0.7)
    b, one = 1e5, math.exp(0.7)
    moment = (one**3 + 3 * (b - 1) * one + (b - 1) * (b - 2)) / b**2
    assert OccupancyTable(law, 3).log_moment == near(math.log(moment), rel=1e-10)
    block = mixture(law, MixturePlan(ByOrder(3))).draw(Stream(1, "test").block(0), 2)
    assert np.all(np.isfinite(block.losses))


def chain_patterns(steps: int, separation: int, p: float, warm: bool) -> dict[tuple[int, ...], float]:
    """All patterns with their probabilities."""
    found: dict[tuple[int, ...], float] = {}

    def walk(i: int, taken: tuple[int, ...], chance: float) -> None:
        if i >= steps:
            found[taken] = found.get(taken, 0.0) + chance
            return
        walk(i + 1, taken, chance * (1 - p))
        walk(i + separation, (*taken, i), chance * p)

    whole = 1 + (separation - 1) * p
    walk(0, (), 1 / whole if warm else 1.0)
    for late in range(1, separation if warm else 1):
        walk(late, (), p / whole)
    return found


@pytest.mark.parametrize("warm", [True, False])
@pytest.mark.parametrize("order", [2, 3])
def test_moments_of_chains_by_enumeration(warm: bool, order: int) -> None:
    law = MinSep(REMOVE, 1.4, 3, 0.3, warm, Strategy.of((1.0, 0.5, 0.25), 7))
    patterns = chain_patterns(7, 3, 0.3, warm)
    taken = np.array([[float(i in x) for i in range(7)] for x in patterns])
    chances = np.array(list(patterns.values()))
    means = law.strategy.applied(taken) / 1.4
    pull = np.exp(means @ means.T)
    spec = {2: "i,j,ij->", 3: "i,j,l,ij,il,jl->"}[order]
    factors = [chances] * order + [pull] * (1 if order == 2 else 3)
    moment = float(np.einsum(spec, *factors))
    table = ChainTable(law.overlaps, 3, 0.3, warm, order)
    assert math.exp(table.log_moment) == near(moment, rel=1e-12)
    if order == 2:
        drawn = table.draw(np.random.default_rng(3), 40_000)
        expected = 2 * np.einsum("i,j,ij,in->n", chances, chances, pull, taken) / moment
        for step in range(7):
            assert_mean_within(drawn[:, step].astype(float), float(expected[step]), 1e-8)


@pytest.mark.parametrize("warm", [True, False])
def test_hoelder_by_enumeration(warm: bool) -> None:
    """``H`` of 5.3 over starts and patterns, and the inequality at draws."""
    law = MinSep(REMOVE, 1.0, 3, 0.3, warm, Strategy.of((1.0, 0.5, 0.25), 7))
    u, other = 2.5, 0.6

    def extended(p: float) -> dict[tuple[int, tuple[int, ...]], float]:
        whole = 1 + 2 * p
        starts = {0: 1 / whole, 1: p / whole, 2: p / whole} if warm else {0: 1.0}
        found: dict[tuple[int, tuple[int, ...]], float] = {}

        def walk(start: int, i: int, taken: tuple[int, ...], chance: float) -> None:
            if i >= 7:
                found[start, taken] = found.get((start, taken), 0.0) + chance
                return
            walk(start, i + 1, taken, chance * (1 - p))
            walk(start, i + 3, (*taken, i), chance * p)

        for start, chance in starts.items():
            walk(start, start, (), chance)
        return found

    mine, theirs = extended(0.3), extended(other)
    total = sum(
        w * (w / theirs[key]) ** (1 / (u - 1)) * math.exp(u * law.energies[list(key[1])].sum() / 2)
        for key, w in mine.items()
    )
    log_h = log_hoelder(law, other, u)
    assert log_h == near(math.log(total), rel=1e-12)
    odds = other / 0.4 / (0.3 / 0.7)
    assert with_odds(0.3, odds) == near(other, rel=1e-15)
    part = components.ScaledChain(law, u, odds)
    v = law.shifted(np.random.default_rng(1), law.chain.draw(np.random.default_rng(2), 2000))
    log_ratio = law.log_ratio(v)
    assert np.all(u * log_ratio <= part.log_density(v, log_ratio) + (u - 1) * log_h + 1e-9)


def test_ring_sums() -> None:
    values = np.random.default_rng(0).random((3, 11))
    for length in (1, 2, 3, 6, 7, 9, 10, 11):
        by_hand = np.array([[sum(row[(s + t) % 11] for t in range(length)) for s in range(11)] for row in values])
        np.testing.assert_allclose(ring_sums(values, length), by_hand, rtol=1e-14)


def test_products_in_blocks() -> None:
    """With ``C`` and its transpose: as with the whole matrix, however it is cut."""
    drawn = np.random.default_rng(1)
    for size, bands in ((5, 2), (32, 4), (33, 5), (100, 64), (129, 33)):
        column = tuple(drawn.random(bands) + 0.1)
        columns = tuple(tuple(drawn.random(min(bands, size - i)) + 0.1) for i in range(size))
        for strategy in (Strategy.of(column, size), Strategy.of(columns, size)):
            rows, matrix = drawn.normal(size=(3, size)), dense(strategy)
            np.testing.assert_allclose(strategy.applied(rows), rows @ matrix.T, atol=1e-12)
            np.testing.assert_allclose(strategy.correlated(rows), rows @ matrix, atol=1e-12)


def test_a_chain_of_replicas_is_drawn_step_by_step() -> None:
    """As with all weights of each step, from the same numbers."""
    law = MinSep(REMOVE, 2.0, 3, 0.2, True, Strategy.of((0.8, 0.6), 50))
    table = table_of(law, 4)
    assert isinstance(table, ChainTable)
    found = table.draw(np.random.default_rng(2), 300)
    generator = np.random.default_rng(2)
    cumulated = np.cumsum(table._first * table.values[0])
    state = np.searchsorted(cumulated, generator.random(300) * cumulated[-1], side="right")
    for step in range(50):
        weights = table.weights(state, step) * table.values[step + 1][table.next[state]]
        sums = np.cumsum(weights, axis=1)
        drawn = generator.random(300) * sums[:, -1]
        chosen = (drawn[:, None] >= sums[:, :-1]).sum(axis=1)
        np.testing.assert_array_equal(found[:, step], chosen)
        state = table.next[state, chosen]


# --- samples --------------------------------------------------------------------------------------


def mixture(law: PatternLaw, plan: MixturePlan, count: int = 1) -> MixtureProposal:
    return MixtureProposal(plan, [Step(law, count)])


BINS, BINS_ADD = correlated(REMOVE, 4, 8, 1.2), correlated(ADD, 4, 8, 1.2)
CHAIN, CHAIN_ADD = min_sep(REMOVE, warm=True), min_sep(ADD, warm=True)
BOTH = MixturePlan(ByOrder(4), beside=ByWindow(3, 2, 1.5), share=0.3)
PARTS: dict[str, tuple[PatternLaw, MixturePlan]] = {
    "scaled": (BINS, MixturePlan(ByScale(2.0, 1.0))),
    "order": (BINS, MixturePlan(ByOrder(4))),
    "order beside a window": (BINS, BOTH),
    "scaled beside a window": (BINS, MixturePlan(ByScale(2.0, 1.0), beside=ByWindow(2, 1, 1.0), share=0.5)),
    "ring": (BINS, MixturePlan(ByOrder(3))),
    "ring beside a window": (BINS, replace(BOTH, share=0.4)),
    "shift": (BINS_ADD, MixturePlan(ByShift(-2.0))),
    "chain": (CHAIN, MixturePlan(ByScale(2.0, 2.0))),
    "plain chain": (CHAIN, MixturePlan(ByScale(1.0, 1.0))),
    "order of a chain": (CHAIN, MixturePlan(ByOrder(5))),
    "order of a chain beside scaled means": (CHAIN, MixturePlan(ByOrder(5), beside=ByScale(2.0, 3.0), share=0.2)),
    "shift of a chain": (CHAIN_ADD, MixturePlan(ByShift(-3.0))),
}
EPSILON = 1.0


def exact_of(law: PatternLaw) -> float:
    direction = law.direction.value
    if isinstance(law, MinSep):
        return exact_delta("warm", EPSILON, direction)
    gram = gram_of(BAND, [[0, 4], [1, 5], [2, 6], [3, 7]], 8, 1.2)
    return delta_by_quadrature(gram, bins_linear(4), EPSILON, direction)


@pytest.fixture
def proposal(request: pytest.FixtureRequest) -> Iterator[MixtureProposal]:
    law, plan = PARTS[request.param]
    replica_tables.table_of.cache_clear()
    with pytest.MonkeyPatch.context() as patch:
        if "ring" in request.param:
            patch.setattr(OccupancyTable, "is_affordable", staticmethod(lambda law, order: False))
        yield mixture(law, plan)
    replica_tables.table_of.cache_clear()


@pytest.mark.parametrize("proposal", PARTS, indirect=True)
def test_samples(proposal: MixtureProposal) -> None:
    """Their mean is delta, none is above its bound, and order carries no information; and a plan is all it takes."""
    delta = exact_of(proposal.laws[0].law)
    block = proposal.draw(Stream(5, "test").block(0), 40_000)
    check_mean(block, EPSILON, delta)
    check_bounds(proposal, block, EPSILON, delta)
    check_order(block, EPSILON, delta)
    plan = DrawPlan.from_json(json.loads(json.dumps(DrawPlan(proposal.plan).to_json())))
    again = built(plan.proposal, proposal.steps).draw(Stream(5, "test").block(0), 40_000)
    for a, b in zip(block, again, strict=True):
        np.testing.assert_array_equal(a, b)


def test_estimates_of_chains_draw_scaled_means_beside_an_order() -> None:
    """It took four times as long. A verification goes on as before."""
    column = np.array(evr.events.square_root_strategy(8))
    event = evr.events.BMinSepDpEvent(5.0, 200, 8, 0.05, True, tuple(column / np.linalg.norm(column)))
    steps = Composition.of(event).simplified(REMOVE)
    assert mixture_proposal(steps, 1.0).plan.beside is not None
    assert mixture_proposal(steps, 1.0, 1e-6, 1.1e-6).plan.beside is None


@pytest.mark.parametrize("component", [0, 1])
@pytest.mark.parametrize("proposal", PARTS, indirect=True)
def test_mutations_are_seen(proposal: MixtureProposal, component: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A wrong density does not pass the checks above."""
    if component == len(proposal.shares):
        pytest.skip("there is one component")
    part = proposal.laws[0].components[component]
    right = part.log_density
    less = 0.4 * len(proposal.shares) ** 2
    monkeypatch.setattr(part, "log_density", lambda x, y: right(x, y) - less)
    with pytest.raises(AssertionError, match="the mean is"):
        check_mean(proposal.draw(Stream(5, "test").block(0), 40_000), EPSILON, exact_of(proposal.laws[0].law))


@pytest.mark.parametrize("proposal", PARTS, indirect=True)
def test_a_bound_that_is_too_low_is_seen(proposal: MixtureProposal) -> None:
    if proposal.plan.part == ByScale(1.0, 1.0):
        pytest.skip("the bound of plain samples is 1")
    block = proposal.draw(Stream(5, "test").block(0), 40_000)
    for part in proposal.laws[0].components:
        part.log_normaliser -= 8.0
    with pytest.raises(AssertionError, match="B is"):
        check_bounds(proposal, block, EPSILON, exact_of(proposal.laws[0].law))


def test_parts_that_cannot_be() -> None:
    for law, part, message in (
        (BINS, ByOrder(60), "no affordable table"),
        (BINS, ByOrder(1), "no affordable table"),
        (BINS, ByScale(0.9, 1.0), "not above 1, up to"),
        (BINS, ByScale(math.inf, 1.0), "not above 1, up to"),
        (BINS, ByScale(1.0, 2.0), "nor 1 with odds of 1"),
        (BINS, ByShift(-1.0), "'remove' of 4 bins.* has no part ByShift"),
        (BINS_ADD, ByOrder(3), "'add' of 4 bins.* has no part ByOrder"),
        (BINS_ADD, ByWindow(3, 2, 1.5), "has no part ByWindow"),
        (BINS_ADD, ByShift(1.0), "is not from .* to 0"),
        (BINS_ADD, ByShift(-math.inf), "is not from .* to 0"),
        (CHAIN, ByScale(2.0, math.inf), "no probability"),
        (CHAIN, ByScale(2.0, 0.0), "no probability"),
        (CHAIN, ByScale(2.0, 1e300), "no probability"),
        (CHAIN, ByWindow(3, 2, 1.5), "has no part ByWindow"),
        (BINS, ByWindow(3, 2, -1.0), "needs bins and a shift from 0"),
        (BINS, ByWindow(3, 2, math.inf), "needs bins and a shift from 0"),
        (BINS, ByWindow(3, 3, 1.5), "with window=3 has no affordable table"),
        (BINS, ByWindow(3, 0, 1.5), "with window=0 has no affordable table"),
        (BINS, ByWindow(3, -1, 1.5), "with window=-1 has no affordable table"),
        (BINS, ByWindow(1, 2, 1.5), "order=1 with window=2 has no affordable table"),
    ):
        with pytest.raises(ValueError, match=message):
            component_of(law, part)
    for share in (0.0, 1.0, math.nan):
        with pytest.raises(ValueError, match=f"share={share} is not between 0 and 1"):
            replace(BOTH, share=share)
    with pytest.raises(ValueError, match="with nothing beside, not 1"):
        MixturePlan(ByOrder(3), share=0.5)


# --- verification ---------------------------------------------------------------------------------

SCHEMES = {
    "bins": (E.BallsInBinsDpEvent(1.5, 20, 10, BAND), 2.0),
    "bins, general": (E.BallsInBinsDpEvent(2.0, 12, 4, tuple((1.0, 0.1 * (i % 3)) for i in range(12))), 1.0),
    "dense": (E.BallsInBinsDpEvent(3.0, 20, 4, root_column(20)), 1.5),
    "min_sep": (E.BMinSepDpEvent(1.5, 16, 4, 0.2, True, root_column(4)), 2.0),
    "with a histogram": (
        dp_event.ComposedDpEvent([dp_event.LaplaceDpEvent(4.0), E.BallsInBinsDpEvent(2.5, 30, 6, root_column(2))]),
        2.0,
    ),
    "two trainings": (
        dp_event.ComposedDpEvent(
            [
                E.BallsInBinsDpEvent(2.5, 30, 6, root_column(2)),
                E.BMinSepDpEvent(2.0, 20, 4, 0.2, False, BAND),
                E.BallsInBinsDpEvent(3.0, 20, 10),
                dp_event.GaussianDpEvent(5.0),
            ]
        ),
        2.0,
    ),
}


FULL = ("two trainings", "min_sep", "with a histogram")


@pytest.mark.parametrize("name", [pytest.param(name, marks=[pytest.mark.full] * (name in FULL)) for name in SCHEMES])
def test_verification(name: str) -> None:
    event, epsilon = SCHEMES[name]
    delta = evr.estimate_delta(event, epsilon)
    accepted = evr.verify(event, epsilon=epsilon, delta=delta.value / 0.8, tau=0.8, seed=1)
    assert accepted.verdict is evr.proving.Verdict.ACCEPTED
    assert accepted.guarantee == evr.Guarantee(epsilon, delta.value / 0.8)
    low = 0.75 * delta.value
    rejected = evr.verify(event, epsilon=epsilon, delta=low / 0.8, tau=0.8, seed=2, max_samples=60_000)
    assert rejected.verdict is evr.proving.Verdict.REJECTED
    report = accepted.directions[delta.direction]
    error = math.hypot(report.standard_error, delta.standard_error or 0.0)
    assert abs(report.estimate - delta.value) < 5 * error


def test_the_fixed_verifier() -> None:
    event = E.BallsInBinsDpEvent(1.5, 4, 2, BAND)
    found = evr.verify(event, epsilon=2.0, delta=0.02795912, tau=0.5, method="fixed", seed=1)
    assert found.verdict is evr.proving.Verdict.ACCEPTED
    assert found.directions["remove"].samples > 100


@pytest.mark.parametrize(
    ("epsilon", "delta", "tau", "remedy"),
    [
        (4.0, 2.08e-12, 0.9999, r"lower tau \(now 0.9999\), draw on a GPU"),
        (6.0, 3.46e-19, 0.99999, r"lower tau \(now 0.99999\), or set max_samples"),
    ],
)
def test_dense_noise_that_nobody_waits_for(epsilon: float, delta: float, tau: float, remedy: str) -> None:
    """No ring of replicas is affordable, and the star that is left would take billions of samples."""
    event = E.BallsInBinsDpEvent(1.5, 60, 30, (1.0, *[0.05] * 59))
    with pytest.raises(ValueError, match=f"would take about .* samples.*{remedy}"):
        evr.verify(event, epsilon=epsilon, delta=delta / tau, tau=tau, seed=1)


def test_plain_sampling() -> None:
    for event, delta in ((EVENTS["bins"], 1.055605e-1), (EVENTS["cold"], 2.48562777e-2)):
        found = evr.verify(event, epsilon=1.0, delta=delta / 0.8, tau=0.8, proposal="simple", seed=1)
        assert found.verdict is evr.proving.Verdict.ACCEPTED
        assert found.directions["remove"].bound == near(1.0, abs=0.01)


@pytest.mark.parametrize("name", ["bins", "min_sep"])
def test_certificates_replay(name: str, tmp_path: object) -> None:
    event = {"bins": E.BallsInBinsDpEvent(1.5, 4, 2, BAND), "min_sep": E.BMinSepDpEvent(1.0, 4, 2, 0.5, True, BAND)}[
        name
    ]
    epsilon, ledger = 1.0, f"{tmp_path}/ledger.sqlite"
    certificate = evr.certify(event, epsilon=epsilon, tau=0.7, ledger=ledger, seed=1)
    assert certificate.accepted
    assert evr.replay(certificate).agrees
    assert "noise correlated by a Toeplitz strategy" in certificate.statement


def test_one_curve_is_one_set_of_samples() -> None:
    event = E.BallsInBinsDpEvent(1.5, 12, 3, BAND)
    curve = evr.privacy_curve(event, [0.9, 0.95, 1.0], direction="remove")
    assert list(curve.deltas) == sorted(curve.deltas, reverse=True)
    epsilon = evr.estimate_epsilon(event, float(curve.deltas[2]), direction="remove")
    assert epsilon.value == near(1.0, abs=5 * (epsilon.standard_error or 0.0) + 2e-3)


def test_calibration() -> None:
    found = evr.calibrate(
        lambda s: E.BallsInBinsDpEvent(s, 4, 2, BAND), epsilon=2.0, delta=1.397956e-2, low=1.2, high=2.0
    )
    assert found.value == near(1.5, rel=1e-2)
    assert found.value == float(f"{found.value:.4g}")
    assert found.delta < 0.99 * 1.397956e-2  # as much below as samples need to verify it


def test_a_table_below_all_floats_is_refused() -> None:
    """Its sums underflowed, and an upper bound was 0.8 of what it bounds."""
    with pytest.raises(ValueError, match="below all floats"):
        RingTable(IndependentBins(REMOVE, 6, 1e-4), 177)
    assert not RingTable.is_affordable(IndependentBins(REMOVE, 6, 1e-4), 177)


@pytest.mark.parametrize("probability", [5e-324, 1e-300, 1e-19, 1e-18])
@pytest.mark.parametrize("warm", [False, True])
def test_who_hardly_ever_takes_part_does_not(probability: float, warm: bool) -> None:
    """Gaps between participations are then the greatest integers, and their sums once came round
    to one of the first steps: a plan of such a part had a delta of 0.0976 pass for 0.05.
    """
    for steps, separation in ((8, 4), (24, 4), (5, 2)):
        chain = Chain(steps, separation, probability, warm)
        assert chain.draw(Stream(1, "never").block(0), 1000).sum() == 0


@pytest.mark.parametrize(
    ("steps", "separation", "probability"),
    [(10, 3, 1e-17), (10, 3, 1e-12), (2000, 3, 0.9), (5, 9, 0.3), (300, 300, 0.3), (3, 9, 1e-5)],
)
@pytest.mark.parametrize("warm", [False, True])
def test_the_chance_of_never_taking_part(steps: int, separation: int, probability: float, warm: bool) -> None:
    """It was 1 for tiny probabilities, so no loss of the add direction was above 0; and below all
    floats for large ones, where its logarithm did not exist.
    """
    with mp.workdps(60):
        p, b = mp.mpf(probability), separation
        chances = [(1 - p) ** max(steps - i, 0) for i in range(b)]
        late = (chances[0] + p * sum(chances[1:])) / (1 + (b - 1) * p)
        truth = float(mp.log(late if warm else chances[0]))
    found = Chain(steps, separation, probability, warm).log_absent
    assert found == near(truth, rel=1e-14)
