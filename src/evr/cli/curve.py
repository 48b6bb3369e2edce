"""``evr curve``: delta at many epsilons, as a table, a CSV file and a picture."""

from __future__ import annotations

from functools import partial
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
    choice_option,
    numbers,
    picture,
)
from evr.cli.output import as_json, number, progress_bar, table, write_csv, wrote
from evr.numbers import above

CURVES = ("fft", "strict", "rdp")

Epsilons = Annotated[
    str,
    typer.Option(
        "--epsilons",
        metavar="LIST|FIRST:LAST:STEP",
        help="Where to compute delta: `0,1,2` or `0:5:0.25`.",
    ),
]
Method = Annotated[
    str,
    choice_option("--method", CURVES, "Which accountant."),
]


@asks_what_ran
def command(
    ran: WhatRan,
    epsilons: Epsilons = "0:5:0.25",
    method: Method = "fft",
    direction: Direction = None,
    csv: Csv = None,
    plot: Plot = None,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Print the privacy curve, delta at many epsilons; write it as CSV, draw it.

    Example: evr curve --noise-multiplier 70 --sampling-probability 1 --steps 1200 --plot curve.svg
    """
    from evr import validate

    points, plot = numbers(epsilons, "--epsilons"), picture(plot)
    new_files(csv=csv, plot=plot)
    validate.one_of(CURVES, method=method)
    event, _, relation = ran.described()
    from evr.estimation import privacy_curve

    with progress_bar("privacy curve", quiet=quiet) as progress:
        curve = privacy_curve(
            event,
            points,
            method=method,
            direction=direction,
            neighboring_relation=relation,
            progress=progress,
        )
    rows = list(zip(curve.epsilons.tolist(), curve.deltas.tolist(), curve.directions, strict=True))
    header = ["epsilon", "delta", "direction"]
    shown = partial(above, digits=6) if method in ("strict", "rdp") else number
    if json:
        document = {
            "epsilons": [r[0] for r in rows],
            "deltas": [r[1] for r in rows],
            "directions": [r[2] for r in rows],
        }
        as_json(
            {**document, "method": curve.method, "seconds": curve.seconds, "event": repr(event)}
        )
    else:
        table(
            "Privacy curve",
            header,
            [[f"{e:.12g}", shown(d), way] for e, d, way in rows],
            quiet=quiet,
        )
    if csv is not None:
        write_csv(csv, header, rows)
        wrote(csv, quiet=quiet)
    if plot is not None:
        from evr.report import plots

        between = plots.smooth(min(points), max(points))
        drawn = privacy_curve(
            event, between, method=method, direction=direction, neighboring_relation=relation
        )
        lines = {method: (drawn.epsilons, drawn.deltas)}
        plots.save(plots.privacy_curves(lines, title=ran.caption), plot)
        wrote(plot, quiet=quiet)
