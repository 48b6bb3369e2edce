"""Rules for the text in a certificate.

A replay recomputes most of a certificate. Patterns leave no room for a sentence in the rest (names, titles, software,
times), and every character has to print. So nothing in a file speaks to its reader but evr.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

DEEPEST = 100
"""Levels of an event tree."""

NAME = r"^[A-Za-z0-9](?: ?[A-Za-z0-9._-]){0,63}$"
NAME_IN_WORDS = (
    "use 1 to 64 letters, digits, dots, hyphens, underscores or single spaces, and begin with a letter or a digit"
)
TIME = r"^[0-9]{4}(-[0-9]{2}){2}T[0-9]{2}(:[0-9]{2}){2}\.[0-9]{3}\+00:00$"

# Python names a class of a function f.<locals>.C
_IDENTIFIER = re.compile(r"[A-Za-z0-9_.+<>-]{1,200}")


def in_alphabet(text: str) -> str:
    """The text with the characters replaced that a word of ``software`` may not hold."""
    return re.sub(r"[^0-9A-Za-z_.-]", "-", text)[:20] or "unknown"


def is_name(value: Any) -> bool:
    """Whether a value is a name."""
    return isinstance(value, str) and len(value) <= 64 and re.fullmatch(NAME, value) is not None


def checked_name(name: str | None) -> str | None:
    """A name, or an error."""
    if name is not None and not is_name(name):
        raise ValueError(f"this is not a name: {NAME_IN_WORDS}")
    return name


def walk(document: Any) -> Iterator[tuple[Any, int]]:
    """Everything in a document, keys included, with its depth; any nesting is followed."""
    stack: list[tuple[Any, int]] = [(document, 0)]
    while stack:
        value, depth = stack.pop()
        yield value, depth
        if isinstance(value, dict):
            stack += [(item, depth + 1) for pair in value.items() for item in pair]
        elif isinstance(value, list):
            stack += [(item, depth + 1) for item in value]


def checked_tree(document: dict[str, Any]) -> dict[str, Any]:
    """An event tree as JSON, or an error: names and numbers only, and not too deep. Its meaning is not checked here."""
    for value, depth in walk(document):
        if depth > DEEPEST:
            raise ValueError(f"the event tree has more than {DEEPEST} levels")
        if isinstance(value, str) and not _IDENTIFIER.fullmatch(value):
            raise ValueError(f"{value[:40]!r} is neither a name nor a number")
    return document


def unprintable(document: Any) -> str | None:
    """The first text in a document that has characters which do not print, such as those that command a terminal."""
    texts = (value for value, _ in walk(document) if isinstance(value, str))
    return next((text for text in texts if not text.isprintable()), None)
