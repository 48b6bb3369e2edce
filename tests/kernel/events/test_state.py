"""Integer noise, zCDP, choices and allocation: docs/guarantees_state.md against values that share nothing with evr
(enumeration, quadrature, contour integrals), and against random small mechanisms.
"""

from __future__ import annotations

import itertools
import math
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from dp_accounting import NeighboringRelation, dp_event
from hypothesis import given, settings
from hypothesis import strategies as st

import evr
from evr._estimate.closed_forms import pair_delta
from evr._kernel.events import Composition
from evr._kernel.events.meaning import hypotheses_of
from evr._kernel.events.table import HYPOTHESES
from evr._kernel.pairs import Step
from evr._kernel.pairs.exact import Ball, ExactBoundedRange, ExactConcentrated, ExactGaussian, ExactLaw, ExactRun
from evr._kernel.pairs.exact.law import ball
from evr._kernel.pairs.exact.points import hull
from evr._kernel.pairs.exact.shifted import _eta, factors, rounded
from evr._kernel.pairs.line.laplace import BoundedRangePair
from evr._kernel.strict.alone import one_step_delta
from evr._plan.strict import StrictCurve
from evr._wording.events import describe
from evr.errors import UnsupportedEventError
from helpers import near

E = evr.events
REPEATED, COMPOSED, SAMPLED = dp_event.SelfComposedDpEvent, dp_event.ComposedDpEvent, dp_event.PoissonSampledDpEvent


def proved(law: ExactLaw, epsilon: float) -> float:
    return float(one_step_delta(law, Fraction(epsilon), 200))


def curve(p: Any, q: Any, ratio: float) -> float:
    """``sup_A P(A) - ratio Q(A)`` of two laws on the same outcomes."""
    return float(np.sum(np.maximum(np.asarray(p) - ratio * np.asarray(q), 0.0)))


# --- points are a pair ----------------------------------------------------------------------------


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10**9))
def test_the_hull_of_points_is_a_pair_above_the_curve(seed: int) -> None:
    generator = np.random.default_rng(seed)
    p, q = (generator.dirichlet(np.ones(5)) for _ in range(2))
    ratios = np.unique(np.exp(generator.normal(0, 1.5, 6)))
    raised = [curve(p, q, g) + generator.random() * 0.02 for g in ratios]
    points = [
        (Fraction(g), min(Fraction(h) + Fraction(1, 10**12), Fraction(1))) for g, h in zip(ratios, raised, strict=True)
    ]
    pair = hull(points)
    assert all(a >= 0 <= b for a, b in pair)
    assert sum(a for a, _ in pair) == sum(b for _, b in pair) == 1
    for g in [*ratios, *np.exp(generator.normal(0, 2, 20))]:
        found = sum(max(a - Fraction(g) * b, Fraction(0)) for a, b in pair)
        assert found >= curve(p, q, g) - 1e-12
    for g, h in points:
        assert sum(max(a - g * b, Fraction(0)) for a, b in pair) <= h


# --- zCDP -----------------------------------------------------------------------------------------

ZCDP = [(0.005, 0.5, 3.44930909755e-8), (0.1, 2.0, 4.32521086909e-6), (0.5, 4.0, 0.000195795416958),
        (0.02, 1.0, 8.82525498722e-8), (1.0, 8.0, 4.34534151665e-7)]  # fmt: skip


@pytest.mark.parametrize(("rho", "epsilon", "delta"), ZCDP)
def test_zcdp_by_its_best_order(rho: float, epsilon: float, delta: float) -> None:
    law = ExactConcentrated(Fraction(rho))
    assert float(law.bound(Fraction(epsilon))) == near(delta, 1e-10)
    assert delta * (1 - 1e-11) <= proved(law, epsilon) <= 1.01 * delta
    shifted = ExactConcentrated(Fraction(rho), Fraction(1, 4))
    assert float(shifted.bound(Fraction(epsilon) + Fraction(1, 4))) == near(delta, 1e-10)


@pytest.mark.parametrize("rho", [1e-6, 0.02, 0.5, 8.0])
def test_zcdp_is_above_the_gaussian_that_has_it(rho: float) -> None:
    law, gaussian = ExactConcentrated(Fraction(rho)), ExactGaussian(2 * Fraction(rho)).curve()
    for z in (-5.0, -2.0, -0.3, 0.4, 1.7, 3.1, 6.3, 9.0, 20.0):
        epsilon = rho + z * math.sqrt(2 * rho)
        truth = float(gaussian(ball(Fraction(epsilon)).exp()))
        assert truth <= proved(law, epsilon) <= 1.0


def test_zcdp_adds_before_it_becomes_a_pair() -> None:
    many = Composition.of(COMPOSED([REPEATED(dp_event.ZCDpEvent(0.002), 5), dp_event.ZCDpEvent(0.01, 0.5)]))
    assert many.exact("remove") == Composition.of(
        dp_event.ZCDpEvent(float(Fraction(0.01) + 5 * Fraction(0.002)), 0.5)
    ).exact("remove")
    with_noise = COMPOSED([dp_event.ZCDpEvent(0.02), dp_event.GaussianDpEvent(5.0)])
    both = dp_event.GaussianDpEvent(1 / math.sqrt(0.04 + 0.04))  # if the first were a Gaussian
    assert evr.estimate_delta(both, 1.0).value < evr.estimate_delta(with_noise, 1.0, method="strict").value


def test_false_claims_of_zcdp() -> None:
    truth = evr.estimate_delta(dp_event.GaussianDpEvent(1 / math.sqrt(0.04)), 1.0).value  # it is 0.02-zCDP
    assert not evr.verify(dp_event.ZCDpEvent(0.02), epsilon=1.0, delta=0.999 * truth, method="strict").accepted
    assert evr.verify(dp_event.ZCDpEvent(0.02), epsilon=1.0, delta=9e-8).accepted


# --- choices --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("epsilon", "x", "value"),
    [
        (1.0, 0.5, 0.0774046863157),
        (0.5, 0.0, 0.124353001772),
        (0.1, 0.05, 0.00640588381975),
        (2.0, -1.0, 0.697989332015),
    ],
)
def test_one_choice_in_closed_form(epsilon: float, x: float, value: float) -> None:
    assert proved(ExactBoundedRange(Fraction(epsilon)), x) == near(value, 1e-11)
    assert pair_delta(BoundedRangePair(epsilon), x) == near(value, 1e-11)


@pytest.mark.parametrize(
    ("epsilon", "x", "value"),
    [(1.0, 1.0, 0.06404256873), (0.5, 0.3, 0.06545121005), (2.0, 1.0, 0.3756093119), (0.1, 0.1, 0.004377194926)],
)
def test_two_choices_as_a_product(epsilon: float, x: float, value: float) -> None:
    steps = (Step(ExactBoundedRange(Fraction(epsilon)), 2),)
    found = StrictCurve(steps)
    assert found.estimate(x) == near(value, 3e-8)
    assert value * (1 - 1e-9) <= float(found.bound(x)) <= 1.001 * value


RUNS = [  # epsilon, steps, x, the recursion with 16 cells, a lower bound of the truth, product, zCDP
    (1.0, 2, 1.0, 0.057120073, 0.0569644, 0.06404257, 0.0882173),
    (0.5, 10, 1.0, 0.066598301, 0.0662867, 0.096760301, 0.128744),
    (0.1, 50, 0.5, 0.016524566, 0.0164042, 0.027502662, 0.0358486),
    (0.2, 20, 1.0, 0.0034799472, 0.0034408, 0.0079744442, 0.0089332),
    (0.5, 20, 4.0, 3.0569556e-4, 2.7380057e-4, 1.586839e-3, 1.1683095e-3),
    pytest.param(0.1, 100, 1.0, 0.0070479773, 0.0069662, 0.01551047, 0.0179854, marks=pytest.mark.full),
    pytest.param(0.1, 100, 2.0, 9.689413e-6, 9.0838296e-6, 9.3836582e-5, 3.9485097e-5, marks=pytest.mark.full),
]


@pytest.mark.parametrize(("epsilon", "steps", "x", "coarse", "least", "product", "concentrated"), RUNS)
def test_runs_of_choices(
    epsilon: float, steps: int, x: float, coarse: float, least: float, product: float, concentrated: float
) -> None:
    found = proved(ExactRun(Fraction(epsilon), steps), x)
    assert least <= found <= 1.001 * coarse < min(product, concentrated)
    event = REPEATED(E.ExponentialMechanismDpEvent(epsilon), steps)
    assert evr.estimate_delta(event, x).value == near(found, 1e-9)
    if steps < 50:
        assert evr.estimate_delta(event, epsilon * steps).value == 0
        assert proved(ExactConcentrated(Fraction(steps) * Fraction(epsilon) ** 2 / 8), x) == near(concentrated, 0.01)


def of_range(generator: np.random.Generator, epsilon: float) -> tuple[np.ndarray, np.ndarray]:
    """A random finite mechanism whose losses have that range."""
    q = generator.dirichlet(np.ones(4))
    losses = epsilon * generator.random(4)
    losses[:2] = 0.0, epsilon
    ratio = np.exp(losses)
    return q * ratio / (q @ ratio), q


def adaptively(generator: np.random.Generator, ranges: tuple[float, ...]) -> tuple[np.ndarray, np.ndarray]:
    """Random mechanisms of these ranges one after the other, each chosen by the outputs before it."""
    p = q = np.ones(1)
    for epsilon in ranges:
        parts = [of_range(generator, epsilon) for _ in p]
        p, q = (
            np.concatenate([w * part[i] for w, part in zip(law, parts, strict=True)]) for i, law in enumerate((p, q))
        )
    return p, q


def test_random_adaptive_choices_stay_below_a_run() -> None:
    generator = np.random.default_rng(3)
    for _ in range(15):
        steps, epsilon = int(generator.integers(1, 4)), float(generator.uniform(0.05, 2.0))
        law = ExactRun(Fraction(epsilon), steps) if steps > 1 else ExactBoundedRange(Fraction(epsilon))
        for _ in range(6):
            p, q = adaptively(generator, (epsilon,) * steps)
            for x in generator.uniform(-1.0, 1.0, 3) * steps * epsilon:
                assert curve(p, q, math.exp(x)) <= proved(law, float(x)) * (1 + 1e-12)


def test_a_choice_that_is_best_against_each_loss_attains_the_curve() -> None:
    """Two losses, t and t - epsilon, at t = (epsilon + x) / 2: a law below would be caught."""
    epsilon, x = 0.7, 0.2
    t = (epsilon + x) / 2
    high = (math.exp(epsilon) - math.exp(t)) / (math.exp(epsilon) - 1)
    p, q = np.array([high, 1 - high]), np.array([high * math.exp(-t), (1 - high) * math.exp(epsilon - t)])
    assert curve(p, q, math.exp(x)) == near(proved(ExactBoundedRange(Fraction(epsilon)), x), 1e-12)


def test_choices_of_different_ranges_in_any_order() -> None:
    """The order matters (0.4 then 1.2: 0.23019 at 0.2), and the product of runs covers every one."""
    generator = np.random.default_rng(4)
    event = COMPOSED([E.ExponentialMechanismDpEvent(0.4), E.ExponentialMechanismDpEvent(1.2)])
    assert evr.estimate_delta(event, 0.2).value > 0.23019
    ranges = (0.3, 0.3, 0.8)
    event = COMPOSED([E.ExponentialMechanismDpEvent(epsilon) for epsilon in ranges])
    bound = {x: evr.estimate_delta(event, x).value for x in (0.0, 0.3, 0.7, 1.1)}
    for order in itertools.permutations(ranges):
        for _ in range(30):
            p, q = adaptively(generator, order)
            assert all(curve(p, q, math.exp(x)) <= value * (1 + 1e-9) for x, value in bound.items())


def test_the_exponential_mechanism_itself() -> None:
    """Probabilities from scores of sensitivity 1, twice, the second scores chosen by the first output."""
    generator, epsilon = np.random.default_rng(5), 1.0
    bound = {
        x: evr.estimate_delta(REPEATED(E.ExponentialMechanismDpEvent(epsilon), 2), x).value for x in (0.0, 0.5, 1.2)
    }

    def chosen(scores: np.ndarray) -> np.ndarray:
        weights = np.exp(epsilon * scores / 2)
        return np.asarray(weights / weights.sum())

    for _ in range(100):
        laws = []
        for _ in range(6):
            scores = generator.integers(-3, 4, 5).astype(float)
            laws.append((chosen(scores), chosen(scores + generator.choice([-1.0, 1.0], 5))))
        first, rest = laws[0], laws[1:]
        p, q = (np.concatenate([first[i][j] * rest[j][i] for j in range(5)]) for i in (0, 1))
        assert all(curve(p, q, math.exp(x)) <= value for x, value in bound.items())


def test_false_claims_of_choices() -> None:
    """One common t for all steps attains 0.0033094448 without any adaptivity: less is false."""
    event = REPEATED(E.ExponentialMechanismDpEvent(0.2), 20)
    assert not evr.verify(event, epsilon=1.0, delta=0.0033, method="strict").accepted
    assert evr.verify(event, epsilon=1.0, delta=0.0035).accepted
    sampled = evr.verify(event, epsilon=1.0, delta=0.0036, method="both", seed=1)
    assert sampled.accepted


def test_permute_and_flip_is_pure() -> None:
    """Two items with scores (0, -1) and (-1, 0), by the definition: the range is above epsilon."""
    epsilon = 1.0
    kept = math.exp(-epsilon / 2)
    best = 1 / 2 * 1 + 1 / 2 * (1 - kept)  # the best item first, or the other one first and refused
    loss = math.log(best / (1 - best))
    assert loss == near(0.8318, 1e-4)
    assert 2 * loss > epsilon
    event = REPEATED(E.PermuteAndFlipDpEvent(0.3), 4)
    assert Composition.of(event) == Composition.of(REPEATED(E.EpsilonDeltaDpEvent(0.3, 0.0), 4))


# --- integer noise --------------------------------------------------------------------------------

ETAS = [(0.5, 0.0143837720622), (0.75, 3.01249215392e-5), (1.0, 5.35057598215e-9), (1.25, 8.05928408258e-14),
        (1.5, 1.0294700369e-19), (2.0, 1.02450045585e-34)]  # fmt: skip
SMALL = [  # shift, sigma, epsilon, exact by enumeration, the comparison at this rounding
    ((1,), 2.0, 0.5, 0.05400722369, 0.06046343618, 0.580),
    ((1, 1), 2.0, 1.0, 0.03796944472, 0.04860788512, 0.590),
    ((2, 1), 4.0, 0.5, 0.071206939, 0.07403998969, 0.670),
    ((1, 1, 1), 2.0, 0.5, 0.1863439304, 0.2051237652, 0.610),
]


@pytest.mark.parametrize(("t", "eta"), ETAS)
def test_eta(t: float, eta: float) -> None:
    assert float(_eta(Fraction(t) ** 2)) == near(eta, 1e-11)


def enumerated(shift: tuple[int, ...], sigma: float) -> tuple[np.ndarray, np.ndarray]:
    """Both laws on all integer vectors that matter."""
    p = q = np.ones(1)
    for v in shift:
        x = np.arange(-math.ceil(12 * sigma), math.ceil(12 * sigma) + v + 1)
        there, here = (np.exp(-((x - c) ** 2) / (2 * sigma**2)) for c in (v, 0))
        p, q = (np.multiply.outer(law, one / one.sum()).ravel() for law, one in ((p, there), (q, here)))
    return p, q


@pytest.mark.parametrize(("shift", "sigma", "epsilon", "exact", "compared", "t"), SMALL)
def test_the_comparison_with_rounded_noise(
    shift: tuple[int, ...], sigma: float, epsilon: float, exact: float, compared: float, t: float
) -> None:
    p, q = enumerated(shift, sigma)
    assert curve(p, q, math.exp(epsilon)) == near(exact, 1e-9)
    norm, rounding = Fraction(math.sqrt(sum(v * v for v in shift))), Fraction(round(1000 * t), 1000)
    up, ratio = factors(Fraction(sigma), len(shift), rounding)
    base = ExactGaussian(norm**2 / (Fraction(sigma) ** 2 - rounding**2)).curve()
    assert float(up.exp() * base((ball(Fraction(epsilon)) - ratio).exp())) == near(compared, 1e-9)
    law = rounded(Fraction(sigma), norm, len(shift), rounding)
    assert law is not None
    assert compared <= proved(law, epsilon) <= 1.03 * compared


def test_integer_noise_dominates_at_every_ratio() -> None:
    generator = np.random.default_rng(6)
    for _ in range(25):
        sigma = float(generator.uniform(1.2, 4.0))
        shift = tuple(int(v) for v in generator.integers(0, 3, 2))
        if not any(shift):
            continue
        rounding = Fraction(round(64 * float(generator.uniform(0.35, 0.8)) * sigma / 2), 64)
        law = rounded(Fraction(sigma), Fraction(math.hypot(*shift)), 2, rounding)
        if law is None or rounding < Fraction(1, 3):
            continue
        p, q = enumerated(shift, sigma)
        value = law.curve()
        for x in generator.uniform(-4.0, 4.0, 12):
            bound = float(value(ball(Fraction(float(x))).exp()))
            assert curve(p, q, math.exp(x)) <= bound * (1 + 1e-12)
            assert curve(q, p, math.exp(x)) <= bound * (1 + 1e-12)


@pytest.mark.parametrize(
    ("direction", "exact", "compared"),
    [("remove", 0.01071822322, 0.01194022098), ("add", 0.0009956042585, 0.0011940993)],
)
def test_sampled_integer_noise(direction: str, exact: float, compared: float) -> None:
    """Shift (1, 1), sigma 3, sampled with probability 0.3."""
    event = SAMPLED(0.3, E.DiscreteGaussianDpEvent(3.0, math.sqrt(2), 2))
    for method in ("fft", "strict"):
        assert exact <= evr.estimate_delta(event, 0.2, direction=direction, method=method).value <= compared


@pytest.mark.parametrize(
    ("norm", "sigma", "dimension", "epsilon", "best", "continuous"),
    [
        (10.0, 50.0, 10**6, 1.0, 1.76836282e-8, 1.75463333e-8),
        (1.0, 10.0, 10**4, 0.3, 4.71756676e-5, 4.43519788e-5),
        (1.0, 4.0, 10**9, 1.0, 7.02933015e-6, 2.9242721e-6),
    ],
)
def test_integer_noise_on_many_coordinates(
    norm: float, sigma: float, dimension: int, epsilon: float, best: float, continuous: float
) -> None:
    event = E.DiscreteGaussianDpEvent(sigma, norm, dimension)
    assert continuous < evr.estimate_delta(event, epsilon, method="strict").value <= 1.02 * best
    assert evr.estimate_delta(dp_event.GaussianDpEvent(sigma / norm), epsilon).value == near(continuous, 1e-8)


@pytest.mark.parametrize(
    ("tau", "clients", "seen", "factor"), [(0.7, 3, 1.0143, 1.0388), (1.0, 4, 1.00000595, 1.000216)]
)
def test_sums_of_clients(tau: float, clients: int, seen: float, factor: float) -> None:
    x = np.arange(-60, 61)
    one = np.exp(-(x**2) / (2 * tau**2))
    total = one / one.sum()
    for _ in range(clients - 1):
        total = np.convolve(total, one / one.sum())
    places = np.arange(total.size) - total.size // 2
    whole = np.exp(-(places**2) / (2 * clients * tau**2))
    near_by = np.abs(places) <= 6 * tau
    ratio = total[near_by] / (whole / whole.sum())[near_by]
    assert ratio.max() / ratio.min() == near(seen, 1e-4)
    alone, _ = factors(Fraction(tau), 1, Fraction(3, 5), 1)
    both, _ = factors(Fraction(tau), 1, Fraction(3, 5), clients)
    eta, more = (float(_eta(Fraction(n) * Fraction(tau) ** 2)) for n in (1, clients))
    found = math.exp(float(both) - float(alone)) * (1 + more) / (1 + eta)
    assert found == near(factor, 2e-4)
    assert max(ratio.max(), 1 / ratio.min()) <= found


def test_integer_noise_says_what_it_assumes(tmp_path: Path) -> None:
    ledger = tmp_path / "ledger.sqlite"
    event = REPEATED(SAMPLED(0.01, E.DiscreteGaussianDpEvent(50.0, 50.0, 10**6)), 100)
    assert describe(event).endswith("a discrete Gaussian mechanism (sigma 50, sensitivity 50, dimension 1,000,000)")
    assert HYPOTHESES["integers"] in hypotheses_of(event, NeighboringRelation.ADD_OR_REMOVE_ONE)
    certificate = evr.certify(event, epsilon=1.0, delta=1e-4, ledger=ledger)
    assert "floating-point" not in certificate.statement
    mixed = COMPOSED([event, dp_event.GaussianDpEvent(30.0)])
    assert "floating-point" in evr.certify(mixed, epsilon=1.0, delta=1e-3, ledger=ledger).statement


def test_false_claims_of_integer_noise() -> None:
    event = E.DiscreteGaussianDpEvent(2.0, math.sqrt(2), 2)
    assert not evr.verify(event, epsilon=1.0, delta=0.999 * 0.03796944472, method="strict").accepted
    sampled = REPEATED(SAMPLED(0.01, E.DiscreteGaussianDpEvent(50.0, 50.0, 10**6)), 50)
    truth = evr.estimate_delta(evr.dpsgd(noise_multiplier=1.0, sampling_probability=0.01, steps=50), 0.5).value
    assert not evr.verify(sampled, epsilon=0.5, delta=0.9 * truth, tau=0.9, seed=1).accepted
    assert evr.verify(sampled, epsilon=0.5, delta=1.05 * truth).accepted
    assert evr.verify(sampled, epsilon=0.5, delta=1.3 * truth, tau=0.8, method="sequential", seed=1).accepted


def test_small_noise_and_unknown_dimensions_cost_zcdp() -> None:
    for event in (E.DiscreteGaussianDpEvent(1.0, 1.0, 10**6), E.DiscreteGaussianDpEvent(1.0, 1.0, None)):
        (step,) = Composition.of(event).exact("remove")
        assert isinstance(step.law, ExactConcentrated)
        assert 0 <= step.law.rho - Fraction(1, 2) < Fraction(1, 10**12)
    with pytest.raises(ValueError, match=r"sigma=0.4 of each of clients=10 is too small.*Scale the values up"):
        Composition.of(E.SummedDiscreteGaussiansDpEvent(0.4, 10, 1.0, 10**6))


# --- allocation -----------------------------------------------------------------------------------

ALLOCATED = [  # iterations of which two, noise, epsilon, remove, add, blocks
    (3, 1.0, 1.0, 0.200409913, 0.1971938861, None),
    (3, 1.0, 2.0, 0.0572279557, 0.0534207430, None),
    (3, 2.0, 0.5, 0.0792897728, 0.0790071569, None),
    (3, 0.7, 3.0, 0.10950788, 0.0968478158, None),
    (4, 1.0, 1.0, 0.15239477, 0.14676205, 0.162120571),
    (4, 1.0, 2.0, 0.03302287, 0.02794852, 0.03876422),
    (4, 2.0, 0.5, 0.05560978, 0.05508068, 0.05716523),
]


@pytest.mark.parametrize(("iterations", "noise", "epsilon", "remove", "add", "blocks"), ALLOCATED)
def test_blocks_dominate_allocation(
    iterations: int, noise: float, epsilon: float, remove: float, add: float, blocks: float | None
) -> None:
    event = E.RandomAllocationDpEvent(noise, iterations, 2)
    found = [evr.estimate_delta(event, epsilon, direction=one).value for one in ("remove", "add")]
    assert remove <= found[0] <= 1.35 * remove
    assert add <= found[1] <= 1.35 * add
    if blocks is not None:
        assert found[0] == near(blocks, 2e-7)


def test_a_false_claim_of_allocation() -> None:
    event = E.RandomAllocationDpEvent(2.0, 4, 2)
    assert not evr.verify(event, epsilon=0.5, delta=0.0556, method="strict", direction="remove").accepted
    assert evr.verify(event, epsilon=0.5, delta=0.0575, method="strict").accepted


def test_allocation_at_its_ends() -> None:
    assert Composition.of(E.RandomAllocationDpEvent(1.5, 7, 7)) == Composition.of(
        REPEATED(dp_event.GaussianDpEvent(1.5), 7)
    )
    assert Composition.of(E.RandomAllocationDpEvent(1.5, 7, 1)) == Composition.of(E.BallsInBinsDpEvent(1.5, 7, 7))
    ten = Composition.of(E.RandomAllocationDpEvent(1.5, 10, 3))
    assert [(step.law.bins, step.count) for step in ten.remove] == [(4, 1), (3, 2)]


def test_allocation_by_dpsgd() -> None:
    given: dict[str, Any] = {"noise_multiplier": 1.1, "dataset_size": 1000, "batch_size": 100}
    assert evr.dpsgd(**given, epochs=3, sampling="allocation") == E.RandomAllocationDpEvent(1.1, 30, 3)
    assert evr.dpsgd(**given, steps=20, sampling="allocation") == E.RandomAllocationDpEvent(1.1, 20, 2)
    with pytest.raises(ValueError, match=r"over 2\.5 epochs: each record is in a whole number of batches"):
        evr.dpsgd(**given, epochs=2.5, sampling="allocation")
    with pytest.raises(ValueError, match="records_per_user=3 is for sampling='poisson'"):
        evr.dpsgd(**given, epochs=2, sampling="allocation", records_per_user=3)


@pytest.mark.parametrize(
    ("event", "message"),
    [
        (E.RandomAllocationDpEvent(1.0, 3, 4), "participations=4 is above iterations=3"),
        (E.RandomAllocationDpEvent(1.0, 3, 0), "participations=0 is not an integer >= 1"),
        (E.RandomAllocationDpEvent(math.nan, 3, 1), "noise_multiplier=nan is not"),
        (E.ExponentialMechanismDpEvent(-1.0), "epsilon=-1.0 is not >= 0"),
        (E.ExponentialMechanismDpEvent(math.nan), "epsilon=nan is not >= 0"),
        (E.PermuteAndFlipDpEvent(-0.1), "epsilon=-0.1 is not >= 0"),
        (dp_event.ZCDpEvent(math.nan), "rho=nan is not >= 0"),
        (dp_event.ZCDpEvent(0.1, -1.0), "xi=-1.0 is not >= 0"),
        (E.DiscreteGaussianDpEvent(3.0, 1.5, 1), "sensitivity=1.5 is not an integer"),
        (E.DiscreteGaussianDpEvent(3.0, 0.0, 5), "sensitivity=0.0 is not positive"),
        (E.DiscreteGaussianDpEvent(3.0, 1.0, 0), "dimension=0 is not an integer"),
        (E.DiscreteGaussianDpEvent(-3.0, 1.0, 5), "sigma=-3.0 is not"),
        (E.SummedDiscreteGaussiansDpEvent(3.0, 0, 1.0, 5), "clients=0 is not an integer"),
    ],
    ids=repr,
)
def test_bad_values_are_refused(event: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Composition.of(event)


def test_corners_cost_nothing_or_everything() -> None:
    for event in (dp_event.ZCDpEvent(0.0), E.ExponentialMechanismDpEvent(0.0)):
        assert evr.estimate_delta(event, 0.0).value == 0
    for event in (dp_event.ZCDpEvent(math.inf), E.DiscreteGaussianDpEvent(0.0, 1.0, 5)):
        assert evr.estimate_delta(event, 3.0).value == 1
    with pytest.raises(UnsupportedEventError, match="says itself who takes part"):
        Composition.of(SAMPLED(0.1, E.RandomAllocationDpEvent(1.0, 4, 2)))
    assert float(ExactBoundedRange(Fraction(1)).curve()(Ball(4))) == 0
