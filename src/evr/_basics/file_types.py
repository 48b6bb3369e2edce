"""Telling evr's files apart: a certificate, a record and a specification, each given where another belongs."""

import re
from pathlib import Path

_KINDS = {  # how each begins, or what it has in it, and what takes it
    "a certificate": (
        r'\A\s*\{\s*"schema_version"',
        "`evr show`, `evr replay` and `evr risk` take it, and evr.Certificate.load",
    ),
    "the record of a training": (
        r'\A\{"line": 0, "kind": "start"',
        "`evr certify` and `evr risk` take it, and evr.Record.load",
    ),
    "a specification": (r"(?m)^\s*\[\[mechanism\]\]", "`evr certify` and the commands that estimate take it"),
}
_LOOKED_AT = 100_000  # characters


def is_record(path: Path) -> bool:
    """Whether a file is the record of a training, by its name or by how it begins."""
    # the name also serves where each of several processes has written its own
    return path.suffix == ".jsonl" or _begins_as(path, "the record of a training")


def is_certificate(path: Path) -> bool:
    """Whether a file is a certificate, by how it begins."""
    return _begins_as(path, "a certificate")


def _begins_as(path: Path, kind: str) -> bool:
    try:
        if not path.is_file():  # what is read of a pipe is gone
            return False
        with path.open(encoding="utf-8", errors="replace") as file:
            return re.search(_KINDS[kind][0], file.read(100)) is not None
    except OSError:
        return False


def instead(text: str, wanted: str) -> str | None:
    """The kind of a file of evr's that is not the ``wanted`` one: in words, with the command for it.

    >>> instead('{"line": 0, "kind": "start"}', "a specification")
    'this is the record of a training, not a specification: `evr certify` and `evr risk` take it, and ...'
    """
    for kind, (pattern, taken) in _KINDS.items():
        if kind != wanted and re.search(pattern, text[:_LOOKED_AT]):
            return f"this is {kind}, not {wanted}: {taken}"
    return None
