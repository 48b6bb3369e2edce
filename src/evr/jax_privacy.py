"""Events of JAX Privacy's execution plans and batch selection strategies, read by the names of their classes and
fields: JAX Privacy itself is not needed.

Its plans are read with JAX Privacy 2.0.0 in mind (``experimental/execution_plan.py``). A plan's own ``dp_event`` says
neither how batches came about nor for which neighbours it holds, so it is taken for the noise only.
"""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
from dp_accounting import dp_event

from evr.errors import UnsupportedEventError
from evr.laws.patterns.strategy import frozen
from evr.mechanisms.relations import ADD_OR_REMOVE, ZERO_OUT, name_of
from evr.mechanisms.schemes import (
    IDENTITY,
    BallsInBinsDpEvent,
    BMinSepDpEvent,
    CyclicPoissonDpEvent,
    RandomAllocationDpEvent,
    ZeroOutDpEvent,
)

_SCHEMES = ("BallsInBinsSampling", "CyclicPoissonSampling", "BMinSepSampling", "RandomAllocationSampling")


def from_jax_privacy(source: Any, *, noise_multiplier: float | None = None, strategy: Any = None) -> dp_event.DpEvent:
    """The event of an execution plan of JAX Privacy, or of one of its batch selection strategies.

    A plan says everything itself. Its event holds for zeroing out a record (``ZeroOutDpEvent``), unless the plan was
    made with an accountant for add-or-remove. JAX Privacy takes ``sampling_prob``, ``normalize_by`` and ``iterations``
    from the configuration and never from the data, so add-or-remove then holds if you computed none of them from the
    number of records.

    Parameters
    ----------
    source
        A plan, or the ``BandMFExecutionPlanConfig`` that makes it; or ``BallsInBinsSampling``,
        ``CyclicPoissonSampling``, ``BMinSepSampling`` or ``RandomAllocationSampling``.
    noise_multiplier, strategy
        For a batch selection strategy only, which does not say them; as of the events here. ``strategy`` is JAX
        Privacy's ``c_col``, by default independent noise.

    Raises
    ------
    UnsupportedEventError
        If there is no law for it here: truncated batches, plans for replace-one adjacency, plans whose configuration
        cannot be found.

    Examples
    --------
    ``evr.certify(evr.events.from_jax_privacy(plan), epsilon=3.0, delta=1e-5)`` certifies a plan. A batch selection
    strategy needs the noise beside it:

    >>> from dataclasses import dataclass
    >>> @dataclass
    ... class BallsInBinsSampling:
    ...     iterations: int
    ...     cycle_length: int
    >>> from_jax_privacy(BallsInBinsSampling(1000, 100), noise_multiplier=3.0)
    BallsInBinsDpEvent(noise_multiplier=3.0, iterations=1000, cycle_length=100, strategy=(1.0,))
    """
    configuration = _configuration(source)
    scheme = source if configuration is None else configuration.plan.batch_selection_strategy
    kind = type(scheme).__name__
    if kind not in _SCHEMES:
        raise UnsupportedEventError(f"evr does not account for {kind}: give one of {', '.join(_SCHEMES)}", scheme)
    if (most := getattr(scheme, "truncated_batch_size", None)) is not None:
        raise UnsupportedEventError(
            f"{kind} truncates batches at {most}: whether a record is used then depends on the others, which no "
            "theorem here covers. Set truncated_batch_size=None",
            scheme,
        )
    if configuration is None:
        if noise_multiplier is None:
            raise TypeError(f"{kind} does not say how much noise was added: give the plan, or noise_multiplier")
        return _of_scheme(source, noise_multiplier, IDENTITY if strategy is None else strategy)
    if noise_multiplier is not None or strategy is not None:
        raise TypeError(
            f"{type(source).__name__} says its noise and its strategy itself: leave "
            "noise_multiplier and strategy out, or give its batch_selection_strategy"
        )
    return _of_configuration(configuration)


def _configuration(source: Any) -> Any:
    """The configuration that makes the plan; None if neither of them is given.

    A plan does not name its configuration, but its ``clipped_grad`` is a function within that. A plan that has other
    parts than its configuration would give it is not known.
    """
    if type(source).__name__ == "BandMFExecutionPlanConfig":
        return source
    if not hasattr(source, "batch_selection_strategy"):
        return None
    if inspect.isfunction(source.clipped_grad):
        found: Any = inspect.getclosurevars(source.clipped_grad).nonlocals.get("self")
        makes_plans = type(found).__name__ == "BandMFExecutionPlanConfig"
        if makes_plans and _parts(found.plan) == _parts(source):
            return found
    raise UnsupportedEventError(
        f"this {type(source).__name__} is not as BandMFExecutionPlanConfig makes it, so it does "
        "not say which strategy and which neighbours it is for: give the configuration itself, or "
        "plan.batch_selection_strategy with noise_multiplier and strategy",
        source,
    )


def _parts(plan: Any) -> tuple[Any, ...]:
    return plan.batch_selection_strategy, plan.noise_addition_transform, plan.dp_event


def _of_configuration(configuration: Any) -> dp_event.DpEvent:
    plan, relation = configuration.plan, configuration.accountant.neighboring_relation
    if relation not in (ADD_OR_REMOVE, ZERO_OUT):
        raise UnsupportedEventError(
            f"the plan is for {name_of(relation)} adjacency, under which Poisson sampling has no "
            "law here: make it with an accountant for REPLACE_SPECIAL, which is zero-out",
            plan,
        )
    scheme = plan.batch_selection_strategy
    # The noise of the plan has the standard deviation z |c| in units of what one record may add: z is the multiplier in
    # its dp_event, c the first column of the strategy. Where columns are normalised, their length is 1 instead of |c|,
    # and the noise is the same.
    multiplier = plan.dp_event.event.event.noise_multiplier
    noise = float(multiplier * np.linalg.norm(configuration.strategy))
    first = np.asarray(configuration.strategy, dtype=float)
    event: dp_event.DpEvent
    if configuration.column_normalize:
        columns = [first[: scheme.iterations - i] for i in range(scheme.iterations)]
        event = _of_scheme(scheme, noise, [(c / np.linalg.norm(c)).tolist() for c in columns])
    elif scheme.cycle_length == 1:
        gaussian = dp_event.GaussianDpEvent(multiplier)
        step = dp_event.PoissonSampledDpEvent(scheme.sampling_prob, gaussian)
        event = dp_event.SelfComposedDpEvent(step, scheme.iterations)
    else:
        event = _of_scheme(scheme, noise, first)
    return event if relation is ADD_OR_REMOVE else ZeroOutDpEvent(event)


def _of_scheme(scheme: Any, noise: Any, strategy: Any) -> dp_event.DpEvent:
    kind = type(scheme).__name__
    strategy, count = frozen(strategy), scheme.iterations
    if kind == "BallsInBinsSampling":
        return BallsInBinsDpEvent(noise, count, scheme.cycle_length, strategy)
    if kind == "BMinSepSampling":
        return BMinSepDpEvent(noise, count, scheme.min_sep, scheme.sampling_prob, bool(scheme.warm_start), strategy)
    if kind == "CyclicPoissonSampling":
        name = getattr(scheme.partition_type, "name", str(scheme.partition_type)).upper()
        if name not in ("EQUAL_SPLIT", "INDEPENDENT"):
            raise UnsupportedEventError(f"partition_type={name} is not EQUAL_SPLIT or INDEPENDENT", scheme)
        groups = "fixed" if name == "EQUAL_SPLIT" else "independent"
        return CyclicPoissonDpEvent(noise, count, scheme.cycle_length, scheme.sampling_prob, groups, strategy)
    if scheme.total_participations == 1:
        return BallsInBinsDpEvent(noise, count, count, strategy)
    if strategy != IDENTITY:
        raise UnsupportedEventError(
            f"RandomAllocationSampling with total_participations={scheme.total_participations!r} and correlated "
            "noise: evr accounts for independent noise, strategy=(1.0,), or for one participation",
            scheme,
        )
    return RandomAllocationDpEvent(noise, count, scheme.total_participations)
