"""Events that hold for zeroing out a record: ``ZeroOutDpEvent``, shuffled batches, and plans of JAX
Privacy (here by stand-ins of its classes; tests/integrations has the true ones).
"""

from __future__ import annotations

import enum
import functools
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from dp_accounting import NeighboringRelation, dp_event

import evr
import messages
from evr.errors import OtherRelationError, UnsupportedEventError
from evr.mechanisms import Composition
from evr.mechanisms.relations import name_of

# --- For zeroing out only -------------------------------------------------------------------------


def test_what_holds_for_zeroing_out_only() -> None:
    inner = evr.dpsgd(noise_multiplier=1.0, sampling_probability=0.01, steps=10)
    event = evr.events.ZeroOutDpEvent(inner)
    found = Composition.of(event)
    assert found == Composition.of(inner, "zero-out")
    assert name_of(found.relation) == "zero-out"
    assert Composition.of(dp_event.ComposedDpEvent([inner, event])).relation is found.relation
    for relation in ("add-or-remove", "replace-one"):
        with pytest.raises(OtherRelationError, match=messages.no_law_under(relation, "zero-out")):
            Composition.of(event, relation)
    with pytest.raises(OtherRelationError):  # what has no law under zero-out gets none by its name
        Composition.of(evr.events.ZeroOutDpEvent(dp_event.TruncatedSubsampledGaussianDpEvent(100, 0.1, 4, 1.0)))


def test_a_certificate_for_zeroing_out_only(tmp_path: Path) -> None:
    inner = evr.dpsgd(noise_multiplier=1.0, sampling_probability=0.01, steps=10)
    event = evr.events.ZeroOutDpEvent(inner)
    certificate = evr.certify(event, delta=1e-5, ledger=tmp_path / "ledger.sqlite")
    assert certificate.statement.startswith(
        "The composition of 10 times Poisson sampling (sampling probability 0.01) of a Gaussian"
    )
    assert "under zero-out adjacency" in certificate.statement
    assert "each record was in each batch independently" in certificate.statement
    assert evr.replay(certificate).agrees
    assert certificate.dp_event() == event


# --- Shuffled batches -----------------------------------------------------------------------------


def test_shuffled_batches_are_one_gaussian_for_each_epoch(tmp_path: Path) -> None:
    event = evr.events.ShuffledBatchesDpEvent(noise_multiplier=1.1, epochs=15)
    gaussians = dp_event.SelfComposedDpEvent(dp_event.GaussianDpEvent(1.1), 15)
    for relation in ("zero-out", "replace-one"):
        assert Composition.of(event, relation) == Composition.of(gaussians, relation)
    assert name_of(Composition.of(event).relation) == "zero-out"
    assert round(evr.estimate_epsilon(event, delta=1e-5).value, 2) == 20.56
    with pytest.raises(OtherRelationError, match=messages.ADD_OR_REMOVE_HERE):
        Composition.of(event, "add-or-remove")
    certificate = evr.certify(event, delta=1e-5, ledger=tmp_path / "ledger.sqlite")
    assert certificate.guarantee is not None
    assert certificate.guarantee.epsilon == 20.6
    assert "15 epochs of shuffled batches of a Gaussian mechanism" in certificate.statement
    assert "at most one batch of each epoch" in certificate.assumptions[0]


def test_the_refusal_of_shuffled_batches_offers_what_holds() -> None:
    with pytest.raises(ValueError, match=messages.about("ShuffledBatchesDpEvent")) as refused:
        evr.dpsgd(noise_multiplier=1.1, dataset_size=60_000, batch_size=256, epochs=15, sampling="shuffle")
    assert "ShuffledBatchesDpEvent(noise_multiplier=1.1, epochs=...)" in str(refused.value)
    assert "under zero-out adjacency" in str(refused.value)


# --- Plans of JAX Privacy -------------------------------------------------------------------------


class PartitionType(enum.Enum):
    INDEPENDENT = enum.auto()
    EQUAL_SPLIT = enum.auto()


@dataclass(frozen=True)
class CyclicPoissonSampling:
    sampling_prob: float
    iterations: int
    truncated_batch_size: int | None
    cycle_length: int
    partition_type: PartitionType


@dataclass(frozen=True)
class DPExecutionPlan:
    clipped_grad: Any
    batch_selection_strategy: CyclicPoissonSampling
    noise_addition_transform: Any
    dp_event: dp_event.DpEvent


@dataclass(frozen=True)
class Accountant:
    neighboring_relation: NeighboringRelation = NeighboringRelation.REPLACE_SPECIAL


@dataclass
class BandMFExecutionPlanConfig:
    strategy: Any
    iterations: int = 200
    noise_multiplier: float = 2.0
    sampling_prob: float = 0.2
    truncated_batch_size: int | None = None
    partition_type: PartitionType = PartitionType.EQUAL_SPLIT
    column_normalize: bool = False
    accountant: Accountant = field(default_factory=Accountant)

    @functools.cached_property
    def plan(self) -> DPExecutionPlan:
        def clipped_grad(*arguments: Any) -> Any:
            return self, arguments

        bands = len(self.strategy)
        rounds = -(-self.iterations // bands)
        step = dp_event.PoissonSampledDpEvent(self.sampling_prob, dp_event.GaussianDpEvent(self.noise_multiplier))
        return DPExecutionPlan(
            clipped_grad,
            CyclicPoissonSampling(
                self.sampling_prob, self.iterations, self.truncated_batch_size, bands, self.partition_type
            ),
            object(),
            dp_event.SelfComposedDpEvent(step, rounds),
        )


read = evr.events.from_jax_privacy
ADD = Accountant(NeighboringRelation.ADD_OR_REMOVE_ONE)


def test_a_plan_with_bands_is_never_stated_for_add_or_remove(tmp_path: Path) -> None:
    configuration = BandMFExecutionPlanConfig(np.array([1.0, 0.5, 0.375, 0.3125]))
    event = read(configuration.plan)
    norm = float(np.linalg.norm(configuration.strategy))
    assert event == evr.events.ZeroOutDpEvent(
        evr.events.CyclicPoissonDpEvent(2.0 * norm, 200, 4, 0.2, "fixed", (1.0, 0.5, 0.375, 0.3125))
    )
    assert read(configuration) == event
    with pytest.raises(OtherRelationError, match=messages.about("'zero-out'")):
        evr.certify(event, delta=1e-5, neighboring_relation="add-or-remove")
    certificate = evr.certify(event, delta=1e-5, ledger=tmp_path / "ledger.sqlite")
    assert "(4 fixed groups in turn, sampling probability 0.2, 200 it" in certificate.statement
    assert "under zero-out adjacency" in certificate.statement
    ours = evr.estimate_epsilon(event, 1e-5).value
    theirs = evr.estimate_epsilon(configuration.plan.dp_event, 1e-5).value
    assert abs(ours - theirs) <= 1e-9 * theirs, "the law is theirs: no number changes"


def test_a_plan_with_one_band_is_dp_sgd() -> None:
    plain = evr.dpsgd(noise_multiplier=2.0, sampling_probability=0.2, steps=200)
    assert read(BandMFExecutionPlanConfig([3.0]).plan) == evr.events.ZeroOutDpEvent(plain)
    independent = BandMFExecutionPlanConfig([3.0], partition_type=PartitionType.INDEPENDENT, accountant=ADD)
    assert read(independent.plan) == plain, "an accountant for add-or-remove was asked for"


def test_independent_groups() -> None:
    independent = BandMFExecutionPlanConfig([1.0, 0.5], partition_type=PartitionType.INDEPENDENT)
    event = read(independent.plan)
    assert isinstance(event, evr.events.ZeroOutDpEvent)
    assert event.event.partition == "independent"
    independent = replace(independent, accountant=ADD)
    assert read(independent.plan) == event.event
    assert name_of(Composition.of(read(independent.plan)).relation) == "add-or-remove"


def test_columns_that_are_normalised() -> None:
    """The noise of the plan is |c| times the multiplier also where columns have length 1."""
    short = BandMFExecutionPlanConfig([0.5, 0.25], iterations=5, column_normalize=True)
    event = read(short.plan)
    stated = evr.estimate_epsilon(short.plan.dp_event, 1e-5).value
    true = evr.dpsgd(noise_multiplier=2 * np.hypot(0.5, 0.25), sampling_probability=0.2, steps=3)
    found = evr.estimate_epsilon(event, 1e-5).value
    assert abs(found - evr.estimate_epsilon(true, 1e-5).value) <= 1e-9 * found
    assert found > 2 * stated
    assert [len(column) for column in event.event.strategy] == [2, 2, 2, 2, 1]


def test_plans_that_are_refused() -> None:
    bands = BandMFExecutionPlanConfig([1.0, 0.5])
    with pytest.raises(UnsupportedEventError, match=messages.TRUNCATED_BATCHES):
        read(replace(bands, truncated_batch_size=64).plan)
    replaced = Accountant(NeighboringRelation.REPLACE_ONE)
    with pytest.raises(UnsupportedEventError, match=messages.FOR_REPLACE_ONE):
        read(replace(bands, accountant=replaced).plan)
    scheme = BandMFExecutionPlanConfig([1.0]).plan.batch_selection_strategy
    other = replace(bands.plan, batch_selection_strategy=scheme)
    for plan in (other, replace(bands.plan, clipped_grad=None)):
        with pytest.raises(UnsupportedEventError, match=messages.ANOTHER_PLAN):
            read(plan)
    with pytest.raises(TypeError, match=messages.STATES_ITS_NOISE):
        read(bands.plan, noise_multiplier=2.0)
    with pytest.raises(TypeError, match=messages.NOISE_IS_MISSING):
        read(bands.plan.batch_selection_strategy)
    with pytest.raises(TypeError, match=messages.FROM_JAX_PRIVACY):
        evr.estimate_epsilon(bands.plan, 1e-5)
