"""From a ``RandomAllocationDpEvent`` to blocks of bins (docs/guarantees_state.md, G7)."""

from __future__ import annotations

from dp_accounting import dp_event

from evr import validate
from evr.mechanisms.balls_in_bins import MECHANISM as BINS
from evr.mechanisms.descriptor import Mechanism
from evr.mechanisms.schemes import CONTRIBUTIONS, BallsInBinsDpEvent, RandomAllocationDpEvent


def blocks(event: RandomAllocationDpEvent) -> dp_event.DpEvent:
    """One of ``m`` iterations for each participation, ``m`` being the iterations over the participations, rounded down
    or up.
    """
    noise = validate.noise_scale(noise_multiplier=event.noise_multiplier)
    iterations = validate.positive_integer(iterations=event.iterations)
    participations = validate.positive_integer(participations=event.participations)
    if participations > iterations:
        raise ValueError(
            f"participations={participations!r} is above iterations={iterations!r}: a record takes part at most once "
            "in each iteration"
        )
    size, larger = divmod(iterations, participations)
    sizes = {size + 1: larger, size: participations - larger}
    return dp_event.ComposedDpEvent(
        [dp_event.SelfComposedDpEvent(BallsInBinsDpEvent(noise, m, m), n) for m, n in sizes.items() if n]
    )


MECHANISM = Mechanism(
    RandomAllocationDpEvent,
    blocks,
    assumptions=(
        "each record took part in exactly the stated number of iterations, a uniformly random set of them, drawn "
        "independently of all other records (not shuffled batches of a fixed size)",
        CONTRIBUTIONS,
    ),
    takes_sampling=False,
    under=BINS.under,
)
