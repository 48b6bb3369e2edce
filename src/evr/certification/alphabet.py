"""What the words of a certificate may be made of.

Most of a certificate is recomputed by a replay. What is not (the name of a release, software,
times) is held to patterns that leave no room for a sentence, and every text to printable
characters, so that nothing in a file speaks to its reader but evr.
"""

from __future__ import annotations

import re
from typing import Any

DEEPEST = 100
"""Levels of an event tree."""

NAME = r"^[A-Za-z0-9](?: ?[A-Za-z0-9._-]){0,63}$"
NAME_IN_WORDS = (
    "1 to 64 letters, digits, dots, hyphens, underscores or single spaces are wanted, a letter or "
    "a digit first"
)
TIME = r"^[0-9]{4}(-[0-9]{2}){2}T[0-9]{2}(:[0-9]{2}){2}\.[0-9]{3}\+00:00$"

_VERSION = r"[0-9][0-9A-Za-z.+-]{0,39}"
_WORD = r"[0-9A-Za-z_.-]{1,20}"
SOFTWARE = {
    # in the statement
    "evr": r"[0-9]{1,4}\.[0-9]{1,4}\.[0-9]{1,4}(?:(?:a|b|rc|\.dev|\.post)[0-9]{1,4}){0,2}",
    "drawing": r"[0-9]{1,6}",
    "numpy": _VERSION,
    "scipy": _VERSION,
    "python": _VERSION,
    "platform": rf"{_WORD} {_WORD}",
    "simd": _WORD,
}
"""The fields of ``software``, each with what it is made of. All but ``drawing``, which the first
certificates lack, are wanted.
"""

# Python names a class of a function f.<locals>.C
_IDENTIFIER = re.compile(r"[A-Za-z0-9_.+<>-]{1,200}")


def in_alphabet(text: str) -> str:
    """The text with what a word of ``software`` may not hold replaced."""
    return re.sub(r"[^0-9A-Za-z_.-]", "-", text)[:20] or "unknown"


def checked_name(name: str | None) -> str | None:
    """The name of a release, or an error."""
    if name is not None and not (
        isinstance(name, str) and len(name) <= 64 and re.fullmatch(NAME, name)
    ):
        raise ValueError(f"this is not a name: {NAME_IN_WORDS}")
    return name


def checked_software(fields: dict[str, str]) -> dict[str, str]:
    """The software of a certificate, or an error."""
    for key in SOFTWARE.keys() - fields.keys() - {"drawing"}:
        raise ValueError(f"{key!r} is missing")
    for key, value in fields.items():
        if key not in SOFTWARE:
            raise ValueError(f"{key[:40]!r} is none of its fields")
        if not re.fullmatch(SOFTWARE[key], value):
            raise ValueError(f"{key!r} is {value[:40]!r}, which no {key} says of itself")
    return fields


def checked_tree(document: dict[str, Any]) -> dict[str, Any]:
    """An event tree as JSON, or an error: names and numbers only, and not too deep. What it means
    is not looked at.
    """
    stack: list[tuple[Any, int]] = [(document, 0)]
    while stack:
        value, depth = stack.pop()
        if depth > DEEPEST:
            raise ValueError(f"the event tree has more than {DEEPEST} levels")
        if isinstance(value, dict):
            stack += [(item, depth + 1) for item in value.values()]
            words = list(value)
        else:
            stack += [(item, depth + 1) for item in value] if isinstance(value, list) else []
            words = [value] if isinstance(value, str) else []
        for word in words:
            if not _IDENTIFIER.fullmatch(word):
                raise ValueError(f"{word[:40]!r} is neither a name nor a number")
    return document


def unprintable(document: Any) -> str | None:
    """The first text in a document that has characters which do not print, such as those that
    command a terminal.
    """
    stack = [document]
    while stack:
        value = stack.pop()
        if isinstance(value, dict):
            stack += [*value.keys(), *value.values()]
        elif isinstance(value, list):
            stack += value
        elif isinstance(value, str) and not value.isprintable():
            return value
    return None
