"""What floats choose, as data: grids, windows, bits. Whatever a plan says, the bound that it leads to holds.

Places on the coarse grid are integers ``i`` for the losses ``offset + i spacing``, the offset being the steps' number
times that of their kind; on a fine grid the spacing is ``spacing / 2^halvings``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import NamedTuple, TypeVar

MOST_BITS = 6_000  # a bound of twice as many is still text that Python reads
MOST_HALVINGS = 26
MOST_PLACES = 1 << 26
"""More than any chooser asks for: a plan from elsewhere may not ask for all of a machine."""
MOST_CURVES, MOST_POINTS, MOST_FINENESS = 64, 4096, 4096
"""Of the plan of a selection: compositions, epsilons, and how narrow its cells are."""


class Window(NamedTuple):
    """What is kept after a product: fine masses in ``low .. high`` on a grid of so many halvings, coarse ones in
    ``floor .. top``.
    """

    halvings: int
    low: int
    high: int
    floor: int
    top: int

    @property
    def is_not_empty(self) -> bool:
        """Whether the window holds at least one fine place and one coarse place."""
        return 0 <= self.halvings <= MOST_HALVINGS and self.low <= self.high and self.floor <= self.top

    @property
    def places(self) -> int:
        """How many places it has, about."""
        return (self.top - self.floor) + (self.high - self.low if self.halvings else 0)


@dataclass(frozen=True)
class Grid:
    """Where one step of a kind is put: fine places within ``low .. high`` (coarse units), if there are halvings, and
    coarse ones from ``floor`` to ``top``.
    """

    offset: Fraction
    halvings: int
    low: int
    high: int
    floor: int
    top: int

    def __post_init__(self) -> None:
        if not (0 <= self.halvings <= MOST_HALVINGS and self.floor < self.top):
            raise ValueError(f"{self!r} is no grid: 0 <= halvings <= {MOST_HALVINGS} and floor < top are wanted")
        if self.halvings and not self.floor <= self.low < self.high <= self.top:
            raise ValueError(f"{self!r} is no grid: floor <= low < high <= top is wanted")

    @property
    def places(self) -> int:
        """How many places it has, about."""
        fine = (self.high - self.low) << self.halvings if self.halvings else 0
        return (self.top - self.floor) + fine


T = TypeVar("T")


def power(one: T, count: int, times: Callable[[T, T], T]) -> T:
    """``count`` copies together, ``count >= 1``, from the leading bit down."""
    found = one
    for bit in bin(count)[3:]:
        found = times(found, found)
        if bit == "1":
            found = times(found, one)
    return found


def compose(counts: Sequence[int], step: Callable[[int], T], times: Callable[[T, T], T]) -> tuple[list[T], list[T]]:
    """Two halves of a composition from its steps: one part each, none where a half has no steps.

    Each kind is raised to half of its count and joined with the kinds before it; the steps that are left over in odd
    counts extend the second half.
    """
    first: list[T] = []
    for kind, count in enumerate(counts):
        if half := count // 2:
            copies = power(step(kind), half, times)
            first = [times(first[0], copies)] if first else [copies]
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
class ProofPlan:
    """How to bound one direction of a composition."""

    bits: int  # masses are integers in units of ``2^-bits``
    spacing: Fraction  # of the coarse grid
    grids: tuple[Grid, ...]  # for each kind of step; none where a single step is bounded by its curve
    windows: tuple[Window, ...]  # after each product of ``schedule``, in its order
    selections: tuple[SelectionPlan, ...] = ()  # for each kind of step that is a selection, in the order of the steps

    def __post_init__(self) -> None:
        if not 1 <= self.bits <= MOST_BITS or self.spacing <= 0:
            raise ValueError(
                f"bits={self.bits!r} and spacing={self.spacing!r}: both must be positive, and bits at most {MOST_BITS}"
            )
        if not all(window.is_not_empty for window in self.windows):
            raise ValueError("a window of the plan holds nothing: low <= high and floor <= top are wanted")
        if self.places > MOST_PLACES:
            raise ValueError(
                f"an exact proof of this would follow {self.places:,} places, and {MOST_PLACES:,} "
                "is the most: claim a greater delta, or take a method that samples"
            )

    @classmethod
    def of_one_step(cls, bits: int, spacing: Fraction = Fraction(1)) -> ProofPlan:
        """For a single step, which needs no grid; ``spacing`` is that of ratios, for bins."""
        return cls(bits, spacing, (), ())

    @property
    def places(self) -> int:
        """The most places that a law has on the way: what memory and time go with."""
        inner = [curve.plan.places for one in self.selections for curve in one.curves]
        return max([0, *inner, *(g.places for g in self.grids), *(w.places for w in self.windows)])

    @property
    def work(self) -> int:
        """About how many masses are multiplied in all; one of a step on its grid counts as twenty."""
        inner = sum(curve.plan.work for one in self.selections for curve in one.curves)
        return inner + 20 * sum(g.places for g in self.grids) + sum(w.places for w in self.windows)

    def to_json(self) -> dict[str, object]:
        """The plan as JSON has it: integers, and rational numbers as text."""
        grids = [[str(g.offset), g.halvings, g.low, g.high, g.floor, g.top] for g in self.grids]
        return {
            "bits": self.bits,
            "spacing": str(self.spacing),
            "grids": grids,
            "windows": [list(window) for window in self.windows],
            **({"selections": [one.to_json() for one in self.selections]} if self.selections else {}),
        }

    @classmethod
    def from_json(cls, document: object) -> ProofPlan:
        """The plan that ``to_json`` wrote, or an error.

        Examples
        --------
        >>> ProofPlan.from_json(ProofPlan.of_one_step(80).to_json()) == ProofPlan.of_one_step(80)
        True
        """
        given = set(document) if isinstance(document, dict) else set()
        if not isinstance(document, dict) or given - {"selections"} != {"bits", "spacing", "grids", "windows"}:
            raise ValueError("a plan has bits, spacing, grids and windows, perhaps selections, and nothing else")
        (bits,) = _integers([document["bits"]], 1)
        grids = [Grid(fraction_of(row[0]), *_integers(row[1:], 5)) for row in _rows(document["grids"])]
        windows = [Window(*_integers(row, 5)) for row in _rows(document["windows"])]
        spacing = fraction_of(document["spacing"])
        selections = document.get("selections", [])
        if not isinstance(selections, list):
            raise ValueError("the selections of a plan are a list")
        return cls(bits, spacing, tuple(grids), tuple(windows), tuple(map(SelectionPlan.from_json, selections)))


class CurvePlan(NamedTuple):
    """At which epsilons one composition is asked, and its plan."""

    epsilons: tuple[Fraction, ...]
    plan: ProofPlan


@dataclass(frozen=True)
class SelectionPlan:
    """How to bound the best of several runs in one direction (docs/guarantees_selection.md)."""

    fineness: int  # how narrow cells are
    ahead: tuple[CurvePlan, ...]  # points of the curve of one run in this direction
    back: tuple[CurvePlan, ...]  # and in the other
    at: tuple[Fraction, ...] = ()  # epsilons at which the selection is asked, where it is composed with other steps

    def __post_init__(self) -> None:
        points = len(self.at) + sum(len(curve.epsilons) for curve in self.curves)
        if not 1 <= self.fineness <= MOST_FINENESS or len(self.curves) > MOST_CURVES or points > MOST_POINTS:
            raise ValueError(
                f"the plan of a selection has at most {MOST_CURVES} curves, {MOST_POINTS:,} epsilons and a fineness "
                f"from 1 to {MOST_FINENESS:,}"
            )
        if any(curve.plan.selections for curve in self.curves):
            raise ValueError("one run of a selection holds no selection")
        if any(epsilon < 0 for epsilon in (*self.at, *(e for curve in self.curves for e in curve.epsilons))):
            raise ValueError("the epsilons of a selection are not negative")

    @property
    def curves(self) -> tuple[CurvePlan, ...]:
        """Those of both directions."""
        return self.ahead + self.back

    def to_json(self) -> dict[str, object]:
        """The plan as JSON has it."""
        ahead, back = (
            [{"epsilons": [str(e) for e in epsilons], "plan": plan.to_json()} for epsilons, plan in side]
            for side in (self.ahead, self.back)
        )
        return {"fineness": self.fineness, "ahead": ahead, "back": back, "at": [str(e) for e in self.at]}

    @classmethod
    def from_json(cls, document: object) -> SelectionPlan:
        """The plan that ``to_json`` wrote, or an error."""
        if not isinstance(document, dict) or set(document) != {"fineness", "ahead", "back", "at"}:
            raise ValueError("the plan of a selection has fineness, ahead, back and at, and nothing else")
        (fineness,) = _integers([document["fineness"]], 1)
        return cls(fineness, _curves(document["ahead"]), _curves(document["back"]), _fractions(document["at"]))


def _curves(value: object) -> tuple[CurvePlan, ...]:
    if not isinstance(value, list) or not all(
        isinstance(one, dict) and set(one) == {"epsilons", "plan"} for one in value
    ):
        raise ValueError("the curves of a selection's plan are a list, each with epsilons and a plan")
    return tuple(CurvePlan(_fractions(one["epsilons"]), ProofPlan.from_json(one["plan"])) for one in value)


def _fractions(value: object) -> tuple[Fraction, ...]:
    if not isinstance(value, list):
        raise ValueError("epsilons are a list")
    return tuple(map(fraction_of, value))


def fraction_of(text: object) -> Fraction:
    """A rational number as ``str`` writes it, or an error."""
    if not isinstance(text, str) or len(text) > 8_000 or not re.fullmatch(r"-?[0-9]+(/[0-9]+)?", text):
        raise ValueError("a rational number is written as 3/4")
    over, _, under = text.partition("/")
    if (under and not int(under)) or str(found := Fraction(int(over), int(under or 1))) != text:
        raise ValueError("a rational number is written in lowest terms")
    return found


def _rows(value: object) -> list[list[object]]:
    if not isinstance(value, list) or not all(isinstance(row, list) and row for row in value):
        raise ValueError("grids and windows of a plan are lists of rows")
    return value


def _integers(values: list[object], number: int) -> list[int]:
    found = [value for value in values if isinstance(value, int) and not isinstance(value, bool)]
    if not len(found) == len(values) == number or any(abs(value) > MOST_PLACES for value in found):
        raise ValueError(f"{number} integers of at most {MOST_PLACES:,} are wanted")
    return found
