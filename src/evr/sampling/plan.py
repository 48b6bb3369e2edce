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

from evr.bounds.composing import Places
from evr.bounds.tilt import Tilt

_NAME = re.compile(r"[a-z0-9_/]{0,40}")  # leaves no room for a sentence

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
        Of a law in many dimensions, the name of what draws it; empty on a line.
    """

    tilt: Tilt
    edges: tuple[float, ...] | None = None
    sampler: str = ""


@dataclass(frozen=True)
class DrawPlan:
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
    places
        Where the losses of several steps are put, product after product, if all steps are composed
        before they are drawn; none if they are not.
    device
        What draws: ``"cpu"``, or a name that another backend registered.
    """

    proposal: str
    kinds: tuple[Kind, ...] = ()
    cells: int = 0
    numbers: tuple[tuple[str, float], ...] = ()
    clip: float | None = None
    variance: float = 1.0
    block_size: int = 1
    places: tuple[Places, ...] = ()
    device: str = "cpu"
    format: int = field(default=FORMAT)

    def number(self, name: str) -> float:
        """One of ``numbers``."""
        for known, value in self.numbers:
            if known == name:
                return value
        raise ValueError(f"the plan of proposal {self.proposal!r} has no number {name!r}")

    def to_json(self) -> dict[str, Any]:
        """In JSON's types; infinite numbers as words."""
        document: dict[str, Any] = _encoded({**asdict(self), "numbers": dict(self.numbers)})
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
        data = _checked(cls, document, "plan")
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
            places=tuple(
                _places(entry, f"plan.places[{index}]")
                for index, entry in enumerate(_list(data["places"], "plan.places"))
            ),
            device=_text(data["device"], "plan.device"),
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


def _kind(entry: Any, where: str) -> Kind:
    kind = _checked(Kind, entry, where)
    edges = kind["edges"]
    if edges is not None:
        edges = tuple(_number(x, f"{where}.edges") for x in _list(edges, f"{where}.edges"))
        if any(not a < b for a, b in pairwise(edges)):
            raise ValueError(f"{where}.edges do not rise")
    return Kind(
        _tilt(kind["tilt"], f"{where}.tilt"),
        edges,
        _text(kind["sampler"], f"{where}.sampler"),
    )


def _tilt(document: Any, where: str) -> Tilt:
    data = _checked(Tilt, document, where)
    return Tilt(**{name: _number(value, f"{where}.{name}") for name, value in data.items()})


def _places(document: Any, where: str) -> Places:
    data = _checked(Places, document, where)
    knots = tuple(_number(x, f"{where}.knots") for x in _list(data["knots"], f"{where}.knots"))
    return Places(knots, _whole(data["parts"], f"{where}.parts", least=1))


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
