"""Samplers draw the tilted law itself: compared with its distribution function, found by numerical
integration.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from scipy.stats import laplace, norm

from evr.bounds import Tilt
from evr.bounds.cells import CellTable
from evr.laws import Direction, DiscretePair, DominatingPair, Floats, Measure
from evr.laws.line.gaussian import GaussianPair
from evr.laws.line.laplace import LaplacePair
from evr.laws.line.mixture import MixturePair
from evr.laws.line.poisson import SampledPair
from evr.sampling.proposals import tilted_bounds
from evr.sampling.samplers import sampler_class
from evr.sampling.samplers.common import StepSampler
from evr.sampling.samplers.envelope import EnvelopeSampler
from evr.sampling.samplers.lines import CellSampler, PlainSampler
from evr.sampling.samplers.mixture import MixtureSampler
from evr.sampling.samplers.outcomes import OutcomeSampler
from helpers import assert_uniform, ks_radius

SIZE = 40_000


def generator(seed: int = 1) -> np.random.Generator:
    return np.random.Generator(np.random.Philox(seed))


def make(pair: DominatingPair, tilt: Tilt) -> StepSampler:
    return sampler_class(pair, tilt)(pair, tilt, tilted_bounds(pair, tilt, 2048).table)


def assert_tilted(
    pair: DominatingPair, tilt: Tilt, density: Callable[[Floats], Floats], losses: Floats
) -> None:
    """Kolmogorov-Smirnov test of losses against ``e^h P``, its distribution function by the
    trapezoidal rule.
    """
    ends = [float(pair.point(x)) for x in (tilt.floor, tilt.cap, tilt.knee) if x is not None]
    t = np.unique(
        np.concatenate((np.linspace(-20.0, 30.0, 200_001), [x for x in ends if math.isfinite(x)]))
    )
    log_weight = np.log(np.maximum(density(t), 1e-300)) + tilt.height(pair.privacy_loss(t))
    weight = np.exp(log_weight - log_weight.max())
    mass = np.concatenate(([0.0], np.cumsum(np.diff(t) * (weight[1:] + weight[:-1]) / 2)))
    assert_uniform(np.interp(pair.point(losses), t, mass / mass[-1]))


def sampled_density(q: float, mu: float) -> Callable[[Floats], Floats]:
    return lambda t: (1 - q) * norm.pdf(t) + q * norm.pdf(t - mu)


def _floor(q: float) -> float:
    return math.log1p(-q)


MIXTURES = {
    "plain": (0.2, 1.0, Tilt()),
    "one slope": (0.05, 1.5, Tilt(3.0, 2.0, _floor(0.05))),
    "near cap": (0.05, 1.5, Tilt(6.0, 0.6, _floor(0.05))),
    "two slopes": (0.05, 1.5, Tilt(1.0, 2.5, _floor(0.05), knee=0.5, jump_order=4.0)),
    "flat, then steep": (0.3, 1.5, Tilt(1.0, 1.5, _floor(0.3), knee=0.2, jump_order=9.0)),
    "dense": (0.08, 0.4, Tilt(27.0, 1.5, _floor(0.08))),
    "floor inside": (0.4, 1.2, Tilt(4.0, 1.4, -0.2)),
    "floor high": (0.4, 1.2, Tilt(2.0, 1.4, 0.1, knee=0.5, jump_order=3.0)),
    "cap below most": (0.9, 2.0, Tilt(2.0, 0.5, _floor(0.9))),
}


@pytest.mark.parametrize("name", MIXTURES)
def test_mixture_sampler(name: str) -> None:
    q, mu, tilt = MIXTURES[name]
    pair = SampledPair(GaussianPair(mu), q, Direction.REMOVE)
    sampler = make(pair, tilt)
    assert isinstance(sampler, MixtureSampler)
    losses, heights = sampler.draw(generator(), SIZE, 1)
    np.testing.assert_allclose(heights, tilt.height(losses), rtol=1e-12, atol=1e-12)
    assert_tilted(pair, tilt, sampled_density(q, mu), losses)
    if tilt.order:
        bounds = tilted_bounds(pair, tilt, 32_768)
        assert (
            bounds.log_normaliser_lower - 1e-12
            <= sampler.log_normaliser
            <= bounds.log_normaliser + 1e-12
        )


@pytest.mark.parametrize("steps", [7, 23])
@pytest.mark.parametrize("name", [*MIXTURES, "add"])
def test_sums_over_steps_are_sums_of_single_steps(name: str, steps: int) -> None:
    """Two-sample Kolmogorov-Smirnov test of losses and of heights, the samplers' paths for one, a
    few and many steps.
    """
    q, mu, tilt = MIXTURES.get(name, (0.4, 1.2, Tilt(5.0, 0.4, -60.0)))
    pair = (
        SampledPair(GaussianPair(mu), q, Direction.ADD)
        if name == "add"
        else SampledPair(GaussianPair(mu), q, Direction.REMOVE)
    )
    sampler, size = make(pair, tilt), 20_000
    together = sampler.draw(generator(2), size, steps)
    alone = [sampler.draw(generator(10 + i), size, 1) for i in range(steps)]
    for kind in (0, 1):
        a, b = np.sort(together[kind]), np.sort(np.sum([x[kind] for x in alone], axis=0))
        places = np.concatenate((a, b)) * (1 + 1e-12) + 1e-12
        apart = np.abs(np.searchsorted(a, places) - np.searchsorted(b, places)).max() / size
        assert apart <= 2 * ks_radius(size)


def test_many_steps_are_drawn_in_parts() -> None:
    pair = SampledPair(GaussianPair(1.0), 0.3, Direction.REMOVE)
    losses, heights = MixtureSampler(pair, Tilt()).draw(generator(), 40, 20_000)
    # under Q the mean loss is negative
    mean = -float(pair.privacy_loss(generator(9).standard_normal(400_000)).mean())
    assert mean > 0
    assert np.all(heights == 0)
    drawn = pair.privacy_loss(pair.draw(Measure.P, generator(3), 400_000))
    error = math.sqrt(drawn.var() * (1 / 8e5 + 1 / 4e5))
    assert abs(losses.mean() / 20_000 - drawn.mean()) < 6 * error


@pytest.mark.parametrize(("noise", "q"), [(0.03, 0.5), (0.01, 1e-3), (0.004, 0.2)])
def test_huge_losses_do_not_overflow(noise: float, q: float) -> None:
    pair = SampledPair(GaussianPair(1 / noise), q, Direction.REMOVE)
    for tilt in (Tilt(), Tilt(1.0, 3.0, _floor(q))):
        sums = MixtureSampler(pair, tilt).draw(generator(), 2000, 5)
        assert np.isfinite(sums.losses).all()
        assert np.isfinite(sums.heights).all()
        assert sums.losses.max() > 500 or q < 0.01


ENVELOPES = {
    "steep": (0.3, 1.0, Tilt(8.0, 3.0, -40.0)),
    "steeper": (0.3, 1.0, Tilt(40.0, 3.0, -40.0)),
    "capped": (0.9, 1.5, Tilt(3.0, 0.8, -80.0)),
    # iterating for the mode does not settle
    "mode in circles": (0.9999, 1.0, Tilt(17.0, 20.0, -39.4)),
    "nearly sure": (1 - 1e-9, 1.0, Tilt(24.6, 17.17, -39.4)),
}


@pytest.mark.parametrize(("q", "mu", "tilt"), ENVELOPES.values(), ids=ENVELOPES)
def test_envelope_sampler(q: float, mu: float, tilt: Tilt) -> None:
    pair = SampledPair(GaussianPair(mu), q, Direction.ADD)
    sampler = make(pair, tilt)
    assert isinstance(sampler, EnvelopeSampler)
    losses, heights = sampler.draw(generator(), SIZE, 1)
    np.testing.assert_allclose(heights, tilt.height(losses), rtol=1e-12, atol=1e-12)
    assert_tilted(pair, tilt, lambda t: norm.pdf(t - mu), losses)


@pytest.mark.parametrize(("q", "mu", "tilt"), ENVELOPES.values(), ids=ENVELOPES)
def test_the_envelope_is_above_and_the_bound_on_its_gap_holds(
    q: float, mu: float, tilt: Tilt
) -> None:
    sampler = EnvelopeSampler(SampledPair(GaussianPair(mu), q, Direction.ADD), tilt)
    rise, ratios, bounds = np.empty((3, SIZE))
    sampler._fill(generator(), rise, ratios)
    sampler._bound_gaps(rise, ratios, out=bounds)
    gaps = sampler._gap(rise, ratios)
    assert gaps.min() >= -1e-12
    assert np.all(bounds >= gaps - 1e-12)


@pytest.mark.parametrize(
    "tilt", [Tilt(5.0, 0.4, -0.1), Tilt(2.0, 0.4, -40.0, knee=0.1, jump_order=5.0)]
)
def test_no_envelope_where_it_would_be_pierced(tilt: Tilt) -> None:
    pair = SampledPair(GaussianPair(1.2), 0.4, Direction.ADD)
    sampler = make(pair, tilt)
    assert isinstance(sampler, CellSampler)
    assert_tilted(
        pair, tilt, lambda t: norm.pdf(t - 1.2), sampler.draw(generator(), SIZE, 1).losses
    )


CELLS = {
    "gaussian": (GaussianPair(0.8), lambda t: norm.pdf(t - 0.8), Tilt(4.3, 2.0, -1.5)),
    "two slopes": (
        GaussianPair(0.8),
        lambda t: norm.pdf(t - 0.8),
        Tilt(1.5, 2.0, -1.5, knee=0.3, jump_order=3.5),
    ),
    "sampled, of broken order": (
        SampledPair(GaussianPair(1.2), 0.1, Direction.REMOVE),
        sampled_density(0.1, 1.2),
        Tilt(3.7, 1.4, _floor(0.1)),
    ),
    "mixture": (
        MixturePair((0.0, 0.5, 2.0), (0.5, 0.3, 0.2), Direction.REMOVE),
        lambda t: 0.5 * norm.pdf(t) + 0.3 * norm.pdf(t - 0.5) + 0.2 * norm.pdf(t - 2.0),
        Tilt(2.0, 2.5, math.log(0.5)),
    ),
}


@pytest.mark.parametrize("name", CELLS)
def test_cell_sampler(name: str) -> None:
    pair, density, tilt = CELLS[name]
    sampler = make(pair, tilt)
    assert isinstance(sampler, CellSampler)
    losses, heights = sampler.draw(generator(), SIZE, 1)
    np.testing.assert_allclose(heights, tilt.height(losses), rtol=1e-12, atol=1e-12)
    assert_tilted(pair, tilt, density, losses)


def test_cells_too_wide_for_a_tilt_do_not_draw_for_ever() -> None:
    """As in a stranger's plan: nearly every draw would be refused."""
    pair, tilt = GaussianPair(1.0), Tilt(2000.0, 8.0, -8.0)
    sampler = CellSampler(pair, tilt, CellTable.of(pair, 0.0, 2, ()))
    with pytest.raises(ValueError, match="the plan's cells are too wide for its tilt"):
        sampler.draw(generator(), 1000, 1)


def test_cell_sampler_with_atoms() -> None:
    pair, tilt = LaplacePair(0.8), Tilt(2.0, 1.0, -1.25)
    losses = make(pair, tilt).draw(generator(), SIZE, 1).losses
    t = np.linspace(0.0, 1.0, 200_001)
    weight = laplace.pdf(t, 1.0, 0.8) * np.exp(tilt.height(pair.privacy_loss(t)))
    mass = np.concatenate(([0.0], np.cumsum(np.diff(t) * (weight[1:] + weight[:-1]) / 2)))
    ends = [
        laplace.cdf(0.0, 1.0, 0.8) * math.exp(tilt.height(-1.25)),
        0.5 * math.exp(tilt.height(1.25)),
    ]
    total = mass[-1] + sum(ends)
    for atom, share in zip((-1.25, 1.25), ends, strict=True):
        chance = share / total
        seen = np.count_nonzero(np.abs(losses - atom) < 1e-12) / SIZE
        assert abs(seen - chance) < 6 * math.sqrt(chance * (1 - chance) / SIZE)
    inside = losses[np.abs(losses) < 1.25 - 1e-12]
    assert_uniform(np.interp(pair.point(inside), t, mass / mass[-1]))


@pytest.mark.parametrize("count", [1, 2, 30])
def test_outcome_sampler(count: int) -> None:
    p, q = np.array([0.1, 0.2, 0.3, 0.3, 0.09, 0.01]), np.array([0.3, 0.3, 0.2, 0.15, 0.05, 0.0])
    pair, tilt = DiscretePair.from_probabilities(p, q), Tilt(1.5, 0.6, -1.0)
    sampler = make(pair, tilt)
    assert isinstance(sampler, OutcomeSampler)
    losses, heights = sampler.draw(generator(), SIZE, count)
    weight = np.exp(np.array(pair.log_p) + tilt.height(pair.losses))
    weight /= weight.sum()
    endless = 1 - (1 - weight[-1]) ** count
    assert abs(np.isinf(losses).mean() - endless) < 6 * math.sqrt(endless * (1 - endless) / SIZE)
    expected = count * float(weight @ tilt.height(pair.losses))
    assert abs(heights.mean() - expected) < 6 * heights.std() / math.sqrt(SIZE)
    if count == 1:
        for loss, chance in zip(pair.losses, weight, strict=True):
            assert abs(np.mean(losses == loss) - chance) < 6 * math.sqrt(
                chance * (1 - chance) / SIZE
            )
            np.testing.assert_allclose(heights[losses == loss], tilt.height(loss), rtol=1e-12)


def test_plain_sampler() -> None:
    pair = LaplacePair(2.0)
    sampler = make(pair, Tilt())
    assert isinstance(sampler, PlainSampler)
    losses, heights = sampler.draw(generator(), SIZE, 3)
    single = pair.privacy_loss(
        laplace.rvs(1.0, 2.0, size=3 * SIZE, random_state=np.random.default_rng(1))
    )
    assert np.all(heights == 0)
    assert abs(losses.mean() - 3 * single.mean()) < 6 * math.sqrt(2) * losses.std() / math.sqrt(
        SIZE
    )
