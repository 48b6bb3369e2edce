"""Printing: tables and sentences for people, JSON and CSV for scripts, one line for mistakes. And where commands write:
names made of what a file is about, and refusals before any work is done.
"""

from __future__ import annotations

import json
import math
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn, TextIO

from evr import atomic
from evr.numbers import short_exponent

_WORDS = 24  # of a last column, below which folding it does not read well


def fail(message: str, code: int = 2) -> NoReturn:
    """Say in one line what is wrong, and leave: by default with the code of bad input."""
    print(f"error: {message}", file=sys.stderr)
    sys.exit(code)


def table(title: str, rows: Sequence[Mapping[str, Any]], *, quiet: bool = False) -> None:
    """A table: drawn on a terminal, tab-separated otherwise; ``quiet`` leaves the rows alone.

    Where the terminal is too narrow for it, each row is a list of its fields, one below the other.
    """
    header = [name.replace("_", " ") for row in rows[:1] for name in row]
    listed = [[_cell(value) for value in row.values()] for row in rows]
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
    if rows and _width(header, listed) > console.width:
        for cells in listed:
            fields = Table(box=None, show_header=False, padding=(0, 1))
            fields.add_column(style="bold", no_wrap=True)
            fields.add_column(overflow="fold")
            for name, cell in zip(header, cells, strict=True):
                if cell:
                    fields.add_row(name, escape(cell))
            console.print()
            console.print(fields)
    elif rows:
        drawn = Table(box=box.SIMPLE_HEAD, header_style="bold")
        for index, name in enumerate(header):
            drawn.add_column(name, overflow="fold", no_wrap=index < len(header) - 1)
        for cells in listed:
            drawn.add_row(*map(escape, cells))
        console.print(drawn)


def _cell(value: Any) -> str:
    return "-" if value is None else f"{value:.12g}" if isinstance(value, float) else str(value)


def _width(header: Sequence[str], rows: Sequence[Sequence[str]]) -> int:
    """Columns of a terminal that a table takes, unfolded; a last column of words may fold."""
    *widths, last = (max(map(len, cells)) for cells in zip(header, *rows, strict=True))
    return sum(widths) + min(last, _WORDS) + 3 * len(header) + 1


def say(text: str, file: TextIO | None = None) -> None:
    """Print a text, its lines broken between words on a terminal; a list's lines hang."""
    file = file or sys.stdout
    if file.isatty():
        import shutil
        import textwrap

        width = max(20, shutil.get_terminal_size().columns - 1)
        fold = textwrap.TextWrapper(width, break_long_words=False, break_on_hyphens=False)
        lines = []
        for line in text.split("\n"):
            fold.subsequent_indent = "  " if line.startswith("- ") else ""
            lines.append(fold.fill(line))
        text = "\n".join(lines)
    print(text, file=file)


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


def write_csv(path: Path, rows: Sequence[Mapping[str, Any]]) -> None:
    """A CSV file, numbers in full precision, whole or not at all."""
    import csv
    import io

    text = io.StringIO()
    writer = csv.DictWriter(text, list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    atomic.write_text(path, text.getvalue())


def wrote(*paths: Path, quiet: bool) -> None:
    """Say on standard error that files are there."""
    for path in () if quiet else paths:
        print(f"wrote {path}", file=sys.stderr)


def draw(path: Path | None, figure: Callable[[Any], Any], *, quiet: bool) -> None:
    """Save what a function makes of ``evr.report.plots``, where a file is given, and say so."""
    if path is not None:
        from evr.report import plots

        plots.save(figure(plots), path)
        wrote(path, quiet=quiet)


def certificate_path(spec: Path | None, event: Any, epsilon: float | None, delta: float | None) -> Path:
    """Beside the file that says what ran, and by its name; else in the working folder, by what ran and the target.

    >>> import evr
    >>> event = evr.dpsgd(noise_multiplier=1.1, dataset_size=60_000, batch_size=256, epochs=15)
    >>> print(certificate_path(None, event, None, 1e-5))
    dpsgd-noise1.1-q0.00426667-steps3516-delta1e-5.certificate.json
    """
    if spec is not None:
        return spec.with_name(f"{spec.stem.removesuffix('.record')}.certificate.json")
    sampled = getattr(event, "event", event)  # an allocation is no repetition of a step
    named = {
        "noise": getattr(sampled, "event", sampled).noise_multiplier,
        "batch": getattr(sampled, "sample_size", None),
        "of": getattr(sampled, "source_dataset_size", None),
        "q": getattr(sampled, "sampling_probability", None),
        "steps": getattr(event, "count", None) or event.iterations,
        "each": getattr(sampled, "participations", None),
        "records": getattr(sampled, "records_per_user", None),
        "epsilon": epsilon,
        "delta": delta,
    }
    words = [
        f"{name}{value if isinstance(value, int) else short_exponent(f'{value:g}')}"
        for name, value in named.items()
        if value is not None
    ]
    return Path(f"{'-'.join(['dpsgd', *words])}.certificate.json")


def new_certificate(path: Path, *, force: bool) -> Path:
    """A file to write a certificate to, refused now if it is there already or cannot be written."""
    if path.is_file() and not force:
        raise ValueError(f"{path} exists already: add --force to replace it, or name another file with --output")
    new_files(output=path)
    return path


def new_files(certificate: Path | None = None, **named: Path | None) -> None:
    """Refuse now what cannot be written, or would replace the certificate; each file by its flag."""
    for name, path in named.items():
        if path is None:
            continue
        if name == "plot" and path.suffix.lower() not in (".png", ".svg", ".pdf"):
            raise ValueError(f"--plot={str(path)!r} does not end in .png, .svg or .pdf: name one of these")
        atomic.check_writable(**{f"--{name}": path})
        if certificate is not None and os.path.realpath(certificate) == os.path.realpath(path):
            raise ValueError(f"--{name}={str(path)!r} is the certificate's file: name another one")
