"""What is about to be done, said before an attempt is counted; and ``--dry-run``, which says it
and stops.
"""

from __future__ import annotations

import contextlib
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from evr.cli.output import as_json, number, say

if TYPE_CHECKING:
    from evr.proving import Forecast

DryRun = Annotated[
    bool,
    typer.Option(
        "--dry-run", help="Say what would be done, and how long it takes; nothing is counted."
    ),
]
_SOON = 0.8  # seconds, after which a first word is due
_LONG = 20.0  # seconds, from which on it helps to know that one may interrupt


@contextlib.contextmanager
def ledger_to_ask(ledger: Path | None, *, dry_run: bool) -> Iterator[Path | None]:
    """The ledger; where a dry run would make one, an empty one that is gone afterwards."""
    from evr.certification.ledger import DEFAULT_PATH

    if not dry_run or (ledger or Path(DEFAULT_PATH)).exists():
        yield ledger
        return
    with tempfile.TemporaryDirectory() as folder:
        yield Path(folder) / "ledger.sqlite"


@contextlib.contextmanager
def announcing(
    *,
    epsilon: float | None,
    delta: float | None,
    path: Path | None,
    ledger: Path | None,
    dry_run: bool,
    json: bool,
    quiet: bool,
) -> Iterator[Callable[[Forecast], None]]:
    """For ``announce`` of ``evr.certify``: a sentence on standard error, and the end of a dry run.

    Where that takes more than a second to find, another sentence comes first.
    """

    def announce(forecast: Forecast) -> None:
        found()
        if dry_run and json:
            as_json(_document(forecast, path, ledger))
        elif dry_run:
            say(in_words(forecast, path, ledger))
        elif not quiet and not json:
            say(in_words(forecast, path, ledger), sys.stderr)
        if dry_run:
            raise typer.Exit

    with first_word(_doing(epsilon, delta), quiet=quiet or json) as found:
        yield announce


@contextlib.contextmanager
def first_word(text: str, *, quiet: bool) -> Iterator[Callable[[], None]]:
    """Say on standard error what is being done, unless it is over at once; yields what to call when
    it is.
    """
    timer = threading.Timer(_SOON, lambda: say(text, sys.stderr))
    timer.daemon = True
    if not quiet:
        timer.start()
    try:
        yield timer.cancel
    finally:
        timer.cancel()


def _doing(epsilon: float | None, delta: float | None) -> str:
    """What comes before the claim is known."""
    if epsilon is None:
        return f"working out epsilon at delta = {number(delta)}, and how to prove it"
    if delta is None:
        return f"working out delta at epsilon = {number(epsilon)}, and how to prove it"
    return f"working out how to prove ({number(epsilon)}, {number(delta)})"


def in_words(forecast: Forecast, path: Path | None, ledger: Path | None) -> str:
    """What is to be proved, how, about how long it takes, and where files go."""
    from evr.certification.ledger import DEFAULT_PATH
    from evr.numbers import stated

    claim, seconds = forecast.claim, forecast.total_seconds
    pair = f"({stated(claim.epsilon)}, {stated(claim.delta)})"
    goes = f"; the certificate goes to {path}" if path is not None else ""
    safe = "; Ctrl-C is safe, and `evr resume` continues" if seconds > _LONG else ""
    return (
        f"{pair} is to be proved {_how(forecast)}, in about {_time(seconds)}{goes}; "
        f"the attempt is counted in {ledger or DEFAULT_PATH}{safe}"
    )


def _how(forecast: Forecast) -> str:
    if forecast.settings.method == "strict":
        return "in exact arithmetic"
    samples = f"{float(f'{forecast.total_samples:.2g}'):,.0f}"
    drawn = f"from about {samples} samples" if forecast.total_samples else "without a sample"
    return {
        "sequential": f"{drawn} (sequential test)",
        "fixed": f"{drawn} (Algorithm 2)",
        "both": f"in exact arithmetic and {drawn} (sequential test)",
    }[forecast.settings.method]


def _time(seconds: float) -> str:
    from evr.numbers import duration

    return duration(float(f"{max(seconds, 1.0):.2g}"))


def _document(forecast: Forecast, path: Path | None, ledger: Path | None) -> dict[str, object]:
    from evr.certification.ledger import DEFAULT_PATH

    claim = forecast.claim
    return {
        "epsilon": claim.epsilon,
        "delta": claim.delta,
        "tau": claim.tau,
        "method": forecast.settings.method,
        "samples": forecast.total_samples,
        "seconds": forecast.total_seconds,
        "certificate": None if path is None else str(path),
        "ledger": str(ledger or DEFAULT_PATH),
    }
