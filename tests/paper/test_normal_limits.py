"""The baselines of the normal limit: exact for Gaussians, the published formula for sampled ones,
close in the limit, and the bound a bound.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from dp_accounting import dp_event

from estimation.references import REFERENCES, Reference, references
from evr._estimate.closed_forms import pair_delta
from evr._kernel.events import Composition
from evr._kernel.pairs import Direction
from evr._kernel.pairs.line.gaussian import GaussianPair
from evr.events import dpsgd
from helpers import near

GAUSSIANS = dp_event.SelfComposedDpEvent(dp_event.GaussianDpEvent(70.0), 1200)
LIMIT = [r for r in references("many steps") if r.delta > 1e-6]
assert len(LIMIT) >= 2


@pytest.fixture(scope="module")
def limits() -> Iterator[ModuleType]:
    sys.path.insert(0, str(Path(__file__).parents[2] / "paper"))
    import normal_limits

    yield normal_limits
    sys.path.pop(0)
    del sys.modules["normal_limits"]


def steps(event: Any, direction: str = "remove") -> Any:
    return Composition.of(event).steps(Direction(direction))


@pytest.mark.parametrize("epsilon", [0.0, 1.0, 2.0, 4.0])
def test_gdp_is_exact_for_gaussians(limits: ModuleType, epsilon: float) -> None:
    exact = pair_delta(GaussianPair(math.sqrt(1200) / 70), epsilon)
    assert limits.gdp(GAUSSIANS)(epsilon) == near(exact, rel=1e-9)


def test_gdp_is_the_formula_of_bu_et_al(limits: ModuleType) -> None:
    event = dpsgd(noise_multiplier=1.3, sampling_probability=0.02, steps=700)
    mu = 0.02 * math.sqrt(700 * (math.exp(1 / 1.3**2) - 1))
    assert limits.gdp(event)(0.7) == near(pair_delta(GaussianPair(mu), 0.7), rel=1e-9)


def test_moments_of_a_gaussian_are_the_closed_form(limits: ModuleType) -> None:
    p, q = limits.loss_moments(steps(dp_event.GaussianDpEvent(2.0))[0].pair)
    expected = [1 / 8, 1 / 4, 0.0, 0.0, math.sqrt(8 / math.pi) / 8]
    np.testing.assert_allclose(p, expected, rtol=1e-7, atol=1e-9)
    np.testing.assert_allclose(q, [-1 / 8, *expected[1:]], rtol=1e-7, atol=1e-9)


def test_moments_of_a_sampled_gaussian_agree_with_quadrature(limits: ModuleType) -> None:
    (step,) = steps(dpsgd(noise_multiplier=0.8, sampling_probability=1e-4, steps=1))
    x, w = np.polynomial.hermite_e.hermegauss(120)
    loss = np.log1p(1e-4 * np.expm1(x / 0.8 - 0.5 / 0.64))
    for law, weights in zip(limits.loss_moments(step.pair), (w * np.exp(loss), w), strict=True):
        weights = weights / weights.sum()
        mean = weights @ loss
        centred = [weights @ (loss - mean) ** n for n in (2, 3, 4)]
        expected = [mean, centred[0], centred[1], centred[2] - 3 * centred[0] ** 2]
        np.testing.assert_allclose(law[:4], expected, rtol=1e-5)


@pytest.mark.parametrize("r", LIMIT, ids=[r.label for r in LIMIT])
def test_edgeworth_is_close_in_the_limit_and_closer_than_gdp(limits: ModuleType, r: Reference) -> None:
    found = limits.EdgeworthCurve(steps(r.event, r.direction)).delta(r.epsilon)
    error = abs(found / r.delta - 1)
    assert error < 5e-4
    assert error < abs(limits.gdp(r.event)(r.epsilon) / r.delta - 1) / 10


@pytest.mark.parametrize("r", REFERENCES[::2], ids=[r.label for r in REFERENCES[::2]])
def test_the_upper_bound_is_above_the_truth(limits: ModuleType, r: Reference) -> None:
    bound = limits.EdgeworthCurve(steps(r.event, r.direction)).upper_delta(r.epsilon)
    assert bound >= r.delta * (1 - 1e-9)


def test_the_upper_bound_is_useful_for_many_steps(limits: ModuleType) -> None:
    curve = limits.EdgeworthCurve(steps(GAUSSIANS))
    assert curve.delta(0.5) < curve.upper_delta(0.5) < curve.delta(0.5) + 0.06
