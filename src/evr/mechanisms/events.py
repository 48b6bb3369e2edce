"""Events that dp_accounting has no class for, and short ways to build the usual ones.

Training schemes in many dimensions are in ``schemes.py``. The names and fields of the two classes here follow
dp_accounting's development version, so that a later release of it can take their place.
"""

from __future__ import annotations

from collections.abc import Iterable

import attr
from dp_accounting import dp_event

from evr import validate
from evr.mechanisms.schemes import (
    BallsInBinsDpEvent,
    BMinSepDpEvent,
    CyclicPoissonDpEvent,
    MatrixMechanismDpEvent,
    RedrawnBinsDpEvent,
    from_jax_privacy,
)

__all__ = [
    "BMinSepDpEvent",
    "BallsInBinsDpEvent",
    "CyclicPoissonDpEvent",
    "DiscreteGaussianDpEvent",
    "EpsilonDeltaDpEvent",
    "MatrixMechanismDpEvent",
    "RedrawnBinsDpEvent",
    "dpsgd",
    "from_jax_privacy",
    "opacus_history",
]


@attr.s(frozen=True, slots=True, auto_attribs=True)
class DiscreteGaussianDpEvent(dp_event.DpEvent):
    """Integer values plus noise on the integers, of probability proportional to ``exp(-x^2 / (2 sigma^2))``.

    ``sensitivity`` is the greatest change of the (scalar, integer) value by one record.
    """

    sigma: float
    sensitivity: int = 1


@attr.s(frozen=True, slots=True, auto_attribs=True)
class EpsilonDeltaDpEvent(dp_event.DpEvent):
    """A mechanism of which only an ``(epsilon, delta)`` guarantee is known."""

    epsilon: float
    delta: float


def dpsgd(*, noise_multiplier: float, sampling_probability: float, steps: int) -> dp_event.DpEvent:
    """DP-SGD with Poisson sampling: ``steps`` times a Poisson-sampled Gaussian mechanism.

    Parameters
    ----------
    noise_multiplier
        Standard deviation of the noise on the sum of clipped gradients, in units of the clipping norm.
    sampling_probability
        Probability with which each record, independently, is in a batch. Shuffled batches of fixed size are not this.
    steps
        Number of optimizer steps.

    Examples
    --------
    >>> dpsgd(noise_multiplier=1.0, sampling_probability=1e-3, steps=1000).count
    1000
    """
    noise = validate.non_negative(noise_multiplier=noise_multiplier)
    probability = validate.probability(sampling_probability=sampling_probability)
    count = validate.positive_integer(steps=steps)
    step = dp_event.PoissonSampledDpEvent(probability, dp_event.GaussianDpEvent(noise))
    return dp_event.SelfComposedDpEvent(step, count)


def opacus_history(history: Iterable[tuple[float, float, int]]) -> dp_event.DpEvent:
    """The event of an Opacus accountant's ``history``: a list of ``(noise_multiplier, sample_rate, steps)``.

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
