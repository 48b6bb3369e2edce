"""Plans: what floats choose, as data. Whatever a plan says, the bound that follows from it holds: grids and
windows say where the moves of ``order.py`` put masses, and each move only raises delta. A bad plan costs
tightness or time; one that asks for too much is refused.

Place ``i`` of the coarse grid is the loss ``offset + i spacing``; a fine grid has ``spacing / 2^halvings``.
The offset of several steps is the sum of theirs.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, is_dataclass
from fractions import Fraction
from functools import cache
from typing import Any, NamedTuple, TypeVar, get_args, get_origin, get_type_hints

from evr._kernel.order import power
from evr._kernel.pairs.exact.law import ExactLaw
from evr._kernel.pairs.steps import Step

MOST_BITS = 6_000  # a bound of twice as many is still text that Python reads
MOST_HALVINGS = 26
MOST_PLACES = 1 << 26
MOST_CURVES, MOST_POINTS, MOST_FINENESS = 64, 4096, 4096  # of the plan of a selection
"""More than any search asks for: a plan from elsewhere may not ask for all of a machine."""
_REMEDY = "claim a greater delta or a smaller epsilon, or take a method that samples"


class Window(NamedTuple):
    """What a product keeps: fine masses at fine places ``low .. high``, coarse ones at ``floor .. top``."""

    halvings: int
    low: int
    high: int
    floor: int
    top: int

    @property
    def places(self) -> int:
        """About how many places there are."""
        return (self.top - self.floor) + (self.high - self.low if self.halvings else 0)


class Grid(NamedTuple):
    """Where one step is put: coarse places ``floor .. top``, fine ones from coarse ``low`` to ``high``."""

    offset: Fraction
    halvings: int
    low: int
    high: int
    floor: int
    top: int

    @property
    def places(self) -> int:
        """About how many places there are."""
        return (self.top - self.floor) + ((self.high - self.low) << self.halvings if self.halvings else 0)


T = TypeVar("T")


def compose(
    counts: Sequence[int], step: Callable[[int], T], times: Callable[[T, T], T]
) -> tuple[list[T], list[T]]:
    """The two halves of a composition, each a list of one product, or of none if it has no steps: each kind
    to half of its count, joined with the kinds before it. What odd counts leave extends the second half.
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
    # in the order of the steps, for each kind that is a selection, and that is made of compositions
    selections: tuple[SelectionPlan, ...] = ()
    nested: tuple[NestedPlan, ...] = ()

    def __post_init__(self) -> None:
        if not 1 <= self.bits <= MOST_BITS or self.spacing <= 0:
            raise ValueError(
                f"bits={self.bits!r}, spacing={self.spacing!r}: not positive, or more than {MOST_BITS} bits"
            )
        for halvings, *ends in (*self.windows, *(grid[1:] for grid in self.grids)):
            if not 0 <= halvings <= MOST_HALVINGS or max(map(abs, ends)) > MOST_PLACES:
                raise ValueError(
                    f"an exact proof of this would need a grid of more than {MOST_HALVINGS} halvings,"
                    f" or more than {MOST_PLACES:,} places from 0: {_REMEDY}"
                )
        if any(w.low > w.high or w.floor > w.top for w in self.windows):
            raise ValueError("a window of the plan holds nothing: low <= high and floor <= top are wanted")
        for grid in self.grids:
            has_room_for_fine = not grid.halvings or grid.floor <= grid.low < grid.high <= grid.top
            if not (grid.floor < grid.top and has_room_for_fine):
                wanted = "floor < top is wanted, and floor <= low < high <= top with halvings"
                raise ValueError(f"{grid!r}: {wanted}")
        if self.places > MOST_PLACES:
            most = f"{self.places:,} places, and {MOST_PLACES:,} is the most"
            raise ValueError(f"an exact proof of this would follow {most}: {_REMEDY}")

    @classmethod
    def of_one_step(cls, bits: int, spacing: Fraction = Fraction(1)) -> ProofPlan:
        """For a single step, which needs no grid; ``spacing`` is that of ratios, for bins."""
        return cls(bits, spacing, (), ())

    def of_law(self, steps: Sequence[Step]) -> ExactLaw:
        """The law of the one step that a plan without grids serves."""
        if len(steps) != 1 or steps[0].count != 1:
            raise ValueError("a plan without grids serves one step alone")
        return steps[0].exact_law

    @property
    def places(self) -> int:
        """The most places that a law has on the way: what memory and time go with."""
        held: list[ProofPlan | Grid | Window] = [*self.grids, *self.windows]
        held += [curve.plan for one in self.selections for curve in one.curves]
        held += [plan for one in self.nested for plan in one.plans]
        return max((one.places for one in held), default=0)

    def composed(
        self,
        steps: Sequence[Step],
        one_step: Callable[[ExactLaw, Grid, Fraction, int], T],
        times: Callable[[T, T, Window], T],
    ) -> tuple[list[T], list[T], Fraction]:
        """The halves of ``compose``: steps on grids, products cut to windows; and the offset of the whole."""
        counts = tuple(step.count for step in steps)
        needed = len(schedule(counts))
        if len(self.grids) != len(steps) or len(self.windows) != needed:
            held = f"the plan has {len(self.grids)} grids and {len(self.windows)} windows"
            raise ValueError(f"{held}: steps with counts {counts} need {len(steps)} and {needed}")
        windows = iter(self.windows)

        @cache
        def step(kind: int) -> T:
            return one_step(steps[kind].exact_law, self.grids[kind], self.spacing, self.bits)

        first, second = compose(counts, step, lambda x, y: times(x, y, next(windows)))
        if not second:
            raise ValueError("a composition without steps has no halves: its delta is 0")
        offset = sum((s.count * grid.offset for s, grid in zip(steps, self.grids, strict=True)), Fraction(0))
        return first, second, offset

    def to_json(self) -> dict[str, Any]:
        """The plan as JSON has it: integers, and rational numbers as text."""
        return _written(self)

    @classmethod
    def from_json(cls, document: Any) -> ProofPlan:
        """What ``to_json`` wrote, or a ``ValueError``: written again it has to be the same document."""
        try:
            found: ProofPlan = _read(cls, document)
            if json.dumps(found.to_json(), sort_keys=True) != json.dumps(document, sort_keys=True):
                raise TypeError("a key or a value is of another type")
        except (TypeError, LookupError, AttributeError, OverflowError, RecursionError) as error:
            raise ValueError(f"this is not a plan as evr writes it ({error})") from None
        return found


@dataclass(frozen=True)
class CurvePlan:
    """Epsilons at which the curve of one composition is bounded, and the plan for all of them."""

    epsilons: tuple[Fraction, ...]
    plan: ProofPlan


@dataclass(frozen=True)
class SelectionPlan:
    """How to bound the best of several runs in one direction (docs/guarantees_selection.md)."""

    fineness: int  # how narrow cells are
    ahead: tuple[CurvePlan, ...]  # points of the curve of one run in this direction
    back: tuple[CurvePlan, ...]  # and in the other
    at: tuple[Fraction, ...]  # epsilons at which it is asked, where it is composed with other steps

    def __post_init__(self) -> None:
        epsilons = [*self.at, *(epsilon for curve in self.curves for epsilon in curve.epsilons)]
        is_long = len(self.curves) > MOST_CURVES or len(epsilons) > MOST_POINTS
        if is_long or not 1 <= self.fineness <= MOST_FINENESS:
            raise ValueError(
                f"the plan of a selection has at most {MOST_CURVES} curves, {MOST_POINTS:,} epsilons"
                f" and a fineness from 1 to {MOST_FINENESS:,}"
            )
        if any(curve.plan.selections for curve in self.curves):
            raise ValueError("one run of a selection holds no selection")
        if min(epsilons, default=0) < 0:
            raise ValueError("the epsilons of a selection are not negative")

    @property
    def curves(self) -> tuple[CurvePlan, ...]:
        return self.ahead + self.back


@dataclass(frozen=True)
class NestedPlan:
    """How to bound a law that is made of compositions (docs/guarantees_nested.md): a plan for each of them;
    and for one of several groups, the spacing of the grid of ratios and the loss up to which it reaches.
    """

    plans: tuple[ProofPlan, ...]
    spacing: Fraction = Fraction(1)
    top: Fraction = Fraction(0)

    def __post_init__(self) -> None:
        if self.spacing <= 0:
            raise ValueError(f"spacing={self.spacing!r} of ratios is not positive")


def _written(value: Any) -> Any:
    """Fractions as text, tuples as lists, plans by the names of their fields: no empty ones by default."""
    if isinstance(value, Fraction):
        return str(value)
    if isinstance(value, tuple):
        return [_written(one) for one in value]
    if not is_dataclass(value):
        return value
    named = [(one, getattr(value, one.name)) for one in fields(value)]
    return {one.name: _written(held) for one, held in named if held or one.default != ()}


def _read(wanted: Any, document: Any) -> Any:
    """What ``_written`` wrote of a value of this type, as its annotations have it."""
    if wanted in (int, Fraction):
        return int(document) if wanted is int else fraction_of(document)
    if get_origin(wanted) is tuple:
        return tuple(_read(get_args(wanted)[0], one) for one in document)
    types = _types_of(wanted)
    if issubclass(wanted, tuple):
        return wanted(*map(_read, types.values(), document))
    return wanted(**{name: _read(types[name], one) for name, one in document.items()})


_types_of = cache(get_type_hints)


class StatedProof(NamedTuple):
    """The words of a proof, which prove nothing until ``prove`` follows the plan again."""

    delta: Fraction
    plan: ProofPlan | None = None
    digest: str | None = None

    @classmethod
    def from_json(cls, document: dict[str, object]) -> StatedProof:
        """The words that a proof wrote, or a ``ValueError``."""
        bound, plan, digest = (document.get(key) for key in ("bound", "plan", "digest"))
        if set(document) != {"bound", "plan", "digest"} or not isinstance(digest, str | None):
            raise ValueError("this is not a proof as evr writes it")
        return cls(fraction_of(bound), None if plan is None else ProofPlan.from_json(plan), digest)


def fraction_of(text: object) -> Fraction:
    """A rational number as ``str`` writes it, or an error."""
    if isinstance(text, str) and len(text) <= 8_000 and re.fullmatch(r"-?[0-9]+(/[1-9][0-9]*)?", text):
        found = Fraction(text)
        if str(found) == text:
            return found
    raise ValueError("a rational number is written as 3/4, in lowest terms")
