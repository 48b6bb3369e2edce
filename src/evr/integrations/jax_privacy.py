"""JAX Privacy's configurations, plans and batch selection strategies, read as events.

Everything is read by name, from public fields, and fails closed: a class, a field, a subclass, a member of an enum or a
version that is not listed here is refused. JAX Privacy itself is never imported. Versions differ as follows.

* 2.0: ``BandMFExecutionPlanConfig(...).plan``; the accountant says for which neighbours.
* 2.1, 2.2: ``BandMFExecutionPlanConfig(...).make()``; ``num_examples`` says so, and the plan names its relation.
* 2.3: ``BandMFConfig(...).make()``, with ``expected_participations`` in place of ``sampling_prob``; later also random
  allocation within groups (``sub_strategy``).
"""

from __future__ import annotations

import dataclasses
import sys
from typing import Any

import numpy as np
from dp_accounting import NeighboringRelation, dp_event

from evr._dpsgd import dpsgd
from evr._kernel.events import schemes
from evr._kernel.events.relations import ADD_OR_REMOVE, ZERO_OUT, Relation, name_of, relation_named
from evr._kernel.pairs.patterns.strategy import Strategy, frozen, noise_over
from evr.errors import UnsupportedEventError

VERSIONS = ("2.0", "2.1", "2.2", "2.3")
"""Versions whose sources were read."""

_CONFIG = "iterations strategy noise_multiplier l2_clip_norm rescale_to_unit_norm normalize_by truncated_batch_size "
_CONFIG += "num_examples column_normalize "
_BANDS = f"{_CONFIG} expected_participations"
_ALLOCATION = "total_participations iterations"
_PLAN = "clipped_grad batch_selection_strategy noise_addition_transform dp_event"
_KERAS = "epsilon delta clipping_norm batch_size gradient_accumulation_steps train_steps train_size "
_KERAS += "poisson_sampling_in_fit noise_multiplier rescale_to_unit_norm microbatch_size seed"
_FLAGS = "dtype noise_seed intermediate_strategy microbatch_size "
_SHARDS = ("spmd_axis_name", "spmd_axis_name keep_batch_dim", "batch_axis_name keep_batch_dim param_specs")
_FIELDS = {
    "batch_selection.CyclicPoissonSampling": [
        "sampling_prob iterations truncated_batch_size cycle_length partition_type"
    ],
    "batch_selection.BallsInBinsSampling": ["iterations cycle_length"],
    "batch_selection.BMinSepSampling": ["sampling_prob iterations min_sep warm_start truncated_batch_size"],
    "batch_selection.RandomAllocationSampling": [_ALLOCATION, f"{_ALLOCATION} cycle_length"],
    "execution_plan.BandMFExecutionPlanConfig": [
        f"{_CONFIG} sampling_prob epsilon delta partition_type dtype accountant noise_seed",  # 2.0
        f"{_CONFIG} sampling_prob",
    ],
    "execution_plan.BandMFConfig": [_BANDS, f"{_BANDS} sub_strategy"],
    "execution_plan.DPExecutionPlan": [_PLAN, f"{_PLAN} neighboring_relation"],
    "keras_api.DPKerasConfig": [_KERAS],
    "training.DPTrainer": ["config performance_flags loss_fn optimizer compilation_strategy"],
}
"""The classes that are read, with the fields that each may have."""
_PARTS = {"execution_plan.PerformanceFlags": [_FLAGS + names for names in _SHARDS]}
"""Classes of what a trainer holds beside its configuration."""

_refused = UnsupportedEventError
_GROUPS = {"EQUAL_SPLIT": "fixed", "INDEPENDENT": "independent"}


def from_jax_privacy(
    source: Any,
    *,
    noise_multiplier: float | None = None,
    strategy: Any = None,
    neighboring_relation: Relation | None = None,
) -> dp_event.DpEvent:
    """The event of a training with JAX Privacy 2.0 to 2.3.

    Parameters
    ----------
    source
        A configuration (``BandMFExecutionPlanConfig``, ``BandMFConfig``, ``DPKerasConfig``), a ``DPTrainer``, or an
        execution plan of one band; or ``BallsInBinsSampling``, ``CyclicPoissonSampling``, ``BMinSepSampling`` or
        ``RandomAllocationSampling``. A plan of several bands does not say its strategy: give its configuration.
    noise_multiplier, strategy
        Only for a batch selection strategy, which does not hold them. ``strategy`` is JAX Privacy's ``c_col``, by
        default independent noise.
    neighboring_relation
        By default that of the configuration or plan, and zero-out for a plan of 2.0, which names none. Give
        ``"add-or-remove"`` only if you fixed ``sampling_prob``, ``normalize_by`` and ``iterations`` without counting
        records (docs/guarantees_relations.md, R1.7).

    Returns
    -------
    DpEvent
        Of what the training does. Under zero-out it is a ``ZeroOutDpEvent``.

    Raises
    ------
    UnsupportedEventError
        If a class, field or version is not known, or no theorem covers it: batches truncated under zero-out, plans for
        replace-one adjacency, a ``noise_seed``.
    """
    path = _known(source)
    asked = None if neighboring_relation is None else relation_named(neighboring_relation)
    if path.startswith("batch_selection."):
        if noise_multiplier is None:
            remedy = "give the configuration, or noise_multiplier"
            raise TypeError(f"{type(source).__name__} does not say how much noise was added: {remedy}")
        event = _of_scheme(source, noise_multiplier, strategy)
        asked = ZERO_OUT if asked is None and isinstance(event, schemes.AllocatedDpEvent) else asked
        return event if asked is None else _related(event, asked)
    if noise_multiplier is not None or strategy is not None:
        remedy = "leave noise_multiplier and strategy out, or give its batch_selection_strategy"
        raise TypeError(f"{type(source).__name__} says its noise and its strategy itself: {remedy}")
    if path == "execution_plan.DPExecutionPlan":
        return _of_plan(source, asked)
    if path == "keras_api.DPKerasConfig":
        return _of_keras(source, asked)
    if path == "training.DPTrainer":
        _known(source.performance_flags, _PARTS)
        _refuse_seed(source.performance_flags)
        return from_jax_privacy(source.config, neighboring_relation=asked)
    return _of_config(source, asked, old=hasattr(source, "accountant"))


def _known(source: Any, among: dict[str, list[str]] = _FIELDS) -> str:
    """The class within JAX Privacy. Raises ``UnsupportedEventError`` unless it and all of its fields are known."""
    cls = type(source)
    package, _, module = cls.__module__.partition(".")
    path = f"{module.removeprefix('experimental.')}.{cls.__qualname__}"
    names = ", ".join(sorted(known.rpartition(".")[2] for known in among))
    if package != "jax_privacy":
        parent = next((base for base in cls.__mro__[1:] if base.__module__.partition(".")[0] == "jax_privacy"), None)
        kind = "not of JAX Privacy" if parent is None else f"derived from JAX Privacy's {parent.__name__}"
        raise _refused(f"{cls.__name__} is {kind}, and may mean something else: give one of {names} itself", source)
    version = str(getattr(sys.modules.get(package), "__version__", "of an unknown version"))
    if ".".join(version.split(".")[:2]) not in VERSIONS:
        read = f"evr has read {VERSIONS[0]} to {VERSIONS[-1]}"
        raise _refused(f"JAX Privacy {version}: {read}. Use one of these, or write the event (evr.events)", source)
    if path not in among or not dataclasses.is_dataclass(cls):
        raise _refused(f"evr does not account for JAX Privacy's {cls.__name__}: give one of {names}", source)
    fields = {field.name for field in dataclasses.fields(cls)}
    unlike = min((fields ^ set(known.split()) for known in among[path]), key=len)
    if not unlike:
        return path
    why = f"has other fields than evr knows ({', '.join(sorted(unlike))}), which may change what it means"
    remedy = "use a version that evr has read, or write the event (evr.events)"
    raise _refused(f"{cls.__name__} of JAX Privacy {version} {why}: {remedy}", source)


def _refuse_seed(source: Any) -> None:
    if (seed := source.noise_seed) is not None:
        raise _refused(f"noise_seed={seed!r}: whoever knows the seed knows the noise. Leave it out (None)", source)


def _refuse_norm(norm: Any, source: Any) -> None:
    if not 0 < norm < np.inf:
        raise _refused(
            f"clipping is switched off: a clipping norm of {norm!r}. Give one above 0 that is finite", source
        )


def _of_keras(config: Any, asked: NeighboringRelation | None) -> dp_event.DpEvent:
    """DP-SGD by Keras, whose ``fit`` samples by Poisson if it is told to; the rate is computed from the records."""
    if not config.poisson_sampling_in_fit:
        why = "fit() takes its batches from shuffled data, which is not what is accounted for"
        raise _refused(f"{why}: set poisson_sampling_in_fit=True", config)
    if config.gradient_accumulation_steps != 1:
        why = f"gradient_accumulation_steps={config.gradient_accumulation_steps}: a record may be in several batches"
        raise _refused(f"{why} of one step. Set it to 1, and a larger batch_size", config)
    if config.noise_multiplier is None:
        remedy = "give config.update_with_calibrated_noise_multiplier()"
        raise _refused(f"the configuration has no noise_multiplier: {remedy}", config)
    if config.seed is not None and config.seed < 2**32:  # without one, the fit of 2.0 fails every other time
        why = f"seed={config.seed!r} looks chosen by hand, and whoever knows the seed knows the noise"
        raise _refused(f"{why}: give seed=secrets.randbits(63)", config)
    _refuse_norm(config.clipping_norm, config)
    rate = config.batch_size / config.train_size
    event = dpsgd(noise_multiplier=config.noise_multiplier, sampling_probability=rate, steps=config.train_steps)
    return _related(event, asked or ZERO_OUT)


def _of_config(config: Any, asked: NeighboringRelation | None, *, old: bool) -> dp_event.DpEvent:
    """BandMF: its noise is the multiplier times the strategy's norm, for records of norm 1. One band is DP-SGD."""
    _refuse_norm(config.l2_clip_norm, config)
    if old:  # 2.0
        _refuse_seed(config)
        plan, relation = config.plan, config.accountant.neighboring_relation
        if relation not in (ADD_OR_REMOVE, ZERO_OUT):
            why = f"the plan is for {name_of(relation)} adjacency, under which Poisson sampling has no law here"
            raise _refused(f"{why}: make it with an accountant for REPLACE_SPECIAL, which is zero-out", config)
        step = plan.dp_event.event
        multiplier = getattr(step, "event", step).noise_multiplier  # that of the configuration, or calibrated
    else:
        if config.noise_multiplier is None:
            raise _refused("the configuration has no noise_multiplier: calibrate() it first", config)
        plan, multiplier = config.make(), config.noise_multiplier
        _known(plan)
        relation = plan.neighboring_relation
    scheme, relation = plan.batch_selection_strategy, asked or relation
    path = _known(scheme)
    first = np.asarray(config.strategy, dtype=float)
    norm = float(np.linalg.norm(first))
    if path == "batch_selection.CyclicPoissonSampling" and scheme.cycle_length == 1:
        if scheme.truncated_batch_size is not None:
            return _truncated(scheme, multiplier, config.num_examples, relation)
        if not config.column_normalize:
            return _related(_steps(scheme, multiplier), relation)
    if not config.column_normalize:
        return _related(_of_scheme(scheme, multiplier * norm, first), relation)
    # Columns are scaled to length 1. The noise is `multiplier` times the norm of the strategy as it was given, until a
    # version 2.3 made it `multiplier` itself: these agree where that norm is 1.
    if not old and abs(norm - 1) > 1e-6:
        why = f"column_normalize=True and a strategy of norm {norm:.6g}: versions of JAX Privacy differ in the noise"
        raise _refused(f"{why}. Divide the strategy by its norm, which leaves the columns as they are", scheme)
    columns = [first[: scheme.iterations - i] for i in range(scheme.iterations)]
    noise = multiplier * (norm if old else min(norm, 1.0))
    event = _of_scheme(scheme, noise, [(column / np.linalg.norm(column)).tolist() for column in columns])
    return _related(event, relation)


def _truncated(scheme: Any, multiplier: float, records: int, relation: NeighboringRelation) -> dp_event.DpEvent:
    """DP-SGD on batches that are cut off, under add-or-remove (docs/guarantees_relations.md, R3)."""
    most = scheme.truncated_batch_size
    if relation is not ADD_OR_REMOVE:
        why = f"under {name_of(relation)} the empty record takes a place, which has no law here"
        unless = "if you fixed sampling_prob, normalize_by and iterations without counting records"
        remedy = f"Set truncated_batch_size=None; or, {unless}, give neighboring_relation='add-or-remove'"
        raise _refused(f"{_cut_off(scheme)}, and {why}. {remedy}", scheme)
    step = dp_event.TruncatedSubsampledGaussianDpEvent(records, scheme.sampling_prob, most, multiplier)
    return dp_event.SelfComposedDpEvent(step, scheme.iterations)


def _cut_off(scheme: Any) -> str:
    most = scheme.truncated_batch_size
    return f"{type(scheme).__name__} truncates batches at {most}: whether a record is used then depends on the others"


def _of_plan(plan: Any, asked: NeighboringRelation | None) -> dp_event.DpEvent:
    """A plan of one band is DP-SGD, if its event says the same as its sampler."""
    scheme, remedy = plan.batch_selection_strategy, "give the configuration that makes it"
    is_poisson = _known(scheme) == "batch_selection.CyclicPoissonSampling"
    silent = "its noise" if not is_poisson else "its strategy" if scheme.cycle_length != 1 else ""
    if silent or scheme.truncated_batch_size is not None:
        words = f"a plan with {scheme!r} does not say {silent or 'the number of records'}"
        raise _refused(f"{words}: {remedy}, from_jax_privacy(config)", plan)
    step = getattr(plan.dp_event, "event", None)
    multiplier = getattr(getattr(step, "event", None), "noise_multiplier", None)
    if multiplier is not None and _steps(scheme, multiplier) == plan.dp_event:
        return _related(_steps(scheme, multiplier), asked or getattr(plan, "neighboring_relation", ZERO_OUT))
    raise _refused(f"the plan's dp_event is not that of its batch_selection_strategy: {remedy}", plan)


def _steps(scheme: Any, multiplier: float) -> dp_event.DpEvent:
    return dpsgd(noise_multiplier=multiplier, sampling_probability=scheme.sampling_prob, steps=scheme.iterations)


def _related(event: dp_event.DpEvent, relation: NeighboringRelation) -> dp_event.DpEvent:
    if relation is ADD_OR_REMOVE:
        if isinstance(event, schemes.CyclicPoissonDpEvent) and event.partition == "fixed" and event.cycle_length > 1:
            why = f"{event.cycle_length} fixed groups take turns, and one record more would move others"
            raise _refused(f"{why}: there is no law under add-or-remove. Give neighboring_relation='zero-out'", event)
        return event
    if relation is ZERO_OUT:
        return schemes.ZeroOutDpEvent(event)
    raise _refused(f"neighboring_relation={name_of(relation)!r}: give 'zero-out' or 'add-or-remove'", event)


def _of_scheme(scheme: Any, noise: Any, strategy: Any) -> dp_event.DpEvent:
    kind = type(scheme).__name__
    if getattr(scheme, "truncated_batch_size", None) is not None:
        raise _refused(f"{_cut_off(scheme)}, which no theorem here covers. Set truncated_batch_size=None", scheme)
    strategy, count = frozen(schemes.IDENTITY if strategy is None else strategy), scheme.iterations
    if kind == "BallsInBinsSampling":
        return schemes.BallsInBinsDpEvent(noise, count, scheme.cycle_length, strategy)
    if kind == "BMinSepSampling":
        warm = bool(scheme.warm_start)
        return schemes.BMinSepDpEvent(noise, count, scheme.min_sep, scheme.sampling_prob, warm, strategy)
    if kind == "CyclicPoissonSampling":
        member = getattr(scheme.partition_type, "name", scheme.partition_type)
        if (groups := _GROUPS.get(member)) is None:
            raise _refused(f"PartitionType.{member} is not one of {', '.join(_GROUPS)}", scheme)
        return schemes.CyclicPoissonDpEvent(noise, count, scheme.cycle_length, scheme.sampling_prob, groups, strategy)
    times, cycle = scheme.total_participations, getattr(scheme, "cycle_length", 1)
    if cycle != 1:
        return _allocated_in_groups(scheme, noise, Strategy.of(strategy, count))
    if times == 1:
        return schemes.BallsInBinsDpEvent(noise, count, count, strategy)
    if strategy != schemes.IDENTITY:
        given = f"{kind} with total_participations={times!r} and correlated noise"
        raise _refused(f"{given}: evr accounts for independent noise, or for one participation", scheme)
    return schemes.RandomAllocationDpEvent(noise, count, times)


def _allocated_in_groups(scheme: Any, noise: float, strategy: Strategy) -> dp_event.DpEvent:
    """The law of one group that takes turns, and of the greatest column (docs/guarantees_nested.md, G3.3). No field
    says whether groups are fixed or random; JAX Privacy names add-or-remove for independent groups only.
    """
    cycle, times = scheme.cycle_length, scheme.total_participations
    given, turns = f"{type(scheme).__name__} with cycle_length={cycle!r}", strategy.size // cycle
    if strategy.bands > cycle:
        raise _refused(f"{given} and {strategy.bands} bands: contributions of a record share noise", scheme)
    if times > turns:
        raise _refused(f"{given} and total_participations={times!r}: a group has {turns} turns", scheme)
    greatest = strategy.not_below(float(strategy.squares.max()), strategy.bands)
    return schemes.AllocatedDpEvent(dp_event.GaussianDpEvent(noise_over(noise, greatest)), times, turns)
