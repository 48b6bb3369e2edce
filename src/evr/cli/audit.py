"""``evr audit``: the scores of canaries against a certificate."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Annotated

import typer

from evr.cli import REJECTED, options
from evr.cli.output import as_json, draw, new_files, say

_COINS = {"1": True, "true": True, "yes": True, "0": False, "false": False, "no": False}


def command(
    scores: Annotated[
        Path,
        typer.Argument(metavar="SCORES", help="A CSV file with the columns score and included, a row for each canary."),
    ],
    certificate: Annotated[Path | None, options.file("The certificate to test.")] = None,
    delta: Annotated[float | None, options.number("Delta of the bound; by default the certificate's, or 1e-5.")] = None,
    confidence: Annotated[float, options.number("Confidence of the lower bound.", show_default=True)] = 0.95,
    independent: Annotated[
        bool, typer.Option("--independent", help="Given the coins, scores of different canaries are independent.")
    ] = False,
    plot: options.Plot = None,
    json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Test a certificate against the scores of canaries that took part by fair coins, and bound epsilon from below.

    Exit code 0: consistent, which proves nothing; 3: the scores contradict the certificate.

    Example: evr audit examples/scores.csv --certificate examples/dpsgd.certificate.json --independent --plot audit.png
    """
    from evr.certification import Certificate
    from evr.proving.audit import CONTRADICTS, audit

    new_files(plot=plot)
    values, coins = read(scores)
    claimed = None if certificate is None else Certificate.load(certificate)
    found = audit(values, coins, claimed, delta=delta, confidence=confidence, independent=independent)
    draw(plot, lambda plots: plots.audit(found), quiet=quiet or json)
    if json:
        shown = "verdict p_value epsilon delta confidence family epsilon_of_any claimed guesses correct canaries"
        as_json({name: getattr(found, name) for name in shown.split()})
    else:
        say(found.sentence)
    if found.verdict == CONTRADICTS:
        raise typer.Exit(REJECTED)


def read(path: Path) -> tuple[list[float], list[bool]]:
    """The scores and the coins of a file."""
    with path.open(newline="", encoding="utf-8-sig") as file:
        rows = csv.DictReader(file)
        missing = {"score", "included"} - set(rows.fieldnames or ())
        if missing:
            raise ValueError(f"{path} has no column {' and no column '.join(sorted(missing))}: begin it with a header")
        scores, coins = list[float](), list[bool]()
        for row in rows:
            score, included = row["score"] or "", row["included"]
            try:
                scores.append(float(score))
                coins.append(_COINS[(included or "").strip().lower()])
            except ValueError:
                raise ValueError(f"{path}, line {rows.line_num}: the score {score!r} is not a number") from None
            except KeyError:
                raise ValueError(f"{path}, line {rows.line_num}: included={included!r} is neither 1 nor 0") from None
    return scores, coins
