"""``evr calibrate``: the least noise, or the most steps, that a target allows."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from evr import validate
from evr.cli.options import (
    Adjacency,
    BatchSize,
    DatasetSize,
    Epochs,
    Json,
    NoiseMultiplier,
    Quiet,
    Sampling,
    SamplingProbability,
    Steps,
    Training,
    number_option,
)
from evr.cli.output import as_json, number, number_above, say, seconds

SpecFile = Annotated[
    Path | None,
    typer.Argument(
        metavar="SPEC", help="Specification file (TOML): find how many times all of it may run."
    ),
]
Epsilon = Annotated[float | None, number_option("--epsilon", "The target's epsilon.")]
Delta = Annotated[float | None, number_option("--delta", "The target's delta.")]


def command(
    spec: SpecFile = None,
    noise_multiplier: NoiseMultiplier = None,
    sampling_probability: SamplingProbability = None,
    steps: Steps = None,
    dataset_size: DatasetSize = None,
    batch_size: BatchSize = None,
    epochs: Epochs = None,
    sampling: Sampling = None,
    adjacency: Adjacency = None,
    epsilon: Epsilon = None,
    delta: Delta = None,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Find the least noise multiplier for so many steps, or the most steps for a noise multiplier,
    that meets a target.

    Leave out the flag of what you want to find. The target of a SPEC is its claim, unless flags say
    otherwise.

    Example: evr calibrate --epsilon 1 --delta 1e-6 --sampling-probability 0.01 --steps 1000
    """
    if spec is not None:
        from evr.mechanisms.spec import load

        loaded = load(spec)
        claim, adjacency = loaded.claim, adjacency or loaded.adjacency
        epsilon = claim.epsilon if epsilon is None else epsilon
        delta = claim.delta if delta is None else delta
    missing = [
        name for name, value in (("--epsilon", epsilon), ("--delta", delta)) if value is None
    ]
    if missing:
        raise ValueError(f"calibrate to which target? Add {' and '.join(missing)}")
    epsilon = validate.non_negative(epsilon=epsilon)
    delta = validate.open_probability(delta=delta)
    name, make_event, integer = _question(
        spec,
        adjacency,
        Training(
            noise_multiplier,
            sampling_probability,
            steps,
            dataset_size,
            batch_size,
            epochs,
            sampling,
        ),
    )
    from evr.estimation import calibrate

    found = calibrate(
        make_event,
        epsilon=epsilon,
        delta=delta,
        integer=integer,
        low=1 if integer else None,
        neighboring_relation=adjacency,
    )
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
        say(
            f"{name} = {value}, {rule} for epsilon = {number(epsilon)} and delta = {number(delta)} "
            f"(fft estimate {number(found.delta)}, {seconds(found.seconds)})"
        )


def _question(
    spec: Path | None, adjacency: str | None, training: Training
) -> tuple[str, Any, bool]:
    """The parameter to find, the event at each of its values, and whether it is a whole number."""
    if spec is not None:
        if training.given:
            raise ValueError(
                f"{spec} and the DP-SGD flags both describe a mechanism: give one of them"
            )
        from dp_accounting import dp_event

        from evr.mechanisms.spec import load

        event = load(spec).event(adjacency)
        return "repetitions", lambda count: dp_event.SelfComposedDpEvent(event, count), True
    noise, long = (
        training.noise_multiplier,
        training.steps is not None or training.epochs is not None,
    )
    if noise is not None and long:
        other = "--steps" if training.steps is not None else "--epochs"
        raise ValueError(
            f"--noise-multiplier and {other} leave nothing to find: leave out one of them"
        )
    if long:
        training._replace(noise_multiplier=1.0).event()  # what is wrong with the rest is said now
        return "noise_multiplier", lambda s: training._replace(noise_multiplier=s).event(), False
    if noise is not None:
        validate.positive(noise_multiplier=noise)
        training._replace(steps=1).event()
        return "steps", lambda k: training._replace(steps=k).event(), True
    raise ValueError(
        "find what? Give --steps (to find the noise), --noise-multiplier (to find the steps) or a "
        "SPEC file"
    )
