"""``evr describe``: the mechanisms of a composition, their counts and both dominating pairs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from evr.cli import options
from evr.cli.output import as_json, number, say, table

if TYPE_CHECKING:
    from evr.laws import LossLaw

EPSILONS = (0.1, 0.5, 1.0, 2.0)


@options.asks_what_ran
def command(ran: options.WhatRan, json: options.Json = False) -> None:
    """Show how evr understands a training: in words, then each mechanism's pairs and the delta of one step.

    Example: evr describe examples/dpsgd.toml
    """
    from evr.certification.event_words import assumptions, describe
    from evr.certification.words import trained
    from evr.described import ADJACENCIES
    from evr.laws import Direction
    from evr.mechanisms import Composition
    from evr.mechanisms.relations import name_of

    event, _, relation = ran.described()
    composition = Composition.of(event, relation)
    assumed = assumptions(event, relation=composition.relation)
    steps: list[dict[str, Any]] = [
        {
            "direction": direction.value,
            "count": step.count,
            "pair": step.law.describe(),
            "delta": {str(epsilon): _delta(step.law, epsilon) for epsilon in EPSILONS},
        }
        for direction in Direction
        for step in composition.steps(direction)
    ]
    if json:
        about = {"event": repr(event), "adjacency": name_of(composition.relation), "what_ran": describe(event)}
        as_json({**about, "assumptions": assumed, "steps": steps})
        return
    if not steps:
        print("This composition costs no privacy.")
        return
    if training := trained(event, {"algorithm": None, "unit": None, **ran.description()}):
        say(f"Training: {training}.")
        say("A noise multiplier is the standard deviation of the noise over the clipping norm.")
    say(f"What ran: {describe(event)}.")
    say(f"Neighbours: {ADJACENCIES[composition.relation]}.")
    for clause in assumed:
        say(f"It is assumed that {clause}.")
    print()
    rows = [
        {"direction": one["direction"], "count": f"{one['count']:,}", "dominating pair P | Q": one["pair"]}
        | {f"delta({float(epsilon):g})": number(delta, 4) for epsilon, delta in one["delta"].items()}
        for one in steps
    ]
    table("One step of each mechanism", rows)


def _delta(law: LossLaw, epsilon: float) -> float | None:
    """Delta of a single step, where it has a closed form."""
    from evr.estimation.closed_forms import pair_delta
    from evr.laws import DominatingPair

    return pair_delta(law, epsilon) if isinstance(law, DominatingPair) else None
