"""``evr calibrate``: the least noise, or the most steps, that a target allows."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from evr import validate
from evr.cli.options import Json, NoiseMultiplier, Quiet, SamplingProbability, Steps, number_option
from evr.cli.output import as_json, number, number_above, seconds

SpecFile = Annotated[
    Path | None,
    typer.Argument(metavar="SPEC", help="Specification file (TOML): find how many times all of it may run."),
]
Epsilon = Annotated[float | None, number_option("--epsilon", "The target's epsilon.")]
Delta = Annotated[float | None, number_option("--delta", "The target's delta.")]


def command(
    spec: SpecFile = None,
    noise_multiplier: NoiseMultiplier = None,
    sampling_probability: SamplingProbability = None,
    steps: Steps = None,
    epsilon: Epsilon = None,
    delta: Delta = None,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Find the least noise multiplier for so many steps, or the most steps for a noise multiplier, that meets a target.

    Leave out the flag of what is to be found.

    Example: `evr calibrate --epsilon 1 --delta 1e-6 --sampling-probability 0.01 --steps 1000`
    """
    missing = [name for name, value in (("--epsilon", epsilon), ("--delta", delta)) if value is None]
    if missing:
        raise ValueError(f"calibrate to which target? Add {' and '.join(missing)}")
    epsilon = validate.non_negative(epsilon=epsilon)
    delta = validate.open_probability(delta=delta)
    name, make_event, integer = _question(spec, noise_multiplier, sampling_probability, steps)
    from evr.estimation import calibrate

    found = calibrate(make_event, epsilon=epsilon, delta=delta, integer=integer, low=1 if integer else None)
    if json:
        as_json(
            {
                "parameter": name,
                "value": found.parameter,
                "epsilon": epsilon,
                "delta": delta,
                "estimated_delta": found.delta,
                "evaluations": found.evaluations,
                "seconds": found.seconds,
            }
        )
    elif quiet:
        print(repr(found.parameter))
    else:
        value = f"{found.parameter}" if integer else number_above(found.parameter)
        rule = "the most" if integer else "the least"
        print(
            f"{name} = {value}, {rule} for epsilon = {number(epsilon)} and delta = {number(delta)} "
            f"(fft estimate {number(found.delta)}, {seconds(found.seconds)})"
        )


def _question(
    spec: Path | None, noise_multiplier: float | None, sampling_probability: float | None, steps: int | None
) -> tuple[str, Any, bool]:
    """The parameter to find, the event at each of its values, and whether it is a whole number."""
    if spec is not None:
        if any(value is not None for value in (noise_multiplier, sampling_probability, steps)):
            raise ValueError(f"{spec} and the DP-SGD flags both describe a mechanism: give one of them")
        from dp_accounting import dp_event

        from evr.mechanisms.spec import load

        event = load(spec).event()
        return "repetitions", lambda count: dp_event.SelfComposedDpEvent(event, count), True
    from evr.mechanisms.events import dpsgd

    q = validate.probability(sampling_probability=1.0 if sampling_probability is None else sampling_probability)
    if noise_multiplier is not None and steps is not None:
        raise ValueError(
            f"noise_multiplier={noise_multiplier!r} and steps={steps!r} leave nothing to find: leave out one of them"
        )
    if steps is not None:
        count = validate.positive_integer(steps=steps)
        return "noise_multiplier", lambda s: dpsgd(noise_multiplier=s, sampling_probability=q, steps=count), False
    if noise_multiplier is not None:
        noise = validate.positive(noise_multiplier=noise_multiplier)
        return "steps", lambda k: dpsgd(noise_multiplier=noise, sampling_probability=q, steps=k), True
    raise ValueError(
        "find what? Give --steps (to find the noise), --noise-multiplier (to find the steps) or a SPEC file"
    )
