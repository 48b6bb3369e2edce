"""``DpEvent`` trees as JSON: an object for each event, its class under ``"type"``, its fields by name.

Only known classes are ever built: those of dp_accounting, those of ``evr.events``, and
registered ones, which are named with their module.
"""

from __future__ import annotations

import hashlib
import json
import math
from typing import Any

import numpy as np
from dp_accounting import dp_event

from evr import validate
from evr.certification.text_rules import DEEPEST, checked_tree
from evr.described import event_classes, event_name
from evr.errors import CertificateError
from evr.mechanisms.registry import MECHANISMS, known, written_fields

_UNENDING = {"inf": math.inf, "-inf": -math.inf, "nan": math.nan}


def canonical(document: Any) -> str:
    """JSON with sorted keys and no spaces: equal documents give equal text."""
    return json.dumps(document, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def event_digest(event: dp_event.DpEvent) -> str:
    """SHA-256 of an event's canonical JSON."""
    return digest_of(event_to_json(event))


def digest_of(document: dict[str, Any]) -> str:
    """SHA-256 of canonical JSON."""
    return hashlib.sha256(canonical(document).encode()).hexdigest()


def event_to_json(event: Any) -> dict[str, Any]:
    """An event tree in JSON's types.

    >>> event_to_json(dp_event.SelfComposedDpEvent(dp_event.GaussianDpEvent(1.5), 10))
    {'type': 'SelfComposedDpEvent',
     'event': {'type': 'GaussianDpEvent', 'noise_multiplier': 1.5}, 'count': 10}
    """
    if not isinstance(known(event), dp_event.DpEvent):
        raise TypeError(f"{validate.shown(event)} is not a DpEvent (it is a {type(event).__name__})")
    return checked_tree(_encoded(event, DEEPEST))


def event_from_json(document: Any) -> dp_event.DpEvent:
    """Undo ``event_to_json``.

    >>> event_from_json({"type": "GaussianDpEvent", "noise_multiplier": 1.5})
    GaussianDpEvent(noise_multiplier=1.5)
    """
    if isinstance(document, dict):
        try:
            checked_tree(document)
        except ValueError as error:
            raise CertificateError(f"event: {error}") from None
    event = _decoded(document, "event", DEEPEST)
    if not isinstance(event, dp_event.DpEvent):
        raise CertificateError(f"event={validate.shown(document)} is not an event")
    return event


def _encoded(value: Any, depth: int) -> Any:
    if depth < 0:
        raise ValueError(f"the event tree has more than {DEEPEST} levels: flatten it")
    value = known(value)
    if isinstance(value, dp_event.DpEvent):
        name = event_name(type(value))
        if event_classes().get(name) is not type(value):
            if type(value) in MECHANISMS:
                raise ValueError(
                    f"{name} is not made by attrs, so its fields have no names in a certificate: decorate it"
                )
            raise ValueError(f"{name} is not a known event: register it with evr.register")
        fields = {one.alias: _encoded(getattr(value, one.name), depth - 1) for one in written_fields(type(value))}
        return {"type": name, **fields}
    if isinstance(value, np.ndarray | np.generic):
        value = value.tolist()
    if isinstance(value, list | tuple):
        return [_encoded(item, depth - 1) for item in value]
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if value is None or isinstance(value, bool | int | str):
        return value
    raise ValueError(f"{validate.shown(value)}, of type {type(value).__name__}, cannot stand in a certificate")


def _decoded(value: Any, path: str, depth: int) -> Any:
    if depth < 0:
        raise CertificateError(f"the event tree has more than {DEEPEST} levels")
    if isinstance(value, dict):
        name = value.get("type")
        cls = event_classes().get(name) if isinstance(name, str) else None
        if cls is None:
            raise CertificateError(f"{path}.type={validate.shown(name)} is not a known event")
        fields = {k: _decoded(v, f"{path}.{k}", depth - 1) for k, v in value.items() if k != "type"}
        wanted = {field.alias for field in written_fields(cls)}
        if fields.keys() != wanted:
            odd = sorted(fields.keys() ^ wanted)
            raise CertificateError(
                f"{path}: {cls.__name__} has the fields {sorted(wanted)}; missing or unexpected: {odd[0]!r}"
            )
        try:
            return cls(**fields)
        except Exception as error:  # somebody else's class may raise anything
            raise CertificateError(f"{path}: {cls.__name__} does not take these values ({error})") from None
    if isinstance(value, list):
        return [_decoded(item, f"{path}[{i}]", depth - 1) for i, item in enumerate(value)]
    return _UNENDING.get(value, value) if isinstance(value, str) else value
