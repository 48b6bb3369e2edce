"""What a GPU draws: numbers by place, the same in steps.cu and in NumPy, of the right law.

Where there is no GPU, kernels are compiled for the processor (``on_host.hpp`` stands for CUDA).
"""

import ctypes
import math

import numpy as np
import pytest

import evr
from evr.bounds.tilt import Tilt
from evr.laws import DiscretePair
from evr.mechanisms import Composition
from evr.sampling.cuda import device, why_not
from evr.sampling.philox import Place, normals, philox, uniform
from evr.sampling.samplers import SAMPLERS, PlacedSampler, identity, named_sampler, sampler_class
from evr.sampling.samplers.alias import alias_slots
from evr.sampling.samplers.mixture_philox import Component, cut_normal
from evr.sampling.samplers.outcomes_philox import OutcomesPhilox
from evr.verification.summary import HISTOGRAM_EDGES, summed
from helpers import near
from sampling.host import HostBench

PLACE = Place((0x12345678, 0x9ABCDEF0), 7)


def pair_of(probability, noise, direction):
    event = evr.dpsgd(noise_multiplier=noise, sampling_probability=probability, steps=3)
    (step,) = Composition.of(event).simplified(direction)
    return step.pair


def placed(name, pair, tilt) -> PlacedSampler:
    sampler = named_sampler(name, pair, tilt)(pair, tilt)
    assert isinstance(sampler, PlacedSampler)
    return sampler


def discrete(outcomes, seed=3):
    generator = np.random.default_rng(seed)
    p, q = generator.dirichlet(np.ones(outcomes), 2)
    return DiscretePair.from_probabilities(p, q)


CASES = {
    "mixture": ("mixture_philox/1", pair_of(0.02, 1.0, "remove"), Tilt(7.0, 1.0, -0.02)),
    "mixture, two slopes": (
        "mixture_philox/1",
        pair_of(0.05, 0.7, "remove"),
        Tilt(2.0, 1.5, -0.05, 0.3, 5.0),
    ),
    "mixture, plain": ("mixture_philox/1", pair_of(0.1, 1.0, "remove"), Tilt()),
    "mixture, many components": (
        "mixture_philox/1",
        pair_of(0.08, 5.971, "remove"),
        Tilt(30.0, 0.4, -0.08),
    ),
    "envelope": ("envelope_philox/1", pair_of(0.02, 1.0, "add"), Tilt(30.0, 0.015, -40.0)),
    "envelope, far cap": ("envelope_philox/1", pair_of(0.3, 2.0, "add"), Tilt(9.0, 2.0, -90.0)),
    "envelope, plain": ("envelope_philox/1", pair_of(0.1, 1.0, "add"), Tilt()),
    "outcomes": ("outcomes_philox/1", discrete(300), Tilt(1.5, 1.0, -0.5)),
    "outcomes, on a line": ("outcomes_philox/1", discrete(5), Tilt(0.5, 50.0, -50.0)),
}
case = pytest.mark.parametrize(("name", "pair", "tilt"), CASES.values(), ids=CASES)


def test_philox_gives_the_known_answers():
    """Of Random123's kat_vectors."""
    ones = 0xFFFFFFFF
    pi = (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344)
    assert [int(x) for x in philox((ones,) * 4, (ones, ones))] == [
        0x408F276D,
        0x41C83B0E,
        0xA20BC7C6,
        0x6D5451FD,
    ]
    assert [int(x) for x in philox(pi, (0xA4093822, 0x299F31D0))] == [
        0xD16CFE09,
        0x94FDCCEB,
        0x5001E420,
        0x24126EA1,
    ]


@case
def test_a_sample_is_the_same_whoever_draws_it_with_others(name, pair, tilt):
    sampler = placed(name, pair, tilt)
    together = sampler.drawn(PLACE, np.arange(40), 51)
    alone = sampler.drawn(PLACE, np.array([17]), 51)
    np.testing.assert_allclose(together.losses[17], alone.losses[0], rtol=1e-12)
    np.testing.assert_allclose(together.heights[17], alone.heights[0], rtol=1e-12)
    assert np.unique(together.losses).size > 10


@pytest.fixture(scope="module")
def bench(tmp_path_factory):
    return HostBench(tmp_path_factory.mktemp("cuda"))


SHAPES = [(60, 101, one) for one in CASES] + [(60, 1, "mixture"), (60, 2, "envelope")]
SHAPES += [(2, 20_003, one) for one in ("mixture", "envelope", "outcomes")]


@pytest.mark.parametrize(("samples", "count", "which"), SHAPES)
def test_the_kernels_draw_the_numbers_of_numpy(bench, samples, count, which):
    name, pair, tilt = CASES[which]
    sampler = placed(name, pair, tilt)
    expected = sampler.drawn(PLACE, np.arange(samples), count)
    losses, heights = np.zeros((2, samples))
    tables = (
        np.ascontiguousarray(x) if isinstance(x, np.ndarray) else x for x in sampler.arguments()
    )
    threads = 1 if sampler.kernel == "outcomes" else samples
    named = (*PLACE.key, PLACE.block, samples, count)
    bench.launch(sampler.kernel, threads, *named, *tables, losses, heights)
    np.testing.assert_allclose(losses, expected.losses, rtol=1e-11, atol=1e-13)
    np.testing.assert_allclose(heights, expected.heights, rtol=1e-11, atol=1e-11)


@pytest.mark.skipif(why_not() is not None, reason="no GPU here")
@case
def test_a_gpu_draws_the_numbers_of_numpy(name, pair, tilt):
    import cupy

    sampler = placed(name, pair, tilt)
    samples, count = 3000, 101
    expected = sampler.drawn(PLACE, np.arange(samples), count)
    losses, heights = cupy.zeros((2, samples))
    where = (*map(np.uint32, (*PLACE.key, PLACE.block)), np.int32(samples), np.int32(count))
    arguments = (*where, *device._uploaded(cupy, sampler), losses, heights)
    device._gpu().launch_steps(sampler, samples, arguments)
    np.testing.assert_allclose(losses.get(), expected.losses, rtol=1e-11, atol=1e-13)
    np.testing.assert_allclose(heights.get(), expected.heights, rtol=1e-11, atol=1e-11)


def test_sums_do_not_lose_with_their_length(bench):
    """Kahan's: within 2u, where plain sums are off by 1e-11."""
    bench.library.host_total.restype = ctypes.c_double
    found = bench.library.host_total(ctypes.c_double(0.1), 10**6)
    assert abs(found - 1e5) <= 2.0**-51 * 1e5


def test_ties_of_outcomes_are_settled_by_more_bits(bench):
    """With 14 bits to choose, 18 are left to decide: once in 2^18 they do not."""
    pair, tilt, samples, count = discrete(9000), Tilt(1.5, 1.0, -0.5), 2500, 401
    sampler = OutcomesPhilox(pair, tilt)
    words = np.stack(philox((np.arange(100), np.arange(samples)[:, None], 0, 7), PLACE.key))
    decide = words & np.uint64((1 << 18) - 1)
    assert np.any(decide == (sampler.slots[words >> np.uint64(18)] & np.uint32((1 << 18) - 1)))
    expected = sampler.drawn(PLACE, np.arange(samples), count)
    losses, heights = np.zeros((2, samples))
    key = (*PLACE.key, PLACE.block, samples, count)
    bench.launch("outcomes", 1, *key, *sampler.arguments(), losses, heights)
    np.testing.assert_allclose(losses, expected.losses, rtol=1e-14)


@pytest.mark.parametrize("stake", [0.0, 0.3])
def test_the_sums_over_samples_are_those_of_numpy(bench, stake):
    generator = np.random.default_rng(1)
    losses, heights = generator.normal(0.5, 1.0, 3000), generator.normal(0.0, 2.0, 3000)
    epsilon, log_weight, infinite, clip, mean = 0.5, 0.3, 0.01, 3.0, 0.9
    values = np.where(
        losses > epsilon, -np.expm1(epsilon - losses) * np.exp(log_weight - heights), 0.0
    )
    expected = summed(values + infinite, 0, clip, mean, stake)
    sums, histogram = np.zeros((3, 6)), np.zeros(HISTOGRAM_EDGES.size, np.uint64)
    numbers = (epsilon, log_weight, infinite, clip, mean, stake)
    bench.launch("summarise", 3, *numbers, 3000, losses, heights, sums, histogram)
    np.testing.assert_allclose(sums[:, :5].sum(axis=0), expected[2:7], rtol=1e-12)
    assert sums[:, 5].max() == near((values + infinite).max(), rel=1e-14)
    assert tuple(histogram.tolist()) == expected.histogram


@case
def test_the_law_is_that_of_the_other_samplers(name, pair, tilt):
    """Means and variances of the losses and heights of single steps, to six standard errors."""
    by_place = placed(name, pair, tilt)
    other = sampler_class(pair, tilt)(pair, tilt)
    assert other.name + "_philox" == by_place.name
    size = 60_000
    generator = np.random.default_rng(5)
    for one, two in zip(
        by_place.draw(generator, size, 2), other.draw(generator, size, 2), strict=True
    ):
        for power in (1, 2):
            a, b = one**power, two**power
            error = math.hypot(a.std(), b.std()) / math.sqrt(size)
            assert abs(a.mean() - b.mean()) <= 6.0 * error + 1e-13
        places = np.quantile(two, [0.01, 0.2, 0.5, 0.8, 0.99])
        shares = [(np.mean(one <= x + 1e-9), np.mean(two <= x + 1e-9)) for x in places]
        assert all(abs(a - b) < 6.0 * math.sqrt(0.5 / size) for a, b in shares)


@pytest.mark.parametrize(
    "interval",
    [
        (-1.0, 2.0),
        (1.5, math.inf),
        (9.0, math.inf),
        (-math.inf, -3.0),
        (-0.1, 0.2),
        (2.0, 2.3),
        (0.0, 0.3),
    ],
)
def test_normal_draws_are_cut_to_their_interval(interval):
    from scipy.stats import kstest, truncnorm

    one = Component.of(0.7, interval[0] + 0.7, interval[1] + 0.7, 1.0, 0.0)
    rows = np.broadcast_to(np.array(one), (4000, len(one)))
    z = cut_normal(rows, PLACE, np.arange(4000), 2)
    assert np.all((z >= interval[0]) & (z <= interval[1]))
    assert kstest(z, truncnorm(*interval).cdf).pvalue > 1e-6


def test_normals_are_normal_and_independent():
    from scipy.stats import kstest

    one, other = normals(PLACE.words(np.arange(50_000), 3, 0))
    assert min(kstest(x, "norm").pvalue for x in (one, other, (one + other) / 2**0.5)) > 1e-6
    u = uniform(PLACE.words(np.arange(50_000), 4, 0)[1])
    assert kstest(u, "uniform").pvalue > 1e-6
    assert 0.0 < u.min() <= u.max() <= 1.0


@pytest.mark.parametrize("outcomes", [1, 2, 255, 256, 700])
def test_an_alias_table_holds_the_chances_exactly(outcomes):
    chances = np.random.default_rng(outcomes).dirichlet(np.full(outcomes, 0.2))
    bits = max(8, (outcomes - 1).bit_length())
    room, found = 1 << (64 - bits), [0] * (1 << bits)
    for index, slot in enumerate(alias_slots(chances, bits).tolist()):
        other, own = divmod(slot, room)
        found[index] += own
        found[other] += room - own
    assert sum(found) == 1 << 64
    np.testing.assert_allclose([x / 2**64 for x in found[:outcomes]], chances, atol=1e-15)


def test_losses_of_outcomes_are_exact_to_the_unit():
    pair = discrete(500)
    sampler = OutcomesPhilox(pair, Tilt(1.5, 1.0, -0.5))
    held = pair.losses[np.array(pair.log_p) > -np.inf]
    stored = np.sort(sampler.values[: held.size] * sampler.unit)
    np.testing.assert_allclose(stored, np.sort(held), atol=2.0**-49 * np.abs(held).max())


def test_placed_samplers_are_found_by_name_and_never_chosen_by_themselves():
    names = [identity(one) for one in SAMPLERS]
    assert {"mixture_philox/1", "envelope_philox/1", "outcomes_philox/1"} <= set(names)
    assert names.index("cells/1") < min(names.index(x) for x in names if "philox" in x)
