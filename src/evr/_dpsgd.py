"""Short ways to build the usual events, also from the plans of other libraries."""

import importlib
import itertools
import math
from collections.abc import Iterable
from fractions import Fraction
from typing import Any

from dp_accounting import dp_event

from evr._basics import validate
from evr._kernel.events import schemes
from evr.types import Sampling

_STATED = "_evr_stated"


def dpsgd(
    *,
    noise_multiplier: float,
    sampling_probability: float | None = None,
    steps: int | None = None,
    dataset_size: int | None = None,
    batch_size: int | None = None,
    epochs: float | None = None,
    sampling: str = "poisson",
    records_per_user: int | None = None,
    user_norm: float | None = None,
) -> dp_event.DpEvent:
    """DP-SGD: a Gaussian mechanism on a sampled batch, ``steps`` times.

    Give ``sampling_probability``, or ``dataset_size`` and ``batch_size``; and ``steps``, or ``epochs``.

    Parameters
    ----------
    noise_multiplier
        Standard deviation of the noise on the sum of clipped gradients, in units of the clipping norm.
    sampling_probability
        Probability with which each record, independently, is in a batch. Shuffled batches of fixed size are not this.
    steps
        Number of optimizer steps.
    dataset_size, batch_size
        Records, and the expected number of them in a batch: the sampling probability is their ratio.
    epochs
        Passes over the data in expectation: ``epochs * dataset_size / batch_size`` steps, rounded up.
    sampling
        ``"poisson"``; or ``"without-replacement"``: each batch is a uniformly random set of ``batch_size`` of the
        ``dataset_size`` records, drawn anew for each step; or ``"allocation"``: each record is in exactly ``epochs`` of
        all batches, a uniformly random set of them, drawn for each record by itself.
    records_per_user
        The greatest number of records of one user, to protect users. Sampling and clipping are still by records.
    user_norm
        With ``records_per_user`` and Poisson sampling: the norm to which the sum of a user's records in a batch is
        clipped, in units of the clipping norm.

    Returns
    -------
    DpEvent
        A ``SelfComposedDpEvent`` of the sampled step.

    Raises
    ------
    ValueError, TypeError
        If a value is out of its range, missing, or given twice.

    Examples
    --------
    >>> dpsgd(noise_multiplier=1.0, sampling_probability=1e-3, steps=1000).count
    1000
    >>> dpsgd(noise_multiplier=1.0, dataset_size=60_000, batch_size=256, steps=10,
    ...       sampling="without-replacement").event.sample_size
    256
    >>> dpsgd(noise_multiplier=1.1, dataset_size=60_000, batch_size=256, epochs=15).count
    3516
    >>> dpsgd(noise_multiplier=1.1, dataset_size=60_000, batch_size=256, epochs=15, sampling="allocation")
    RandomAllocationDpEvent(noise_multiplier=1.1, iterations=3516, participations=15)
    """
    noise = validate.non_negative(noise_multiplier=noise_multiplier)
    if dataset_size is not None:
        dataset_size = validate.positive_integer(dataset_size=dataset_size)
    rate = _rate(sampling_probability, dataset_size, batch_size)
    count = _steps(steps, epochs, rate)
    if isinstance(sampling, str) and "shuffl" in sampling.lower():
        raise ValueError(
            f"sampling={sampling!r}: with one record more, shuffled batches of one size differ in other records too, "
            "and no theorem covers that. Put each record into a random batch of each epoch "
            "(evr.events.RedrawnBinsDpEvent; five lines of a loader are in the guide 'My batches are shuffled'), or "
            "sample by 'poisson' or 'without-replacement'. For a training that is over, "
            "evr.events.ShuffledBatchesDpEvent(noise_multiplier=..., epochs=...) holds under zero-out adjacency: one "
            "Gaussian mechanism for each epoch, without amplification; in a file it is kind = 'shuffled_batches', "
            "whose noise `evr calibrate FILE --scale-noise` finds"
        )
    validate.one_of(Sampling, sampling=sampling)
    if user_norm is not None and (sampling != "poisson" or records_per_user is None):
        raise ValueError(f"user_norm={user_norm!r} needs records_per_user and sampling='poisson': evr has no other law")
    users = None if records_per_user is None else validate.positive_integer(records_per_user=records_per_user)
    if sampling == "allocation":
        if users is not None:
            raise ValueError(f"records_per_user={users} is for sampling='poisson' or 'without-replacement'")
        event: dp_event.DpEvent = schemes.RandomAllocationDpEvent(noise, count, _participations(count, epochs, rate))
        return _stating(event, dataset_size, batch_size, epochs)
    step: dp_event.DpEvent
    if sampling == "without-replacement":
        if dataset_size is None or batch_size is None:
            raise ValueError(f"sampling={sampling!r} needs dataset_size and batch_size: all records, and a batch")
        step = dp_event.SampledWithoutReplacementDpEvent(dataset_size, batch_size, dp_event.GaussianDpEvent(noise))
        if users is not None:
            step = schemes.FixedBatchUsersDpEvent(noise, dataset_size, batch_size, users)
    elif users is not None:
        norm = None if user_norm is None else validate.positive(user_norm=user_norm)
        step = schemes.PoissonSampledUsersDpEvent(noise, float(rate), users, norm)
    else:
        step = dp_event.PoissonSampledDpEvent(float(rate), dp_event.GaussianDpEvent(noise))
    return _stating(dp_event.SelfComposedDpEvent(step, count), dataset_size, batch_size, epochs)


def _stating(
    event: dp_event.DpEvent, dataset_size: int | None, batch_size: int | None, epochs: float | None
) -> dp_event.DpEvent:
    """The event, which remembers the numbers that people state, for ``stated_in``; they are not fields of it."""
    numbers = {"dataset_size": dataset_size, "batch_size": batch_size, "epochs": epochs}
    object.__setattr__(event, _STATED, {"algorithm": "DP-SGD"} | numbers)
    return event


def stated_in(event: object) -> dict[str, Any]:
    """What a certificate says of a training beside its event: the numbers that ``dpsgd`` was given for it."""
    return dict(getattr(event, _STATED, {}))


def _rate(sampling_probability: float | None, dataset_size: int | None, batch_size: int | None) -> Fraction:
    if sampling_probability is not None:
        if batch_size is not None:
            both = f"sampling_probability={sampling_probability!r} and batch_size={batch_size!r}"
            raise ValueError(f"{both} say the same twice: give one of them")
        return Fraction(validate.probability(sampling_probability=sampling_probability))
    if dataset_size is None or batch_size is None:
        raise ValueError(
            "how often is a record sampled? Give sampling_probability, or dataset_size and "
            "batch_size (sampling_probability=1 if every record is in every step)"
        )
    batch = validate.positive_integer(batch_size=batch_size)
    if batch > dataset_size:
        raise ValueError(f"batch_size={batch!r} is above dataset_size={dataset_size!r}")
    return Fraction(batch, dataset_size)


def _steps(steps: int | None, epochs: float | None, rate: Fraction) -> int:
    if steps is not None:
        if epochs is not None:
            raise ValueError(f"steps={steps!r} and epochs={epochs!r} say the same twice: give one of them")
        return validate.positive_integer(steps=steps)
    if epochs is None:
        raise ValueError("for how long? Give steps, or epochs")
    passes = Fraction(validate.positive(epochs=epochs))
    if rate == 0:
        raise ValueError("sampling_probability=0 has no epochs: give steps")
    return validate.positive_integer(steps=math.ceil(passes / rate))


def _participations(count: int, epochs: float | None, rate: Fraction) -> int:
    """The number of batches that hold each record: the number of epochs, which has to be whole."""
    passes = float(count * rate if epochs is None else epochs)
    if not 1 <= round(passes) <= count or abs(passes - round(passes)) > 1e-9 * passes:
        raise ValueError(
            f"sampling='allocation' over {passes!r} epochs: each record is in a whole number of batches, from 1 to "
            f"the {count} steps. Give whole epochs, or evr.events.RandomAllocationDpEvent"
        )
    return round(passes)


def opacus_history(history: Iterable[tuple[float, float, int]]) -> dp_event.DpEvent:
    """The event of an Opacus accountant's ``history``: a list of ``(noise_multiplier, sample_rate, steps)``, composed.

    >>> event = opacus_history([(1.0, 0.01, 500), (1.2, 0.01, 500)])
    >>> [phase.count for phase in event.events]
    [500, 500]
    """
    phases = []
    for index, entry in enumerate(validate.sequence(history=history)):
        try:
            noise, rate, steps = entry
        except (TypeError, ValueError):
            wrong = f"history[{index}]={entry!r}"
            raise ValueError(f"{wrong} is not a triple (noise_multiplier, sample_rate, steps)") from None
        try:
            step: Any = dpsgd(noise_multiplier=noise, sampling_probability=rate, steps=steps)
            phases.append(dp_event.SelfComposedDpEvent(step.event, step.count))
        except (TypeError, ValueError) as error:
            raise type(error)(f"history[{index}]: {error}") from None
    return composed(phases)


def composed(phases: list[dp_event.DpEvent]) -> dp_event.DpEvent:
    """One phase after the other."""
    return phases[0] if len(phases) == 1 else dp_event.ComposedDpEvent(phases) if phases else dp_event.NoOpDpEvent()


def square_root_strategy(iterations: int, bands: int | None = None) -> tuple[float, ...]:
    """The square root of the matrix of prefix sums as a ``strategy``: the first column of a Toeplitz matrix, the series
    of ``(1 - x)^(-1/2)`` (Fichtenberger, Henzinger and Upadhyay 2023); or its first ``bands`` (Kalinin and Lampert
    2024).

    >>> square_root_strategy(4)
    (1.0, 0.5, 0.375, 0.3125)
    """
    most = validate.positive_integer(iterations=iterations)
    length = most if bands is None else min(most, validate.positive_integer(bands=bands))
    return tuple(itertools.accumulate(range(1, length), lambda entry, k: entry * (1 - 0.5 / k), initial=1.0))


def from_jax_privacy(source: Any, **options: Any) -> dp_event.DpEvent:
    """The event of a training with JAX Privacy: ``evr.integrations.jax_privacy.from_jax_privacy``."""
    reader = importlib.import_module("evr.integrations.jax_privacy")  # a layer above, loaded where it is needed
    event: dp_event.DpEvent = reader.from_jax_privacy(source, **options)
    return event
