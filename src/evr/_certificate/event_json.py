"""JSON of certificates: ``DpEvent`` trees, an object for each event, its class under ``"type"``, its fields by name.
Only known classes are ever built: of dp_accounting, of ``evr.events``, and registered ones, named with their module.

And the rules for text in files: patterns leave no room for a sentence in what a replay cannot recompute (names, titles,
software, times), and every character has to print. So nothing in a file speaks to its reader but evr.
"""

import hashlib
import json
import math
import re
from collections.abc import Iterator
from typing import Any

import numpy as np
import rfc8785
from dp_accounting import dp_event

from evr._basics import validate
from evr._described import event_class, event_name
from evr._kernel.events.registry import known, not_an_event, written_fields
from evr.errors import CertificateError

UNENDING = {"inf": math.inf, "-inf": -math.inf, "nan": math.nan}
"""Numbers that JSON lacks, by the words for them."""
DEEPEST = 100  # levels of an event tree
NAME = r"^[A-Za-z0-9](?: ?[A-Za-z0-9._-]){0,63}$"
LONGEST_NAME = 64
TIME = r"^[0-9]{4}(-[0-9]{2}){2}T[0-9]{2}(:[0-9]{2}){2}\.[0-9]{3}\+00:00$"
_IDENTIFIER = re.compile(r"[A-Za-z0-9_.+<>-]{1,200}")  # Python names a class of a function f.<locals>.C


def in_alphabet(text: str) -> str:
    """The text with the characters replaced that a word of ``software`` may not hold."""
    return re.sub(r"[^0-9A-Za-z_.-]", "-", text)[:20] or "unknown"


def named(**argument: Any) -> str:
    """The name, or an error that says which argument is not a name."""
    ((key, value),) = argument.items()
    if isinstance(value, str) and len(value) <= LONGEST_NAME and re.fullmatch(NAME, value):
        return value
    raise ValueError(
        f"{key}={validate.shown(value)} is not a name: use 1 to {LONGEST_NAME} letters, digits, dots, hyphens, "
        "underscores or single spaces, and begin with a letter or a digit"
    )


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
            raise CertificateError(f"the event tree has more than {DEEPEST} levels")
        if isinstance(value, str) and not _IDENTIFIER.fullmatch(value):
            raise CertificateError(f"{value[:40]!r} is neither a name nor a number")
    return document


def canonical(document: Any) -> str:
    """JSON with sorted keys and no spaces: equal documents give equal text."""
    return json.dumps(document, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def plain(value: Any) -> Any:
    """A value in JSON's types: plans as they write themselves, and infinities and NaN, which JSON lacks, as words."""
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value.to_json() if hasattr(value, "to_json") else value


def parsed(text: str) -> dict[str, Any]:
    """JSON with no key twice. ``digest_of`` refuses NaN and infinity."""

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        if len(found := dict(pairs)) != len(pairs):
            raise ValueError("a key occurs twice")
        return found

    try:
        document = json.loads(text, object_pairs_hook=unique)
    except (ValueError, RecursionError) as error:
        raise CertificateError(f"not valid JSON, perhaps cut off: {error}") from None
    if not isinstance(document, dict):
        raise CertificateError(f"not a certificate of evr, but {validate.shown(document)}")
    return document


def pretty(value: Any, indent: str = "") -> str:
    """Indented JSON with lists of plain values on one line."""
    deeper = indent + "  "
    if isinstance(value, dict) and value:
        items = (f"{deeper}{pretty(key)}: {pretty(item, deeper)}" for key, item in value.items())
        return "{\n" + ",\n".join(items) + f"\n{indent}}}"
    if isinstance(value, list) and any(isinstance(item, dict | list) for item in value):
        return "[\n" + ",\n".join(deeper + pretty(item, deeper) for item in value) + f"\n{indent}]"
    return json.dumps(value, ensure_ascii=False, allow_nan=False)


def event_digest(event: dp_event.DpEvent) -> str:
    return digest_of(event_to_json(event))


def digest_of(document: dict[str, Any]) -> str:
    """SHA-256 of canonical JSON (RFC 8785), as in every language. What JavaScript's floats cannot hold is refused.

    >>> digest_of({"b": 1.0, "a": 1e-5}) == hashlib.sha256(b'{"a":0.00001,"b":1}').hexdigest()
    True
    """
    return hashlib.sha256(rfc8785.dumps(document)).hexdigest()


def event_to_json(event: Any) -> dict[str, Any]:
    """An event tree in JSON's types.

    >>> event_to_json(dp_event.SelfComposedDpEvent(dp_event.GaussianDpEvent(1.5), 10))
    {'type': 'SelfComposedDpEvent',
     'event': {'type': 'GaussianDpEvent', 'noise_multiplier': 1.5}, 'count': 10}
    """
    if not isinstance(known(event), dp_event.DpEvent):
        raise not_an_event(event)
    return checked_tree(_encoded(event, DEEPEST))


def event_from_json(document: Any) -> dp_event.DpEvent:
    """Undo ``event_to_json``.

    >>> event_from_json({"type": "GaussianDpEvent", "noise_multiplier": 1.5})
    GaussianDpEvent(noise_multiplier=1.5)
    """
    event = _decoded(checked_tree(document), "event")
    if not isinstance(event, dp_event.DpEvent):
        raise CertificateError(f"event={validate.shown(document)} is not an event")
    return event


def _encoded(value: Any, depth: int) -> Any:
    if depth < 0:
        raise ValueError(f"the event tree has more than {DEEPEST} levels: flatten it")
    value = known(value)
    if isinstance(value, dp_event.DpEvent):
        name = event_name(type(value))
        if event_class(name) is not type(value):
            raise ValueError(f"{name} is not a known event: register it with evr.register, and make its class by attrs")
        fields = {one.alias: _encoded(getattr(value, one.name), depth - 1) for one in written_fields(type(value))}
        return {"type": name, **fields}
    if isinstance(value, np.ndarray | np.generic):
        value = value.tolist()
    if isinstance(value, list | tuple):
        return [_encoded(item, depth - 1) for item in value]
    if value is None or isinstance(value, bool | int | float | str):
        return plain(value)
    raise ValueError(f"{validate.shown(value)}, of type {type(value).__name__}, cannot stand in a certificate")


def _decoded(value: Any, path: str) -> Any:
    if isinstance(value, dict):
        name = value.get("type")
        cls = event_class(name) if isinstance(name, str) else None
        if cls is None:
            wrong = f"{path}.type={validate.shown(name)} is not a known event"
            raise CertificateError(f"{wrong}: a mechanism of your own is registered before its file is read")
        fields = {k: _decoded(v, f"{path}.{k}") for k, v in value.items() if k != "type"}
        wanted = {field.alias for field in written_fields(cls)}
        if fields.keys() != wanted:
            raise CertificateError(f"{path}: {cls.__name__} has the fields {sorted(wanted)}, not {sorted(fields)}")
        try:
            return cls(**fields)
        except Exception as error:  # somebody else's class may raise anything
            raise CertificateError(f"{path}: {cls.__name__} does not take these values ({error})") from None
    if isinstance(value, list):
        return [_decoded(item, f"{path}[{i}]") for i, item in enumerate(value)]
    return UNENDING.get(value, value) if isinstance(value, str) else value
