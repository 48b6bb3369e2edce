"""``evr refute``: a proof that a claim is false."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer

from evr.cli import REJECTED, options
from evr.cli.output import as_json, say


@options.asks_what_ran
def refute(
    ran: options.WhatRan,
    epsilon: Annotated[float | None, options.number("The claimed epsilon.")] = None,
    delta: Annotated[float | None, options.number("The claimed delta.")] = None,
    json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Try to prove that a pair is false: that delta at this epsilon is greater, for some training of the description.

    SPEC may also be the record of a training. Without `--epsilon` and `--delta`, SPEC's claim is used. Exit code 3:
    refuted; 0: open, which proves nothing about the pair.

    Example: evr refute --noise-multiplier 1.1 --dataset-size 60000 --batch-size 256 --epochs 60
    --epsilon 2.32 --delta 1e-5
    """
    from evr._proving.refuting import refute

    record = ran.record()
    event, claim, relation = ran.described() if record is None else (record.event, None, None)
    checked = relation if record is None else record.checked_relation(ran.adjacency)
    if claim is not None:
        epsilon, delta = claim.epsilon if epsilon is None else epsilon, claim.delta if delta is None else delta
    if epsilon is None or delta is None:
        missing = [name for name, value in (("--epsilon", epsilon), ("--delta", delta)) if value is None]
        raise ValueError(f"refute which pair? Add {' and '.join(missing)}")
    found = refute(event, epsilon=epsilon, delta=delta, neighboring_relation=checked)
    if json:
        as_json({**asdict(found), "sentence": found.sentence})
    elif quiet:
        print("refuted" if found.refuted else "open")
    else:
        say(found.sentence)
    if found.refuted:
        raise typer.Exit(REJECTED)
