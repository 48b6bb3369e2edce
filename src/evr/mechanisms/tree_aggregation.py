"""Tree aggregation in one epoch: as many Gaussians as a tree is deep (docs/guarantees_relations.md, R1.5)."""

from __future__ import annotations

from collections.abc import Iterable

from dp_accounting import NeighboringRelation, dp_event

from evr import validate
from evr.mechanisms.descriptor import NON_PRIVATE, Mechanism
from evr.mechanisms.relations import ZERO_OUT


def gaussians(event: dp_event.SingleEpochTreeAggregationDpEvent) -> dp_event.DpEvent:
    """The Gaussian mechanisms of the nodes that one record is in."""
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


def _relation(event: dp_event.SingleEpochTreeAggregationDpEvent) -> NeighboringRelation:
    """With one record more, others would move to other leaves."""
    return ZERO_OUT


MECHANISM = Mechanism(
    dp_event.SingleEpochTreeAggregationDpEvent,
    gaussians,
    assumptions=("each record was in at most one step of all trees",),
    takes_sampling=False,
    relation=_relation,
)
