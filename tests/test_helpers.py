"""The statistical assertions accept the truth and refuse what is wrong."""

import numpy as np
import pytest

from helpers import assert_follows, assert_mean_within, assert_uniform, ks_radius, near


def test_mean_accepts_the_truth_and_refuses_a_shift():
    samples = np.random.default_rng(1).random(20_000)
    assert_mean_within(samples, 0.5)
    assert_mean_within(samples, 0.5, bounds=(0, 1))
    with pytest.raises(AssertionError, match="mean"):
        assert_mean_within(samples, 0.52)
    with pytest.raises(AssertionError, match="mean"):
        assert_mean_within(samples, 0.54, bounds=(0, 1))


def test_mean_refuses_samples_outside_the_stated_bounds():
    with pytest.raises(AssertionError, match="above the stated bound"):
        assert_mean_within([0.0, 2.0], 1.0, bounds=(0, 1))


def test_bernstein_radius_shrinks_with_the_variance():
    rare = np.zeros(100_000)
    rare[:10] = 1.0
    with pytest.raises(AssertionError):
        assert_mean_within(rare, 2e-3, bounds=(0, 1))


def test_ks_accepts_the_truth_and_refuses_a_change():
    samples = np.random.default_rng(2).random(10_000)
    assert_uniform(samples)
    assert_follows(samples**2, np.sqrt)
    for wrong in (samples**1.2, samples * 0.95, np.clip(samples, 0.1, 1)):
        with pytest.raises(AssertionError, match="Kolmogorov"):
            assert_uniform(wrong)


def test_ks_radius_is_the_two_sided_bound():
    assert 2 * np.exp(-2 * 1000 * ks_radius(1000, 1e-6) ** 2) == near(1e-6)


def test_near_accepts_only_what_was_asked_for() -> None:
    """``pytest.approx`` takes 0 for 5.86e-15, whatever the relative tolerance."""
    assert near(5.86e-15, rel=1e-9) != 0.0
    assert near(5.86e-15, rel=1e-9) == 5.86e-15 * (1 + 5e-10)
    assert near(1.0) == 1.0 + 9e-7
    assert near(1.0) != 1.0 + 2e-6
    assert near(0.0) != 1e-300
    assert near(0.0, abs=1e-9) == 1e-10
    assert near(1e3, abs=1e-9) != 1e3 + 1e-6  # not relative where only abs is given
    assert near([1.0, 1e-20], rel=1e-3) != [1.0, 0.0]
    assert near(np.array([1.0, 1e-20]), rel=1e-3) != np.array([1.0, 0.0])
    assert near({"a": 1e-20}, rel=1e-3) != {"a": 0.0}
