"""Several tilts at once, on outcomes: what is proved of samples that are weighted by all of them
(docs/guarantees.md, Section 3.11).

A sample is at most the least of the parts' samples over their shares. Which part bounds it best
depends on the greatest loss of its steps: so the line is cut, and each cell takes its best part.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from evr.bounds.moments import log_clipping, log_peak
from evr.bounds.tilt import Tilt
from evr.laws import DiscretePair, Floats, Step
from evr.laws.line.pair import log_sum_exp

MOST_PARTS = 4
LEAST_SHARE = 1e-3
_SUM = 1e-12  # how far shares may be from 1 in all
_CELLS = 48  # up to half as much again as the greatest cap; those beyond are wider
_BEYOND = 12
_ORDERS = (0.0, *np.geomspace(0.1, 2.5, 14).tolist())  # over p times an order of a part
_POWERS = (1.2, 1.5, 2.0, 2.5, 3.0, 4.0, 6.0, 8.0, 12.0)  # that bound what clipping takes off


@dataclass(frozen=True, eq=False)
class Blend:
    """Tilts of several parts for each kind of step on outcomes, and the share of each part.

    Parameters
    ----------
    steps
        Kinds of steps on outcomes of finite loss.
    tilts
        For each part, a tilt for each kind.
    shares
        Of each part; they sum to 1.

    Examples
    --------
    >>> step = Step(DiscretePair.from_probabilities([0.6, 0.4], [0.4, 0.6]), 10)
    >>> blend = Blend([step], [[Tilt(1.0, 1.0, -1.0)], [Tilt(3.0, 1.0, -1.0)]], [0.5, 0.5])
    >>> cells = blend.at(1.0)
    >>> cells.log_moment(2.0) < 2.0 * cells.log_greatest
    True
    """

    steps: Sequence[Step]
    tilts: Sequence[Sequence[Tilt]]
    shares: Sequence[float]

    def __post_init__(self) -> None:
        check_shares(self.shares)
        if len(self.tilts) != len(self.shares):
            raise ValueError(f"{len(self.tilts)} parts have {len(self.shares)} shares")
        if any(len(part) != len(self.steps) for part in self.tilts):
            raise ValueError(f"a part does not have one tilt for each of {len(self.steps)} kinds")

    @cached_property
    def kinds(self) -> list[_Kind]:
        """Outcomes of each kind of step."""
        return [
            _Kind.of(step, [part[i] for part in self.tilts], self.edges)
            for i, step in enumerate(self.steps)
        ]

    @cached_property
    def edges(self) -> Floats:
        """Upper ends of the cells that the greatest loss of a sample may be in."""
        top = max(float(_finite(step)[0][-1]) for step in self.steps)
        tilts = [tilt for part in self.tilts for tilt in part]
        marks = [x for t in tilts for x in (t.cap, t.knee) if x is not None]
        reach = max((x for x in marks if x < top), default=top)
        even = np.linspace(0.0, 1.5 * reach, _CELLS)
        wide = np.linspace(1.5 * reach, top, _BEYOND)
        edges = np.unique(np.concatenate((marks, even, wide)))
        return np.append(edges[edges < top], top)

    @cached_property
    def log_normalisers(self) -> list[float]:
        """``log M`` of each part, over all steps."""
        return [
            math.fsum(k.count * log_sum_exp(k.log_p + k.heights[j]) for k in self.kinds)
            for j in range(len(self.shares))
        ]

    @cached_property
    def lifts(self) -> list[float]:
        """``log(M / s)`` of each part."""
        pairs = zip(self.log_normalisers, self.shares, strict=True)
        return [normaliser - math.log(share) for normaliser, share in pairs]

    def orders(self, part: int) -> list[float]:
        """The slopes of a part's tilts, rising."""
        tilts = self.tilts[part]
        return sorted({t.order for t in tilts} | {t.jump_order or t.order for t in tilts})

    def at(self, epsilon: float) -> Cells:
        """What is proved of samples at ``epsilon``."""
        known: dict[float, Cells] = self.__dict__.setdefault("_known", {})
        if epsilon not in known:
            known[epsilon] = Cells(self, epsilon)
        return known[epsilon]


@dataclass(frozen=True, eq=False)
class Cells:
    """Bounds on samples of a blend at ``epsilon``, for each cell that the greatest loss of a
    sample may be in, as logarithms.
    """

    blend: Blend
    epsilon: float

    @cached_property
    def greatest(self) -> Floats:
        """Of the samples."""
        blend, size = self.blend, self.blend.edges.size
        best = np.full(size, np.inf)
        for part, lift in enumerate(blend.lifts):
            orders = blend.orders(part)
            for a in sorted({0.0, orders[0] / 2.0, *orders}):
                total, inside = np.zeros(size), np.full(size, -np.inf)
                for kind in blend.kinds:
                    own = kind.greatest(a * kind.losses - kind.heights[part])
                    up_to = np.maximum.accumulate(own)
                    total += kind.count * up_to
                    np.maximum(inside, _less(own, up_to), out=inside)
                factor = lift + (log_peak(a) if a else 0.0) - a * self.epsilon
                np.minimum(best, factor + total + inside, out=best)
        return best

    @cached_property
    def delta(self) -> Floats:
        """Of their share in delta, by no part's tilt."""
        return self._by_tilts(1.0)

    def moment(self, p: float) -> Floats:
        """Of ``E[X^p]``, ``p > 1``."""
        return np.minimum(self._by_tilts(p), (p - 1.0) * self.greatest + self.delta)

    def _by_tilts(self, p: float) -> Floats:
        blend, size = self.blend, self.blend.edges.size
        best = np.full(size, np.inf)
        for part, lift in enumerate(blend.lifts):
            for s in np.multiply(_ORDERS, p * blend.orders(part)[-1]).tolist():
                total, inside = np.zeros(size), np.full(size, -np.inf)
                for kind in blend.kinds:
                    terms = kind.log_p + s * kind.losses - (p - 1.0) * kind.heights[part]
                    own = kind.sums(terms)
                    up_to = np.logaddexp.accumulate(own)
                    total += kind.count * up_to
                    inside = np.logaddexp(inside, math.log(kind.count) + _less(own, up_to))
                factor = (log_peak(s, p) if s else 0.0) - s * self.epsilon + (p - 1.0) * lift
                np.minimum(best, factor + total + np.minimum(inside, 0.0), out=best)
        return best

    @cached_property
    def log_greatest(self) -> float:
        """``log`` of a bound on all samples."""
        return float(np.max(self.greatest))

    def log_moment(self, p: float) -> float:
        """``log`` of a bound on ``E[X^p]`` over all samples, ``p > 1``."""
        return log_sum_exp(self.moment(p))

    @cached_property
    def _moments(self) -> list[tuple[float, Floats]]:
        return [(p, self.moment(p)) for p in _POWERS]

    def log_excess(self, log_clip: float) -> float:
        """``log`` of a bound on ``E[(X - clip)_+]``."""
        best = np.full(self.greatest.size, np.inf)
        for p, moment in self._moments:
            np.minimum(best, log_clipping(p) + moment - (p - 1.0) * log_clip, out=best)
        return log_sum_exp(np.where(self.greatest <= log_clip, -np.inf, best))


@dataclass(frozen=True, eq=False)
class _Kind:
    """Outcomes of finite loss of a kind of step, rising, the heights of each part, and where the
    cells that hold some of them begin.
    """

    losses: Floats
    log_p: Floats
    count: int
    heights: list[Floats]
    cells: int
    held: NDArray[np.int64]
    starts: NDArray[np.int64]

    @classmethod
    def of(cls, step: Step, tilts: Sequence[Tilt], edges: Floats) -> _Kind:
        losses, log_p = _finite(step)
        held, starts = np.unique(np.searchsorted(edges, losses, side="left"), return_index=True)
        heights = [tilt.height(losses) for tilt in tilts]
        return cls(losses, log_p, step.count, heights, edges.size, held, starts)

    def greatest(self, values: Floats) -> Floats:
        """Of the values in each cell; minus infinity where there is none."""
        found = np.full(self.cells, -np.inf)
        found[self.held] = np.maximum.reduceat(values, self.starts)
        return found

    def sums(self, terms: Floats) -> Floats:
        """``log`` of the sum of ``e^term`` in each cell, whatever its size beside the others."""
        tops = np.maximum.reduceat(terms, self.starts)
        sizes = np.diff(np.append(self.starts, terms.size))
        found = np.full(self.cells, -np.inf)
        found[self.held] = tops + np.log(
            np.add.reduceat(np.exp(terms - np.repeat(tops, sizes)), self.starts)
        )
        return found


def check_shares(shares: Sequence[float]) -> None:
    """Refuse shares that are none: too few or too many, too small, or of another sum than 1."""
    if not 2 <= len(shares) <= MOST_PARTS:
        raise ValueError(f"shares={list(shares)!r}: a blend has 2 to {MOST_PARTS} parts")
    if not all(LEAST_SHARE <= share < 1.0 for share in shares):
        raise ValueError(f"shares={list(shares)!r} are not from {LEAST_SHARE:g} to 1 each")
    if not abs(math.fsum(shares) - 1.0) <= _SUM:
        raise ValueError(f"shares={list(shares)!r} sum to {math.fsum(shares)!r}, not to 1")


def _finite(step: Step) -> tuple[Floats, Floats]:
    """Losses of a step on outcomes, rising, and ``log`` of their masses under ``P``."""
    pair = step.law
    if not isinstance(pair, DiscretePair) or np.any(np.isposinf(pair.losses)):
        raise ValueError(
            f"{pair.describe()}: several tilts at once need finitely many outcomes of finite loss"
        )
    log_p = np.array(pair.log_p)
    held = log_p > -np.inf
    return pair.losses[held], log_p[held]


def _less(own: Floats, up_to: Floats) -> Floats:
    """Their difference; minus infinity where there is nothing."""
    with np.errstate(invalid="ignore"):
        return np.where(own > -np.inf, own - up_to, -np.inf)
