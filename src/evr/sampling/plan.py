"""A plan: all that one direction of a verification draws, as data.

A search makes plans and may be wrong; everything that a guarantee rests on (normalisers, bounds,
corrections) is computed from the plan by what ``evr.sampling.registry`` builds of it. So a
certificate holds its plans, and replay never searches.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
import sys
from dataclasses import asdict, dataclass, field, fields
from functools import cached_property
from itertools import pairwise
from typing import Any, Self

from evr.bounds.composing import Composing, Places
from evr.bounds.tilt import Tilt

_NAME = re.compile(r"[a-z0-9_/]{0,40}")  # leaves no room for a sentence

_ABSENT = ()  # no value of JSON

FORMAT = 1
"""Of a plan's JSON, and of how blocks are taken from a stream."""


@dataclass(frozen=True)
class Kind:
    """How one kind of step is drawn.

    Attributes
    ----------
    tilt
        What it is tilted by.
    edges
        Where its losses are cut to be spread to a few outcomes; None if they are drawn as they are.
    sampler
        Name and version of what draws it.
    composing
        How its steps, on outcomes, are composed before they are drawn; None if they are not.
    others
        What it is tilted by in the other parts of a blend, in their order.
    """

    tilt: Tilt
    edges: tuple[float, ...] | None = None
    sampler: str = ""
    composing: Composing | None = None
    others: tuple[Tilt, ...] = ()


@dataclass(frozen=True)
class Plan:
    """What is drawn in one direction, and what is tested of it.

    Attributes
    ----------
    proposal
        A name in ``evr.sampling.registry``.
    kinds
        How each kind of step of the composition is drawn, in its order.
    cells
        How finely the line is cut for bounds.
    numbers
        What else the proposal needs, by name.
    clip
        Samples are clipped there, in units of the threshold; None if not at all.
    variance
        A guess, in units of the threshold's square, for the first stakes. Nothing rests on it.
    block_size
        Samples of a block.
    device
        What draws: ``"cpu"``, or a name that another backend registered.
    shares
        Of each part of a blend of tilts, the first part's first; none where there is one tilt.
    """

    proposal: str
    kinds: tuple[Kind, ...] = ()
    cells: int = 0
    numbers: tuple[tuple[str, float], ...] = ()
    clip: float | None = None
    variance: float = 1.0
    block_size: int = 1
    device: str = "cpu"
    format: int = field(default=FORMAT)
    shares: tuple[float, ...] = ()

    def number(self, name: str) -> float:
        """One of ``numbers``."""
        for known, value in self.numbers:
            if known == name:
                return value
        raise ValueError(f"the plan of proposal {self.proposal!r} has no number {name!r}")

    def to_json(self) -> dict[str, Any]:
        """In JSON's types; infinite numbers as words."""
        document = _encoded({**asdict(self), "numbers": dict(self.numbers)})
        for kind in document["kinds"]:
            if kind["composing"] is None:  # as plans were before steps were composed
                del kind["composing"]
            if not kind["others"]:  # nor blended
                del kind["others"]
        if not document["shares"]:
            del document["shares"]
        return document

    @classmethod
    def from_json(cls, document: dict[str, Any]) -> Self:
        """Undo ``to_json``; a key too many or too few, or a value of another type, raises
        ``ValueError``.
        """
        if not isinstance(document, dict) or document.get("format") != FORMAT:
            found = document.get("format") if isinstance(document, dict) else document
            raise ValueError(
                f"format={found!r} of a plan is not {FORMAT}: another version of evr wrote it"
            )
        data = _checked(cls, {"shares": _ABSENT, **document}, "plan")
        entries = enumerate(_list(data.pop("kinds"), "plan.kinds"))
        kinds = tuple(_kind(entry, f"plan.kinds[{index}]") for index, entry in entries)
        numbers_by_name = data["numbers"]
        if not isinstance(numbers_by_name, dict):
            raise ValueError(f"plan.numbers={numbers_by_name!r} is not an object")
        named = tuple(
            (_text(n, "plan.numbers"), _number(x, f"plan.numbers.{n}"))
            for n, x in numbers_by_name.items()
        )
        return cls(
            proposal=_text(data["proposal"], "plan.proposal"),
            kinds=kinds,
            cells=_whole(data["cells"], "plan.cells", least=0),
            numbers=named,
            clip=None if data["clip"] is None else _positive(data["clip"], "plan.clip"),
            variance=_positive(data["variance"], "plan.variance"),
            block_size=_whole(data["block_size"], "plan.block_size", least=1, most=1 << 20),
            device=_text(data["device"], "plan.device"),
            shares=tuple(_number(x, "plan.shares") for x in _some(data, "shares", "plan")),
        )

    @cached_property
    def digest(self) -> str:
        """Of the plan's JSON: what a worker knows it by."""
        return hashlib.sha256(json.dumps(self.to_json(), sort_keys=True).encode()).hexdigest()


def _encoded(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _encoded(x) for key, x in value.items()}
    if isinstance(value, list | tuple):
        return [_encoded(x) for x in value]
    if isinstance(value, float) and not math.isfinite(value):
        return repr(value)
    return value


def _checked(cls: type[Any], document: Any, where: str) -> dict[str, Any]:
    names = {f.name for f in fields(cls)}
    if not isinstance(document, dict) or set(document) != names:
        found = sorted(document) if isinstance(document, dict) else document
        raise ValueError(f"{where}: found {found!r}, and what belongs there is {sorted(names)}")
    return dict(document)


def _object(value: Any, where: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ValueError(f"{where}={value!r} is not an object")
    return value


def _kind(entry: Any, where: str) -> Kind:
    if isinstance(entry, dict) and "composing" in entry and entry["composing"] is None:
        raise ValueError(f"{where}.composing is left out where there is none")
    absent = {"composing": None, "others": _ABSENT}
    kind = _checked(Kind, {**absent, **_object(entry, where)}, where)
    edges = kind["edges"]
    if edges is not None:
        edges = tuple(_number(x, f"{where}.edges") for x in _list(edges, f"{where}.edges"))
        if any(not a < b for a, b in pairwise(edges)):
            raise ValueError(f"{where}.edges do not rise")
    return Kind(
        _tilt(kind["tilt"], f"{where}.tilt"),
        edges,
        _text(kind["sampler"], f"{where}.sampler"),
        _composing(kind["composing"], f"{where}.composing"),
        tuple(
            _tilt(one, f"{where}.others[{index}]")
            for index, one in enumerate(_some(kind, "others", where))
        ),
    )


def _tilt(document: Any, where: str) -> Tilt:
    numbers: dict[str, Any] = {
        name: None
        if value is None and name in ("knee", "jump_order")
        else _number(value, f"{where}.{name}")
        for name, value in _checked(Tilt, document, where).items()
    }
    return Tilt(**numbers)


def _composing(document: Any, where: str) -> Composing | None:
    if document is None:
        return None
    data = _checked(Composing, document, where)
    places = []
    for index, entry in enumerate(_list(data["places"], f"{where}.places")):
        place = f"{where}.places[{index}]"
        one = _checked(Places, entry, place)
        knots = tuple(_number(x, f"{place}.knots") for x in _list(one["knots"], f"{place}.knots"))
        places.append(Places(knots, _whole(one["parts"], f"{place}.parts", least=1)))
    return Composing(_whole(data["size"], f"{where}.size", least=2, most=1 << 40), tuple(places))


def _some(document: dict[str, Any], name: str, where: str) -> list[Any]:
    """A list that is left out where it is empty."""
    value = document[name]
    if value is _ABSENT:
        return []
    if not _list(value, f"{where}.{name}"):
        raise ValueError(f"{where}.{name} is left out where there is none")
    return list(value)


def _list(value: Any, where: str) -> list[Any]:
    if not isinstance(value, list):
        raise ValueError(f"{where}={value!r} is not a list")
    return value


def _number(value: Any, where: str) -> float:
    if value in ("inf", "-inf"):
        return float(value)
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not is_number or not abs(value) <= sys.float_info.max:  # no NaN, nor an endless integer
        raise ValueError(f"{where}={value!r} is not a number")
    return float(value)


def _positive(value: Any, where: str) -> float:
    number = _number(value, where)
    if not 0.0 < number < math.inf:
        raise ValueError(f"{where}={value!r} is not positive and finite")
    return number


def _whole(value: Any, where: str, *, least: int, most: int = 1 << 22) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise ValueError(f"{where}={value!r} is not a whole number from {least} to {most}")
    return value


def _text(value: Any, where: str) -> str:
    if not isinstance(value, str) or not _NAME.fullmatch(value):
        raise ValueError(f"{where}={value!r} is not a name")
    return value
