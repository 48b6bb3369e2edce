"""Events that dp_accounting has no class for.

The names and fields of ``DiscreteGaussianDpEvent`` and ``EpsilonDeltaDpEvent`` follow
dp_accounting's development version, so that a later release of it can take their place. The others
are training schemes in many dimensions: who takes part when, and how the noise is correlated.

Names of schemes and their fields are those of JAX Privacy, ``noise_multiplier`` and
``sampling_probability`` those of dp_accounting. In all schemes

- ``noise_multiplier`` is the standard deviation of the noise over the clipping norm, *before* any
  norm of the strategy's columns (the convention of JAX Privacy's Monte Carlo; coming from its
  ``amplified_bandmf_event``, which normalises columns, multiply by the greatest column norm);
- ``strategy`` is the matrix ``C`` of a matrix mechanism: a tuple of numbers is the first column of
  a banded Toeplitz matrix (``c_col`` of JAX Privacy), a tuple of tuples the columns from the
  diagonal down. ``(1.0,)`` is independent noise, DP-SGD.

Under what conditions their laws dominate is Theorem 1 of docs/guarantees_highdim.md: entries of
``C`` are not negative; who takes part is drawn as the event says, for each record by itself; a
contribution depends on its record and on past outputs only, so batches are not truncated, and sums
are not divided by the size of the batch drawn.
"""

from __future__ import annotations

from typing import Any

import attr
from dp_accounting import dp_event

from evr.errors import UnsupportedEventError
from evr.laws.mixture.strategy import Entries, frozen

IDENTITY: Entries = (1.0,)

STRATEGY_KEY = {"strategy": (Any, IDENTITY)}
"""The key of a strategy in a spec file, whose value is checked as one (``Strategy.of``)."""

CONTRIBUTIONS = (
    "what a record adds to a sum was clipped and depended on that record and on earlier outputs "
    "only, not on who else was in the batch (no truncated batches, no division by the size of the "
    "batch as drawn)"
)
"""(H3) of Theorem 1 of docs/guarantees_highdim.md in a user's words: all schemes assume it."""


@attr.s(frozen=True, slots=True, auto_attribs=True)
class DiscreteGaussianDpEvent(dp_event.DpEvent):
    """Integer values plus noise on the integers, of probability proportional to ``exp(-x^2 / (2
    sigma^2))``.

    ``sensitivity`` is the greatest change of the (scalar, integer) value by one record.
    """

    sigma: float
    sensitivity: int = 1


@attr.s(frozen=True, slots=True, auto_attribs=True)
class EpsilonDeltaDpEvent(dp_event.DpEvent):
    """A mechanism of which only an ``(epsilon, delta)`` guarantee is known."""

    epsilon: float
    delta: float


@attr.s(frozen=True, slots=True, auto_attribs=True)
class BallsInBinsDpEvent(dp_event.DpEvent):
    """Each record is in one of ``cycle_length`` bins, drawn once; batch ``i`` is bin ``i %
    cycle_length``.

    Where ``iterations`` is no multiple of ``cycle_length``, independent noise is accounted as if
    the last cycle were whole.
    """

    noise_multiplier: float
    iterations: int
    cycle_length: int
    strategy: Entries = attr.ib(default=IDENTITY, converter=frozen)


@attr.s(frozen=True, slots=True, auto_attribs=True)
class RedrawnBinsDpEvent(dp_event.DpEvent):
    """As ``BallsInBinsDpEvent`` with independent noise, each record's bin drawn anew in each of
    ``epochs`` epochs.
    """

    noise_multiplier: float
    cycle_length: int
    epochs: int


@attr.s(frozen=True, slots=True, auto_attribs=True)
class CyclicPoissonDpEvent(dp_event.DpEvent):
    """Each record is in one of ``cycle_length`` groups; batch ``i`` samples group ``i %
    cycle_length`` by Poisson.

    ``partition`` says how groups come about. ``"fixed"``: groups of equal size, or groups known to
    whoever sees the outputs (``EQUAL_SPLIT`` of JAX Privacy); the statement is then about *zeroing
    out* a record, unless there is one group only. ``"independent"``: each record's group is drawn
    by itself.
    """

    noise_multiplier: float
    iterations: int
    cycle_length: int
    sampling_probability: float
    partition: str
    strategy: Entries = attr.ib(default=IDENTITY, converter=frozen)


@attr.s(frozen=True, slots=True, auto_attribs=True)
class BMinSepDpEvent(dp_event.DpEvent):
    """A record that was in none of the last ``min_sep - 1`` batches is in the next with
    ``sampling_probability``.

    ``warm_start`` says whether participation starts in its stationary state; a cold start, in which
    every record is eligible at first, costs more. Batches have an expected share ``1 / (min_sep - 1
    + 1 / sampling_probability)``.
    """

    noise_multiplier: float
    iterations: int
    min_sep: int
    sampling_probability: float
    warm_start: bool
    strategy: Entries = attr.ib(default=IDENTITY, converter=frozen)


@attr.s(frozen=True, slots=True, auto_attribs=True)
class MatrixMechanismDpEvent(dp_event.DpEvent):
    """A matrix mechanism without amplification: a record takes part at steps at least ``min_sep``
    apart, whichever.

    It is a Gaussian mechanism, and accounted as one: exactly for Toeplitz strategies that do not
    rise and for strategies of at most ``min_sep`` bands, from above for others. Entries may have
    any sign.
    """

    noise_multiplier: float
    strategy: Entries = attr.ib(converter=frozen)
    iterations: int = attr.ib()
    min_sep: int = attr.ib()
    max_participations: int | None = None


def from_jax_privacy(
    scheme: Any, *, noise_multiplier: float, strategy: Any = IDENTITY
) -> dp_event.DpEvent:
    """The event of a batch selection strategy of JAX Privacy, read by the names of its class and
    fields.

    Parameters
    ----------
    scheme
        ``BallsInBinsSampling``, ``CyclicPoissonSampling``, ``BMinSepSampling``, or
        ``RandomAllocationSampling`` with one participation. JAX Privacy itself is not needed.
    noise_multiplier, strategy
        As of the events here; ``strategy`` is JAX Privacy's ``c_col``.

    Examples
    --------
    >>> from dataclasses import dataclass
    >>> @dataclass
    ... class BallsInBinsSampling:
    ...     iterations: int
    ...     cycle_length: int
    >>> from_jax_privacy(BallsInBinsSampling(1000, 100), noise_multiplier=3.0)
    BallsInBinsDpEvent(noise_multiplier=3.0, iterations=1000, cycle_length=100, strategy=(1.0,))
    """
    kind = type(scheme).__name__
    reader = _READERS.get(kind)
    if reader is None:
        raise UnsupportedEventError(
            f"{kind} is no scheme that evr accounts for: known are {', '.join(_READERS)}", scheme
        )
    if getattr(scheme, "truncated_batch_size", None) is not None:
        raise UnsupportedEventError(
            f"{kind} truncates batches at {scheme.truncated_batch_size}: whether a record is used "
            "then depends on the others, which no theorem here covers. Set "
            "truncated_batch_size=None",
            scheme,
        )
    return reader(scheme, noise_multiplier, frozen(strategy))


def _balls_in_bins(scheme: Any, noise: float, strategy: Entries) -> dp_event.DpEvent:
    return BallsInBinsDpEvent(noise, scheme.iterations, scheme.cycle_length, strategy)


def _cyclic_poisson(scheme: Any, noise: float, strategy: Entries) -> dp_event.DpEvent:
    name = getattr(scheme.partition_type, "name", str(scheme.partition_type)).upper()
    if name not in ("EQUAL_SPLIT", "INDEPENDENT"):
        raise UnsupportedEventError(
            f"partition_type={name} is not EQUAL_SPLIT or INDEPENDENT", scheme
        )
    return CyclicPoissonDpEvent(
        noise,
        scheme.iterations,
        scheme.cycle_length,
        scheme.sampling_prob,
        "fixed" if name == "EQUAL_SPLIT" else "independent",
        strategy,
    )


def _b_min_sep(scheme: Any, noise: float, strategy: Entries) -> dp_event.DpEvent:
    return BMinSepDpEvent(
        noise,
        scheme.iterations,
        scheme.min_sep,
        scheme.sampling_prob,
        bool(scheme.warm_start),
        strategy,
    )


def _random_allocation(scheme: Any, noise: float, strategy: Entries) -> dp_event.DpEvent:
    if scheme.total_participations != 1:
        raise UnsupportedEventError(
            f"RandomAllocationSampling with total_participations={scheme.total_participations!r}: "
            "evr accounts for one participation, which is BallsInBinsDpEvent(iterations=t, "
            "cycle_length=t), and for RedrawnBinsDpEvent",
            scheme,
        )
    return BallsInBinsDpEvent(noise, scheme.iterations, scheme.iterations, strategy)


_READERS = {
    "BallsInBinsSampling": _balls_in_bins,
    "CyclicPoissonSampling": _cyclic_poisson,
    "BMinSepSampling": _b_min_sep,
    "RandomAllocationSampling": _random_allocation,
}
