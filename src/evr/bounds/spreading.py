"""A pair on a few outcomes that dominates a pair on a line (docs/guarantees.md, Section 3.9).

The losses of a cell are moved to its two ends such that both laws keep their mass there: under ``Q`` the likelihood
ratio keeps its mean and is spread out, so delta can only grow, whatever the edges are. A cell's mean is raised by all
that rounding may have taken from it (Section 6.8), so the same holds for the numbers as they are computed.
"""

from __future__ import annotations

from functools import singledispatch
from typing import NamedTuple

import numpy as np

from evr.laws import DiscretePair, DominatingPair, Floats, Measure, is_cut
from evr.laws.law import UNIT
from evr.laws.line.pair import mix
from evr.laws.line.poisson import SampledPair, WithoutReplacementPair


@singledispatch
def mean_and_doubt(pair: DominatingPair, low: Floats, high: Floats) -> tuple[Floats, Floats]:
    """``log P(cell) / Q(cell)`` of cells, and a bound on its rounding error (docs/guarantees.md, Section 6.8)."""
    log_p, doubt_p = _mass_and_doubt(pair, Measure.P, low, high)
    log_q, doubt_q = _mass_and_doubt(pair, Measure.Q, low, high)
    with np.errstate(invalid="ignore"):
        mean = log_p - log_q
    # the mean of a cell without mass may be any number
    return np.where(np.isnan(mean), 0.0, mean), doubt_p + doubt_q


def _mass_and_doubt(pair: DominatingPair, measure: Measure, low: Floats, high: Floats) -> tuple[Floats, Floats]:
    """A cell is a difference of tails that are accurate relatively."""
    log_mass, ends = pair.log_mass(measure, low, high), np.full(low.shape, np.inf)
    tail = np.minimum(pair.log_mass(measure, low, ends), pair.log_mass(measure, -ends, high))
    with np.errstate(invalid="ignore", over="ignore"):
        doubt = 8.0 * UNIT * (2.0 + np.abs(tail)) * np.exp(np.minimum(tail - log_mass, 700.0))
    return log_mass, np.where(log_mass > -np.inf, doubt, 0.0)


@mean_and_doubt.register
def _(pair: SampledPair, low: Floats, high: Floats) -> tuple[Floats, Floats]:
    mean, doubt = mean_and_doubt(pair.base, low, high)
    mean = pair.sign * mean
    return pair.sign * mix(mean, pair.q), _mixed_doubt(mean, doubt, pair.q)


def _mixed_doubt(loss: Floats, doubt: Floats, q: float) -> Floats:
    """How far ``mix`` may be off if its loss is: its slope is at most 1, and about ``q e^loss`` where that is small."""
    with np.errstate(over="ignore", invalid="ignore"):
        weight = q * np.exp(np.minimum(loss + doubt, 600.0))
        slope = np.minimum(weight / (1.0 - q), 1.0)
        found = slope * doubt + 8.0 * UNIT * np.abs(mix(loss, q))
    return np.where(np.isfinite(found), found, np.inf)


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
    """Cells of a line: ends in ``t`` and in loss, masses under ``P``, means of the loss, and their rounding error."""

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
        """``log`` of the masses of ``P`` that go to the lower and to the upper ends."""
        with np.errstate(divide="ignore", invalid="ignore"):
            raised = np.clip(self.mean + self.doubt, self.least, self.greatest)
            share = np.expm1(self.least - raised) / np.expm1(self.least - self.greatest)
            cut = np.isfinite(self.least) & (self.least < self.greatest) & (self.log_p > -np.inf)
            share = np.where(cut, np.clip(share, 0.0, 1.0), 1.0)
            return self.log_p + np.log1p(-share), self.log_p + np.log(share)


def spread_to_edges(pair: DominatingPair, edges: Floats) -> DiscretePair:
    """The pair whose losses are those at the edges, and the least and the greatest: it dominates, cell by cell
    (docs/guarantees.md, Section 3.9).
    """
    cells = Cells.of(pair, edges)
    losses = np.concatenate((cells.least, cells.greatest))
    log_masses = np.concatenate(cells.spread())
    held = log_masses > -np.inf
    return DiscretePair.from_logs(log_masses[held], log_masses[held] - losses[held], losses[held], is_cut=is_cut(pair))
