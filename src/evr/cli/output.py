"""Printing: tables and sentences for people, JSON and CSV for scripts, one line for mistakes. And where commands write:
names made of what a file is about, and refusals before any work is done.
"""

from __future__ import annotations

import contextlib
import functools
import json
import math
import os
import sys
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, TextIO

from evr import atomic
from evr.errors import NearbyReleaseWarning

if TYPE_CHECKING:
    from rich.console import Console

_LINE_SECONDS = 5.0
_WORDS = 24  # of a last column, below which folding it does not read well


def fail(message: str, code: int = 2) -> NoReturn:
    """Say in one line what is wrong, and leave: by default with the code of bad input."""
    print(f"error: {message}", file=sys.stderr)
    sys.exit(code)


def plain_warnings() -> None:
    """From here on a warning of evr's own is one line on standard error; others are shown as they always are."""
    others = warnings.showwarning

    def show(message: Warning | str, category: type[Warning], *where: Any, **more: Any) -> None:
        if issubclass(category, NearbyReleaseWarning):
            print(f"warning: {message}", file=sys.stderr)
        else:
            others(message, category, *where, **more)

    warnings.showwarning = show


def table(title: str, header: Sequence[str], rows: Iterable[Sequence[str]], *, quiet: bool = False) -> None:
    """A table: drawn on a terminal, tab-separated otherwise; ``quiet`` leaves the rows alone.

    Where the terminal is too narrow for it, each row is a list of its fields, one below the other.
    """
    if quiet or not sys.stdout.isatty():
        if not quiet:
            print("\t".join(header))
        for row in rows:
            print("\t".join(row))
        return
    from rich import box
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    listed, console = list(rows), Console()
    console.print(title, style="italic", markup=False, highlight=False)
    if _width(header, listed) > console.width:
        for row in listed:
            fields = Table(box=None, show_header=False, padding=(0, 1))
            fields.add_column(style="bold", no_wrap=True)
            fields.add_column(overflow="fold")
            for name, cell in zip(header, row, strict=True):
                if cell:
                    fields.add_row(name, escape(cell))
            console.print()
            console.print(fields)
        return
    drawn = Table(box=box.SIMPLE_HEAD, header_style="bold")
    for index, name in enumerate(header):
        drawn.add_column(name, overflow="fold", no_wrap=index < len(header) - 1)
    for row in listed:
        drawn.add_row(*map(escape, row))
    console.print(drawn)


def _width(header: Sequence[str], rows: Sequence[Sequence[str]]) -> int:
    """Columns of a terminal that a table takes, unfolded; a last column of words may fold."""
    *widths, last = (max(map(len, cells)) for cells in zip(header, *rows, strict=True))
    return sum(widths) + min(last, _WORDS) + 3 * len(header) + 1


@functools.cache
def standard_error() -> Console:
    """The terminal behind standard error: bars on it, and what is said while there is one."""
    from rich.console import Console

    return Console(stderr=True)


def say(text: str, file: TextIO | None = None) -> None:
    """Print a text, its lines broken between words on a terminal; a list's lines hang."""
    file = file or sys.stdout
    if not file.isatty():
        print(text, file=file)
        return
    import shutil
    import textwrap

    width = max(20, shutil.get_terminal_size().columns - 1)
    folded = "\n".join(
        textwrap.fill(
            line,
            width,
            subsequent_indent="  " if line.startswith("- ") else "",
            break_long_words=False,
            break_on_hyphens=False,
        )
        for line in text.split("\n")
    )
    if hasattr(file, "rich_proxied_file"):  # a bar stands there, and would break long words
        standard_error().print(folded, markup=False, highlight=False, soft_wrap=True)
    else:
        print(folded, file=file)


def as_json(value: Any) -> None:
    """Print one JSON document; infinities become strings, for JSON has no word for them."""
    print(json.dumps(_plain(value), indent=2, ensure_ascii=False))


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(k): _plain(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(v) for v in value]
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value


def number(value: float | None, digits: int = 6) -> str:
    """A number as a person writes it."""
    return "-" if value is None else f"{value:.{digits}g}"


def seconds(value: float) -> str:
    """A duration."""
    return f"{value:.2g} s" if value < 10 else f"{value:,.0f} s"


def write_csv(path: Path, header: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """A CSV file, numbers in full precision, whole or not at all."""
    import csv
    import io

    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(header)
    writer.writerows(rows)
    atomic.write_text(path, text.getvalue())


def wrote(path: Path, *, quiet: bool) -> None:
    """Say on standard error that a file is there."""
    if not quiet:
        print(f"wrote {path}", file=sys.stderr)


def draw(path: Path | None, figure: Callable[[Any], Any], *, quiet: bool) -> None:
    """Save what a function makes of ``evr.report.plots``, where a file is given, and say so."""
    if path is not None:
        from evr.report import plots

        plots.save(figure(plots), path)
        wrote(path, quiet=quiet)


class _Lines:
    """How far the work is, in a line every few seconds."""

    def __init__(self, what: str) -> None:
        self._what, self._last = what, time.monotonic()

    def __call__(self, done: int, total: int) -> None:
        if time.monotonic() - self._last > _LINE_SECONDS:
            self._last = time.monotonic()
            print(f"{self._what}: {done:,} of {total:,}", file=sys.stderr)


@contextlib.contextmanager
def progress_bar(what: str, *, quiet: bool) -> Iterator[Callable[[int, int], None] | None]:
    """Progress on standard error: a bar on a terminal, else a line now and then; nothing when quiet."""
    if quiet or not sys.stderr.isatty():
        yield None if quiet else _Lines(what)
        return
    from rich import progress as rich

    columns = (
        "{task.description}",
        rich.BarColumn(),
        rich.MofNCompleteColumn(),
        "{task.fields[rate]}",
        rich.TimeElapsedColumn(),
        "left",
        rich.TimeRemainingColumn(),
    )
    standard_error.cache_clear()  # as wide as the terminal is now
    with rich.Progress(*columns, console=standard_error(), transient=True) as bar:
        task = bar.add_task(what, total=None, rate="")

        def update(done: int, total: int) -> None:
            speed = bar.tasks[0].speed
            bar.update(task, completed=done, total=total, rate=f"{speed:,.0f}/s" if speed else "")

        yield update


def certificate_path(spec: Path | None, event: Any, epsilon: float | None, delta: float | None) -> Path:
    """Beside the file that says what ran, and by its name; else in the working folder, by what ran and the target.

    >>> import evr
    >>> event = evr.dpsgd(noise_multiplier=1.1, dataset_size=60_000, batch_size=256, epochs=15)
    >>> print(certificate_path(None, event, None, 1e-5))
    dpsgd-noise1.1-q0.00426667-steps3516-delta1e-5.certificate.json
    """
    if spec is not None:
        return spec.with_name(f"{spec.stem.removesuffix('.record')}.certificate.json")
    sampled = event.event
    drawn = (
        {"batch": sampled.sample_size, "of": sampled.source_dataset_size}
        if hasattr(sampled, "sample_size")
        else {"q": sampled.sampling_probability}
    )
    named = {
        "noise": getattr(sampled, "event", sampled).noise_multiplier,
        **drawn,
        "steps": event.count,
        "records": getattr(sampled, "records_per_user", None),
        "epsilon": epsilon,
        "delta": delta,
    }
    words = [f"{name}{_digits(value)}" for name, value in named.items() if value is not None]
    return Path(f"{'-'.join(['dpsgd', *words])}.certificate.json")


def _digits(value: float) -> str:
    if isinstance(value, int):
        return str(value)
    return f"{value:g}".replace("e-0", "e-").replace("e+0", "e").replace("e+", "e")


def new_certificate(path: Path, *, force: bool, option: str = "--output") -> Path:
    """A file to write a certificate to, refused now if it is there already or cannot be written."""
    if path.is_file() and not force:
        raise ValueError(f"{path} exists already: add --force to replace it, or name another file with {option}")
    atomic.check_writable(**{option: path})
    return path


def new_page(page: Path, certificate: Path, *, option: str = "--report") -> Path:
    """A file to write the page of a certificate to, refused now if it cannot be written or is the certificate's."""
    atomic.check_writable(**{option: page})
    if os.path.realpath(certificate) == os.path.realpath(page):
        raise ValueError(f"{option}={str(page)!r} is the certificate's file: name another one")
    return page


def new_files(**named: Path | None) -> None:
    """Refuse now what cannot be written, each file by its flag."""
    for name, path in named.items():
        if path is not None:
            atomic.check_writable(**{f"--{name}": path})
