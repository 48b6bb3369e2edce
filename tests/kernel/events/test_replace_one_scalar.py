"""Sampled Laplace and integer noise under replace-one (docs/guarantees_relations.md, R6): numbers by quadrature and
enumeration, all integer instances by brute force, what is accepted and what is not.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
from dp_accounting import dp_event
from flint import ctx
from hypothesis import given, settings
from hypothesis import strategies as st

import evr
from evr._estimate.closed_forms import pair_delta
from evr._kernel.events import Composition
from evr._kernel.pairs.exact import Ball, ExactCurve, ExactOutcomes
from evr._proof import check_proof
from evr.events import DiscreteGaussianDpEvent
from helpers import near, proof_script

REPLACED: dict[str, Any] = {"neighboring_relation": "replace-one"}

# q, scale, epsilon, delta: adaptive quadrature
LAPLACE = [
    (0.1, 1.0, 0.1, 0.0294464326667),
    (0.5, 0.5, 1.0, 0.234325751011),
    (0.01, 0.3, 0.05, 0.00572901283679),
    (0.9, 2.0, 0.4, 0.213425143568),
    (0.3, 1.0, -0.2, 0.280472263611),
    (0.5, 0.5, 3.0, 0.0),
]
# q, sigma, sensitivity, epsilon, delta: enumeration
DISCRETE_GAUSSIAN = [
    (0.1, 1.0, 1, 0.5, 0.00316696364739),
    (0.01, 0.7, 1, 0.3, 7.64877586454e-5),
    (0.5, 2.0, 2, 1.0, 0.0958095900152),
    (0.2, 3.0, 1, 0.1, 0.0179606563431),
]


def step_of(event: Any) -> Any:
    (step,) = Composition.of(event, "replace-one").steps("remove")
    return step


def strict_delta(law: Any, epsilon: float) -> float:
    """From the exact law of one step, at the middles of its balls."""
    ratio = Ball(epsilon).exp()
    if isinstance(law, ExactCurve):
        return float(law.curve()(ratio).mid())
    assert isinstance(law, ExactOutcomes)
    return math.fsum(max(0.0, float((one.p - ratio * one.q).mid())) for one in law.sets())


@pytest.mark.parametrize(("q", "scale", "epsilon", "expected"), LAPLACE)
def test_laplace(q: float, scale: float, epsilon: float, expected: float) -> None:
    step = step_of(dp_event.PoissonSampledDpEvent(q, dp_event.LaplaceDpEvent(scale)))
    assert pair_delta(step.pair, epsilon) == near(expected, rel=5e-12)
    assert strict_delta(step.law, epsilon) == near(expected, rel=5e-12)


@pytest.mark.parametrize(("q", "sigma", "sensitivity", "epsilon", "expected"), DISCRETE_GAUSSIAN)
def test_discrete_gaussian(q: float, sigma: float, sensitivity: int, epsilon: float, expected: float) -> None:
    step = step_of(dp_event.PoissonSampledDpEvent(q, DiscreteGaussianDpEvent(sigma, sensitivity)))
    assert pair_delta(step.pair, epsilon) == near(expected, rel=5e-12)
    assert strict_delta(step.law, epsilon) == near(expected, rel=5e-12)


def test_sampling_everybody_doubles_the_sensitivity() -> None:
    for noise in (dp_event.LaplaceDpEvent(1.5), dp_event.DiscreteLaplaceDpEvent(0.5, 2), DiscreteGaussianDpEvent(2.0)):
        whole = pair_delta(step_of(noise).pair, 0.3)
        nearly = pair_delta(step_of(dp_event.PoissonSampledDpEvent(1 - 1e-12, noise)).pair, 0.3)
        assert nearly == near(whole, rel=1e-10)


@given(q=st.floats(1e-6, 0.999), scale=st.floats(0.05, 50.0), loss=st.floats(-3.0, 3.0))
@settings(max_examples=60, deadline=None)
def test_a_place_of_sampled_laplace_noise_has_its_loss(q: float, scale: float, loss: float) -> None:
    pair = step_of(dp_event.PoissonSampledDpEvent(q, dp_event.LaplaceDpEvent(scale))).pair
    t = float(pair.point(loss))
    if math.isfinite(t):
        assert float(pair.privacy_loss(t)) == near(loss, rel=1e-9, abs=1e-12)
    else:
        assert abs(loss) >= float(pair.privacy_loss(1.0)) * (1 - 1e-12)


def test_the_curve_of_sampled_laplace_noise_encloses_also_around_1() -> None:
    law = step_of(dp_event.PoissonSampledDpEvent(0.25, dp_event.LaplaceDpEvent(1.0))).law
    wide = Ball(1, 0.01)
    assert law.curve()(wide).contains(law.curve()(Ball(1.005)))
    assert law.curve()(wide).contains(law.curve()(Ball(0.995)))


def test_claims_and_certificates(tmp_path: Path) -> None:
    parts = [
        dp_event.SelfComposedDpEvent(dp_event.PoissonSampledDpEvent(0.1, noise), 10)
        for noise in (
            dp_event.LaplaceDpEvent(2.0),
            dp_event.DiscreteLaplaceDpEvent(0.25, 2),
            DiscreteGaussianDpEvent(3.0),
        )
    ]
    event = dp_event.ComposedDpEvent(parts)
    truth = evr.estimate_delta(event, 1.0, **REPLACED).value
    proof = tmp_path / "noise.proof"
    made = evr.certify(
        event, epsilon=1.0, delta=truth * 1.05, ledger=tmp_path / "ledger.sqlite", proof=proof, **REPLACED
    )
    assert made.accepted
    assert made.verification.method == "strict"
    assert any("added to one number" in one for one in made.assumptions)
    assert evr.replay(made).agrees
    answer = check_proof.check(proof.read_bytes())
    assert answer.word == check_proof.LISTED
    assert proof_script("enclosures").disagreeing(answer.file)[0] == 0
    for method in ("strict", "sequential"):
        asked = {"method": method, "epsilon": 1.0, "seed": 3, "tau": 0.8, **REPLACED}
        assert not evr.verify(event, delta=truth * 0.9, **asked).accepted
    assert ctx.prec >= 53


def test_sampled_noise_leaks_more_than_by_adding_or_removing() -> None:
    event = dp_event.SelfComposedDpEvent(dp_event.PoissonSampledDpEvent(0.1, dp_event.LaplaceDpEvent(1.0)), 30)
    replaced = evr.estimate_epsilon(event, 1e-6, **REPLACED).value
    assert evr.estimate_epsilon(event, 1e-6).value < replaced < 2.5 * evr.estimate_epsilon(event, 1e-6).value
