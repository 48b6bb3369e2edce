"""``evr describe``: the mechanisms of a composition, their counts and both dominating pairs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from evr.cli.options import Json, Training, WhatRan, asks_what_ran
from evr.cli.output import as_json, number, say, table

if TYPE_CHECKING:
    from evr.laws import LossLaw

EPSILONS = (0.1, 0.5, 1.0, 2.0)


@asks_what_ran
def command(ran: WhatRan, json: Json = False) -> None:
    """Show how evr understands it: noise and batches in words, then each mechanism's pairs and the delta of one step.

    Example: evr describe examples/dpsgd.toml
    """
    from evr.certification.event_words import assumptions, describe
    from evr.described import ADJACENCIES
    from evr.laws import Direction
    from evr.mechanisms import Composition
    from evr.mechanisms.relations import name_of

    event, _, relation = ran.described()
    composition = Composition.of(event, relation)
    assumed = assumptions(event, relation=composition.relation)
    rows = [
        (direction.value, step.count, step.law.describe(), _deltas(step.law))
        for direction in Direction
        for step in composition.steps(direction)
    ]
    if json:
        steps_ = [
            {"direction": d, "count": c, "pair": p, "delta": dict(zip(map(str, EPSILONS), deltas, strict=True))}
            for d, c, p, deltas in rows
        ]
        words = {"what_ran": describe(event), "assumptions": assumed}
        about = {"event": repr(event), "adjacency": name_of(composition.relation)}
        as_json({**about, **words, "steps": steps_})
        return
    if not rows:
        print("This composition costs no privacy.")
        return
    for sentence in _noise_and_batches(ran):
        say(sentence)
    say(f"What ran: {describe(event)}.")
    say(f"Neighbours: {ADJACENCIES[composition.relation]}.")
    for clause in assumed:
        say(f"It is assumed that {clause}.")
    print()
    table(
        "One step of each mechanism",
        ["direction", "count", "dominating pair P | Q", *(f"delta({e:g})" for e in EPSILONS)],
        [[d, f"{c:,}", p, *("-" if x is None else number(x, 4) for x in deltas)] for d, c, p, deltas in rows],
    )


def _noise_and_batches(ran: WhatRan) -> list[str]:
    """The noise and the batches of every DP-SGD training, in the words of people who train."""
    if ran.spec is None:
        return _in_units(ran.training)
    from evr.described import DPSGD
    from evr.spec import load

    tables = load(ran.spec).mechanism
    sentences = []
    for index, one in enumerate(tables):
        if one.kind == DPSGD:
            own = Training(**one.model_dump(exclude={"kind", "repeat"}))
            where = f" of mechanism[{index}]" if len(tables) > 1 else ""
            sentences += _in_units(own, repeat=one.repeat, where=where)
    return sentences


def _in_units(training: Training, *, repeat: int = 1, where: str = "") -> list[str]:
    """The noise and the batches of one training, ``where`` it stands in a file."""
    event, records, batch = training.event(), training.dataset_size, training.batch_size
    count = f"Batches{where}: {repeat * event.count:,}"
    if training.sampling == "without-replacement":
        batches = f"{count}, each of {batch:,} of {records:,} records."
    else:
        about = "" if records is None or batch is None else f": about {batch:,} of {records:,} records"
        q = event.event.sampling_probability
        batches = f"{count}; a record is in each with probability {q:.6g}{about}."
    most = training.records_per_user
    return [
        f"Noise{where}: its standard deviation is {training.noise_multiplier:g} times the clipping norm, in each step.",
        batches,
        *([] if most is None else [f"Users{where}: one owns at most {most:,} records, and is protected as a whole."]),
    ]


def _deltas(law: LossLaw) -> list[float | None]:
    """Delta of a single step at each epsilon, where it has a closed form."""
    from evr.estimation.closed_forms import pair_delta
    from evr.laws import DominatingPair

    if not isinstance(law, DominatingPair):
        return [None] * len(EPSILONS)
    return [pair_delta(law, epsilon) for epsilon in EPSILONS]
