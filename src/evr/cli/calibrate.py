"""``evr calibrate``: the smallest noise, or the largest number of steps, for a target."""

from __future__ import annotations

from typing import Annotated, Any

from evr import validate
from evr.cli.options import Json, Quiet, Training, WhatRan, asks_what_ran, number_option
from evr.cli.output import as_json, number, say, seconds
from evr.cli.sanity import note


@asks_what_ran
def command(
    ran: WhatRan,
    epsilon: Annotated[float | None, number_option("The target's epsilon.")] = None,
    delta: Annotated[float | None, number_option("The target's delta.")] = None,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Find the smallest noise multiplier for a number of steps, or the largest number of steps for a noise multiplier,
    that meets a target.

    Leave out the flag of what you want to find. With a SPEC file: find how often the whole file may run; its claim is
    the target, unless flags say otherwise.

    Example: evr calibrate --epsilon 1 --delta 1e-6 --sampling-probability 0.01 --steps 1000
    """
    event, claim, relation = (None, None, ran.adjacency) if ran.spec is None else ran.described()
    if claim is not None:
        epsilon = claim.epsilon if epsilon is None else epsilon
        delta = claim.delta if delta is None else delta
    missing = [name for name, value in (("--epsilon", epsilon), ("--delta", delta)) if value is None]
    if missing:
        raise ValueError(f"calibrate to which target? Add {' and '.join(missing)}")
    epsilon = validate.non_negative(epsilon=epsilon)
    delta = validate.open_probability(delta=delta)
    name, make_event, integer = _question(ran.training) if event is None else _repeated(event)
    note(ran, make_event(1), epsilon=epsilon, delta=delta, quiet=quiet)
    from evr.estimation import calibrate

    found = calibrate(
        make_event,
        epsilon=epsilon,
        delta=delta,
        integer=integer,
        low=1 if integer else None,
        neighboring_relation=relation,
    )
    if json:
        about = {"estimated_delta": found.delta, "evaluations": found.evaluations, "seconds": found.seconds}
        as_json({"parameter": name, "value": found.value, "epsilon": epsilon, "delta": delta, **about})
    elif quiet:
        print(repr(found.value))
    else:
        rule = "the largest" if integer else "the smallest of four digits"
        target = f"epsilon = {number(epsilon)} and delta = {number(delta)}"
        how = f"fft estimate {number(found.delta)}, {seconds(found.seconds)}"
        say(f"{name} = {found.value}, {rule} for {target} ({how})")


def _repeated(event: Any) -> tuple[str, Any, bool]:
    """How many times all of it may run."""
    from dp_accounting import dp_event

    return "repetitions", lambda count: dp_event.SelfComposedDpEvent(event, count), True


def _question(training: Training) -> tuple[str, Any, bool]:
    """The parameter to find, the event at each of its values, and whether it is a whole number."""
    noise, long = (training.noise_multiplier, training.steps is not None or training.epochs is not None)
    if noise is not None and long:
        other = "--steps" if training.steps is not None else "--epochs"
        raise ValueError(f"--noise-multiplier and {other} leave nothing to find: leave out one of them")
    if long:
        training._replace(noise_multiplier=1.0).event()  # what is wrong with the rest is said now
        return "noise_multiplier", lambda s: training._replace(noise_multiplier=s).event(), False
    if noise is not None:
        validate.positive(noise_multiplier=noise)
        training._replace(steps=1).event()
        return "steps", lambda k: training._replace(steps=k).event(), True
    raise ValueError(
        "find what? Give --steps (to find the noise), --noise-multiplier (to find the steps) or a SPEC file"
    )
