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
from typing import Any, NamedTuple

import numpy as np
from dp_accounting import NeighboringRelation, dp_event

from evr._dpsgd import dpsgd
from evr._kernel.events import schemes
from evr._kernel.events.relations import ADD_OR_REMOVE, ZERO_OUT, Relation, name_of, relation_named
from evr._kernel.pairs.patterns.strategy import frozen
from evr.errors import UnsupportedEventError

VERSIONS = ("2.0", "2.1", "2.2", "2.3")
"""Versions whose sources were read."""

_CONFIG = "iterations strategy noise_multiplier l2_clip_norm rescale_to_unit_norm normalize_by truncated_batch_size "
_CONFIG += "num_examples column_normalize "
_PLAN = "clipped_grad batch_selection_strategy noise_addition_transform dp_event"
_OLD, _MADE, _HEAD = "2.0", "2.1 and 2.2", "2.3"
_FIELDS: dict[str, dict[str, str]] = {
    "batch_selection.CyclicPoissonSampling": {
        "sampling_prob iterations truncated_batch_size cycle_length partition_type": ""
    },
    "batch_selection.BallsInBinsSampling": {"iterations cycle_length": ""},
    "batch_selection.BMinSepSampling": {"sampling_prob iterations min_sep warm_start truncated_batch_size": ""},
    "batch_selection.RandomAllocationSampling": {
        "total_participations iterations": "",
        "total_participations iterations cycle_length": "",
    },
    "execution_plan.BandMFExecutionPlanConfig": {
        f"{_CONFIG} sampling_prob epsilon delta partition_type dtype accountant noise_seed": _OLD,
        f"{_CONFIG} sampling_prob": _MADE,
    },
    "execution_plan.BandMFConfig": {
        f"{_CONFIG} expected_participations": _HEAD,
        f"{_CONFIG} expected_participations sub_strategy": _HEAD,
    },
    "execution_plan.DPExecutionPlan": {_PLAN: _OLD, f"{_PLAN} neighboring_relation": _MADE},
    "keras_api.DPKerasConfig": {
        "epsilon delta clipping_norm batch_size gradient_accumulation_steps train_steps train_size "
        "poisson_sampling_in_fit noise_multiplier rescale_to_unit_norm microbatch_size seed": "keras"
    },
    "training.DPTrainer": {"config performance_flags loss_fn optimizer compilation_strategy": _HEAD},
}
"""The classes that are read, with the fields that each may have, and how a configuration is read."""

_SPEED = "dtype noise_seed intermediate_strategy microbatch_size "
_FLAGS = ("spmd_axis_name", "spmd_axis_name keep_batch_dim", "batch_axis_name keep_batch_dim param_specs")
_PARTS = {"execution_plan.PerformanceFlags": {_SPEED + names: "" for names in _FLAGS}}
"""Classes of what a trainer holds beside its configuration."""

_GROUPS = {"EQUAL_SPLIT": "fixed", "INDEPENDENT": "independent"}


class _Training(NamedTuple):
    """What a configuration says: noise of ``multiplier`` times the greatest column norm, in units of what one record
    adds to a sum, on batches by ``scheme``.
    """

    scheme: Any
    multiplier: float
    strategy: Any
    relation: NeighboringRelation
    num_examples: int | None
    column_normalize: bool = False
    norm: float | None = None  # of the columns of the noise, where it is not that of the strategy


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

    Examples
    --------
    ``evr.certify(evr.events.from_jax_privacy(config), epsilon=3.0, delta=1e-5)`` certifies a configuration. A batch
    selection strategy needs the noise beside it:
    ``evr.events.from_jax_privacy(BallsInBinsSampling(1000, 100), noise_multiplier=3.0)``.
    """
    path, version = _known(source)
    asked = None if neighboring_relation is None else relation_named(neighboring_relation)
    if path.startswith("batch_selection."):
        if noise_multiplier is None:
            name = type(source).__name__
            raise TypeError(
                f"{name} does not say how much noise was added: give the configuration, or noise_multiplier"
            )
        event = _of_scheme(source, noise_multiplier, strategy)
        return event if asked is None else _related(event, asked)
    if noise_multiplier is not None or strategy is not None:
        own = f"{type(source).__name__} says its noise and its strategy itself"
        raise TypeError(f"{own}: leave noise_multiplier and strategy out, or give its batch_selection_strategy")
    if path == "execution_plan.DPExecutionPlan":
        return _of_plan(source, asked)
    if version == "keras":
        return _of_keras(source, asked)
    if path == "training.DPTrainer":
        _known(source.performance_flags, _PARTS)
        _refuse_seed(source.performance_flags)
        return from_jax_privacy(source.config, neighboring_relation=asked)
    return _of_training(_READERS[version](source), asked)


def _refused(why: str, source: Any) -> UnsupportedEventError:
    return UnsupportedEventError(why, source)


def _known(source: Any, among: dict[str, dict[str, str]] = _FIELDS) -> tuple[str, str]:
    """The class within JAX Privacy, and how it is read. Raises ``UnsupportedEventError`` unless both are known."""
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
    for known, reader in among[path].items():
        if fields == set(known.split()):
            return path, reader
    unlike = min((fields ^ set(known.split()) for known in among[path]), key=len)
    listed = ", ".join(sorted(unlike))
    raise _refused(
        f"{cls.__name__} of JAX Privacy {version} has other fields than evr knows ({listed}), which may change what it "
        "means: use a version that evr has read, or write the event (evr.events)",
        source,
    )


def _refuse_seed(source: Any) -> None:
    if (seed := source.noise_seed) is not None:
        raise _refused(f"noise_seed={seed!r}: whoever knows the seed knows the noise. Leave it out (None)", source)


def _member(value: Any, names: dict[str, str]) -> str:
    """A member of an enum of theirs, by its name."""
    name = str(getattr(value, "name", value)).upper()
    if name not in names:
        raise _refused(f"{type(value).__name__}.{name} is not one of {', '.join(names)}", value)
    return names[name]


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
    rate = config.batch_size / config.train_size
    event = dpsgd(noise_multiplier=config.noise_multiplier, sampling_probability=rate, steps=config.train_steps)
    return _related(event, asked or ZERO_OUT)


def _of_2_0(config: Any) -> _Training:
    _refuse_seed(config)
    relation = config.accountant.neighboring_relation
    if relation not in (ADD_OR_REMOVE, ZERO_OUT):
        why = f"the plan is for {name_of(relation)} adjacency, under which Poisson sampling has no law here"
        raise _refused(f"{why}: make it with an accountant for REPLACE_SPECIAL, which is zero-out", config)
    plan = config.plan
    step = plan.dp_event.event
    multiplier = getattr(step, "event", step).noise_multiplier  # that of the configuration, or calibrated
    return _Training(
        plan.batch_selection_strategy,
        multiplier,
        config.strategy,
        relation,
        config.num_examples,
        config.column_normalize,
        norm=float(np.linalg.norm(config.strategy)),
    )


def _of_made(config: Any) -> _Training:
    """A configuration whose plan comes from ``make``: 2.1 to 2.3."""
    if config.noise_multiplier is None:
        raise _refused("the configuration has no noise_multiplier: calibrate() it first", config)
    plan = config.make()
    _known(plan)
    return _Training(
        plan.batch_selection_strategy,
        config.noise_multiplier,
        config.strategy,
        plan.neighboring_relation,
        config.num_examples,
        config.column_normalize,
    )


_READERS = {_OLD: _of_2_0, _MADE: _of_made, _HEAD: _of_made}


def _of_training(training: _Training, asked: NeighboringRelation | None) -> dp_event.DpEvent:
    scheme, multiplier = training.scheme, training.multiplier
    path, _ = _known(scheme)
    first = np.asarray(training.strategy, dtype=float)
    norm = float(np.linalg.norm(first))
    if getattr(scheme, "truncated_batch_size", None) is not None:
        return _truncated(training, asked or training.relation)
    if not training.column_normalize:
        if path == "batch_selection.CyclicPoissonSampling" and scheme.cycle_length == 1:
            step = dpsgd(
                noise_multiplier=multiplier, sampling_probability=scheme.sampling_prob, steps=scheme.iterations
            )
            return _related(step, asked or training.relation)
        return _related(_of_scheme(scheme, multiplier * norm, first), asked or training.relation)
    # Columns are scaled to length 1. The noise is `multiplier` times the norm of the strategy as it was given, until a
    # version 2.3 made it `multiplier` itself: these agree where that norm is 1.
    if training.norm is None and abs(norm - 1) > 1e-6:
        why = f"column_normalize=True and a strategy of norm {norm:.6g}: versions of JAX Privacy differ in the noise"
        raise _refused(f"{why}. Divide the strategy by its norm, which leaves the columns as they are", scheme)
    columns = [first[: scheme.iterations - i] for i in range(scheme.iterations)]
    noise = multiplier * (min(norm, 1.0) if training.norm is None else training.norm)
    event = _of_scheme(scheme, noise, [(column / np.linalg.norm(column)).tolist() for column in columns])
    return _related(event, asked or training.relation)


def _truncated(training: _Training, relation: NeighboringRelation) -> dp_event.DpEvent:
    """DP-SGD on batches that are cut off, under add-or-remove (docs/guarantees_relations.md, R3)."""
    scheme = training.scheme
    most = scheme.truncated_batch_size
    why = f"{type(scheme).__name__} truncates batches at {most}: whether a record is used then depends on the others"
    if type(scheme).__name__ != "CyclicPoissonSampling" or scheme.cycle_length != 1 or training.num_examples is None:
        raise _refused(f"{why}, which no theorem here covers. Set truncated_batch_size=None", scheme)
    if relation is not ADD_OR_REMOVE:
        raise _refused(
            f"{why}, and under {name_of(relation)} the empty record takes a place, which has no law here. Set "
            "truncated_batch_size=None; or, if you fixed sampling_prob, normalize_by and iterations without counting "
            "records, give neighboring_relation='add-or-remove'",
            scheme,
        )
    step = dp_event.TruncatedSubsampledGaussianDpEvent(
        dataset_size=training.num_examples,
        sampling_probability=scheme.sampling_prob,
        truncated_batch_size=most,
        noise_multiplier=training.multiplier,
    )
    return dp_event.SelfComposedDpEvent(step, scheme.iterations)


def _of_plan(plan: Any, asked: NeighboringRelation | None) -> dp_event.DpEvent:
    """A plan of one band is DP-SGD, if its event says the same as its sampler."""
    scheme, remedy = plan.batch_selection_strategy, "give the configuration that makes it"
    path, _ = _known(scheme)
    if path != "batch_selection.CyclicPoissonSampling":
        raise _refused(f"a plan with {type(scheme).__name__} does not say its noise: {remedy}", plan)
    if scheme.cycle_length != 1:
        words = f"a plan of {scheme.cycle_length} bands does not say its strategy: {remedy}"
        raise _refused(f"{words}, from_jax_privacy(config)", plan)
    if scheme.truncated_batch_size is not None:
        raise _refused(f"a plan with truncated batches does not say the number of records: {remedy}", plan)
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
    if (most := getattr(scheme, "truncated_batch_size", None)) is not None:
        why = f"{kind} truncates batches at {most}: whether a record is used then depends on the others"
        raise _refused(f"{why}, which no theorem here covers. Set truncated_batch_size=None", scheme)
    strategy, count = frozen(schemes.IDENTITY if strategy is None else strategy), scheme.iterations
    if kind == "BallsInBinsSampling":
        return schemes.BallsInBinsDpEvent(noise, count, scheme.cycle_length, strategy)
    if kind == "BMinSepSampling":
        warm = bool(scheme.warm_start)
        return schemes.BMinSepDpEvent(noise, count, scheme.min_sep, scheme.sampling_prob, warm, strategy)
    if kind == "CyclicPoissonSampling":
        groups = _member(scheme.partition_type, _GROUPS)
        return schemes.CyclicPoissonDpEvent(noise, count, scheme.cycle_length, scheme.sampling_prob, groups, strategy)
    times, cycle = scheme.total_participations, getattr(scheme, "cycle_length", 1)
    if cycle != 1:
        why = f"{kind} with cycle_length={cycle!r}: each record has the turns of one group only"
        raise _refused(f"{why}, for which evr has no event. Use CyclicPoissonSampling", scheme)
    if times == 1:
        return schemes.BallsInBinsDpEvent(noise, count, count, strategy)
    if strategy != schemes.IDENTITY:
        given = f"{kind} with total_participations={times!r} and correlated noise"
        raise _refused(f"{given}: evr accounts for independent noise, or for one participation", scheme)
    return schemes.RandomAllocationDpEvent(noise, count, times)
