"""What floats choose, as data: grids, windows, bits. Whatever a plan says, the bound that it leads to holds.

Places on the coarse grid are integers ``i`` for the losses ``offset + i spacing``, the offset being the steps' number times that of
their kind; on a fine grid the spacing is ``spacing / 2^halvings``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import NamedTuple, TypeVar


class Window(NamedTuple):
    """What is kept after a product: fine masses in ``low .. high`` on a grid of so many halvings, coarse ones in ``floor .. top``."""

    halvings: int
    low: int
    high: int
    floor: int
    top: int


@dataclass(frozen=True)
class Grid:
    """Where one step of a kind is put: fine places within ``low .. high`` (coarse units), coarse ones from ``floor`` to ``top``.

    Without halvings there are no fine places.
    """

    offset: Fraction
    halvings: int
    low: int
    high: int
    floor: int
    top: int

    def __post_init__(self) -> None:
        if not (self.halvings >= 0 and self.floor < self.top):
            raise ValueError(f"{self!r} is no grid: halvings >= 0 and floor < top are wanted")
        if self.halvings and not self.floor <= self.low < self.high <= self.top:
            raise ValueError(f"{self!r} is no grid: floor <= low < high <= top is wanted")


Part = TypeVar("Part")


def compose(
    counts: Sequence[int], step: Callable[[int], Part], times: Callable[[Part, Part], Part]
) -> tuple[list[Part], list[Part]]:
    """Two halves of a composition from its steps: one part each, none where a half has no steps.

    Each kind is raised to half of its count, from the leading bit down, and joined with the kinds before it; the steps that
    are left over in odd counts extend the second half.
    """
    first: list[Part] = []
    for kind, count in enumerate(counts):
        if half := count // 2:
            power = step(kind)
            for bit in bin(half)[3:]:
                power = times(power, power)
                if bit == "1":
                    power = times(power, step(kind))
            first = [times(first[0], power)] if first else [power]
    second = list(first)
    for kind, count in enumerate(counts):
        if count % 2:
            second = [times(second[0], step(kind))] if second else [step(kind)]
    return first, second


def schedule(counts: Sequence[int]) -> list[tuple[int, ...]]:
    """How many steps of each kind the products of ``compose`` hold, in order.

    Examples
    --------
    >>> schedule((7,))
    [(2,), (3,), (4,)]
    """
    found: list[tuple[int, ...]] = []

    def times(x: tuple[int, ...], y: tuple[int, ...]) -> tuple[int, ...]:
        found.append(tuple(a + b for a, b in zip(x, y, strict=True)))
        return found[-1]

    compose(counts, lambda kind: tuple(int(i == kind) for i in range(len(counts))), times)
    return found


@dataclass(frozen=True)
class Plan:
    """How to bound one direction of a composition.

    Attributes
    ----------
    bits
        Masses are integers in units of ``2^-bits``.
    spacing
        Of the coarse grid.
    grids
        For each kind of step.
    windows
        After each product of ``schedule``, in its order.
    """

    bits: int
    spacing: Fraction
    grids: tuple[Grid, ...]
    windows: tuple[Window, ...]

    def __post_init__(self) -> None:
        if self.bits < 1 or self.spacing <= 0:
            raise ValueError(f"bits={self.bits!r} and spacing={self.spacing!r}: both must be positive")

    @property
    def places(self) -> int:
        """The most places that a law has on the way: what memory and time go with."""
        grids = [(g.top - g.floor) + ((g.high - g.low) << g.halvings if g.halvings else 0) for g in self.grids]
        windows = [(w.top - w.floor) + (w.high - w.low if w.halvings else 0) for w in self.windows]
        return max(grids + windows)

    def to_json(self) -> dict[str, object]:
        """The plan as JSON has it: integers, and rational numbers as text."""
        grids = [[str(g.offset), g.halvings, g.low, g.high, g.floor, g.top] for g in self.grids]
        return {
            "bits": self.bits,
            "spacing": str(self.spacing),
            "grids": grids,
            "windows": [list(window) for window in self.windows],
        }
