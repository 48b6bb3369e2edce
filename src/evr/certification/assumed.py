"""What a statement assumes of whoever ran each mechanism: clauses that follow "It assumes that"."""

from __future__ import annotations

from dp_accounting import dp_event

from evr.mechanisms.schemes import (
    BallsInBinsDpEvent,
    BMinSepDpEvent,
    CyclicPoissonDpEvent,
    DiscreteGaussianDpEvent,
    EpsilonDeltaDpEvent,
    ExponentialMechanismDpEvent,
    FixedBatchUsersDpEvent,
    MatrixMechanismDpEvent,
    PermuteAndFlipDpEvent,
    PoissonSampledUsersDpEvent,
    RandomAllocationDpEvent,
    RedrawnBinsDpEvent,
    ShuffledBatchesDpEvent,
    SummedDiscreteGaussiansDpEvent,
    UsersDpEvent,
)

SELECTION = (
    "the runs had fresh noise and batches each, and their hyper-parameters were drawn anew for each run from a law "
    "that does not depend on the data",
    "a run was scored by its output, and by nothing else that depends on the data",
    "the number of runs was drawn from the stated law before the first of them, and neither it nor the other runs nor "
    "the time that they took was shown",
)
"""Of the best of several runs: Section T1 of docs/guarantees_selection.md."""

_CONTRIBUTIONS = (
    "what a record adds to a sum was clipped and depended on that record and on earlier outputs "
    "only, not on who else was in the batch (no truncated batches, no division by the size of the "
    "batch as drawn)"
)
"""(H3) of Theorem 1 of docs/guarantees_highdim.md in a user's words: all schemes assume it."""
_INTEGERS = "the values were integers, and the sensitivity bounds what a record adds to them after all rounding"
_SCORES = "the sensitivity of the scores is that under the adjacency stated, and does not depend on the data"
_OWNED = "no user had more than the stated number of records in the data, by a rule that looked at that user alone"
_CLIPPED = (
    "each record's gradient was clipped to norm 1 times the clipping norm, and the sum was divided by a constant; "
    "where a norm per user is stated, the sum of a user's records in a batch was clipped to it too"
)

ASSUMED: dict[type[dp_event.DpEvent], tuple[str, ...]] = {
    DiscreteGaussianDpEvent: (_INTEGERS,),
    SummedDiscreteGaussiansDpEvent: (_INTEGERS,),
    EpsilonDeltaDpEvent: ("what is known to be private by itself is so under the adjacency stated",),
    dp_event.ZCDpEvent: ("what is known to be zCDP is so under the adjacency stated, in both directions",),
    ExponentialMechanismDpEvent: (
        "each choice was made with probabilities proportional to e^(epsilon score / (2 sensitivity)), or with Gumbel "
        "noise of that scale (without the 2 for monotone scores, and not under replace-one)",
        _SCORES,
    ),
    PermuteAndFlipDpEvent: (_SCORES,),
    BallsInBinsDpEvent: (
        "each record was put into one bin, with equal chances and independently of all others, "
        "once for the whole training (not fixed-size batches of shuffled data)",
        _CONTRIBUTIONS,
    ),
    RedrawnBinsDpEvent: (
        "each record was put into one bin in each epoch, with equal chances and independently of "
        "all others and of other epochs (not fixed-size batches of shuffled data)",
        _CONTRIBUTIONS,
    ),
    RandomAllocationDpEvent: (
        "each record took part in exactly the stated number of iterations, a uniformly random set of them, drawn "
        "independently of all other records (not shuffled batches of a fixed size)",
        _CONTRIBUTIONS,
    ),
    MatrixMechanismDpEvent: (
        "no record took part more often, or at iterations closer to each other, than stated",
        _CONTRIBUTIONS,
    ),
    CyclicPoissonDpEvent: (
        "each record was in a batch of its group's turn independently with the stated probability, "
        "and its group came about as stated",
        _CONTRIBUTIONS,
    ),
    BMinSepDpEvent: ("each eligible record was in a batch independently with the stated probability", _CONTRIBUTIONS),
    ShuffledBatchesDpEvent: (
        "each record was in at most one batch of each epoch, and the order of the records and the "
        "sizes of the batches did not depend on what the records contain",
        "what a record adds to a sum was clipped and depended on that record and on earlier "
        "outputs only, not on who else was in the batch",
    ),
    dp_event.SingleEpochTreeAggregationDpEvent: ("each record was in at most one step of all trees",),
    dp_event.TruncatedSubsampledGaussianDpEvent: (
        "each record was sampled independently with the stated probability, and of a batch that "
        "was too large a uniformly random part of the stated size was kept",
        "the larger of two neighbouring data sets has the stated number of records",
    ),
    PoissonSampledUsersDpEvent: (
        _OWNED,
        "each record was in each batch independently, with the stated probability",
        _CLIPPED,
    ),
    FixedBatchUsersDpEvent: (
        _OWNED,
        "each batch was a uniformly random set of the stated size, drawn anew for each step, and a user with fewer "
        "records has empty ones in their places",
        _CLIPPED,
    ),
    UsersDpEvent: (_OWNED, "what is said of a record below holds for each record of a user by itself"),
}
