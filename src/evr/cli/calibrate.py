"""``evr calibrate``: the least noise, or the most steps, for a target."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Annotated, Any

import evr
from evr._basics import validate
from evr.cli import options
from evr.cli.output import number, seconds, trying


def calibrate(
    ran: options.WhatRan,
    goal: options.Goal,
    *,
    scale_noise: Annotated[bool, options.option("Find one factor for all noise.", "--scale-noise")] = False,
    out: options.Out,
) -> None:
    """Find the smallest noise multiplier for a number of steps, or the largest number of steps for a noise multiplier,
    that meets a target: a pair of epsilon and delta, or a risk.

    Leave out the flag of what you want to find. With a SPEC file: find how often the whole file may run, or with
    `--scale-noise` one factor for all noise in it; its claim is the target, unless flags say otherwise.

    Example: evr calibrate --epsilon 1 --delta 1e-6 --sampling-probability 0.01 --steps 1000
    """
    known = ran.spec is not None or scale_noise
    event, claim, relation = ran.described() if known else (None, None, ran.adjacency)
    target = goal.given
    if claim is not None and target.keys() <= {"epsilon", "delta"}:
        target = options.Goal(**{"epsilon": claim.epsilon, "delta": claim.delta, **target}).given
    if len(target) < 2 and goal.advantage is None:
        pairs = (("epsilon", "delta"), ("true_positive_rate", "false_positive_rate"))
        wanted = next((one for one in pairs if target.keys() & set(one)), pairs[0])
        missing = " and ".join(options.flag_of(name) for name in wanted if name not in target)
        raise ValueError(f"calibrate to which target? Add {missing}{'' if target else ', or --advantage'}")
    from evr._accounting.calibration import Goal
    from evr._accounting.noise import noise_in, scaled_noise

    Goal.of(**target)
    name, make_event = ("noise_scale", partial(scaled_noise, event)) if scale_noise else _unknown(ran, event)
    integer = name in ("steps", "repetitions")
    levels = {one: target.get(one) for one in ("epsilon", "delta")}
    out.note(make_event(1), records=ran.records, **levels)
    low = 1 if integer else None
    with trying(name, make_event, quiet=out.silent) as make:
        found = evr.calibrate(make, **target, integer=integer, low=low, neighboring_relation=relation, unit=None)
    noise = noise_in(make_event(found.value)) if scale_noise else []
    rule = "the largest" if integer else "the smallest of four digits"
    met = " and ".join(f"{level.replace('_', ' ')} = {number(value)}" for level, value in target.items())
    at = "" if "epsilon" in target else f" at epsilon = {number(found.epsilon)}"
    how = f"fft estimate {number(found.delta)}{at}, {seconds(found.seconds)}"
    words = f"{name} = {found.value}, {rule} for {met} ({how})"
    document = {"parameter": name, "value": found.value, **target, "epsilon": found.epsilon}
    document |= {"estimated_delta": found.delta, "evaluations": found.evaluations, "seconds": found.seconds}
    if noise:
        document["noise"] = noise
        words += f"\nAll noise, in order: {', '.join(map(repr, noise))}"
    out.answer(document, repr(found.value), words)


def _unknown(ran: options.WhatRan, event: Any) -> tuple[str, Callable[[Any], Any]]:
    """The parameter to find, and the event at each of its values."""
    if event is not None:
        from dp_accounting import dp_event

        return "repetitions", lambda count: dp_event.SelfComposedDpEvent(event, count)
    ran.check_one()
    lengths = [options.flag_of(name) for name in ran.given if name in ("steps", "epochs", *ran.schedules)]
    if ran.noise_multiplier is None and lengths:
        return "noise_multiplier", lambda noise: replace(ran, noise_multiplier=noise).event()
    if ran.noise_multiplier is None:
        to_find = "--steps (to find the noise), --noise-multiplier (to find the steps) or a SPEC file"
        raise ValueError(f"find what? Give {to_find}")
    if "noise_multiplier" in ran.schedules:
        raise ValueError("--noise-multiplier is a schedule: add --scale-noise to find a factor for all of it")
    if lengths:
        both = f"--noise-multiplier and {lengths[0]} leave nothing to find"
        raise ValueError(f"{both}: leave out one of them, or add --scale-noise to find a factor for the noise")
    validate.positive(noise_multiplier=ran.noise_multiplier)
    return "steps", lambda steps: replace(ran, steps=steps).event()
