"""Samplers draw the tilted law itself: shares of outcomes, sums over steps, tables of chances."""

from __future__ import annotations

import math
from fractions import Fraction
from types import SimpleNamespace
from typing import cast

import numpy as np
import pytest
from scipy.stats import laplace

from evr._kernel.pairs import DiscretePair, Floats
from evr._kernel.pairs.line.laplace import LaplacePair
from evr._kernel.sampled.line import OutcomeSampler, alias_slots
from evr._kernel.sampled.moments import Tilt, TiltedOutcomes
from evr._kernel.sampled.simple import PlainSampler
from helpers import ks_radius

SIZE = 40_000
P = np.array([0.1, 0.2, 0.3, 0.3, 0.09, 0.01])
Q = np.array([0.3, 0.3, 0.2, 0.15, 0.03, 0.02])
TILT = Tilt(1.5, 0.6, -1.0)


def generator(seed: int = 1) -> np.random.Generator:
    return np.random.Generator(np.random.Philox(seed))


def sampler_of(pair: DiscretePair, tilt: Tilt = TILT) -> OutcomeSampler:
    return OutcomeSampler(TiltedOutcomes(pair, tilt))


def many(outcomes: int) -> DiscretePair:
    return DiscretePair.from_probabilities(*np.random.default_rng(3).dirichlet(np.ones(outcomes), 2))


def chances_of(pair: DiscretePair, tilt: Tilt) -> Floats:
    weights = np.exp(np.array(pair.log_p) + tilt.height(pair.losses))
    return np.asarray(weights / weights.sum())


def test_a_step_has_the_tilted_chances() -> None:
    pair = DiscretePair.from_probabilities(P, Q)
    losses, heights = sampler_of(pair).draw(generator(), SIZE, 1)
    for loss, chance in zip(pair.losses, chances_of(pair, TILT), strict=True):
        assert abs(np.mean(losses == loss) - chance) < 6 * math.sqrt(chance * (1 - chance) / SIZE)
        np.testing.assert_allclose(heights[losses == loss], TILT.height(loss), rtol=1e-12)


@pytest.mark.parametrize(("outcomes", "count"), [(6, 30), (300, 7), (300, 129), (300, 1000)])
def test_sums_over_steps_are_sums_of_single_steps(outcomes: int, count: int) -> None:
    """Two-sample Kolmogorov-Smirnov test of losses and heights, whether steps are drawn one by one
    or counted.
    """
    size = 20_000 if count < 200 else 5000
    sampler = sampler_of(many(outcomes))
    together = sampler.draw(generator(2), size, count)
    alone = [sampler.draw(generator(10 + i), size, 1) for i in range(count)]
    for kind in (0, 1):
        a, b = np.sort(together[kind]), np.sort(np.sum([x[kind] for x in alone], axis=0))
        places = np.concatenate((a, b)) * (1 + 1e-12) + 1e-12
        apart = np.abs(np.searchsorted(a, places) - np.searchsorted(b, places)).max() / size
        assert apart <= 2 * ks_radius(size)


@pytest.mark.parametrize(("outcomes", "count"), [(300, 1), (300, 100), (6, 5), (6, 10**9)])
def test_means_of_sums(outcomes: int, count: int) -> None:
    pair = many(outcomes)
    sums, chances = sampler_of(pair).draw(generator(), SIZE, count), chances_of(pair, TILT)
    for found, table in zip(sums, (pair.losses, TILT.height(pair.losses)), strict=True):
        assert abs(found.mean() - count * float(chances @ table)) < 6 * found.std() / math.sqrt(SIZE)


@pytest.mark.parametrize("outcomes", [1, 2, 255, 256, 300, 700])
def test_alias_tables_have_the_chances_of_their_outcomes(outcomes: int) -> None:
    """To within 2^-64 each, the rarest too, by whole numbers."""
    chances = np.random.default_rng(1).dirichlet(np.full(outcomes, 0.03))
    bits = max(1, (outcomes - 1).bit_length())
    found, room = [0] * (1 << bits), 1 << (64 - bits)
    for own, slot in enumerate(alias_slots(chances, bits).tolist()):
        found[own] += slot % room
        found[slot // room] += room - slot % room
    assert sum(found) == 1 << 64
    assert not any(found[outcomes:])
    likeliest = int(np.argmax(chances))
    total = sum(map(Fraction, chances.tolist()))
    for index, chance in enumerate(chances.tolist()):
        most = outcomes if index == likeliest else 1
        assert abs(found[index] - Fraction(chance) / total * 2**64) <= most


def test_a_word_of_64_bits_decides_a_draw() -> None:
    """Its leading bits the slot, all others between the two outcomes."""
    pair = DiscretePair.from_probabilities([0.1, 0.3, 0.6], [0.5, 0.3, 0.2])
    sampler = sampler_of(pair, Tilt())
    words = [(slot << 62) + low for slot in range(4) for low in (0, 1 << 61, (1 << 62) - 1)]
    drawn = np.array([words], np.uint64)
    fixed = cast(np.random.Generator, SimpleNamespace(integers=lambda *_: drawn.copy()))
    slots = alias_slots(np.array([0.1, 0.3, 0.6]), 2).tolist()
    expected = [
        own if word % (1 << 62) < slots[own] % (1 << 62) else slots[own] >> 62 for word in words for own in [word >> 62]
    ]
    assert sampler.draw(fixed, len(words), 1).losses.tolist() == pair.losses[expected].tolist()


def test_plain_sampler() -> None:
    pair = LaplacePair(2.0)
    losses, heights = PlainSampler(pair).draw(generator(), SIZE, 3)
    noise = laplace.rvs(1.0, 2.0, size=3 * SIZE, random_state=np.random.default_rng(1))
    single = pair.privacy_loss(noise)
    assert np.all(heights == 0)
    error = math.sqrt(2) * losses.std() / math.sqrt(SIZE)
    assert abs(losses.mean() - 3 * single.mean()) < 6 * error


def test_many_plain_steps_are_drawn_in_parts() -> None:
    pair = LaplacePair(2.0)
    losses = PlainSampler(pair).draw(generator(), 40, 20_000).losses
    one = PlainSampler(pair).draw(generator(3), 400_000, 1).losses
    error = math.sqrt(one.var() * (1 / 8e5 + 1 / 4e5))
    assert abs(losses.mean() / 20_000 - one.mean()) < 6 * error
