"""``evr online``: epsilon after every step of a training run."""

from __future__ import annotations

from typing import Annotated

import typer

from evr.cli.files import new_files
from evr.cli.options import (
    Csv,
    Direction,
    Json,
    Plot,
    Quiet,
    WhatRan,
    asks_what_ran,
    number_option,
    picture,
    whole,
)
from evr.cli.output import as_json, number, progress_bar, table, write_csv, wrote
from evr.cli.sanity import note

Delta = Annotated[
    float | None, number_option("--delta", "At which delta; by default that of SPEC's claim.")
]
Every = Annotated[
    int,
    typer.Option(
        "--every",
        parser=whole,
        metavar="INTEGER",
        help="Report after every so many steps, and after the last.",
    ),
]


@asks_what_ran
def command(
    ran: WhatRan,
    delta: Delta = None,
    every: Every = 1,
    direction: Direction = None,
    csv: Csv = None,
    plot: Plot = None,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Follow epsilon through a training run: its value after every step, in one pass.

    Example: evr online --noise-multiplier 1 --sampling-probability 1e-3 --steps 1000 --delta 1e-9
    --every 100
    """
    plot = picture(plot)
    new_files(csv=csv, plot=plot)
    event, claim, relation = ran.described()
    if delta is None and claim is not None:
        delta = claim.delta
    if delta is None:
        raise ValueError("epsilon at which delta? Give --delta")
    note(ran, event, delta=delta, quiet=quiet)
    from evr.estimation import online_epsilon

    with progress_bar("steps", quiet=quiet) as progress:
        online = online_epsilon(
            event,
            delta,
            every=every,
            direction=direction,
            neighboring_relation=relation,
            progress=progress,
        )
    columns = {"steps": online.steps.tolist(), "epsilon": online.epsilons.tolist()}
    header, rows = list(columns), list(zip(*columns.values(), strict=True))
    if json:
        found = {"steps": columns["steps"], "epsilons": columns["epsilon"], "delta": online.delta}
        as_json({**found, "seconds": online.seconds, "event": repr(event)})
    else:
        title = f"Epsilon by number of steps, at delta = {number(delta)}"
        table(
            title,
            header,
            [[f"{step}", *map(number, values)] for step, *values in rows],
            quiet=quiet,
        )
    if csv is not None:
        write_csv(csv, header, rows)
        wrote(csv, quiet=quiet)
    if plot is not None:
        from evr.report import plots

        title = ran.caption
        plots.save(
            plots.online_epsilon({"fft": (online.steps, online.epsilons)}, delta, title=title),
            plot,
        )
        wrote(plot, quiet=quiet)
