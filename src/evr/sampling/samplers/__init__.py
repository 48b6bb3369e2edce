"""Exact draws of sums of tilted steps: one class for each way of drawing, one line for each class.

A sampler draws, for each of ``size`` samples, ``count`` independent steps from ``P' = e^{h(loss)} P
/ M`` and returns the sum of their losses and the sum of their heights ``h``. This is the hot path:
arrays that fit into the cache, no temporaries where it counts, one logarithm for the product of
many likelihood ratios.
"""

from __future__ import annotations

from evr.bounds.tilt import Tilt
from evr.laws import DominatingPair
from evr.sampling.samplers.alias import AliasSampler
from evr.sampling.samplers.common import StepSampler, Sums
from evr.sampling.samplers.envelope import EnvelopeSampler
from evr.sampling.samplers.envelope_philox import EnvelopePhilox
from evr.sampling.samplers.lines import CellSampler, PlainSampler
from evr.sampling.samplers.mixture import MixtureSampler
from evr.sampling.samplers.mixture_philox import MixturePhilox
from evr.sampling.samplers.outcomes import OutcomeSampler
from evr.sampling.samplers.outcomes_philox import OutcomesPhilox
from evr.sampling.samplers.placed import PlacedSampler

__all__ = [
    "PLACED",
    "SAMPLERS",
    "PlacedSampler",
    "StepSampler",
    "Sums",
    "identity",
    "named_sampler",
    "sampler_class",
]

PLACED: tuple[type[PlacedSampler], ...] = (OutcomesPhilox, MixturePhilox, EnvelopePhilox)
"""Those that a GPU has too, the fastest first."""

SAMPLERS: tuple[type[StepSampler], ...] = (
    MixtureSampler,
    EnvelopeSampler,
    OutcomeSampler,
    PlainSampler,
    CellSampler,
    AliasSampler,
    *PLACED,  # draw for a GPU, and replay what it drew
)
"""The fastest first; of outcomes, the table for composed steps serves where a plan names it. A
version that no longer draws new samples stays here, at the end, to replay what it drew.
"""


def sampler_class(pair: DominatingPair, tilt: Tilt) -> type[StepSampler]:
    """The fastest exact sampler for the pair."""
    return next(one for one in SAMPLERS if one.serves(pair, tilt))


def identity(sampler: type[StepSampler] | StepSampler) -> str:
    """Name and version, as plans have them."""
    return f"{sampler.name}/{sampler.version}"


def named_sampler(name: str, pair: DominatingPair, tilt: Tilt) -> type[StepSampler]:
    """The sampler of that name and version, if it draws exactly this law."""
    for one in SAMPLERS:
        if identity(one) == name:
            if not one.serves(pair, tilt):
                raise ValueError(
                    f"the sampler {name!r} does not draw {pair.describe()} tilted by {tilt}"
                )
            return one
    known = ", ".join(map(identity, SAMPLERS))
    raise ValueError(f"the sampler {name!r} is not one of this version of evr: {known}")
