"""The bounds on a selection against brute force, against independent values, and against claims that are false."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from dp_accounting.rdp import rdp_privacy_accountant
from flint import arb, ctx

from evr._kernel.pairs.exact.law import ball
from evr._kernel.pairs.selection import NegativeBinomialRuns, PoissonRuns
from evr._kernel.strict import tradeoff
from evr._kernel.strict.tradeoff import Selected, Tradeoff, _summands, outcomes_above
from evr._tuning import chances_of
from helpers import near
from tuning.independent import (
    Plain,
    binomial,
    curve,
    gaussian_delta,
    hockey,
    negative_binomial,
    poisson,
    selected_law,
    sharp,
    trade,
    until_good,
)

POINTS = [(k / 10, gaussian_delta(0.5, k / 10)) for k in range(61)]
EXACT = [(Fraction(e), Fraction(d)) for e, d in POINTS]
TABLE = [  # law, epsilon, r, simple, sharp on 1024 cells, its limit with the exact curve, a true selection
    (poisson(10), 4, 1.974126514, 8.0870937e-5, 4.5442663e-6, 2.765e-6, 2.080e-6),
    (negative_binomial(1, 0.1), 4, 0.8965181333, 9.6922685e-10, 3.3844267e-10, 2.473e-10, 2.231e-10),
    (negative_binomial(1, 0.1), 2, 0.8965181333, 0.040730141, 0.014421523, 0.01308, 0.00772),
    (negative_binomial(0, 0.01), 4, 0.8557108776, 1.4736731e-9, 5.4026914e-10, 4.038e-10, 3.704e-10),
    (binomial(20, 0.5), 4, 2.607031499, 0.0079178014, 0.00014057258, 5.26e-5, 5.26e-5),
]


def _ratio(found: Selected) -> float:
    return found.greatest[0].ratio / 2**found.bits


@pytest.mark.parametrize(("law", "epsilon", "r", "simple", "on_cells", "limit", "true"), TABLE)
def test_the_oracles(
    law: Plain, epsilon: float, r: float, simple: float, on_cells: float, limit: float, true: float
) -> None:
    found = Selected.of(law.rule, EXACT, EXACT, 256)
    assert -math.log(_ratio(found)) == near(r, 1e-9)
    without = Selected(found.curve, found.bits, found.greatest)
    assert float(without.delta(Fraction(epsilon))) == near(simple, 1e-7)
    bound = float(found.delta(Fraction(epsilon)))
    assert true <= limit < bound < on_cells * (1 + 1e-6)  # our cells are better than the 1024 of the table
    vertices = [x for x in _vertices() if 0 < x < 1]
    cells = np.unique(np.concatenate(([0.0], np.geomspace(1e-6, 1, 1024), vertices)))
    assert sharp(POINTS, law.g, epsilon, cells) == near(on_cells, 1e-6)
    fine = np.unique(np.concatenate(([0.0], np.geomspace(1e-7, 1, 60001), vertices)))
    assert sharp(POINTS, law.g, epsilon, fine) < bound < 1.04 * sharp(POINTS, law.g, epsilon, fine)


def _vertices() -> list[float]:
    return [float(x) for x, _ in Tradeoff.of_points(EXACT, EXACT).corners]


@pytest.mark.parametrize(
    ("rule", "r"),
    [
        (poisson(10).rule, 1.9741265),
        (negative_binomial(1, 0.1).rule, 0.89221558),
        (negative_binomial(0, 0.01).rule, 0.85158725),
        (binomial(20, 0.5).rule, 2.5953402),
    ],
)
def test_r_from_401_points(rule: object, r: float) -> None:
    points = [(Fraction(k, 100), Fraction(gaussian_delta(0.5, k / 100))) for k in range(401)]
    assert -math.log(_ratio(Selected.of(rule, points, points, 1))) == near(r, 1e-7)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("eta", "gamma", "e", "d", "r"),
    [(1, 0.1, 0.5, 0.01, 0.8912658277), (0, 0.01, 1, 0.001, 0.9839368871), (1, 0.001, 0.2, 1e-5, 0.3995772192)],
)
def test_r_from_one_point(eta: float, gamma: float, e: float, d: float, r: float) -> None:
    point = [(Fraction(e), Fraction(d))]
    found = Selected.of(negative_binomial(eta, gamma).rule, [], point, 1)
    assert -math.log(_ratio(found)) == near(r, 1e-9)


@pytest.mark.parametrize(
    ("stop", "epsilon", "on_cells"), [(0.1, 2, 0.0016153921), (0.1, 4, 1.6158389e-12), (0.01, 4, 2.4335711e-9)]
)
def test_the_oracles_of_stopping(stop: float, epsilon: float, on_cells: float) -> None:
    cells = np.unique(np.concatenate(([0.0], np.geomspace(1e-6, 1, 1024), _vertices())))

    def least(x: np.ndarray) -> float:
        z, other = stop + (1 - stop) * x[:-1], stop + (1 - stop) * trade(POINTS, x[1:])
        return float(np.max(curve(POINTS, math.exp(epsilon) * z / other) / z))

    assert least(cells) == near(on_cells, 1e-6)
    bound = float(Selected.of(until_good(stop), EXACT, EXACT, 256).delta(Fraction(epsilon)))
    fine = np.unique(np.concatenate((np.linspace(0, 1, 200_001), np.geomspace(1e-7, 1, 100_001))))
    assert least(fine) * (1 - 1e-9) < bound < on_cells


Law = list[arb]


def _pair(rng: np.random.Generator) -> tuple[Law, Law]:
    """Two laws on 2 to 7 outcomes, in balls that are sums of floats, exactly."""
    size = int(rng.integers(2, 8))
    p, q = (rng.dirichlet(np.full(size, float(rng.choice([0.3, 1.0, 4.0])))) + 1e-9 for _ in range(2))
    if rng.random() < 0.4:  # close laws, as of a private mechanism
        q = q * 0.2 + p * 0.8
    if rng.random() < 0.3:
        q[0] = 0.0
    found = [[arb(x) for x in law.tolist()] for law in (p, q)]
    return tuple([x / sum(law, arb(0)) for x in law] for law in found)  # type: ignore[return-value]


def _points(p: Law, q: Law, rng: np.random.Generator) -> list[tuple[Fraction, Fraction]]:
    """Points of the curve, raised by a part of 1e-15 at most: floats above the balls."""
    epsilons = np.sort(rng.uniform(0, 4, int(rng.integers(1, 12)))).tolist()
    deltas = [float(hockey(p, q, e).upper()) for e in epsilons]
    return [(Fraction(e), Fraction(min(1.0, math.nextafter(d, 2)))) for e, d in zip(epsilons, deltas, strict=True)]


def _law(rng: np.random.Generator) -> Plain:
    kind = int(rng.integers(3))
    if kind == 0:
        return poisson(float(rng.uniform(0.2, 12)))
    if kind == 1:
        return negative_binomial(float(rng.choice([-0.5, 0.0, 0.5, 1.0, 3.0])), float(rng.uniform(0.03, 0.9)))
    return binomial(int(rng.integers(1, 15)), float(rng.uniform(0.1, 0.95)))


@pytest.mark.parametrize("mechanisms", [40, pytest.param(3000, marks=pytest.mark.full)])
def test_no_selection_among_finite_mechanisms_exceeds_its_bound(mechanisms: int) -> None:
    """In both directions, for random mechanisms, orders, laws and epsilons; some bounds are nearly attained."""
    rng = np.random.default_rng(28)
    closest = 0.0
    for _ in range(mechanisms):
        (p, q), law = _pair(rng), _law(rng)
        ahead, back = _points(p, q, rng), _points(q, p, rng)
        sides = (Selected.of(law.rule, ahead, back, 20), Selected.of(law.rule, back, ahead, 20))
        for _ in range(3):
            order = rng.permutation(len(p))
            with ctx.workprec(200):
                chosen = [selected_law([one[i] for i in order], law.f) for one in (p, q)]
                for epsilon in rng.uniform(0, 5, 3).tolist():
                    for (one, other), side in zip((chosen, chosen[::-1]), sides, strict=True):
                        exact, bound = hockey(one, other, epsilon), side.delta(Fraction(epsilon))
                        assert exact.lower() <= ball(bound), (p, q, order, law.name, epsilon)
                        closest = max(closest, float(exact) / float(bound) if bound > 1e-12 else 0.0)
    assert closest > 0.9


def test_no_stopping_exceeds_its_bound() -> None:
    """For random mechanisms and every set of good outputs."""
    rng = np.random.default_rng(29)
    closest = 0.0
    for _ in range(100):
        (p, q), stop = _pair(rng), float(rng.uniform(0.02, 0.9))
        ahead, back = _points(p, q, rng), _points(q, p, rng)
        side = Selected.of(until_good(stop), ahead, back, 20)
        for good in itertools.islice(itertools.product((0, 1), repeat=len(p)), 1, 2 ** len(p)):
            laws = []
            for one in (p, q):
                x = sum((a for a, kept in zip(one, good, strict=True) if kept), arb(0))
                on = arb(stop) + (1 - arb(stop)) * x
                laws.append([*(a * kept / on for a, kept in zip(one, good, strict=True)), arb(stop) * (1 - x) / on])
            epsilon = float(rng.uniform(0, 4))
            exact, bound = hockey(laws[0], laws[1], epsilon), side.delta(Fraction(epsilon))
            assert exact.lower() <= ball(bound), (p, q, good, stop, epsilon)
            closest = max(closest, float(exact) / float(bound) if bound > 1e-12 else 0.0)
    assert closest > 0.8


def test_the_selection_law_of_the_brute_force_is_that_of_a_simulation() -> None:
    """20,000 searches of a geometric number of runs with mean 10: shares within 5 standard errors (failure below
    1e-5).
    """
    rng, p, searches = np.random.default_rng(4), [0.02, 0.18, 0.8], 20_000
    best = [int(rng.choice(3, size=rng.geometric(0.1), p=p).min()) for _ in range(searches)]
    law = [float(x) for x in selected_law([arb(x) for x in p], negative_binomial(1, 0.1).f)]
    assert sum(law) == near(1.0, 1e-12)
    for outcome, share in enumerate(law[:3]):
        assert abs(best.count(outcome) / searches - share) < 5 * math.sqrt(share * (1 - share) / searches)


def test_points_are_a_pair_that_dominates() -> None:
    """Section T6, for random finite mechanisms and in both directions."""
    rng = np.random.default_rng(30)
    for _ in range(60):
        p, q = _pair(rng)
        ahead, back = _points(p, q, rng), _points(q, p, rng)
        law = outcomes_above(ahead, back)
        with ctx.workprec(2500):
            above = [[ball(x) for x in side] for side in (law.p, law.q)]
            for epsilon in rng.uniform(0, 5, 5).tolist():
                assert hockey(p, q, epsilon).lower() <= hockey(above[0], above[1], epsilon)
                assert hockey(q, p, epsilon).lower() <= hockey(above[1], above[0], epsilon)
            for epsilon, delta in ahead:  # the hull is no higher; its ratios are rounded to 128 bits
                assert delta < 1e-30 or hockey(above[0], above[1], float(epsilon)) <= ball(delta) * (1 + 1e-6)


def test_the_envelope_is_the_greatest_of_its_lines() -> None:
    rng = np.random.default_rng(31)
    for _ in range(50):
        lines = [(int(a), int(b)) for a, b in rng.integers(1, 40, (12, 2))]
        parts = list(_summands(lines, 20))
        for at in rng.uniform(0, 45, 20).tolist():
            greatest = max(0.0, *(a * at - b for a, b in lines))
            found = sum(part.weight * max(at - part.ratio / 2**20, 0) for part in parts)
            assert greatest <= found <= greatest + 40 / 2**20  # ratios are rounded down


@pytest.mark.parametrize(("mean", "shape"), [(10, 0.0), (20, 0.5), (1.0001, 0.0), (20, -0.9), (3, 1e6), (1e6, 2.0)])
def test_gamma_follows_from_the_mean(mean: float, shape: float) -> None:
    """By the sum of ``k P(K = k)``, whose terms follow from ``P(K = 1) = g(1)`` by their ratios."""
    rule = NegativeBinomialRuns(Fraction(mean), Fraction(shape))
    with ctx.workprec(200):
        u = rule.log_odds()
        gamma = float((-u).exp())
        of_gamma = (u.expm1() / u) if not shape else arb(shape) * u.expm1() / -(-arb(shape) * u).expm1()
        assert float(of_gamma) == near(mean, 1e-14)
        if mean < 100 and shape > -0.5:
            (_, growth), total, chance, weighted = chances_of(rule), arb(0), rule.log_density()(arb(1)).exp(), arb(0)
            for k in range(1, round(60 / gamma) + 400 if shape < 1e3 else 400):
                total, weighted = total + chance, weighted + k * chance
                chance = chance * growth(k)
            assert float(total) == near(1.0, 1e-12)
            assert float(weighted) == near(mean, 1e-12)
    if shape >= 0:
        theirs = rdp_privacy_accountant._gamma_truncated_negative_binomial(shape, mean, 1e-12)
        assert gamma == near(theirs, 1e-8)


def test_bounds_fall_with_fineness_and_with_points_and_hold_for_any() -> None:
    rule = PoissonRuns(Fraction(10))
    at = Fraction(4)
    deltas = [Selected.of(rule, EXACT, EXACT, fineness).delta(at) for fineness in (1, 10, 100)]
    assert deltas == sorted(deltas, reverse=True)
    few = Selected.of(rule, EXACT[::10], EXACT[::10], 100).delta(at)
    assert few > deltas[2]
    assert Selected.of(rule, [], [], 5).delta(at) == 1
    assert Selected.of(rule, EXACT, [], 100).delta(at) > deltas[2]  # one direction alone says less
    worse = [(e, d * 2) for e, d in EXACT]
    assert Selected.of(rule, worse, EXACT, 100).delta(at) > deltas[2]
    assert Selected.of(rule, EXACT, worse, 100).delta(at) > deltas[2]


def test_too_many_cells_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tradeoff, "MOST_CELLS", 100)
    with pytest.raises(ValueError, match="more than 100 cells"):
        Selected.of(PoissonRuns(Fraction(50)), EXACT[:3], EXACT[:3], 4000)
