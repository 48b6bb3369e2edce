"""Mechanisms that a record takes part in once an epoch, as compositions of Gaussian mechanisms: shuffled batches
(docs/guarantees.md, 1.6) and tree aggregation (docs/guarantees_relations.md, R1.5).
"""

from __future__ import annotations

from collections.abc import Iterable

from dp_accounting import NeighboringRelation, dp_event

from evr import validate
from evr.mechanisms.descriptor import NON_PRIVATE, Mechanism
from evr.mechanisms.relations import REPLACE_ONE, ZERO_OUT
from evr.mechanisms.schemes import ShuffledBatchesDpEvent


def shuffled_batches(event: ShuffledBatchesDpEvent) -> dp_event.DpEvent:
    """A Gaussian mechanism for each epoch."""
    noise = validate.noise_scale(noise_multiplier=event.noise_multiplier)
    epochs = validate.positive_integer(epochs=event.epochs)
    if noise == 0:
        return NON_PRIVATE
    return dp_event.SelfComposedDpEvent(dp_event.GaussianDpEvent(noise), epochs)


def tree_aggregation(event: dp_event.SingleEpochTreeAggregationDpEvent) -> dp_event.DpEvent:
    """The Gaussian mechanisms of the nodes that one record is in: as many as a tree is deep."""
    noise = validate.noise_scale(noise_multiplier=event.noise_multiplier)
    counts = event.step_counts if isinstance(event.step_counts, Iterable) else [event.step_counts]
    steps = [validate.non_negative_integer(step_counts=one) for one in counts]
    if not steps:
        raise ValueError("step_counts=[] names no tree: give the number of steps of each")
    if noise == 0:
        return NON_PRIVATE
    depth = max(steps).bit_length()  # ceil(log2(steps + 1)): nodes from a leaf to the root
    if depth == 0:
        return dp_event.NoOpDpEvent()
    return dp_event.SelfComposedDpEvent(dp_event.GaussianDpEvent(noise), depth)


def _zero_out(event: dp_event.DpEvent) -> NeighboringRelation:
    """With one record more, others would move to other batches or leaves."""
    return ZERO_OUT


SHUFFLED_BATCHES = Mechanism(
    ShuffledBatchesDpEvent,
    shuffled_batches,
    assumptions=(
        "each record was in at most one batch of each epoch, and the order of the records and the "
        "sizes of the batches did not depend on what the records contain",
        "what a record adds to a sum was clipped and depended on that record and on earlier "
        "outputs only, not on who else was in the batch",
    ),
    takes_sampling=False,
    relation=_zero_out,
    under={REPLACE_ONE: shuffled_batches},
)

TREE_AGGREGATION = Mechanism(
    dp_event.SingleEpochTreeAggregationDpEvent,
    tree_aggregation,
    assumptions=("each record was in at most one step of all trees",),
    takes_sampling=False,
    relation=_zero_out,
)
