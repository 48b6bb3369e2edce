"""Sums over outcomes are what they say, in 40 digits; plain samples have moments below those of the
outcomes that stand for their bounds; the tilt is what it says.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import pairwise

import numpy as np
import pytest
from mpmath import mp, mpf
from scipy.integrate import quad
from scipy.stats import laplace, norm

from evr._kernel.pairs import Direction, DiscretePair, DominatingPair, Measure, loss_range, outcomes
from evr._kernel.pairs.line.gaussian import GaussianPair
from evr._kernel.pairs.line.laplace import LaplacePair
from evr._kernel.pairs.line.poisson import SampledPair, poisson_sampled
from evr._kernel.sampled.composing import spread_to_edges
from evr._kernel.sampled.moments import PER_STEP, Tilt, TiltedOutcomes, sum_error
from helpers import near

TILTS = {"three": Tilt(3.0, 1.2, -0.8), "fraction": Tilt(0.7, 0.6, -0.03), "none": Tilt(0.0, 0.5)}
PAIR = DiscretePair.from_logs(np.log([0.1, 0.2, 0.3, 0.4 - 1e-6, 1e-6]), [*np.log([0.3, 0.4, 0.2, 0.1]), -np.inf])


@pytest.mark.parametrize("tilt", TILTS.values(), ids=TILTS)
def test_sums_over_outcomes(tilt: Tilt) -> None:
    """Of finite losses and an infinite one, which is beyond every cap."""
    step = TiltedOutcomes(PAIR, tilt)
    with mp.workdps(40):
        rows = [
            (mp.exp(mpf(p)), mpf(loss), mpf(float(tilt.height(loss))))
            for p, loss in zip(PAIR.log_p, PAIR.loss_values, strict=True)
        ]
        for s, p in ((0.5, 2.0), (4.0, 2.0), (2.0, 1.5), (6.0, 4.0)):
            inside = [mass * mp.exp(s * loss - (p - 1) * h) for mass, loss, h in rows if loss <= tilt.cap]
            beyond = [mass * mp.exp(-(p - 1) * h) for mass, loss, h in rows if loss > tilt.cap]
            whole = mp.fsum(mass * mp.exp(-(p - 1) * h) for mass, _, h in rows)
            assert step.log_partial(s, p) == near(float(mp.log(mp.fsum(inside))), 1e-13)
            assert step.log_beyond(p) == near(float(mp.log(mp.fsum(beyond))), 1e-13)
            assert step.log_whole(p) == near(float(mp.log(whole)), 1e-13, 1e-15)
        normaliser = float(mp.log(mp.fsum(mass * mp.exp(h) for mass, _, h in rows)))
    assert step.log_normaliser == near(normaliser, rel=1e-13, abs=1e-15)


def test_greatest_gap_and_least_height() -> None:
    for tilt in TILTS.values():
        step, finite = TiltedOutcomes(PAIR, tilt), PAIR.losses[PAIR.losses <= tilt.cap]
        for a in (0.5, 1.0, 4.0):
            assert step.greatest_gap(a) == np.max(a * finite - tilt.height(finite))
        assert step.least_height == np.min(tilt.height(PAIR.losses))
    assert TiltedOutcomes(PAIR, Tilt(1.0, -9.0, -9.0)).greatest_gap(1.0) == -math.inf


@pytest.mark.parametrize("tilt", TILTS.values(), ids=TILTS)
def test_a_height_is_constant_outside_of_floor_and_cap(tilt: Tilt) -> None:
    losses = np.linspace(-2.0, 3.0, 5001)
    inside = (losses > tilt.floor) & (losses < tilt.cap)
    rise = np.diff(tilt.height(losses)) / np.diff(losses)
    both = inside[1:] & inside[:-1]
    np.testing.assert_allclose(rise[both], tilt.order, atol=1e-9)
    assert np.all(tilt.height(losses[losses >= tilt.cap]) == tilt.height_beyond)
    assert tilt.height(np.inf) == tilt.height_beyond
    assert np.isfinite(tilt.height(np.array([-np.inf, np.inf]))).all()


@pytest.mark.parametrize("values", [{"order": 1.0}, {"order": 1.0, "cap": 2.0}, {"cap": 0.0, "floor": 1.0}])
def test_a_tilt_that_is_none_is_refused(values: dict[str, float]) -> None:
    with pytest.raises(ValueError, match=r"tilt|floor"):
        Tilt(**values)


Density = Callable[[float], float]
PAIRS: dict[str, tuple[DominatingPair, Density]] = {
    "gaussian": (GaussianPair(0.7), lambda t: norm.pdf(t - 0.7)),
    "sampled remove": (
        SampledPair(GaussianPair(1.5), 0.05, Direction.REMOVE),
        lambda t: 0.95 * norm.pdf(t) + 0.05 * norm.pdf(t - 1.5),
    ),
    "sampled add": (SampledPair(GaussianPair(1.5), 0.3, Direction.ADD), lambda t: norm.pdf(t - 1.5)),
    "laplace": (LaplacePair(0.8), lambda t: laplace.pdf(t, 1.0, 0.8)),
}


def moment_of(pair: DiscretePair, epsilon: float, p: float) -> float:
    masses = np.exp(np.array(pair.log_p))
    return float(masses @ (-np.expm1(np.minimum(epsilon - pair.losses, 0.0))) ** p)


@pytest.mark.parametrize("p", [1.0, 1.5, 2.0, 6.0])
@pytest.mark.parametrize("name", PAIRS)
def test_what_is_spread_has_greater_moments(name: str, p: float) -> None:
    """Of plain samples, Section 2.2; and means of cells, which are no such bound, have lesser."""
    pair, density = PAIRS[name]
    for epsilon in (0.05, 0.3):
        low, corners = float(pair.point(epsilon)), [0.0, 0.5, 1.0]

        def sample(t: float, epsilon: float = epsilon) -> float:
            loss = float(pair.privacy_loss(t))
            return density(t) * max(-math.expm1(epsilon - loss), 0.0) ** p

        ends = [low, *(x for x in corners if x > low), 40.0]
        truth = sum(quad(sample, a, b, limit=200)[0] for a, b in pairwise(ends))
        for number in (7, 40, 400):
            edges = np.linspace(-6.0, 9.0, number)
            above = moment_of(spread_to_edges(pair, edges), epsilon, p)
            assert above >= truth * (1 - 1e-9)
            ends_in_t = np.concatenate(([-np.inf], edges, [np.inf]))
            masses = (pair.log_mass(m, ends_in_t[:-1], ends_in_t[1:]) for m in Measure)
            assert moment_of(DiscretePair.from_logs(*masses), epsilon, p) <= truth * (1 + 1e-9)
        assert above <= truth * 1.05


def test_rounding_of_a_normaliser_is_far_below_its_allowance() -> None:
    """Each step of a long composition enters by its logarithm, and errors add up."""
    for q, mu, order in ((1e-3, 1.0, 20), (4096 / 50000, 1 / 5.971, 27), (1e-6, 0.5, 200), (0.3, 0.05, 100)):
        pair = SampledPair(GaussianPair(mu), q, Direction.REMOVE)
        edges = np.linspace(-38.0, 38.0 + mu * (order + 1), 1 << 17)
        spread = spread_to_edges(pair, edges)
        top = float(spread.losses[np.isfinite(spread.losses)][-1])
        step = TiltedOutcomes(spread, Tilt(float(order), top, float(loss_range(pair)[0])))
        n = order + 1
        terms = (
            mp.binomial(n, j) * (1 - mpf(q)) ** (n - j) * mpf(q) ** j * mp.exp(mpf(mu) ** 2 * j * (j - 1) / 2)
            for j in range(n + 1)
        )
        with mp.workdps(40):
            exact = float(mp.log(mp.fsum(terms)))
        assert exact - PER_STEP <= step.log_normaliser <= exact + 2e-3


@pytest.mark.parametrize("direction", Direction)
def test_a_sum_of_sampled_losses_is_off_by_what_its_base_says(direction: Direction) -> None:
    """Of losses that come from logarithms of tiny probabilities; sampling them dropped what they are off by."""
    x, tiny = 0.5000000999335052, 1e-300
    base = DiscretePair.from_logs(np.log([x, 1 - x, tiny]), np.log([1 - x, x, tiny]))
    assert base.error > 1e-12
    for law in (base, poisson_sampled(base, 0.5, direction)):
        spread = outcomes(law)
        assert isinstance(spread, DiscretePair)
        assert sum_error(law, 1000) >= 1000 * base.error >= 999 * spread.error
        assert spread_to_edges(law, np.array([-1.0, 0.5])).error == base.error
