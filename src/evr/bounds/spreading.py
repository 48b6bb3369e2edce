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


class _Cells(NamedTuple):
    """Ends in loss, masses under ``P``, means of the loss, and by how much rounding may be off
    there.
    """

    least: Floats
    greatest: Floats
    log_p: Floats
    mean: Floats
    doubt: Floats


def spread_to_edges(pair: DominatingPair, edges: Floats) -> DiscretePair:
    """The pair whose losses are those at the edges, and the least and the greatest: it dominates,
    cell by cell.
    """
    least, greatest, log_p, mean, doubt = _cells(pair, edges)
    with np.errstate(divide="ignore", invalid="ignore"):
        raised = np.clip(mean + doubt, least, greatest)
        share = np.expm1(least - raised) / np.expm1(least - greatest)  # of P, to the upper end
        spread = np.isfinite(least) & (least < greatest) & (log_p > -np.inf)
        share = np.where(spread, np.clip(share, 0.0, 1.0), 1.0)
        losses = np.concatenate((least, greatest))
        log_masses = np.concatenate((log_p + np.log1p(-share), log_p + np.log(share)))
    held = log_masses > -np.inf
    return DiscretePair.from_logs(
        log_masses[held], log_masses[held] - losses[held], losses[held], is_cut=pair.is_cut
    )


def spreading_drift(pair: DominatingPair, edges: Floats) -> float:
    """By how much the mean loss of a step rises because cells' means are raised by their doubt."""
    least, greatest, log_p, mean, doubt = _cells(pair, edges)
    with np.errstate(invalid="ignore"):
        raised = np.clip(mean + doubt, least, greatest) - np.clip(mean, least, greatest)
    return float(np.sum(np.where(np.isfinite(raised), raised, 0.0) * np.exp(log_p)))


def _cells(pair: DominatingPair, edges: Floats) -> _Cells:
    low, high = np.concatenate(([-np.inf], edges)), np.concatenate((edges, [np.inf]))
    mean, doubt = pair.mean_and_doubt(low, high)
    log_p = pair.log_mass(Measure.P, low, high)
    return _Cells(pair.privacy_loss(low), pair.privacy_loss(high), log_p, mean, doubt)
