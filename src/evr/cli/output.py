"""Printing: tables and sentences for people, JSON for scripts, one line for mistakes."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Iterable, Sequence
from typing import Any, NoReturn


def fail(message: str) -> NoReturn:
    """Say what is wrong with the input and leave with exit code 2."""
    print(f"error: {message}", file=sys.stderr)
    sys.exit(2)


def table(title: str, header: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """A table: drawn by rich on a terminal, tab-separated otherwise."""
    if not sys.stdout.isatty():
        print("\t".join(header))
        for row in rows:
            print("\t".join(row))
        return
    from rich import box
    from rich.console import Console
    from rich.table import Table

    drawn = Table(title=title, box=box.SIMPLE_HEAD, title_justify="left", header_style="bold")
    for name in header:
        drawn.add_column(name, overflow="fold")
    for row in rows:
        drawn.add_row(*row)
    Console().print(drawn)


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
