"""Claims under other relations: true ones are accepted, false ones rejected, by both proofs."""

from __future__ import annotations

from typing import Any

import pytest
from dp_accounting import NeighboringRelation, dp_event

import evr
from evr._kernel.events import Composition
from helpers import answers, full, together

REPLACE_ONE = NeighboringRelation.REPLACE_ONE
GAUSSIAN = dp_event.GaussianDpEvent(3.0)


def repeated(event: dp_event.DpEvent, count: int) -> dp_event.DpEvent:
    return dp_event.SelfComposedDpEvent(event, count)


CASES = {
    "gaussian": (repeated(GAUSSIAN, 4), "replace-one", 3.0),
    "laplace": (repeated(dp_event.LaplaceDpEvent(8.0), 10), "replace-one", 1.5),
    "discrete gaussian": (repeated(evr.events.DiscreteGaussianDpEvent(8.0, 1), 8), "replace-one", 2.0),
    "discrete laplace": (repeated(dp_event.DiscreteLaplaceDpEvent(0.2, 1), 8), "replace-one", 2.0),
    "response": (repeated(dp_event.RandomizedResponseDpEvent(0.8, 5), 6), "replace-one", 2.0),
    "known": (repeated(evr.events.EpsilonDeltaDpEvent(0.1, 1e-6), 20), "replace-one", 1.0),
    "response against uniform": (repeated(dp_event.RandomizedResponseDpEvent(0.8, 5), 6), "zero-out", 2.0),
    "tree": (dp_event.SingleEpochTreeAggregationDpEvent(6.0, 100), "zero-out", 1.5),
    "without replacement": (
        repeated(dp_event.SampledWithoutReplacementDpEvent(100, 5, GAUSSIAN), 10),
        "replace-one",
        0.5,
    ),
    "response without replacement": (
        repeated(dp_event.SampledWithoutReplacementDpEvent(100, 5, dp_event.RandomizedResponseDpEvent(0.5, 4)), 20),
        "replace-one",
        2.0,
    ),
    "truncated": (repeated(dp_event.TruncatedSubsampledGaussianDpEvent(100, 0.05, 8, 2.0), 10), "add-or-remove", 0.3),
}


# drawn from outcomes, as what is spread to them is
SLOW = ("laplace", "discrete laplace", "response", "known", "truncated")


@pytest.mark.parametrize(
    ("method", "name"),
    [
        full(method, name) if method == "sequential" and name in SLOW else (method, name)
        for method in ("sequential", "strict")
        for name in CASES
    ],
)
def test_true_claims_are_accepted_and_false_ones_rejected(name: str, method: str) -> None:
    event, relation, epsilon = CASES[name]
    composition = Composition.of(event, relation)
    delta = evr.estimate_delta(composition, epsilon).value
    assert 1e-9 < delta < 0.2

    def verified(estimate: float) -> Any:
        return evr.verify(
            event,
            epsilon=epsilon,
            delta=estimate / 0.7,
            tau=0.7,
            method=method,
            seed=1,
            workers=1,
            neighboring_relation=relation,
        )

    true = verified(delta)
    assert true.accepted
    assert true.guarantee == evr.Guarantee(epsilon, delta / 0.7)
    assert not verified(0.68 * delta).accepted


def test_the_first_pair_alone_understates(monkeypatch: pytest.MonkeyPatch) -> None:
    """Composed, the pair with a mixture in its first slot is not enough: its losses below 0 are
    those of another mechanism.
    """
    base = dp_event.RandomizedResponseDpEvent(0.2, 3)
    event = repeated(dp_event.SampledWithoutReplacementDpEvent(10, 5, base), 3)
    whole = evr.estimate_delta(event, 1.5, neighboring_relation=REPLACE_ONE).value
    one_sided = evr.estimate_delta(together((answers(0.2, 3, 0.5), 3)), 1.5, direction="remove").value
    assert whole > 1.01 * one_sided
    claimed = evr.verify(
        event, epsilon=1.5, delta=one_sided / 0.999, tau=0.999, seed=1, neighboring_relation=REPLACE_ONE
    )
    assert not claimed.accepted
