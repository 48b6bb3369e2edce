"""Printing: tables and sentences for people, JSON for scripts, one line for mistakes and one for each number that looks
like a slip.
"""

import contextlib
import json
import os
import shutil
import sys
import textwrap
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Any, NoReturn, TextIO

import typer

import evr
from evr._basics.numbers import short_exponent, stated
from evr._basics.validate import printable
from evr.cli import REJECTED

LASTS = 2.0  # seconds: what takes longer says so
_OFTEN = 10.0  # seconds between words of a search
_WORDS = 24  # columns of a terminal that a last column of words needs at least


def fail(message: str, code: int = 2) -> NoReturn:
    """Say in one line what is wrong, and leave: by default with the code of bad input."""
    print(f"error: {printable(message)}", file=sys.stderr)
    sys.exit(code)


def accepted(file: Path, max_seconds: float, otherwise: str) -> "evr.Certificate":
    """An accepted certificate; of a rejected one the words say what it cannot do."""
    from evr._certificate.replay import confirmed

    certificate = confirmed(file, max_seconds)
    if not certificate.accepted:
        fail(f"{file} was rejected: {otherwise}", REJECTED)
    return certificate


def table(title: str, rows: Sequence[Mapping[str, Any]], *, quiet: bool = False) -> None:
    """A table: drawn on a terminal, tab-separated otherwise; ``quiet`` leaves the rows alone.

    Where the terminal is too narrow for it, each row is a list of its fields, one below the other.
    """
    header = [name.replace("_", " ") for row in rows[:1] for name in row]
    listed = [
        ["-" if one is None else number(one, 12) if isinstance(one, float) else _cell(one) for one in row.values()]
        for row in rows
    ]
    if quiet or not sys.stdout.isatty():
        for cells in listed if quiet else [header, *listed]:
            print("\t".join(cells))
        return
    from rich import box
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    console = Console()
    console.print(title if rows else f"{title}: none", style="italic", markup=False, highlight=False)
    *widths, last = (max(map(len, cells)) for cells in zip(header, *listed, strict=True)) if rows else (0,)
    if sum(widths) + min(last, _WORDS) + 3 * len(header) + 1 > console.width:
        drawn = Table(box=None, show_header=False, padding=(0, 1))
        drawn.add_column(style="bold", no_wrap=True)
        drawn.add_column(overflow="fold")
        for cells in listed:
            drawn.add_row()
            for name, cell in zip(header, cells, strict=True):
                if cell:
                    drawn.add_row(name, escape(cell))
    else:
        drawn = Table(box=box.SIMPLE_HEAD, header_style="bold")
        for index, name in enumerate(header):
            drawn.add_column(name, overflow="fold", no_wrap=index < len(header) - 1)
        for cells in listed:
            drawn.add_row(*map(escape, cells))
    if rows:
        console.print(drawn)


def _cell(value: object) -> str:
    return printable(str(value)).replace("\n", " ")


def say(text: str, file: TextIO | None = None) -> None:
    """Print a text, its lines broken between words on a terminal; the items of a list hang."""
    file, text = file or sys.stdout, printable(text)
    if file.isatty():
        width = max(20, shutil.get_terminal_size().columns - 1)
        fold = partial(textwrap.fill, width=width, break_long_words=False, break_on_hyphens=False)
        text = "\n".join(fold(line, subsequent_indent="  " * line.startswith("- ")) for line in text.split("\n"))
    print(text, file=file)


Json = Annotated[bool, typer.Option("--json", help="Print one JSON document.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print the result only, no progress.")]


@dataclass(frozen=True)
class Out:
    """How a command answers: in sentences and tables, with the result alone, or as one JSON document."""

    json: Json = False
    quiet: Quiet = False

    @property
    def silent(self) -> bool:
        """Whether nothing but the result is wanted."""
        return self.json or self.quiet

    def busy(self, doing: str) -> AbstractContextManager[Any]:
        """Say on a terminal what is being done, if it lasts."""
        is_silent = self.silent or not sys.stderr.isatty()
        return waiting(lambda seconds: f"{doing}, after {seconds:.0f} s.", after=LASTS, silent=is_silent)

    def answer(self, document: Any, brief: object, words: str) -> None:
        """Print the answer: one of its three forms."""
        if self.json:
            as_json(document)
        elif self.quiet:
            print(brief)
        else:
            say(words)

    def table(self, title: str, rows: Sequence[Mapping[str, Any]]) -> None:
        """Print a table."""
        table(title, rows, quiet=self.quiet)

    def counted(self, title: str, rows: Sequence[Mapping[str, Any]], columns: Sequence[str]) -> None:
        """What a ledger counts: on a terminal these columns, and the files of certificates in a table of their own."""
        drawn = sys.stdout.isatty() and not self.quiet
        table(title, [{name: row[name] for name in columns} for row in rows] if drawn else rows, quiet=self.quiet)
        key, name = columns[0], "certificate"
        if drawn and rows:
            table("Certificates", [{key: row[key], name: os.path.relpath(row[name])} for row in rows if row[name]])

    def wrote(self, *paths: Path) -> None:
        """Say on standard error that files are there."""
        for path in () if self.silent else paths:
            print(f"wrote {path}", file=sys.stderr)

    def wrote_proof(self, path: Path, data: bytes) -> None:
        """Say that a proof file and its checker are there, and what the checker says of it."""
        from evr._proof.writer import word_of

        self.wrote(path, path.with_name("check_proof.py"))
        if not self.silent:
            print(f"{path}: {word_of(data)}", file=sys.stderr)

    def draw(self, path: Path | None, figure: Callable[[Any], Any]) -> None:
        """Save what a function makes of ``evr._report.plots``, where a file is given, and say so."""
        if path is not None:
            from evr._report import plots

            plots.save(figure(plots), path)
            self.wrote(path)

    def note(self, event: Any = None, *, records: int = 0, epsilon: Any = None, delta: Any = None) -> None:
        """Say on standard error which numbers are more often a slip than meant, one line for each."""
        from evr._wording.description import phases_of

        found, phases = list[str](), [] if event is None else phases_of(event)
        records = max([records, *(one.batch[1] for one in phases if one.batch is not None)])
        for noise in {one.noise_multiplier for one in phases if one.noise_multiplier > 50}:
            asked = "is it a standard deviation? The multiplier is the noise on the sum over the clipping norm"
            found.append(f"the noise multiplier {noise:g} is above 50: {asked}")
        for share in {one.rate for one in phases if 0.2 < one.rate < 1}:
            asked = "is it a percentage? A record is then in that share of all batches"
            found.append(f"the sampling probability {share:g} is above 0.2: {asked}")
        if delta is not None and delta * records >= 1:
            why = "publishing a record picked at random would pass; choose a delta well below that"
            found.append(f"delta = {delta:g} is not below one over the {records:,} records: {why}")
        if epsilon is not None and 50 < epsilon <= 1e100:  # what is greater is refused
            found.append(f"epsilon = {epsilon:g} is above 50: it promises next to nothing to a single record")
        for line in () if self.quiet else found:
            print(f"note: {line}", file=sys.stderr)


@contextlib.contextmanager
def waiting(words: Callable[[float], str], *, after: float, silent: bool) -> Iterator[threading.Event]:
    """Say on standard error what is being done, if it lasts longer than that, and again now and then; the words are
    made from the seconds it took so far. Yields the event that ends it.
    """
    start, over = time.monotonic(), threading.Event()

    def speak() -> None:
        pause = after
        while not over.wait(pause):
            say(words(time.monotonic() - start), sys.stderr)
            pause = _OFTEN

    speaker = threading.Thread(target=speak, daemon=True)
    if not silent:
        speaker.start()
    try:
        yield over
    finally:
        over.set()
        if not silent:
            speaker.join(1.0)


@contextlib.contextmanager
def trying(name: str, make: Callable[[Any], Any], *, quiet: bool) -> Iterator[Callable[[Any], Any]]:
    """The function of a search over a parameter. A search that lasts says so, and what it tries."""
    tried = list[Any]()

    def made(value: Any) -> Any:
        tried.append(value)
        return make(value)

    def words(seconds: float) -> str:
        return f"Searching for {name}: try {len(tried)} is {tried[-1] if tried else 1:.6g}, after {seconds:.0f} s."

    with waiting(words, after=LASTS, silent=quiet):
        yield made


def as_json(value: Any) -> None:
    """Print one JSON document; infinities become strings, for JSON has no word for them."""
    plain = json.loads(json.dumps(value), parse_constant=lambda name: str(float(name)))
    print(json.dumps(plain, indent=2, ensure_ascii=False))


def number(value: float | None, digits: int = 6) -> str:
    """A number as a person writes it."""
    return "-" if value is None else short_exponent(f"{value:.{digits}g}")


def pair(claim: Any) -> str:
    """The epsilon and the delta of a claim or an attempt, as a statement rounds them."""
    return f"({stated(claim.epsilon)}, {stated(claim.delta)})"


def seconds(value: float) -> str:
    """A duration."""
    return f"{value:.2g} s" if value < 10 else f"{value:,.0f} s"
