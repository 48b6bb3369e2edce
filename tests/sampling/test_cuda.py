"""What a GPU draws: numbers by place, the same as NumPy's; and sums over samples.

Where there is no GPU, kernels are compiled for the processor (``on_host.hpp`` stands for CUDA).
"""

import ctypes

import numpy as np
import pytest

from evr.sampling.philox import Place, normals, philox, uniform
from evr.verification.summary import HISTOGRAM_EDGES, summed
from sampling.host import HostBench

PLACE = Place((0x12345678, 0x9ABCDEF0), 7)


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


@pytest.fixture(scope="module")
def bench(tmp_path_factory):
    return HostBench(tmp_path_factory.mktemp("cuda"))


def test_sums_do_not_lose_with_their_length(bench):
    """Kahan's: within 2u, where plain sums are off by 1e-11."""
    bench.library.host_total.restype = ctypes.c_double
    found = bench.library.host_total(ctypes.c_double(0.1), 10**6)
    assert abs(found - 1e5) <= 2.0**-51 * 1e5


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
    assert sums[:, 5].max() == pytest.approx((values + infinite).max(), rel=1e-14)
    assert tuple(histogram.tolist()) == expected.histogram


def test_normals_are_normal_and_independent():
    from scipy.stats import kstest

    one, other = normals(PLACE.words(np.arange(50_000), 3, 0))
    assert min(kstest(x, "norm").pvalue for x in (one, other, (one + other) / 2**0.5)) > 1e-6
    u = uniform(PLACE.words(np.arange(50_000), 4, 0)[1])
    assert kstest(u, "uniform").pvalue > 1e-6
    assert 0.0 < u.min() <= u.max() <= 1.0
