"""Laws of several steps at once, on outcomes: exact sums of two laws, spread to a few places (docs/guarantees.md,
Sections 3.10 and 6.10).

The losses of two independent steps add, their masses multiply; what falls between two places goes to both such that the
mean of ``e^{-loss}`` is kept, so delta can only grow, whatever the places are. Every term is positive, so floats lose
little, and what they may lose is added.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from evr.bounds.strict.plan import power
from evr.laws import DiscretePair, Floats, Step, outcomes
from evr.laws.law import UNIT

_LOST = 1e-290
"""More than all products of two masses that are too small for a float."""

_PAIRS = 1 << 17
"""Pairs of outcomes that are treated at a time."""

MOST_PRODUCTS = 128
MOST_PLACES = 1 << 14
MOST_LOSS = 1e9
"""More than any search asks for: a plan from elsewhere may ask neither for all of a machine nor for huge sums."""


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
            raise ValueError(f"knots={self.knots!r} are not two or more numbers that rise, of at most {MOST_LOSS:g}")
        if self.parts < 1 or self.number > MOST_PLACES:
            raise ValueError(f"parts={self.parts!r} make {self.number:,} places: from 1 to {MOST_PLACES:,} are allowed")

    @property
    def number(self) -> int:
        """How many there are, but one."""
        return self.parts * (len(self.knots) - 1)

    @property
    def losses(self) -> Floats:
        knots = np.array(self.knots)
        inner = np.arange(self.parts) / self.parts
        cut = knots[:-1, None] + np.diff(knots)[:, None] * inner
        return np.unique(np.append(cut, knots[-1]))


def composed(steps: Sequence[Step], places: Sequence[Places]) -> DiscretePair:
    """One law on outcomes that is above all steps together, which are on outcomes (docs/guarantees.md, Section 3.10).
    ``places`` are of each product in turn: those of the equal steps of a kind, as ``products`` has them, then that of
    the kind with all kinds before it.
    """
    needed = number_of_products(steps)
    if len(places) != needed or needed > MOST_PRODUCTS:
        raise ValueError(
            f"the plan has {len(places)} products: these steps need {needed}, and {MOST_PRODUCTS} are the most"
        )
    rest, whole = iter(places), None
    for step in steps:
        pair = outcomes(step.pair)
        if not isinstance(pair, DiscretePair):
            raise ValueError(f"{pair.describe()} has no outcomes to compose")
        law = power(masses_of(pair), step.count, lambda one, other: product(one, other, next(rest)))
        whole = law if whole is None else product(whole, law, next(rest))
    assert whole is not None
    return whole.pair()


def products(count: int) -> list[bool]:
    """How ``count`` equal steps are composed, from the leading bit down: whether each product is a square; the others
    add one step.

    Examples
    --------
    >>> products(6)  # 2, 3, 6
    [True, False, True]
    """
    return [squared for bit in bin(count)[3:] for squared in ((True, False) if bit == "1" else (True,))]


def number_of_products(steps: Sequence[Step]) -> int:
    """Of all kinds of steps: those of each kind, and one for each kind after the first."""
    return sum(len(products(step.count)) + 1 for step in steps) - 1


@dataclass(frozen=True, eq=False)
class LossMasses:
    """Masses of finite losses, which rise, and of an infinite one."""

    losses: Floats
    masses: Floats
    infinite: float

    def pair(self) -> DiscretePair:
        """As a pair; its total mass may be a little above 1."""
        held = self.masses > 0
        losses = np.append(self.losses[held], np.inf)
        log_p = np.log(np.append(self.masses[held], self.infinite))
        return DiscretePair.from_logs(log_p, log_p - losses, losses)

    def times(self, other: LossMasses, places: Floats) -> LossMasses:
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
        return LossMasses(places, total * room, min(infinite, 1.0))


@lru_cache(maxsize=64)
def masses_of(pair: DiscretePair) -> LossMasses:
    """Those of a pair under ``P``."""
    masses = np.exp(np.array(pair.log_p))
    held = (masses > 0) & np.isfinite(pair.losses)
    infinite = float(masses[np.isposinf(pair.losses)].sum())
    return LossMasses(pair.losses[held], masses[held], infinite)


@lru_cache(maxsize=128)
def product(one: LossMasses, other: LossMasses, places: Places) -> LossMasses:
    """``times``, once for a search and for what is built of its plan."""
    return one.times(other, places.losses)


def _split(
    losses: Floats, masses: Floats, places: Floats
) -> tuple[Floats, Floats, float, np.ndarray[tuple[int], np.dtype[np.int64]]]:
    """Masses that go down and up to the places, what goes to infinity, and how many terms are in each sum."""
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
