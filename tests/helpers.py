"""Comparisons, and statistical assertions. Each of the latter states the probability with which it
fails although the code is right.

Random tests are seeded, so a passing test keeps passing; the failure probability is what a reader
needs to trust a change of the seed, and what a wrong implementation has to get past.
"""

from __future__ import annotations

import importlib
import itertools
import math
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from dp_accounting import dp_event
from scipy.stats import norm

from evr._kernel.events import Composition
from evr._kernel.events.relations import ADD_OR_REMOVE
from evr._kernel.events.walk import Walk
from evr._kernel.pairs import Pairs
from evr._kernel.pairs.exact import exact_sampled


def near(expected: Any, rel: float | None = None, abs: float = 0.0) -> Any:
    """What equals numbers within ``rel`` of ``expected`` (1e-6 by default), or within ``abs``.

    ``pytest.approx`` also accepts whatever is within 1e-12, so that 0 passes for a delta of 1e-13.
    Here nothing is accepted but what was asked for: where the truth is 0, give ``abs``.
    ``expected`` is a number, an array, a sequence or a dictionary.
    """
    if rel is None:
        rel = 0.0 if abs else 1e-6
    return pytest.approx(expected, rel=rel, abs=abs)


def full(*values: Any, **more: Any) -> Any:
    """Parameters of a test that takes long, and shows what others of its kind show: run by ``make bench`` only."""
    return pytest.param(*values, marks=pytest.mark.full, **more)


def answers(noise: float, buckets: int, q: float = 1.0) -> Pairs:
    """The laws of two answers of randomized response, sampled by Poisson as if under add-or-remove: a small law with
    three losses. The event has none there (docs/guarantees_relations.md, R9.3).
    """
    found = Composition.of(dp_event.RandomizedResponseDpEvent(noise, buckets), "replace-one").remove[0]
    if q == 1.0:
        return Pairs.both(found.law)
    return Pairs.each(lambda one: exact_sampled(found.exact_law, Fraction(q), one))


def together(*parts: dp_event.DpEvent | tuple[Pairs, int]) -> Composition:
    """Events and laws with their counts, composed under add-or-remove."""
    walking = Walk(ADD_OR_REMOVE)
    counts = [[one] if isinstance(one, tuple) else walking.counts(one) for one in parts]
    return Composition.from_counts(itertools.chain(*counts))


def proof_script(name: str) -> Any:
    """A module of ``proofs/``."""
    sys.path.insert(0, str(Path(__file__).parents[1] / "proofs"))
    try:
        return importlib.import_module(name)
    finally:
        sys.path.pop(0)


@contextmanager
def switching_often() -> Iterator[None]:
    """Threads take turns as often as Python lets them, so that a race that could happen does."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        yield
    finally:
        sys.setswitchinterval(before)


def assert_mean_within(
    samples: Any, expected: float, failure_probability: float = 1e-9, bounds: tuple[float, float] | None = None
) -> None:
    """Fail if the mean of independent samples is too far from ``expected``.

    With ``bounds`` on the samples the empirical Bernstein inequality of Maurer and Pontil (2009,
    Theorem 4, both sides by a union bound) makes ``failure_probability`` a guarantee at any sample
    size. Without, the central limit theorem with the sample deviation is used, which wants a few
    thousand samples without heavy tails.
    """
    samples = np.asarray(samples, float)
    n, mean, variance = samples.size, float(samples.mean()), float(samples.var(ddof=1))
    if bounds is None:
        radius = float(norm.isf(failure_probability / 2)) * math.sqrt(variance / n)
    else:
        low, high = bounds
        assert samples.min() >= low, f"a sample is {samples.min()}, below the stated bound {low}"
        assert samples.max() <= high, f"a sample is {samples.max()}, above the stated bound {high}"
        log_term = math.log(4 / failure_probability)
        radius = math.sqrt(2 * variance * log_term / n) + 7 * (high - low) * log_term / (3 * (n - 1))
    assert abs(mean - expected) <= radius, (
        f"mean {mean!r} of {n} samples is {abs(mean - expected):.3g} from {expected!r}, more than "
        f"{radius:.3g}, which happens with probability {failure_probability:g} at most"
    )


def ks_radius(size: int, failure_probability: float = 1e-9) -> float:
    """The radius of Dvoretzky, Kiefer and Wolfowitz, with Massart's constant: valid for every law
    and sample size.
    """
    return math.sqrt(math.log(2 / failure_probability) / (2 * size))


def assert_uniform(samples: Any, failure_probability: float = 1e-9) -> None:
    """Kolmogorov-Smirnov test of independent samples against the uniform law on [0, 1]."""
    ordered = np.sort(np.asarray(samples, float))
    steps = np.arange(ordered.size + 1) / ordered.size
    distance = float(max(np.max(ordered - steps[:-1]), np.max(steps[1:] - ordered)))
    radius = ks_radius(ordered.size, failure_probability)
    assert distance <= radius, (
        f"Kolmogorov-Smirnov distance {distance:.4g} of {ordered.size} samples is above "
        f"{radius:.4g}, which happens with probability {failure_probability:g} at most"
    )


def assert_follows(samples: Any, cdf: Callable[[Any], Any], failure_probability: float = 1e-9) -> None:
    """Kolmogorov-Smirnov test of independent samples against a continuous distribution function."""
    assert_uniform(cdf(np.asarray(samples, float)), failure_probability)
