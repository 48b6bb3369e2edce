"""Laws of several steps at once, on outcomes: exact sums of two laws, spread to a few places
(docs/guarantees.md, Sections 3.10 and 6.10).

The losses of two independent steps add, their masses multiply; what falls between two places goes
to both such that the mean of ``e^{-loss}`` is kept, so delta can only grow, whatever the places
are. Every term is positive, so floats lose little, and what they may lose is added.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from evr.laws import DiscretePair, Floats, Step, outcomes
from evr.laws.line.pair import UNIT

_LOST = 1e-290
"""More than all products of two masses that are too small for a float."""

_PAIRS = 1 << 17
"""Pairs of outcomes that are treated at a time."""

MOST_PRODUCTS = 128
MOST_PLACES = 1 << 14
MOST_LOSS = 1e9
"""More than any search asks for: a plan from elsewhere may not ask for all of a machine, nor for
sums and differences that no float holds.
"""


@dataclass(frozen=True)
class Places:
    """Where the losses of several steps are put: knots, and equal parts between each two.

    Examples
    --------
    >>> Places((0.0, 1.0, 3.0), 2).losses.tolist()
    [0.0, 0.5, 1.0, 2.0, 3.0]
    """

    knots: tuple[float, ...]
    parts: int

    def __post_init__(self) -> None:
        small = all(abs(knot) <= MOST_LOSS for knot in self.knots)
        if not small or len(self.knots) < 2 or not np.all(np.diff(self.knots) > 0):
            raise ValueError(
                f"knots={self.knots!r} are not two or more numbers that rise, from "
                f"{-MOST_LOSS:g} to {MOST_LOSS:g}"
            )
        number = self.parts * (len(self.knots) - 1)
        if self.parts < 1 or number > MOST_PLACES:
            raise ValueError(
                f"parts={self.parts!r} of {len(self.knots) - 1} intervals are not from 1 to "
                f"{MOST_PLACES:,} places"
            )

    @property
    def losses(self) -> Floats:
        """All places, rising."""
        knots = np.array(self.knots)
        inner = np.arange(self.parts) / self.parts
        cut = knots[:-1, None] + np.diff(knots)[:, None] * inner
        return np.unique(np.append(cut, knots[-1]))


@dataclass(frozen=True)
class Composing:
    """How a kind of step is composed before it is drawn.

    Attributes
    ----------
    size
        Steps of one composite; what is left over of a count is drawn step by step.
    places
        Of each product of ``products(size)``, in its order.
    """

    size: int
    places: tuple[Places, ...]

    def __post_init__(self) -> None:
        if self.size < 2:
            raise ValueError(f"size={self.size!r}: a composite has at least 2 steps")
        needed = len(products(self.size))
        if needed > MOST_PRODUCTS or len(self.places) != needed:
            raise ValueError(
                f"places of {len(self.places)} products do not make composites of size "
                f"{self.size!r}, which need {needed}"
            )

    def pairs(self, outcomes_of_a_step: int) -> int:
        """About how many pairs of outcomes are multiplied in all: what time goes with."""
        number, before = 0, outcomes_of_a_step
        for squared, places in zip(products(self.size), self.places, strict=True):
            number += before * (before // 2 if squared else outcomes_of_a_step)
            before = places.parts * (len(places.knots) - 1) + 1
        return number

    def steps(self, step: Step) -> tuple[Step, ...]:
        """Steps that dominate, and are the same number in all: composites, and what is left
        over.
        """
        pair = outcomes(step.pair)
        if not isinstance(pair, DiscretePair):
            raise ValueError(f"{pair.describe()} has no outcomes to compose")
        if self.size > step.count:
            raise ValueError(f"size={self.size!r} exceeds the number of steps, {step.count!r}")
        law = composed(pair, tuple(products(self.size)), self.places)
        whole, left = divmod(step.count, self.size)
        return (Step(law.pair(), whole), *((Step(pair, left),) if left else ()))


def products(size: int) -> list[bool]:
    """How ``size`` steps are composed, from the leading bit down: whether each product is a square;
    the others add one step.

    Examples
    --------
    >>> products(6)  # 2, 3, 6
    [True, False, True]
    """
    return [
        squared for bit in bin(size)[3:] for squared in ((True, False) if bit == "1" else (True,))
    ]


@lru_cache(maxsize=128)
def composed(pair: DiscretePair, squares: tuple[bool, ...], places: tuple[Places, ...]) -> Masses:
    """The law after some products: squares of what there is, or one step more."""
    one = Masses.of(pair)
    if not squares:
        return one
    law = composed(pair, squares[:-1], places[:-1])
    return law.times(law if squares[-1] else one, places[-1].losses)


@dataclass(frozen=True, eq=False)
class Masses:
    """Masses of finite losses, which rise, and of an infinite one."""

    losses: Floats
    masses: Floats
    infinite: float

    @classmethod
    def of(cls, pair: DiscretePair) -> Masses:
        """Those of a pair under ``P``."""
        masses = np.exp(np.array(pair.log_p))
        held = (masses > 0) & np.isfinite(pair.losses)
        infinite = float(masses[np.isposinf(pair.losses)].sum())
        return cls(pair.losses[held], masses[held], infinite)

    def pair(self) -> DiscretePair:
        """As a pair; its total mass may be a little above 1."""
        held = self.masses > 0
        losses = np.append(self.losses[held], np.inf)
        log_p = np.log(np.append(self.masses[held], self.infinite))
        return DiscretePair.from_logs(log_p, log_p - losses, losses)

    def times(self, other: Masses, places: Floats) -> Masses:
        """A law that dominates the sum of both losses, on the places and at infinity."""
        total, beyond, terms = np.zeros(places.size), 0.0, 0
        counts = np.zeros(places.size, np.int64)
        rows = max(1, _PAIRS // max(1, other.losses.size))
        for first in range(0, self.losses.size, rows):
            last = min(first + rows, self.losses.size)
            # Of a square, pairs to the right of the block stand for those below it too.
            start = first if other is self else 0
            mass = self.masses[first:last, None] * other.masses[start:]
            if other is self:
                mass[:, last - start :] *= 2.0
            sums = self.losses[first:last, None] + other.losses[start:]
            sums += 2.0 * UNIT * np.abs(sums)  # not below the true sum
            down, up, infinite, number = _split(sums.ravel(), mass.ravel(), places)
            total += down
            total += up
            counts += number
            beyond += infinite
            terms += 3
        room = 1.0 + (int(counts.max()) + terms + 16) * UNIT
        either = self.infinite + other.infinite * (1.0 - self.infinite)
        infinite = (either + beyond) * (1.0 + (int(counts.sum()) + terms + 16) * UNIT) + _LOST
        return Masses(places, total * room, min(infinite, 1.0))


def _split(
    losses: Floats, masses: Floats, places: Floats
) -> tuple[Floats, Floats, float, np.ndarray[tuple[int], np.dtype[np.int64]]]:
    """Masses that go down and up to the places, what goes to infinity, and how many terms are in
    each sum.
    """
    size = places.size
    # places[above - 1] < loss <= places[above]
    above = np.searchsorted(places, losses, side="left")
    edges = np.concatenate((places[:1], places))
    low = edges[above]
    widths = np.concatenate(([1.0], -np.expm1(-np.diff(places)), [1.0]))
    share = -np.expm1(np.minimum(low - losses, 0.0)) * ((1.0 + 16.0 * UNIT) / widths)[above]
    share[above == 0] = 1.0  # raised to the first place
    np.minimum(share, 1.0, out=share)
    up: Floats = np.bincount(above, masses * share, size + 1).astype(np.float64)
    down: Floats = np.bincount(above, masses * (1.0 - share), size + 1).astype(np.float64)
    number = np.bincount(above, minlength=size + 1)
    return down[1:], up[:-1], float(up[-1]), number[1:] + number[:-1]
