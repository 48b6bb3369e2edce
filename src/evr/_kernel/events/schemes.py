"""Events that dp_accounting has no class for. Where its development version has one, names and fields are
those; names of training schemes and their fields are those of JAX Privacy.

In all schemes ``noise_multiplier`` is the standard deviation of the noise over the clipping norm, *before*
any norm of the strategy's columns. ``strategy`` is the matrix ``C`` of a matrix mechanism: a tuple of numbers
is the first column of a banded Toeplitz matrix, a tuple of tuples the columns from the diagonal down;
``(1.0,)`` is independent noise. Under what conditions their laws dominate is Theorem 1 of
docs/guarantees_highdim.md.
"""

import attr
from dp_accounting import dp_event

from evr._kernel.pairs.patterns.strategy import Entries, frozen

IDENTITY: Entries = (1.0,)


@attr.s(frozen=True, slots=True, auto_attribs=True)
class DiscreteGaussianDpEvent(dp_event.DpEvent):
    """Integers plus noise of probability proportional to ``exp(-x^2 / (2 sigma^2))`` on each coordinate.

    ``sensitivity`` is the greatest change of the values by one record, in the L2 norm; an integer where
    ``dimension`` is 1. A ``dimension`` of None is unknown: then zCDP is all that is used.
    """

    sigma: float
    sensitivity: float = 1
    dimension: int | None = 1


@attr.s(frozen=True, slots=True, auto_attribs=True)
class SummedDiscreteGaussiansDpEvent(dp_event.DpEvent):
    """``DiscreteGaussianDpEvent`` with the noise of each of ``clients``: for secure aggregation."""

    sigma: float
    clients: int
    sensitivity: float = 1
    dimension: int = 1


@attr.s(frozen=True, slots=True, auto_attribs=True)
class ExponentialMechanismDpEvent(dp_event.DpEvent):
    """The exponential mechanism that is ``epsilon``-DP, or report-noisy-max with Gumbel noise."""

    epsilon: float


@attr.s(frozen=True, slots=True, auto_attribs=True)
class PermuteAndFlipDpEvent(dp_event.DpEvent):
    """The permute-and-flip mechanism that is ``epsilon``-DP, which is all that is used of it."""

    epsilon: float


@attr.s(frozen=True, slots=True, auto_attribs=True)
class AboveThresholdDpEvent(dp_event.DpEvent):
    """AboveThreshold, the sparse vector technique up to its first answer, which is ``epsilon``-DP however
    many scores it looks at: Laplace noise of scale ``2 sensitivity / epsilon`` on the threshold, drawn once,
    and of scale ``4 sensitivity / epsilon`` on each score; released is which score was above first
    (docs/guarantees_state.md, G8).
    """

    epsilon: float


@attr.s(frozen=True, slots=True, auto_attribs=True)
class AdaptiveClippingDpEvent(dp_event.DpEvent):
    """A noisy sum, and from the same batch a noisy count by which the clipping norm of later steps is adapted
    (Andrew et al. 2021). ``noise_multiplier`` is that of the sum; the count has noise of deviation
    ``clipped_count_stddev``, and a record adds 1/2 or -1/2 to it. Both together are one Gaussian mechanism
    (docs/guarantees_state.md, G9).
    """

    noise_multiplier: float
    clipped_count_stddev: float


@attr.s(frozen=True, slots=True, auto_attribs=True)
class ParallelDpEvent(dp_event.DpEvent):
    """``event`` on each of several disjoint parts of the data: a record is in one of them, so it costs as
    much as one. Of different mechanisms on the parts, give the costliest. The runs of a part are those that
    its records are in, also if others are: all but one of k folds (docs/guarantees_relations.md, R1.8).
    """

    event: dp_event.DpEvent


@attr.s(frozen=True, slots=True, auto_attribs=True)
class RandomAllocationDpEvent(dp_event.DpEvent):
    """Each record takes part in a random set of ``participations`` iterations, drawn for each by itself."""

    noise_multiplier: float
    iterations: int
    participations: int


@attr.s(frozen=True, slots=True, auto_attribs=True)
class OneOfDpEvent(dp_event.DpEvent):
    """All of ``events`` run, and each record takes part in one of them only, drawn with equal chances and for
    each record by itself: random groups, each with mechanisms of its own.
    """

    events: list[dp_event.DpEvent]


@attr.s(frozen=True, slots=True, auto_attribs=True)
class AllocatedDpEvent(dp_event.DpEvent):
    """``event`` runs ``num_steps`` times, and each record takes part in a uniformly random set of
    ``num_selected`` of these, drawn for each by itself. dp_accounting calls it ``RandomAllocationDpEvent``.
    """

    event: dp_event.DpEvent
    num_selected: int
    num_steps: int


@attr.s(frozen=True, slots=True, auto_attribs=True)
class PoissonSampledUsersDpEvent(dp_event.DpEvent):
    """A step of DP-SGD, for users of at most ``records_per_user`` records, sampled and clipped one by one.

    With ``user_norm``, the sum of a user's records in a batch is clipped to so many norms of a record.
    """

    noise_multiplier: float
    sampling_probability: float
    records_per_user: int
    user_norm: float | None = None


@attr.s(frozen=True, slots=True, auto_attribs=True)
class FixedBatchUsersDpEvent(dp_event.DpEvent):
    """A step on a random set of ``sample_size`` records, for users whose records are clipped one by one."""

    noise_multiplier: float
    source_dataset_size: int
    sample_size: int
    records_per_user: int


@attr.s(frozen=True, slots=True, auto_attribs=True)
class UsersDpEvent(dp_event.DpEvent):
    """A training scheme (bins, cyclic Poisson, b-min-sep, a matrix mechanism) for users of at most
    ``records_per_user`` records, each of which takes part by itself.
    """

    event: dp_event.DpEvent
    records_per_user: int


@attr.s(frozen=True, slots=True, auto_attribs=True)
class EpsilonDeltaDpEvent(dp_event.DpEvent):
    """A mechanism of which only an ``(epsilon, delta)`` guarantee is known."""

    epsilon: float
    delta: float


@attr.s(frozen=True, slots=True, auto_attribs=True)
class BallsInBinsDpEvent(dp_event.DpEvent):
    """Each record is in one of ``cycle_length`` bins, drawn once; batch ``i`` is bin ``i % cycle_length``.
    With independent noise, a last cycle that is cut short counts as a whole one.
    """

    noise_multiplier: float
    iterations: int
    cycle_length: int
    strategy: Entries = attr.ib(default=IDENTITY, converter=frozen)


@attr.s(frozen=True, slots=True, auto_attribs=True)
class RedrawnBinsDpEvent(dp_event.DpEvent):
    """``BallsInBinsDpEvent`` with independent noise, each record's bin drawn anew in each of ``epochs``."""

    noise_multiplier: float
    cycle_length: int
    epochs: int


@attr.s(frozen=True, slots=True, auto_attribs=True)
class CyclicPoissonDpEvent(dp_event.DpEvent):
    """Each record is in one of ``cycle_length`` groups; batch ``i`` is a sample of ``i % cycle_length``.

    ``partition`` says how groups come about. ``"fixed"``: groups of equal size, or groups known to whoever
    sees the outputs (``EQUAL_SPLIT`` of JAX Privacy); the statement is then about *zeroing out* a record,
    unless there is one group only. ``"independent"``: each record's group is drawn by itself.
    """

    noise_multiplier: float
    iterations: int
    cycle_length: int
    sampling_probability: float
    partition: str
    strategy: Entries = attr.ib(default=IDENTITY, converter=frozen)


@attr.s(frozen=True, slots=True, auto_attribs=True)
class BMinSepDpEvent(dp_event.DpEvent):
    """Who was in none of the last ``min_sep - 1`` batches is in the next with ``sampling_probability``.

    With ``warm_start`` participation starts in its stationary state; a cold start, where all are eligible at
    first, costs more. Batches have an expected share ``1 / (min_sep - 1 + 1 / sampling_probability)``.
    """

    noise_multiplier: float
    iterations: int
    min_sep: int
    sampling_probability: float
    warm_start: bool
    strategy: Entries = attr.ib(default=IDENTITY, converter=frozen)


@attr.s(frozen=True, slots=True, auto_attribs=True)
class MatrixMechanismDpEvent(dp_event.DpEvent):
    """A matrix mechanism without amplification: a record takes part at any steps ``min_sep`` or more apart.

    It is a Gaussian mechanism, and accounted as one: exactly for Toeplitz strategies that do not rise and for
    strategies of at most ``min_sep`` bands, from above for others. Entries may have any sign.
    """

    noise_multiplier: float
    strategy: Entries = attr.ib(converter=frozen)
    iterations: int = attr.ib()
    min_sep: int = attr.ib()
    max_participations: int | None = None


@attr.s(frozen=True, slots=True, auto_attribs=True)
class ShuffledBatchesDpEvent(dp_event.DpEvent):
    """Batches of shuffled data, each record in at most one batch of each of ``epochs`` epochs: a Gaussian
    mechanism for each epoch, for zeroing out or replacing a record. A record more would move others
    (docs/guarantees.md, 1.6).
    """

    noise_multiplier: float
    epochs: int


@attr.s(frozen=True, slots=True, auto_attribs=True)
class ZeroOutDpEvent(dp_event.DpEvent):
    """The mechanism of ``event``, for zeroing out a record only (docs/guarantees_relations.md, R1.2).

    It is for mechanisms whose sampling probability, divisor or number of steps was computed from the number
    of records, which zeroing out a record leaves as it is.
    """

    event: dp_event.DpEvent


@attr.s(frozen=True, slots=True, auto_attribs=True)
class BinomialSelectDpEvent(dp_event.DpEvent):
    """``most_runs`` coins of ``probability`` say how often ``event`` runs; the best output is released."""

    event: dp_event.DpEvent
    most_runs: int
    probability: float


@attr.s(frozen=True, slots=True, auto_attribs=True)
class ThresholdSelectDpEvent(dp_event.DpEvent):
    """``event`` runs until its output is good, which depends on the output alone. After each other output,
    with ``stop_probability``, there is no further run, and nothing is released (Liu and Talwar 2019).
    """

    event: dp_event.DpEvent
    stop_probability: float
