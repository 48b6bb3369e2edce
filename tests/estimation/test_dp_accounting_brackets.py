"""The Fourier accountant between dp_accounting's optimistic and pessimistic discretisations, where
atoms and smooth parts mix.

Among the settings are those in which single losses exceed all that the other steps can take back,
atoms included: these were once counted twice beyond the grid's cap.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from dp_accounting import dp_event
from dp_accounting.pld import privacy_loss_distribution as pld

import evr
from evr.events import DiscreteGaussianDpEvent
from helpers import full

MECHANISMS: dict[str, tuple[Callable[[float], dp_event.DpEvent], Callable[..., Any]]] = {
    "laplace": (dp_event.LaplaceDpEvent, pld.from_laplace_mechanism),
    "discrete gaussian": (lambda s: DiscreteGaussianDpEvent(s, 1), pld.from_discrete_gaussian_mechanism),
    "gaussian": (dp_event.GaussianDpEvent, pld.from_gaussian_mechanism),
}
SETTINGS = [
    full("laplace", 0.1, 0.1, 30, 2.5),
    ("laplace", 0.2, 0.01, 20, 1.0),
    ("laplace", 0.2, 0.01, 2, 1.0),
    ("laplace", 1.0, 0.2, 12, 0.5),
    full("laplace", 0.15, 0.5, 3, 6.0),
    ("laplace", 3.0, 1.0, 10, 1.5),
    full("discrete gaussian", 0.5, 0.05, 25, 1.5),
    ("discrete gaussian", 0.7, 1e-3, 20, 0.5),
    full("discrete gaussian", 1.0, 0.1, 20, 1.0),
    full("discrete gaussian", 2.0, 0.3, 7, 1.0),
    ("discrete gaussian", 3.0, 1.0, 5, 2.0),
    full("gaussian", 0.4, 0.01, 20, 2.0),
    ("gaussian", 1.0, 0.1, 50, 2.0),
]


@pytest.mark.parametrize(("name", "scale", "q", "steps", "epsilon"), SETTINGS)
def test_between_a_lower_and_an_upper_bound(name: str, scale: float, q: float, steps: int, epsilon: float) -> None:
    ours, theirs = MECHANISMS[name]
    one = ours(scale) if q == 1 else dp_event.PoissonSampledDpEvent(q, ours(scale))
    found = evr.estimate_delta(dp_event.SelfComposedDpEvent(one, steps), epsilon)
    assert found.error <= 1e-5 * found.value
    low, high = (
        theirs(scale, sampling_prob=q, value_discretization_interval=1e-4, pessimistic_estimate=pessimistic)
        .self_compose(steps)
        .get_delta_for_epsilon(epsilon)
        for pessimistic in (False, True)
    )
    assert high <= 1.01 * low + 1e-12  # the bracket says something
    assert low - found.error - 1e-12 <= found.value <= high + found.error + 1e-12
