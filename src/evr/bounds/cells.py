"""Rigorous bounds on expectations over one step, as finite sums over cells.

For a cell of the line both ``P(cell)`` and ``Q(cell) = E_P[x; cell]``, ``x = e^{-loss}``, are
known. The function ``e^{r loss} = x^{-r}`` is convex in ``x`` unless ``-1 < r < 0``, where it is
concave. So over a cell its expectation lies between its value at the mean of ``x`` (Jensen) and the
chord through the ends of the cell: one of the two is an upper bound and the other a lower one. Both
are sharp to second order in the width of the cell. docs/guarantees.md, Section 3.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, Self

import numpy as np

from evr.bounds.tilt import Tilt
from evr.laws import DominatingPair, Floats, Measure
from evr.laws.line.discretise import cell_edges
from evr.laws.line.pair import log_sum_exp


class _Shape(NamedTuple):
    """Of cells: the mean of ``x`` as a loss; where there is a chord, ``log`` of what ``P`` has at
    either end of it, and the losses there; and which cells have none, if some do.
    """

    centre: Floats
    log_lower: Floats
    log_upper: Floats
    least: Floats
    greatest: Floats
    without_chord: np.ndarray[tuple[int], np.dtype[np.bool_]] | None


@dataclass(frozen=True)
class CellTable:
    """Cells of a pair in the order of their losses: ends in ``t``, least and greatest loss, ``log
    P`` and ``log Q``.
    """

    low: Floats
    high: Floats
    least: Floats
    greatest: Floats
    log_p: Floats
    log_q: Floats

    @classmethod
    def of(cls, pair: DominatingPair, order: float, cells: int, losses: Any) -> Self:
        """Cells even in ``t`` over the span of the tilt's order, with edges at the given losses and
        at each flat's ends.
        """
        losses = np.unique(np.asarray(losses, float))
        edges = np.unique(np.concatenate((cell_edges(pair, order, cells), pair.point(losses))))
        edges = edges[np.isfinite(edges)]
        low, high = np.concatenate(([-np.inf], edges)), np.concatenate((edges, [np.inf]))
        log_p, log_q = pair.log_mass(Measure.P, low, high), pair.log_mass(Measure.Q, low, high)
        held = log_p > -np.inf
        low, high, log_p, log_q = low[held], high[held], log_p[held], log_q[held]
        flats = pair.flats
        least, greatest = pair.privacy_loss(low), pair.privacy_loss(high)
        if len(
            flats
            # inside a flat both ends have its loss; just above one, `low` itself belongs to the
            # flat
        ):
            index = np.clip(np.searchsorted(flats[:, 0], low, side="right") - 1, 0, None)
            inside = (flats[index, 0] <= low) & (high <= flats[index, 1])
            least = np.where(inside, greatest, least)
        return cls(low, high, np.minimum(least, greatest), greatest, log_p, log_q)

    @cached_property
    def _shape(self) -> _Shape:
        with np.errstate(invalid="ignore", over="ignore", divide="ignore"):
            centre = np.clip(self.log_p - self.log_q, self.least, self.greatest)
            share = np.clip(
                np.expm1(self.least - centre) / np.expm1(self.least - self.greatest), 0.0, 1.0
            )
            usable = np.isfinite(share) & np.isfinite(self.least) & np.isfinite(self.greatest)
            return _Shape(
                centre,
                np.where(usable, self.log_p + np.log1p(-share), -np.inf),
                np.where(usable, self.log_p + np.log(share), -np.inf),
                np.where(usable, self.least, 0.0),
                np.where(usable, self.greatest, 0.0),
                None if usable.all() else ~usable,
            )

    def terms(self, r: float, chosen: slice, *, upper: bool) -> list[Floats]:
        """``log`` of an upper or a lower bound on ``E_P[e^{r loss}; cell]``, cell by cell: of one
        number, or of two that add up to it, which are cheaper to sum than to join.
        """
        log_p = self.log_p[chosen]
        if r == 0.0:
            return [log_p]
        shape = self._shape
        if (-1.0 < r < 0.0) == upper:
            return [log_p + r * shape.centre[chosen]]
        first = shape.log_lower[chosen] + r * shape.least[chosen]
        second = shape.log_upper[chosen] + r * shape.greatest[chosen]
        if shape.without_chord is not None:
            apart = shape.without_chord[chosen]
            worst = (self.greatest if (r > 0) == upper else self.least)[chosen][apart]
            first[apart] = log_p[apart] + r * worst
        return [first, second]

    def moment(self, r: float, chosen: slice, *, upper: bool) -> Floats:
        """The same as one number for each cell."""
        terms = self.terms(r, chosen, upper=upper)
        return terms[0] if len(terms) == 1 else np.logaddexp(*terms)


@dataclass(frozen=True)
class TiltedBounds:
    """What is proved of one step's tilt: its normaliser and its partial moments, all as logarithms.

    The floor and the cap of the tilt are edges of the table, so on each cell ``h`` is linear in the
    loss.
    """

    pair: DominatingPair
    table: CellTable
    tilt: Tilt

    @cached_property
    def _parts(self) -> list[tuple[slice, float, float]]:
        """Cells of each linear piece of ``h`` with its slope and offset: by ``t``, for losses are
        rounded.
        """
        parts, first = [], 0
        for end, slope, offset in self.tilt.pieces:
            if end == math.inf:
                last = self.table.high.size
            elif end <= self.pair.loss_range[0]:
                last = first
            else:
                place = float(self.pair.point(end))
                # a point found by iteration may differ from its edge in the last digits
                place += 1e-12 * (1.0 + abs(place))
                last = max(first, int(np.searchsorted(self.table.high, place, side="right")))
            parts.append((slice(first, last), slope, offset))
            first = last
        return parts

    def _expectation(
        self,
        loss_factor: float,
        tilt_factor: float,
        *,
        upper: bool = True,
        above: bool | None = None,
    ) -> float:
        """``log`` of a bound on ``E_P[e^{loss_factor loss + tilt_factor h}]``; ``above`` restricts
        to one side of the cap.
        """
        chosen = {None: self._parts, True: self._parts[-1:], False: self._parts[:-1]}[above]
        terms = [
            term + tilt_factor * offset
            for cells, slope, offset in chosen
            for term in self.table.terms(loss_factor + tilt_factor * slope, cells, upper=upper)
        ]
        values = np.concatenate(terms)
        return log_sum_exp(values) if values.size else -math.inf

    @cached_property
    def log_normaliser(self) -> float:
        """An upper bound on ``log M = log E_P[e^h]``; with it in the weight, samples average to at
        least delta.
        """
        return self._expectation(0.0, 1.0)

    @property
    def log_normaliser_lower(self) -> float:
        """A lower bound on ``log M``."""
        return self._expectation(0.0, 1.0, upper=False)

    def log_partial(self, s: float, p: float) -> float:
        """``log`` of an upper bound on ``E_P[e^{s loss - (p-1) h}; loss <= cap]``."""
        return self._expectation(s, 1.0 - p, above=False)

    def log_whole(self, p: float) -> float:
        """``log`` of an upper bound on ``V = E_P[e^{-(p-1) h}]``."""
        return self._expectation(0.0, 1.0 - p)

    def log_beyond(self, p: float) -> float:
        """``log`` of an upper bound on ``V - U = E_P[e^{-(p-1) h}; loss > cap]``."""
        return self._expectation(0.0, 1.0 - p, above=True)

    @property
    def log_unreached(self) -> float:
        """``log`` of an upper bound on the chance that a tilted draw has a loss beyond the cap."""
        return self.log_beyond(0.0) - self.log_normaliser_lower

    @cached_property
    def least_height(self) -> float:
        """The infimum of ``h``."""
        return float(np.min(self.tilt.height(self.table.least)))

    def greatest_gap(self, a: float) -> float:
        """``sup (a loss - h)`` over losses up to the cap: at an end of a piece, for it is piecewise
        linear.
        """
        top = min(self.tilt.cap, float(self.table.greatest.max()))
        ends = [x for x in (self.tilt.floor, self.tilt.knee, top) if x is not None and x <= top]
        return max(a * x - float(self.tilt.height(x)) for x in ends)
