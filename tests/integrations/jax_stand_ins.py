"""Stand-ins for the classes of JAX Privacy that evr reads, for each version: its names of modules, classes and fields,
and nothing else of it. The registry that the tests install from has 2.0.0 only; ``test_jax_privacy.py`` uses that.
"""

from __future__ import annotations

import enum
import functools
import math
from dataclasses import dataclass, field, make_dataclass
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
from dp_accounting import NeighboringRelation, dp_event

VERSIONS = {"2.0": "2.0.0", "2.2": "2.2.0", "2.3": "2.3.0.dev0", "allocation": "2.3.0.dev0"}


def of_module(name):
    def placed(cls):
        cls.__module__, cls.__qualname__ = f"jax_privacy.{name}", cls.__name__
        return cls

    return placed


@of_module("batch_selection")
class PartitionType(enum.Enum):
    INDEPENDENT = enum.auto()
    EQUAL_SPLIT = enum.auto()
    SORTED = enum.auto()  # no version has this one


@of_module("batch_selection")
@dataclass(frozen=True)
class CyclicPoissonSampling:
    sampling_prob: float
    iterations: int
    truncated_batch_size: int | None = None
    cycle_length: int = 1
    partition_type: Any = PartitionType.EQUAL_SPLIT


@of_module("batch_selection")
@dataclass(frozen=True)
class BallsInBinsSampling:
    iterations: int
    cycle_length: int


@of_module("batch_selection")
@dataclass(frozen=True)
class BMinSepSampling:
    sampling_prob: float
    iterations: int
    min_sep: int
    warm_start: bool = True
    truncated_batch_size: int | None = None


@of_module("batch_selection")
@dataclass(frozen=True)
class FixedBatchSampling:
    batch_size: int
    iterations: int
    replace: bool = False


def _allocation(*more):
    fields = [("total_participations", int), ("iterations", int), *more]
    return of_module("batch_selection")(make_dataclass("RandomAllocationSampling", fields, frozen=True))


RandomAllocationSampling = _allocation()
CyclicAllocationSampling = _allocation(("cycle_length", int, field(default=1)))


class CyclicInnerStrategy(enum.StrEnum):
    POISSON = enum.auto()
    RANDOM_ALLOCATION = enum.auto()


_PLAN = ["clipped_grad", "batch_selection_strategy", "noise_addition_transform", "dp_event"]
OldPlan = of_module("experimental.execution_plan")(make_dataclass("DPExecutionPlan", _PLAN, frozen=True))
Plan = of_module("execution_plan")(make_dataclass("DPExecutionPlan", [*_PLAN, "neighboring_relation"], frozen=True))


@dataclass(frozen=True)
class Accountant:
    neighboring_relation: NeighboringRelation = NeighboringRelation.REPLACE_SPECIAL


@dataclass(kw_only=True)
class _Config:
    strategy: Any
    iterations: int = 200
    noise_multiplier: float | None = 2.0
    l2_clip_norm: float = 1.0
    rescale_to_unit_norm: bool = True
    normalize_by: float = 1.0
    truncated_batch_size: int | None = None
    num_examples: int | None = None
    column_normalize: bool = False

    def event(self):
        step = dp_event.PoissonSampledDpEvent(self.rate(), dp_event.GaussianDpEvent(self.noise_multiplier))
        if self.truncated_batch_size is not None:
            step = dp_event.TruncatedSubsampledGaussianDpEvent(
                dataset_size=self.num_examples // len(self.strategy),
                sampling_probability=self.rate(),
                truncated_batch_size=self.truncated_batch_size,
                noise_multiplier=self.noise_multiplier,
            )
        return dp_event.SelfComposedDpEvent(step, math.ceil(self.iterations / len(self.strategy)))

    def rate(self):
        return vars(self)["sampling_prob"]

    def make(self, flags=None):
        public = self.num_examples is not None
        kind = PartitionType.EQUAL_SPLIT if public else PartitionType.INDEPENDENT
        relation = NeighboringRelation.REPLACE_SPECIAL if public else NeighboringRelation.ADD_OR_REMOVE_ONE
        return Plan(None, self.scheme(kind), None, self.event(), relation)

    def scheme(self, kind):
        return CyclicPoissonSampling(self.rate(), self.iterations, self.truncated_batch_size, len(self.strategy), kind)


@dataclass(kw_only=True)
class OldConfig(_Config):
    epsilon: float | None = None
    delta: float | None = None
    sampling_prob: float = 0.2
    partition_type: Any = PartitionType.EQUAL_SPLIT
    dtype: Any = np.float32
    accountant: Any = field(default_factory=Accountant)
    noise_seed: int | None = None

    @functools.cached_property
    def plan(self):
        return OldPlan(None, self.scheme(self.partition_type), None, self.event())


@dataclass(kw_only=True)
class MadeConfig(_Config):
    sampling_prob: float = 0.2


@of_module("execution_plan")
@dataclass(kw_only=True)
class BandMFConfig(_Config):
    expected_participations: float = 10

    def rate(self):
        return self.expected_participations * len(self.strategy) / self.iterations


@dataclass(kw_only=True)
class AllocatingConfig(BandMFConfig):
    sub_strategy: CyclicInnerStrategy = CyclicInnerStrategy.POISSON

    def scheme(self, kind):
        if self.sub_strategy is CyclicInnerStrategy.POISSON:
            return super().scheme(kind)
        return CyclicAllocationSampling(int(self.expected_participations), self.iterations, len(self.strategy))


for cls, name, place in (
    (OldConfig, "BandMFExecutionPlanConfig", "experimental.execution_plan"),
    (MadeConfig, "BandMFExecutionPlanConfig", "execution_plan"),
    (AllocatingConfig, "BandMFConfig", "execution_plan"),
):
    cls.__name__ = name
    of_module(place)(cls)

CONFIGS = {"2.0": OldConfig, "2.2": MadeConfig, "2.3": BandMFConfig, "allocation": AllocatingConfig}

_FLAGS: list[Any] = [("dtype", Any, None), ("noise_seed", Any, None), ("intermediate_strategy", Any, None)]
_FLAGS += [("microbatch_size", Any, None), ("spmd_axis_name", Any, None), ("keep_batch_dim", Any, True)]
PerformanceFlags = of_module("execution_plan")(make_dataclass("PerformanceFlags", _FLAGS))


@of_module("training")
@dataclass(kw_only=True)
class DPTrainer:
    config: Any
    performance_flags: Any = field(default_factory=PerformanceFlags)
    loss_fn: Any = None
    optimizer: Any = None
    compilation_strategy: Any = None


class Transform(NamedTuple):
    """As optax's ``GradientTransformation``."""

    init: Any
    update: Any


def module(version):
    """What stands for the package in ``sys.modules``."""
    return SimpleNamespace(__version__=VERSIONS.get(version, version))
