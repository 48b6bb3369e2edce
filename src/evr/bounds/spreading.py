"""A pair on a few outcomes that dominates a pair on a line (docs/guarantees.md, Section 3.9).

The losses of a cell are moved to its two ends such that both laws keep their mass there: under ``Q`` the likelihood ratio
keeps its mean and is spread out, so delta can only grow, whatever the edges are.
"""

from __future__ import annotations

import numpy as np

from evr.laws import DiscretePair, DominatingPair, Floats, Measure

_ROUNDING = 4e-16  # means of cells are rounded up by that much


def spread_to_edges(pair: DominatingPair, edges: Floats) -> DiscretePair:
    """The pair whose losses are those at the edges, and the least and the greatest: it dominates, cell by cell."""
    low, high = np.concatenate(([-np.inf], edges)), np.concatenate((edges, [np.inf]))
    log_p, log_q = pair.log_mass(Measure.P, low, high), pair.log_mass(Measure.Q, low, high)
    least, greatest = pair.privacy_loss(low), pair.privacy_loss(high)
    with np.errstate(divide="ignore", invalid="ignore"):
        mean = np.clip(log_p - log_q + _ROUNDING, least, greatest)
        share = np.expm1(least - mean) / np.expm1(least - greatest)  # of P, to the upper end
        spread = np.isfinite(least) & (least < greatest) & (log_p > -np.inf)
        share = np.where(spread, np.clip(share, 0.0, 1.0), 1.0)
        losses = np.concatenate((least, greatest))
        log_masses = np.concatenate((log_p + np.log1p(-share), log_p + np.log(share)))
    held = log_masses > -np.inf
    return DiscretePair.from_logs(log_masses[held], log_masses[held] - losses[held], losses[held], is_cut=pair.is_cut)
