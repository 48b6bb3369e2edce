"""The line of a pair cut into cells."""

from __future__ import annotations

import numpy as np

from evr.laws.line.pair import DominatingPair, Floats


def cell_edges(
    pair: DominatingPair,
    order: float,
    cells: int,
    losses: Floats | None = None,
    cap: float = np.inf,
) -> Floats:
    """Edges in ``t``: evenly spaced over the pair's span, the ends of its flats, and the given
    ``losses``.

    There is one cell beyond the loss ``cap``.
    """
    low, high = pair.span(order)
    top = float(pair.point(cap)) if cap < np.inf else np.inf
    parts = [np.linspace(low, max(min(high, top), low), cells + 1), pair.flats.ravel()]
    if losses is not None:
        parts.append(pair.point(losses))
    edges = np.unique(np.concatenate(parts))
    return edges[np.isfinite(edges) & (edges <= max(top, low))]
