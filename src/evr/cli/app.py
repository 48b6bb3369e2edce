"""The application object; each command lives in a file of its own and imports the library when it
runs.
"""

from __future__ import annotations

from typing import Annotated

import typer

import evr
from evr.cli import (
    calibrate,
    certify,
    compare,
    curve,
    describe,
    estimate,
    inspect,
    ledger,
    online,
    replay,
    report,
    resume,
    verify,
)

app = typer.Typer(
    name="evr",
    help="Tight privacy accounting one can trust: estimate, verify, release.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(asked: bool) -> None:
    if asked:
        print(f"evr {evr.__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version.", callback=_version, is_eager=True)
    ] = False,
) -> None:
    pass


app.command("certify")(certify.command)
app.command("estimate")(estimate.command)
app.command("verify")(verify.command)
app.command("curve")(curve.command)
app.command("online")(online.command)
app.command("calibrate")(calibrate.command)
app.command("compare")(compare.command)
app.command("describe")(describe.command)
app.command("replay")(replay.command)
app.command("report")(report.command)
app.command("inspect")(inspect.command)
app.command("ledger")(ledger.command)
app.command("resume")(resume.command)
