"""Bounds by cells bracket what quadrature finds; the tilt is what it says."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from mpmath import mp, mpf
from scipy.stats import laplace, norm

from evr.bounds import Tilt
from evr.bounds.cells import CellTable, TiltedBounds
from evr.bounds.rounding import PER_STEP
from evr.laws import Direction, DiscretePair, DominatingPair, Floats
from evr.laws.line.gaussian import GaussianPair
from evr.laws.line.laplace import LaplacePair
from evr.laws.line.mixture import MixturePair
from evr.laws.line.poisson import SampledPair
from evr.sampling.proposals import tilted_bounds
from evr.sampling.samplers.mixture import MixtureSampler
from helpers import near

Density = Callable[[Floats], Floats]

# Pairs with the density of P, written out anew, and the places where it or the loss has a corner.
PAIRS: dict[str, tuple[DominatingPair, Density, tuple[float, ...]]] = {
    "gaussian": (GaussianPair(0.7), lambda t: norm.pdf(t - 0.7), ()),
    "sampled remove": (
        SampledPair(GaussianPair(1.5), 0.05, Direction.REMOVE),
        lambda t: 0.95 * norm.pdf(t) + 0.05 * norm.pdf(t - 1.5),
        (),
    ),
    "sampled add": (
        SampledPair(GaussianPair(1.5), 0.3, Direction.ADD),
        lambda t: norm.pdf(t - 1.5),
        (),
    ),
    "mixture remove": (
        MixturePair((0.0, 0.5, 2.0), (0.5, 0.3, 0.2), Direction.REMOVE),
        lambda t: 0.5 * norm.pdf(t) + 0.3 * norm.pdf(t - 0.5) + 0.2 * norm.pdf(t - 2.0),
        (),
    ),
    "mixture add": (MixturePair((0.0, 0.5, 2.0), (0.5, 0.3, 0.2), Direction.ADD), norm.pdf, ()),
    "laplace": (LaplacePair(0.8), lambda t: laplace.pdf(t, 1.0, 0.8), (0.0, 1.0)),
    "sampled laplace": (
        SampledPair(LaplacePair(0.8), 0.2, Direction.REMOVE),
        lambda t: 0.8 * laplace.pdf(t, 0.0, 0.8) + 0.2 * laplace.pdf(t, 1.0, 0.8),
        (0.0, 1.0),
    ),
}


def integral(function: Density, low: float, high: float, corners: tuple[float, ...]) -> float:
    """Of a function that is negligible beyond 40 and smooth between its corners: Gauss's rule on
    short pieces.
    """
    low, high = max(low, -40.0), min(high, 40.0)
    if low >= high:
        return 0.0
    inner = [x for x in (*corners, *np.arange(-40.0, 40.0, 0.25)) if low < x < high]
    ends = np.array(sorted({low, high, *inner}))
    nodes, weights = np.polynomial.legendre.leggauss(16)
    half = np.diff(ends) / 2
    t = ends[:-1, None] + half[:, None] * (nodes + 1)
    return float(np.sum(half[:, None] * weights * function(t)))


@pytest.mark.parametrize("r", [-3.0, -1.0, -0.4, 0.0, 0.6, 4.0])
@pytest.mark.parametrize("name", PAIRS)
def test_moments_of_cells_bracket_the_truth(name: str, r: float) -> None:
    pair, density, corners = PAIRS[name]
    table = CellTable.of(pair, 0.0, 24, [0.1])
    upper, lower = (np.exp(table.moment(r, slice(None), upper=u)) for u in (True, False))
    for low, high, below, above in zip(table.low, table.high, lower, upper, strict=True):
        if not (math.isfinite(low) and math.isfinite(high)) or high < -6.0 or low > 8.0:
            continue

        def integrand(t: Floats) -> Floats:
            return density(t) * np.exp(r * pair.privacy_loss(t))

        true = integral(integrand, float(low), float(high), corners)
        assert below <= true * (1 + 1e-9)
        assert true <= above * (1 + 1e-9)


TILTS = {
    "three": Tilt(3.0, 1.2, -0.8),
    "fraction": Tilt(0.7, 0.6, -0.03),
    "two slopes": Tilt(1.0, 1.5, -0.5, knee=0.3, jump_order=4.0),
}


@pytest.mark.parametrize("tilt", TILTS.values(), ids=TILTS)
@pytest.mark.parametrize("name", PAIRS)
def test_bounds_of_a_tilt(name: str, tilt: Tilt) -> None:
    pair, density, corners = PAIRS[name]
    bounds = tilted_bounds(pair, tilt, 4096)
    points = [float(pair.point(x)) for x in (tilt.floor, tilt.cap, tilt.knee) if x is not None]
    corners = (*corners, *(x for x in points if math.isfinite(x)))

    def expectation(
        s: float, factor: float, low: float = -math.inf, high: float = math.inf
    ) -> float:
        def integrand(t: Floats) -> Floats:
            loss = pair.privacy_loss(t)
            return density(t) * np.exp(s * loss + factor * tilt.height(loss))

        return integral(integrand, low, high, corners)

    cap = float(pair.point(tilt.cap))
    normaliser = expectation(0.0, 1.0)
    assert math.exp(bounds.log_normaliser_lower) <= normaliser * (1 + 1e-9)
    assert normaliser <= math.exp(bounds.log_normaliser) * (1 + 1e-9)
    assert bounds.log_normaliser - bounds.log_normaliser_lower < 1e-4
    for s, p in ((0.5, 2.0), (4.0, 2.0), (2.0, 1.5), (6.0, 4.0)):
        partial = expectation(s, 1.0 - p, high=cap)
        assert partial <= math.exp(bounds.log_partial(s, p)) * (1 + 1e-9)
        assert math.exp(bounds.log_partial(s, p)) <= partial * (1 + 1e-3)
        assert expectation(0.0, 1.0 - p) == near(math.exp(bounds.log_whole(p)), rel=1e-3)
        if cap < 40:
            assert expectation(0.0, 1.0 - p, low=cap) <= math.exp(bounds.log_beyond(p)) * (1 + 1e-9)
        else:
            assert bounds.log_beyond(p) == -math.inf


@pytest.mark.parametrize("tilt", [Tilt(), *TILTS.values()], ids=["none", *TILTS])
def test_pieces_are_the_height(tilt: Tilt) -> None:
    losses = np.linspace(-2.0, 3.0, 5001)
    low = -math.inf
    for end, slope, offset in tilt.pieces:
        inside = (losses > low) & (losses <= end)
        np.testing.assert_allclose(
            tilt.height(losses[inside]), slope * losses[inside] + offset, rtol=0, atol=1e-12
        )
        low = end
    assert low == math.inf
    assert tilt.height(np.inf) == tilt.height_beyond
    assert np.all(np.diff(tilt.height(losses)) >= 0)
    assert np.isfinite(tilt.height(np.array([-np.inf, np.inf]))).all()


@pytest.mark.parametrize(
    "values",
    [
        {"order": 1.0},
        {"order": 1.0, "cap": 2.0},
        {"order": 1.0, "cap": 2.0, "floor": -1.0, "knee": 0.5},
        {"order": 1.0, "cap": 2.0, "floor": -1.0, "knee": 0.5, "jump_order": 0.5},
        {"order": 1.0, "cap": 2.0, "floor": -1.0, "knee": 2.5, "jump_order": 2.0},
    ],
)
def test_a_tilt_that_is_none_is_refused(values: dict[str, float]) -> None:
    with pytest.raises(ValueError, match=r"tilt|knee|floor"):
        Tilt(**values)


def test_greatest_gap_and_least_height() -> None:
    for pair, _, _ in PAIRS.values():
        for tilt in TILTS.values():
            bounds = tilted_bounds(pair, tilt, 1024)
            low, high = pair.loss_range
            losses = np.linspace(max(low, -5.0), min(high, tilt.cap), 4001)
            for a in (tilt.order, 0.5 * tilt.order, 2.0 * tilt.order):
                assert np.max(a * losses - tilt.height(losses)) <= bounds.greatest_gap(a) + 1e-12
            assert bounds.least_height <= np.min(tilt.height(losses))


def test_cells_of_outcomes_are_exact() -> None:
    pair = DiscretePair.from_logs(
        np.log([0.1, 0.2, 0.3, 0.4 - 1e-6, 1e-6]), [*np.log([0.3, 0.4, 0.2, 0.1]), -np.inf]
    )
    tilt = Tilt(2.0, 0.9, -0.7)
    bounds = TiltedBounds(pair, CellTable.of(pair, 2.0, 64, [0.9, -0.7]), tilt)
    exact = np.exp(np.array(pair.log_p)) * np.exp(tilt.height(pair.losses))
    assert math.exp(bounds.log_normaliser) == near(float(exact.sum()), rel=1e-14)
    assert math.exp(bounds.log_normaliser_lower) == near(float(exact.sum()), rel=1e-14)
    assert math.exp(bounds.log_beyond(1.0)) == near(0.4, rel=1e-14)


def test_rounding_of_a_normaliser_is_far_below_its_allowance() -> None:
    """Each step of a long composition enters by its logarithm, and errors add up."""
    for q, mu, order in (
        (1e-3, 1.0, 20),
        (4096 / 50000, 1 / 5.971, 27),
        (1e-6, 0.5, 200),
        (0.3, 0.05, 100),
    ):
        pair = SampledPair(GaussianPair(mu), q, Direction.REMOVE)
        cap = float(pair.privacy_loss(38.0 + mu * (order + 1)))
        tilt = Tilt(float(order), cap, float(pair.loss_range[0]))
        n = order + 1
        terms = (
            mp.binomial(n, j)
            * (1 - mpf(q)) ** (n - j)
            * mpf(q) ** j
            * mp.exp(mpf(mu) ** 2 * j * (j - 1) / 2)
            for j in range(n + 1)
        )
        with mp.workdps(40):
            exact = float(mp.log(mp.fsum(terms)))
        by_cells = tilted_bounds(pair, tilt, 65_536)
        assert abs(MixtureSampler(pair, tilt).log_normaliser - exact) < PER_STEP / 50 * max(
            1.0, exact
        )
        assert by_cells.log_normaliser > exact - PER_STEP
        assert by_cells.log_normaliser_lower < exact + PER_STEP
