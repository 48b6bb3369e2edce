"""Numbers by place: Philox has the known answers, and what is made of it the right law."""

import numpy as np

from evr._kernel.sampled.philox import Counter, normals, philox, uniform

COUNTER = Counter((0x12345678, 0x9ABCDEF0), 7)


def test_philox_gives_the_known_answers():
    """Of Random123's kat_vectors."""
    ones = 0xFFFFFFFF
    pi = (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344)
    assert [int(x) for x in philox((ones,) * 4, (ones, ones))] == [0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD]
    assert [int(x) for x in philox(pi, (0xA4093822, 0x299F31D0))] == [0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1]


def test_normals_are_normal_and_independent():
    from scipy.stats import kstest

    one, other = normals(COUNTER.words(np.arange(50_000), 3, 0))
    assert min(kstest(x, "norm").pvalue for x in (one, other, (one + other) / 2**0.5)) > 1e-6
    u = uniform(COUNTER.words(np.arange(50_000), 4, 0)[1])
    assert kstest(u, "uniform").pvalue > 1e-6
    assert 0.0 < u.min() <= u.max() <= 1.0
