"""``evr calibrate``: the smallest noise, or the largest number of steps, for a target."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Annotated, Any

from evr import validate
from evr.cli import options
from evr.cli.output import as_json, number, say, seconds
from evr.cli.sanity import note


@options.asks_what_ran
def command(
    ran: options.WhatRan,
    epsilon: Annotated[float | None, options.number("The target's epsilon.")] = None,
    delta: Annotated[float | None, options.number("The target's delta.")] = None,
    json: options.Json = False,
    quiet: options.Quiet = False,
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
    name, make_event = _question(ran) if event is None else _repeated(event)
    integer = name != "noise_multiplier"
    note(make_event(1), records=ran.records, epsilon=epsilon, delta=delta, quiet=quiet)
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


def _repeated(event: Any) -> tuple[str, Callable[[Any], Any]]:
    """How many times all of it may run."""
    from dp_accounting import dp_event

    return "repetitions", lambda count: dp_event.SelfComposedDpEvent(event, count)


def _question(ran: options.WhatRan) -> tuple[str, Callable[[Any], Any]]:
    """The parameter to find, and the event at each of its values."""
    lengths = [f"--{name}" for name in ("steps", "epochs") if name in ran.given]
    if ran.noise_multiplier is None and lengths:
        return "noise_multiplier", lambda noise: replace(ran, noise_multiplier=noise).event()
    if ran.noise_multiplier is None:
        raise ValueError(
            "find what? Give --steps (to find the noise), --noise-multiplier (to find the steps) or a SPEC file"
        )
    if lengths:
        raise ValueError(f"--noise-multiplier and {lengths[0]} leave nothing to find: leave out one of them")
    validate.positive(noise_multiplier=ran.noise_multiplier)
    return "steps", lambda steps: replace(ran, steps=steps).event()
