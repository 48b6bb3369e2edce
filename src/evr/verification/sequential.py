"""Testing by betting (Waudby-Smith and Ramdas 2024): refute ``delta >= mu0`` from samples in ``[0, b]``.

The wealth ``K_n = prod (1 + eta_j (m - X_j))`` is a non-negative supermartingale while the mean is at least ``m``, whatever the
bets, as long as ``0 <= eta_j < 1/(b - m)`` and ``eta_j`` depends on earlier samples only. By Ville's inequality it ever
reaches ``1/beta`` with probability at most ``beta``. Bets are placed for a block at a time, from earlier blocks.
docs/guarantees.md, Section 4.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

import numpy as np
from scipy.special import ndtri

from evr.laws import Floats

TOLERATED_FALSE_NEGATIVES = 1e-6
_PATIENCE = 2.0  # the bets have to be learnt
_CUSHION = 1e-3  # of log wealth, for rounding
_HOPELESS = 7.0  # standard errors
_LEAST = 4000  # samples before any rejection


@dataclass
class SequentialState:
    """Everything that the next block needs; plain numbers, so that a run can be interrupted and continued."""

    samples: int = 0
    total: float = 0.0
    squares: float = 0.0
    log_wealth: float = 0.0


class SequentialTest:
    """One direction's test. Samples come divided by the threshold ``mu0``; so do all amounts here.

    Parameters
    ----------
    clip
        ``b``: no sample that is bet on is above.
    correction
        A proved bound on ``E[(X - b)_+]``.
    log_target
        ``log(1/beta)``.
    estimate
        The claimed ``delta_est``.
    hope
        ``delta_est / rho``: means up to this should not be rejected.
    variance
        A guess, for the first bets.
    """

    def __init__(
        self,
        *,
        clip: float,
        correction: float,
        log_target: float,
        estimate: float,
        hope: float,
        variance: float,
        rounding: float,
    ) -> None:
        self.clip, self.correction, self.log_target = clip, correction, log_target
        self.mean = (1.0 - rounding) - correction
        self.estimate, self.hope, self.guess = estimate, hope, variance
        self.limit = 0.5 / (clip - self.mean) if clip > self.mean else math.inf
        self.state = SequentialState()
        self.block = 0  # samples of a block: the bet on the first one has learnt nothing yet

    def bet(self) -> float:
        """The stake for the next block, from the blocks before it."""
        s = self.state
        gap = max(self.mean - self.estimate, 1e-12)
        weight = 100.0  # samples' worth of trust in the guess of the variance
        centre = s.total / s.samples if s.samples else self.estimate
        spread = max(s.squares / s.samples - centre**2, 0.0) if s.samples else 0.0
        variance = (weight * self.guess + s.samples * spread) / (weight + s.samples)
        trust = 4.0 * variance / gap**2  # the claimed mean weighs as much as it takes to tell it from the threshold
        centre = (trust * self.estimate + s.total) / (trust + s.samples)
        lead = self.mean - centre
        return min(lead / (variance + lead**2), self.limit) if lead > 0 else 0.0

    def update(self, values: Floats) -> None:
        """Play one block."""
        clipped = np.minimum(values, self.clip)
        stake = self.bet()
        s = self.state
        if stake > 0:
            s.log_wealth += float(np.sum(np.log1p(stake * (self.mean - clipped))))
        s.samples += values.size
        s.total += float(np.sum(clipped))
        s.squares += float(np.sum(clipped * clipped))

    @property
    def accepted(self) -> bool:
        return self.state.log_wealth >= self.log_target + _CUSHION

    def variance(self) -> float:
        """Of a clipped sample, as seen."""
        s = self.state
        return max(s.squares / s.samples - (s.total / s.samples) ** 2, 0.0) if s.samples else self.guess

    def most_samples(self) -> float:
        """After how many samples a claim as good as ``hope`` would long have been accepted."""
        gap = self.mean - self.hope
        if gap <= 0:
            return math.inf
        z = -float(ndtri(TOLERATED_FALSE_NEGATIVES))
        spread = self.variance() + gap**2
        free = (z + math.sqrt(z * z + 2 * self.log_target)) ** 2 * spread / gap**2
        # Where the limit holds stakes back, log wealth grows by so much a sample, and strays by stake times deviation.
        stake = min(gap / spread, self.limit)
        growth = stake * gap - stake**2 * spread / 2
        held = z * stake * math.sqrt(self.variance())
        capped = ((held + math.sqrt(held**2 + 4 * growth * self.log_target)) / (2 * growth)) ** 2
        return _PATIENCE * max(free, capped)

    def expected_samples(self) -> float:
        """About how many samples an exact estimate takes."""
        gap = max(self.mean - self.estimate, 1e-12)
        spread = self.variance() + gap**2
        stake = min(gap / spread, self.limit)
        return self.log_target / (stake * gap - stake**2 * spread / 2)

    def hopeless(self) -> str | None:
        """Why to give up now, if so. Rejecting is always safe."""
        s = self.state
        if s.samples < _LEAST:
            return None
        mean, error = s.total / s.samples, math.sqrt(self.variance() / s.samples)
        if mean - _HOPELESS * error > self.mean:
            return "the mean is beyond doubt above the threshold"
        if s.samples > self.most_samples() + 2 * self.block:
            return "a true claim would long have been accepted"
        return None

    def snapshot(self) -> dict[str, Any]:
        """The state in exact hexadecimal, to be continued from."""
        return {k: v.hex() if isinstance(v, float) else v for k, v in asdict(self.state).items()}

    def restore(self, snapshot: dict[str, Any]) -> None:
        """Continue from a snapshot."""
        total, squares, log_wealth = (float.fromhex(snapshot[k]) for k in ("total", "squares", "log_wealth"))
        self.state = SequentialState(int(snapshot["samples"]), total, squares, log_wealth)


class Clip(NamedTuple):
    """Where to clip, the proved correction, a guess of the variance, and the growth of log wealth to expect of a sample."""

    clip: float
    correction: float
    variance: float
    growth: float


def choose_clip(proposal: Any, epsilon: float, *, log_unit: float, estimate: float, rounding: float) -> Clip:
    """Where to clip, in units of the threshold.

    The clip maximises the growth of wealth that is to be expected: a low one lets the bets be large, a high one costs little.
    """
    bound = math.exp(min(proposal.log_greatest(epsilon) - log_unit, 700.0))
    moment = math.exp(min(proposal.log_moment(epsilon, 2.0) - 2 * log_unit, 700.0))
    variance = max(min(moment, 6.0 * estimate**2), 1e-6)
    best = (-math.inf, bound, 0.0)
    for clip in [bound, *np.geomspace(4.0, 1e7, 60).tolist()]:
        if clip > bound or not math.isfinite(clip):
            continue
        correction = 0.0 if clip >= bound else proposal.excess(epsilon, clip, log_unit)
        gap = (1.0 - rounding) - correction - estimate
        if gap <= 0:
            continue
        stake = min(gap / (variance + gap**2), 0.5 / max(clip - 1.0, 1e-9))
        growth = stake * gap - stake**2 * (variance + gap**2) / 2
        best = max(best, (growth, clip, correction))
    return Clip(best[1], best[2], variance, max(best[0], 0.0))
