"""Telling evr's files apart: a certificate, a record and a specification, each given where another belongs."""

from __future__ import annotations

import re
from pathlib import Path

_KINDS: dict[str, tuple[re.Pattern[str], str]] = {
    "a certificate": (
        re.compile(r'\A\s*\{\s*"schema_version"'),
        "`evr show` and `evr replay` take it, and evr.Certificate.load",
    ),
    "the record of a training": (
        re.compile(r'\A\{"line": 0, "kind": "start"'),
        "`evr certify` takes it, and evr.Record.load",
    ),
    "a specification": (
        re.compile(r"^\s*\[\[mechanism\]\]", re.MULTILINE),
        "`evr certify` and the commands that estimate take it",
    ),
}
_LOOKED_AT = 100_000  # characters


def is_record(path: Path) -> bool:
    """Whether a file is the record of a training, by its name or by how it begins."""
    if path.suffix == ".jsonl":  # also where each of several processes has written its own
        return True
    try:
        with path.open(encoding="utf-8", errors="replace") as file:
            start = file.read(100)
    except OSError:
        return False
    return _KINDS["the record of a training"][0].search(start) is not None


def instead(text: str, wanted: str) -> str | None:
    """The kind of a file of evr's that is not the ``wanted`` one: in words, with the command for it.

    >>> instead('{"line": 0, "kind": "start"}', "a specification")
    'this is the record of a training, not a specification: `evr certify` takes it, and ...'
    """
    for kind, (pattern, taken) in _KINDS.items():
        if kind != wanted and pattern.search(text[:_LOOKED_AT]):
            return f"this is {kind}, not {wanted}: {taken}"
    return None
