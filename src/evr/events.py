"""Short ways to build the usual events, and the classes that dp_accounting does not have."""

from __future__ import annotations

import math
from collections.abc import Iterable
from fractions import Fraction

from dp_accounting import dp_event

from evr import validate
from evr.jax_privacy import from_jax_privacy as from_jax_privacy
from evr.mechanisms.schemes import BallsInBinsDpEvent as BallsInBinsDpEvent
from evr.mechanisms.schemes import BinomialSelectDpEvent as BinomialSelectDpEvent
from evr.mechanisms.schemes import BMinSepDpEvent as BMinSepDpEvent
from evr.mechanisms.schemes import CyclicPoissonDpEvent as CyclicPoissonDpEvent
from evr.mechanisms.schemes import DiscreteGaussianDpEvent as DiscreteGaussianDpEvent
from evr.mechanisms.schemes import EpsilonDeltaDpEvent as EpsilonDeltaDpEvent
from evr.mechanisms.schemes import ExponentialMechanismDpEvent as ExponentialMechanismDpEvent
from evr.mechanisms.schemes import FixedBatchUsersDpEvent as FixedBatchUsersDpEvent
from evr.mechanisms.schemes import MatrixMechanismDpEvent as MatrixMechanismDpEvent
from evr.mechanisms.schemes import PermuteAndFlipDpEvent as PermuteAndFlipDpEvent
from evr.mechanisms.schemes import PoissonSampledUsersDpEvent as PoissonSampledUsersDpEvent
from evr.mechanisms.schemes import RandomAllocationDpEvent as RandomAllocationDpEvent
from evr.mechanisms.schemes import RedrawnBinsDpEvent as RedrawnBinsDpEvent
from evr.mechanisms.schemes import ShuffledBatchesDpEvent as ShuffledBatchesDpEvent
from evr.mechanisms.schemes import SummedDiscreteGaussiansDpEvent as SummedDiscreteGaussiansDpEvent
from evr.mechanisms.schemes import ThresholdSelectDpEvent as ThresholdSelectDpEvent
from evr.mechanisms.schemes import UsersDpEvent as UsersDpEvent
from evr.mechanisms.schemes import ZeroOutDpEvent as ZeroOutDpEvent

SAMPLINGS = ("poisson", "without-replacement", "allocation")


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
    """DP-SGD: ``steps`` times a Gaussian mechanism on a sampled batch, by Poisson sampling mostly.

    Say how often a record is sampled by ``sampling_probability``, or by ``dataset_size`` and ``batch_size``; and for
    how long by ``steps``, or by ``epochs``.

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
        ``"poisson"``, or ``"without-replacement"``: each batch is a uniformly random set of just ``batch_size`` of the
        ``dataset_size`` records, drawn anew for each step. That is accounted for under replace-one adjacency only. Or
        ``"allocation"``: each record is in exactly as many of all batches as there are epochs, a uniformly random set
        of them, drawn for each record by itself.
    records_per_user
        The greatest number of records of one user, to protect users instead of records. Sampling and clipping are by
        records still.
    user_norm
        With ``records_per_user`` and Poisson sampling: the sum of a user's records in a batch is clipped to this norm,
        in units of the clipping norm.

    Returns
    -------
    DpEvent
        A ``SelfComposedDpEvent`` of the sampled step.

    Raises
    ------
    ValueError, TypeError
        If a value is out of its range, or what is said is too little, or twice.

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
    probability = _sampling(sampling_probability, dataset_size, batch_size)
    count = _steps(steps, epochs, dataset_size, batch_size, probability)
    if isinstance(sampling, str) and "shuffl" in sampling.lower():
        raise ValueError(
            f"sampling={sampling!r}: with one record more, shuffled batches of one size differ in "
            "other records too, and no theorem covers that. Put each record into a random batch of "
            "each epoch (evr.events.RedrawnBinsDpEvent; five lines of a loader are in the guide "
            "'My batches are shuffled'), or sample by 'poisson' or 'without-replacement'. For a "
            "training that is over, evr.events.ShuffledBatchesDpEvent(noise_multiplier="
            f"{noise!r}, epochs=...) holds under zero-out adjacency: one Gaussian mechanism for "
            "each epoch, without amplification"
        )
    if validate.one_of(SAMPLINGS, sampling=sampling) != "poisson" and user_norm is not None:
        raise ValueError(
            f"user_norm={user_norm!r} is for sampling='poisson': evr has no law for sums of users that are clipped "
            f"where records are sampled by {sampling!r}"
        )
    if sampling == "allocation":
        if records_per_user is not None:
            raise ValueError(
                f"records_per_user={records_per_user!r} is for sampling='poisson' and 'without-replacement': evr has "
                f"no law for users whose records are sampled by {sampling!r}"
            )
        return RandomAllocationDpEvent(noise, count, _participations(count, epochs, probability))
    users = None if records_per_user is None else validate.positive_integer(records_per_user=records_per_user)
    batch: dp_event.DpEvent
    if sampling == "without-replacement":
        if dataset_size is None or batch_size is None:
            raise ValueError(
                f"sampling={sampling!r} needs dataset_size and batch_size: how many records, and "
                "how many of them are in each batch"
            )
        batch = dp_event.SampledWithoutReplacementDpEvent(dataset_size, batch_size, dp_event.GaussianDpEvent(noise))
        if users is not None:
            batch = FixedBatchUsersDpEvent(noise, dataset_size, batch_size, users)
    elif users is not None:
        norm = None if user_norm is None else validate.positive(user_norm=user_norm)
        batch = PoissonSampledUsersDpEvent(noise, probability, users, norm)
    elif user_norm is not None:
        raise ValueError(f"user_norm={user_norm!r} needs records_per_user: how many records does one user own at most?")
    else:
        batch = dp_event.PoissonSampledDpEvent(probability, dp_event.GaussianDpEvent(noise))
    return dp_event.SelfComposedDpEvent(batch, count)


def _participations(count: int, epochs: float | None, probability: float) -> int:
    """In how many of the batches each record is: the number of epochs, which has to be whole."""
    passes = count * probability if epochs is None else float(epochs)
    if not 1 <= round(passes) <= count or abs(passes - round(passes)) > 1e-9 * passes:
        raise ValueError(
            f"sampling='allocation' over {passes!r} epochs: each record is in a whole number of batches, from 1 to "
            f"the {count} steps. Give whole epochs, or evr.events.RandomAllocationDpEvent"
        )
    return round(passes)


def _sampling(sampling_probability: float | None, dataset_size: int | None, batch_size: int | None) -> float:
    if sampling_probability is not None:
        if batch_size is not None:
            raise ValueError(
                f"sampling_probability={sampling_probability!r} and batch_size={batch_size!r} say "
                "the same twice: give one of them"
            )
        return validate.probability(sampling_probability=sampling_probability)
    if dataset_size is None or batch_size is None:
        raise ValueError(
            "how often is a record sampled? Give sampling_probability, or dataset_size and "
            "batch_size (sampling_probability=1 if every record is in every step)"
        )
    size = validate.positive_integer(dataset_size=dataset_size)
    batch = validate.positive_integer(batch_size=batch_size)
    if batch > size:
        raise ValueError(f"batch_size={batch!r} is above dataset_size={size!r}")
    return batch / size


def _steps(
    steps: int | None, epochs: float | None, dataset_size: int | None, batch_size: int | None, probability: float
) -> int:
    if steps is not None:
        if epochs is not None:
            raise ValueError(f"steps={steps!r} and epochs={epochs!r} say the same twice: give one of them")
        return validate.positive_integer(steps=steps)
    if epochs is None:
        raise ValueError("for how long? Give steps, or epochs")
    passes = Fraction(validate.positive(epochs=epochs))
    if dataset_size is not None and batch_size is not None:
        return validate.positive_integer(steps=math.ceil(passes * dataset_size / batch_size))
    if probability == 0:
        raise ValueError("sampling_probability=0 has no epochs: give steps")
    return validate.positive_integer(steps=math.ceil(passes / Fraction(probability)))


def opacus_history(history: Iterable[tuple[float, float, int]]) -> dp_event.DpEvent:
    """The event of an Opacus accountant's ``history``: a list of ``(noise_multiplier, sample_rate, steps)``.

    Returns
    -------
    DpEvent
        The phases, composed.

    Raises
    ------
    ValueError, TypeError
        If an entry is no such triple, or a value is out of its range.

    Examples
    --------
    >>> event = opacus_history([(1.0, 0.01, 500), (1.2, 0.01, 500)])
    >>> [phase.count for phase in event.events]
    [500, 500]
    """
    phases = []
    for index, entry in enumerate(validate.sequence(history=history)):
        try:
            noise, rate, steps = entry
        except (TypeError, ValueError):
            raise ValueError(
                f"history[{index}]={entry!r} is not a triple (noise_multiplier, sample_rate, steps)"
            ) from None
        try:
            phases.append(dpsgd(noise_multiplier=noise, sampling_probability=rate, steps=steps))
        except (TypeError, ValueError) as error:
            raise type(error)(f"history[{index}]: {error}") from None
    return phases[0] if len(phases) == 1 else dp_event.ComposedDpEvent(phases) if phases else dp_event.NoOpDpEvent()
