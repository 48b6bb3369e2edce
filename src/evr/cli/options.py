"""Options that commands share, and the event that they describe."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from evr import validate

if TYPE_CHECKING:
    from evr.mechanisms.spec import Claim

SpecFile = Annotated[
    Path | None, typer.Argument(metavar="[SPEC]", help="Specification file (TOML); or give the three DP-SGD flags.")
]
NoiseMultiplier = Annotated[
    float | None, typer.Option("--noise-multiplier", help="Noise over clipping norm.", show_default=False)
]
SamplingProbability = Annotated[
    float | None,
    typer.Option("--sampling-probability", help="Poisson sampling probability of a record.", show_default=False),
]
Steps = Annotated[int | None, typer.Option("--steps", help="Number of steps.", show_default=False)]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON document.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print the result only, no progress.")]


def described(
    spec: Path | None, noise_multiplier: float | None, sampling_probability: float | None, steps: int | None
) -> tuple[Any, Claim | None]:
    """The event tree from a file or from the three DP-SGD flags, with the file's claim if it has one."""
    flags = {
        "--noise-multiplier": noise_multiplier,
        "--sampling-probability": sampling_probability,
        "--steps": steps,
    }
    given = [name for name, value in flags.items() if value is not None]
    if spec is not None:
        if given:
            raise ValueError(f"{spec} and {', '.join(given)} both describe a mechanism: give one of them")
        from evr.mechanisms.spec import load

        loaded = load(spec)
        return loaded.event(), loaded.claim
    missing = [name for name in flags if name not in given and name != "--sampling-probability"]
    if missing:
        raise ValueError(f"what ran? Give a SPEC file, or add {' and '.join(missing)} to the DP-SGD flags")
    from evr.mechanisms.events import dpsgd

    probability = 1.0 if sampling_probability is None else sampling_probability
    validate.probability(sampling_probability=probability)
    return dpsgd(noise_multiplier=noise_multiplier, sampling_probability=probability, steps=steps), None  # type: ignore[arg-type]
