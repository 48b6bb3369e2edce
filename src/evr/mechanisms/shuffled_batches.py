"""From a ``ShuffledBatchesDpEvent`` to one Gaussian mechanism for each epoch (docs/guarantees.md, 1.6)."""

from __future__ import annotations

from dp_accounting import NeighboringRelation, dp_event

from evr import validate
from evr.mechanisms.descriptor import NON_PRIVATE, Mechanism
from evr.mechanisms.relations import REPLACE_ONE, ZERO_OUT
from evr.mechanisms.schemes import ShuffledBatchesDpEvent


def gaussians(event: ShuffledBatchesDpEvent) -> dp_event.DpEvent:
    """A Gaussian mechanism for each epoch."""
    noise = validate.noise_scale(noise_multiplier=event.noise_multiplier)
    epochs = validate.positive_integer(epochs=event.epochs)
    if noise == 0:
        return NON_PRIVATE
    return dp_event.SelfComposedDpEvent(dp_event.GaussianDpEvent(noise), epochs)


def _relation(event: ShuffledBatchesDpEvent) -> NeighboringRelation:
    """With one record more, others would move to other batches."""
    return ZERO_OUT


MECHANISM = Mechanism(
    ShuffledBatchesDpEvent,
    gaussians,
    assumptions=(
        "each record was in at most one batch of each epoch, and the order of the records and the "
        "sizes of the batches did not depend on what the records contain",
        "what a record adds to a sum was clipped and depended on that record and on earlier "
        "outputs only, not on who else was in the batch",
    ),
    takes_sampling=False,
    relation=_relation,
    under={REPLACE_ONE: gaussians},
)
