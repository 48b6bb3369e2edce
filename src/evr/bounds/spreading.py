"""A pair on a few outcomes that dominates a pair on a line (docs/guarantees.md, Section 3.9).

The losses of a cell are moved to its two ends such that both laws keep their mass there: under
``Q`` the likelihood ratio keeps its mean and is spread out, so delta can only grow, whatever the
edges are. A cell's mean is raised by all that rounding may have taken from it (Section 6.8), so the
same holds for the numbers as they are computed.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from evr.laws import DiscretePair, DominatingPair, Floats, Measure


def even_edges(pair: DominatingPair, cells: int) -> Floats:
    """Edges in ``t``: evenly spaced over the pair's span, and the ends of its flats."""
    edges = np.unique(np.append(np.linspace(*pair.span(), cells + 1), pair.flats))
    return edges[np.isfinite(edges)]


class Cells(NamedTuple):
    """Cells of a line: their ends in ``t`` and in loss, their masses under ``P``, the means of the
    loss, and how far rounding may be off there.
    """

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
        return cls(low, high, least, greatest, log_p, *pair.mean_and_doubt(low, high))

    def spread(self) -> tuple[Floats, Floats]:
        """``log`` of the masses of ``P`` that go to the lower and to the upper ends."""
        with np.errstate(divide="ignore", invalid="ignore"):
            raised = np.clip(self.mean + self.doubt, self.least, self.greatest)
            share = np.expm1(self.least - raised) / np.expm1(self.least - self.greatest)
            cut = np.isfinite(self.least) & (self.least < self.greatest) & (self.log_p > -np.inf)
            share = np.where(cut, np.clip(share, 0.0, 1.0), 1.0)
            return self.log_p + np.log1p(-share), self.log_p + np.log(share)


def spread_to_edges(pair: DominatingPair, edges: Floats) -> DiscretePair:
    """The pair whose losses are those at the edges, and the least and the greatest: it dominates,
    cell by cell (docs/guarantees.md, Section 3.9).
    """
    cells = Cells.of(pair, edges)
    losses = np.concatenate((cells.least, cells.greatest))
    log_masses = np.concatenate(cells.spread())
    held = log_masses > -np.inf
    return DiscretePair.from_logs(
        log_masses[held], log_masses[held] - losses[held], losses[held], is_cut=pair.is_cut
    )
