"""Pairs on a few outcomes that dominate: a pair on a line, or several steps together (docs/guarantees.md,
Sections 3.9 and 3.10, with the rounding of 6.8 and 6.10).

The losses of a cell are moved to its two ends such that both laws keep their mass there: under ``Q`` the
likelihood ratio keeps its mean and is spread out, so delta can only grow, whatever the edges are. What
rounding may have taken off is added, so the same holds for the numbers as they are computed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache, singledispatch
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from evr._kernel.order import power, share_up
from evr._kernel.pairs import (
    DiscretePair,
    DominatingPair,
    Floats,
    Measure,
    Step,
    is_cut,
    outcomes,
    stated_error,
)
from evr._kernel.pairs.law import UNIT
from evr._kernel.pairs.line.pair import mix, mix_error
from evr._kernel.pairs.line.poisson import SampledPair, WithoutReplacementPair

_LOST = 1e-290  # more than all products of two masses that are too small for a float
_PAIRS = 1 << 17  # of outcomes, that are treated at a time
MOST_PRODUCTS = 128
MOST_PLACES = 1 << 14
MOST_LOSS = 1e9
"""More than any search asks for: a plan from elsewhere may not ask for all of a machine, or huge sums."""


# --- one step: a pair on a line -------------------------------------------------------------------


@singledispatch
def mean_and_doubt(pair: DominatingPair, low: Floats, high: Floats) -> tuple[Floats, Floats]:
    """``log P(cell) / Q(cell)`` of cells, and a bound on its rounding error (Section 6.8)."""
    log_p, doubt_p = _mass_and_doubt(pair, Measure.P, low, high)
    log_q, doubt_q = _mass_and_doubt(pair, Measure.Q, low, high)
    with np.errstate(invalid="ignore"):
        mean = log_p - log_q
    # the mean of a cell without mass may be any number
    return np.where(np.isnan(mean), 0.0, mean), doubt_p + doubt_q


def _mass_and_doubt(
    pair: DominatingPair, measure: Measure, low: Floats, high: Floats
) -> tuple[Floats, Floats]:
    """A cell is a difference of tails, which are accurate relatively but for sums of outcomes by pairs."""
    sums = len(pair.log_p).bit_length() if isinstance(pair, DiscretePair) else 0
    log_mass, ends = pair.log_mass(measure, low, high), np.full(low.shape, np.inf)
    tail = np.minimum(pair.log_mass(measure, low, ends), pair.log_mass(measure, -ends, high))
    with np.errstate(invalid="ignore", over="ignore"):
        doubt = UNIT * (2.0 * sums + 16.0 + 8.0 * np.abs(tail)) * np.exp(np.minimum(tail - log_mass, 700.0))
    return log_mass, np.where(log_mass > -np.inf, doubt, 0.0)


@mean_and_doubt.register
def _(pair: SampledPair, low: Floats, high: Floats) -> tuple[Floats, Floats]:
    mean, doubt = mean_and_doubt(pair.base, low, high)
    loss = pair.sign * mean
    return pair.sign * mix(loss, pair.q), mix_error(loss, doubt, pair.q)


@mean_and_doubt.register
def _(pair: WithoutReplacementPair, low: Floats, high: Floats) -> tuple[Floats, Floats]:
    below = mean_and_doubt(pair.lower, pair.below(low), pair.below(high))
    above = mean_and_doubt(pair.upper, pair.above(low), pair.above(high))
    return pair.by_side(high, below[0], above[0]), pair.by_side(high, below[1], above[1])


def even_edges(pair: DominatingPair, cells: int) -> Floats:
    """Edges in ``t``: evenly spaced over the pair's span, and the ends of its flats."""
    edges = np.unique(np.append(np.linspace(*pair.span(), cells + 1), pair.flats))
    return edges[np.isfinite(edges)]


class Cells(NamedTuple):
    """Cells of a line: ends in ``t`` and in loss, masses under ``P``, means of the loss, and their errors."""

    low: Floats
    high: Floats
    least: Floats
    greatest: Floats
    log_p: Floats
    mean: Floats
    doubt: Floats

    @classmethod
    def of(cls, pair: DominatingPair, edges: Floats) -> Cells:
        """Those between the edges, and the two beyond them."""
        low, high = np.concatenate(([-np.inf], edges)), np.concatenate((edges, [np.inf]))
        least, greatest = pair.privacy_loss(low), pair.privacy_loss(high)
        log_p = pair.log_mass(Measure.P, low, high)
        return cls(low, high, least, greatest, log_p, *mean_and_doubt(pair, low, high))

    def spread(self) -> tuple[Floats, Floats]:
        """``log`` of the masses of ``P`` for the lower and the upper ends, means raised by their errors."""
        with np.errstate(divide="ignore", invalid="ignore"):
            raised_mean = np.clip(self.mean + self.doubt, self.least, self.greatest)
            share = share_up(self.least, raised_mean, self.greatest, _fall)
            is_split = np.isfinite(self.least) & (self.least < self.greatest) & (self.log_p > -np.inf)
            share = np.where(is_split, np.clip(share, 0.0, 1.0), 1.0)
            return self.log_p + np.log1p(-share), self.log_p + np.log(share)


def _fall(x: Floats) -> Floats:
    """``1 - e^x``."""
    return -np.expm1(x)


def spread_to_edges(pair: DominatingPair, edges: Floats) -> DiscretePair:
    """A pair that dominates, on the losses at the edges, the least and the greatest (Section 3.9)."""
    cells = Cells.of(pair, edges)
    losses = np.concatenate((cells.least, cells.greatest))
    log_masses = np.concatenate(cells.spread())
    held = log_masses > -np.inf
    log_p, losses = log_masses[held], losses[held]
    error = stated_error(pair)
    return DiscretePair.from_logs(log_p, log_p - losses, losses, is_cut=is_cut(pair), error=error)


# --- several steps: sums of two laws, again and again ---------------------------------------------


@dataclass(frozen=True)
class LossGrid:
    """Where the losses of several steps are put: knots, and equal parts between each two.

    >>> LossGrid((0.0, 1.0, 3.0), 2).losses.tolist()
    [0.0, 0.5, 1.0, 2.0, 3.0]
    """

    knots: tuple[float, ...]
    parts: int

    def __post_init__(self) -> None:
        small = all(abs(knot) <= MOST_LOSS for knot in self.knots)
        if not small or len(self.knots) < 2 or not np.all(np.diff(self.knots) > 0):
            rule = f"two or more numbers that rise, of at most {MOST_LOSS:g}"
            raise ValueError(f"knots={self.knots!r} are not {rule}")
        if self.parts < 1 or self.number > MOST_PLACES:
            rule = f"from 1 to {MOST_PLACES:,} are allowed"
            raise ValueError(f"parts={self.parts!r} make {self.number:,} places: {rule}")

    @property
    def number(self) -> int:
        """The number of places after the first."""
        return self.parts * (len(self.knots) - 1)

    @property
    def losses(self) -> Floats:
        knots = np.array(self.knots)
        inner = np.arange(self.parts) / self.parts
        cut = knots[:-1, None] + np.diff(knots)[:, None] * inner
        return np.unique(np.append(cut, knots[-1]))


def composed(steps: Sequence[Step], places: Sequence[LossGrid]) -> DiscretePair:
    """One law on outcomes that is above all steps together, which are on outcomes (docs/guarantees.md,
    Section 3.10). ``places`` are of each product in turn: those of the equal steps of a kind, as ``power``
    makes them, then that of the kind with all kinds before it.
    """
    needed = product_count(steps)
    if len(places) != needed or needed > MOST_PRODUCTS:
        rule = f"these steps need {needed}, and {MOST_PRODUCTS} are the most"
        raise ValueError(f"the plan has {len(places)} products: {rule}")
    rest, whole = iter(places), None
    for step in steps:
        pair = outcomes(step.pair)
        if not isinstance(pair, DiscretePair):
            raise ValueError(f"{pair.describe()} has no outcomes to compose")
        law = power(masses_of(pair), step.count, lambda one, other: product(one, other, next(rest)))
        whole = law if whole is None else product(whole, law, next(rest))
    assert whole is not None
    return whole.pair()


def product_count(steps: Sequence[Step]) -> int:
    """How many products ``composed`` makes: those of ``power`` for each kind, and one between two kinds."""
    return sum(step.count.bit_length() + step.count.bit_count() - 1 for step in steps) - 1


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
            split = _split(sums.ravel(), mass.ravel(), places)
            total += split.down
            total += split.up
            counts += split.terms
            beyond += split.infinite
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
def product(one: LossMasses, other: LossMasses, places: LossGrid) -> LossMasses:
    """``times``, once for a search and for what is built of its plan."""
    return one.times(other, places.losses)


class Split(NamedTuple):
    """Masses that go down and up to the places, what goes to infinity, and how many terms are in each sum."""

    down: Floats
    up: Floats
    infinite: float
    terms: NDArray[np.int64]


def _split(losses: Floats, masses: Floats, places: Floats) -> Split:
    """Each mass split between the places around its loss, by ``share_up`` rounded up, or all at the first."""
    size = places.size
    # places[above - 1] < loss <= places[above]
    above = np.searchsorted(places, losses, side="left")
    edges = np.concatenate((places[:1], places))
    low = edges[above]
    widths = np.concatenate(([1.0], _fall(-np.diff(places)), [1.0]))  # 1 beyond the last: up to infinity
    share = _fall(np.minimum(low - losses, 0.0)) * ((1.0 + 16.0 * UNIT) / widths)[above]  # as ``share_up``
    share[above == 0] = 1.0  # raised to the first place
    np.minimum(share, 1.0, out=share)
    up: Floats = np.bincount(above, masses * share, size + 1).astype(np.float64)
    down: Floats = np.bincount(above, masses * (1.0 - share), size + 1).astype(np.float64)
    number = np.bincount(above, minlength=size + 1)
    return Split(down[1:], up[:-1], float(up[-1]), number[1:] + number[:-1])
