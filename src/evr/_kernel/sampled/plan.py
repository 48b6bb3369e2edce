"""A plan: all that one direction of a verification draws, as data.

A search makes plans and may be wrong; everything that a guarantee rests on (normalisers, bounds, corrections)
is computed from the plan by the proposal built of it. So a certificate holds its plans, and replay never
searches.
"""

from __future__ import annotations

import json
import math
import re
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from typing import Any, ClassVar, Literal

from evr._kernel.sampled.composing import LossGrid
from evr._kernel.sampled.moments import Tilt

DRAWING = 4
"""Version of what a seed draws, in certificates: raised when that changes."""

MOST_SAMPLES = 1 << 20
"""The most samples of a block: a plan from elsewhere may not ask for all of a machine."""

_NAME = re.compile(r"[a-z0-9_]{1,40}")  # leaves no room for a sentence


@dataclass(frozen=True)
class StepPlan:
    """How one kind of step on a line is drawn."""

    tilt: Tilt | None = None
    # where losses are cut to be spread to outcomes; None if there are few
    edges: tuple[float, ...] | None = None

    def __post_init__(self) -> None:
        if self.edges is not None and any(not a < b for a, b in pairwise(self.edges)):
            raise ValueError("edges do not rise")


@dataclass(frozen=True)
class CappedPlan:
    """Capped tilts of steps on a line, of a kind each, in the order of the composition.

    Where all steps are composed before they are drawn, ``places`` say where the losses of each product are
    put.
    """

    kinds: tuple[StepPlan, ...]
    places: tuple[LossGrid, ...] = ()
    name: Literal["capped"] = "capped"


@dataclass(frozen=True)
class SimplePlan:
    """The paper's simple Monte Carlo."""

    name: Literal["simple"] = "simple"


@dataclass(frozen=True)
class ByOrder:
    """Laws in many dimensions at order ``k``: remove."""

    order: int


@dataclass(frozen=True)
class ByStar:
    """Correlated bins at the order of so many replicas, drawn around one of them: remove."""

    replicas: int


@dataclass(frozen=True)
class ByScale:
    """Scaled means, and other odds to take part: remove."""

    scale: float
    odds: float


@dataclass(frozen=True)
class ByShift:
    """A shift: add."""

    shift: float


@dataclass(frozen=True)
class ByWindow:
    """Bins at order ``k`` of a window of them, and all of them shifted: remove."""

    order: int
    window: int
    shift: float


@dataclass(frozen=True)
class MixturePlan:
    """Laws in many dimensions, and steps on a line beside them, as in a ``CappedPlan``."""

    part: ByOrder | ByStar | ByScale | ByShift  # what draws all laws in many dimensions and bounds samples
    kinds: tuple[StepPlan, ...] = ()
    # what draws the laws in all but a share of the samples, if anything does
    beside: ByWindow | ByScale | None = None
    share: float = 1.0
    by_place: bool = False  # whether random numbers are by counters, as a GPU has them (``philox.py``)
    name: Literal["mixture"] = "mixture"

    def __post_init__(self) -> None:
        if not (0 < self.share < 1 if self.beside else self.share == 1):
            raise ValueError(f"share={self.share!r} is not between 0 and 1, or, with nothing beside, not 1")


ProposalPlan = CappedPlan | SimplePlan | MixturePlan


@dataclass(frozen=True)
class DrawPlan:
    """What is drawn in one direction, and what is tested of it."""

    __pydantic_config__: ClassVar = {"strict": True, "extra": "forbid", "allow_inf_nan": False}

    proposal: ProposalPlan
    clip: float | None = None  # where samples are clipped, in units of the threshold; None if not at all
    # a guess, in units of the threshold's square, for the first stakes; nothing rests on it
    variance: float = 1.0
    block_size: int = 1  # samples of a block
    device: str = "cpu"  # what draws: or a name that another backend registered

    def __post_init__(self) -> None:
        for name, value in (("clip", self.clip), ("variance", self.variance)):
            if value is not None and not 0.0 < value < math.inf:
                raise ValueError(f"{name}={value!r} is not positive and finite")
        if not 1 <= self.block_size <= MOST_SAMPLES:
            raise ValueError(f"block_size={self.block_size!r} is not from 1 to {MOST_SAMPLES}")
        if not _NAME.fullmatch(self.device):
            raise ValueError(f"device={self.device!r} is not a name")

    def to_json(self) -> dict[str, Any]:
        document: dict[str, Any] = _reader().dump_python(self, mode="json")
        return document

    @staticmethod
    def from_json(document: Any) -> DrawPlan:
        """Undo ``to_json``; a key too many or too few, or a value of another type, raises ``ValueError``."""
        found: DrawPlan = _reader().validate_json(json.dumps(document))
        if found.to_json() != document:
            raise ValueError("not a plan in evr's format")
        return found


@cache
def _reader() -> Any:
    """What checks the types of a plan; made when the first plan is read or written."""
    from pydantic import TypeAdapter

    return TypeAdapter(DrawPlan)
