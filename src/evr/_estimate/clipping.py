"""How large blocks are, and where to clip samples: what lets bets be large, and costs little."""

import math
from typing import NamedTuple

import numpy as np

from evr._kernel.sampled.mixtures import MixtureProposal
from evr._kernel.sampled.proposals import Drawing, Proposal

_AT_ONCE, _NUMBERS = 4096, 2**20  # samples of a block, and their coordinates: tables want many


class Clip(NamedTuple):
    """Where to clip, a guess of the variance, and the expected growth of log wealth."""

    clip: float
    variance: float
    growth: float


def block_size(proposal: Proposal) -> int:
    """Samples in a block: about a million steps' worth, 64 at least."""
    size = int(min(65_536, max(64, 2 ** round(math.log2(2**20 / max(proposal.work, 1))))))
    if not isinstance(proposal, MixtureProposal):
        return size
    own = sum(law.numbers for law in proposal.laws)
    return max(size, min(_AT_ONCE, 2 ** round(math.log2(_NUMBERS / own))))


def choose_clip(
    drawing: Drawing, *, log_unit: float, estimate: float, rounding: float, variance: float | None = None
) -> Clip:
    """Where to clip, in units of the threshold, for the greatest growth of wealth that is to be expected: a low clip
    lets the bets be large, a high one costs little. ``variance`` is that of samples, where it is known.
    """
    bound = math.exp(min(drawing.log_greatest - log_unit, 700.0))
    if variance is None:
        moment = math.exp(min(drawing.log_moment(2.0) - 2 * log_unit, 700.0))
        variance = max(min(moment, 6.0 * estimate**2), 1e-6)
    best = (0.0, bound)
    for clip in [bound, *np.geomspace(4.0, 1e7, 60).tolist()]:
        if clip > bound or not math.isfinite(clip):
            continue
        correction = 0.0 if clip >= bound else drawing.excess(clip, log_unit)
        gap = (1.0 - rounding) - correction - estimate
        if gap <= 0:
            continue
        stake = min(gap / (variance + gap**2), 0.5 / max(clip - 1.0, 1e-9))
        growth = stake * gap - stake**2 * (variance + gap**2) / 2
        best = max(best, (growth, clip))
    return Clip(best[1], variance, best[0])
