"""Testing by betting (Waudby-Smith and Ramdas 2024): refute ``delta >= mu0`` from samples in ``[0, b]``.

The wealth ``K_n = prod (1 + eta_j (m - X_j))`` is a non-negative supermartingale while the mean is at least ``m``,
whatever the bets, as long as ``0 <= eta_j < 1/(b - m)`` and ``eta_j`` depends on earlier samples only. By Ville's
inequality it ever reaches ``1/beta`` with probability at most ``beta``. Stakes are placed for a round of blocks, from
earlier ones. docs/guarantees.md, Section 4.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from scipy.special import ndtri

from evr.sampling import DrawPlan
from evr.sampling.drawing import Drawing
from evr.verification.claims import Claim
from evr.verification.state import Ending, State

TOLERATED_FALSE_NEGATIVES = 1e-6
_PATIENCE = 2.0  # the bets have to be learnt
_CUSHION = 1e-3  # of log wealth, for rounding
_HOPELESS = 7.0  # standard errors
LEAST = 4000
"""Samples before any rejection."""


@dataclass(frozen=True)
class SequentialTest:
    """One direction's test. Samples come divided by the threshold ``mu0``; so do all amounts here."""

    clip: float  # ``b``: no sample that is bet on is above
    correction: float  # a proved bound on ``E[(X - b)_+]``
    log_target: float  # ``log(1/beta)``: the log wealth that accepts
    estimate: float  # the claimed ``delta_est``
    hope: float  # ``delta_est / rho``: means up to this should not be rejected
    variance: float  # a guess, for the first bets
    rounding: float  # by how much the threshold is lowered for the rounding of weights, relatively
    block: int  # samples of a block: the bet on the first one has learnt nothing yet

    @property
    def mean(self) -> float:
        """``m``: the mean that the wealth refutes."""
        return (1.0 - self.rounding) - self.correction

    @property
    def limit(self) -> float:
        """The largest stake: half of what could make the wealth negative."""
        return 0.5 / (self.clip - self.mean) if self.clip > self.mean else math.inf

    def stake(self, state: State) -> float:
        """The stake of the next round, from all blocks so far."""
        gap = max(self.mean - self.estimate, 1e-12)
        weight = 100.0  # samples' worth of trust in the guess of the variance
        seen = state.clipped_variance if state.samples else 0.0
        if math.isinf(seen):
            return 0.0
        variance = (weight * self.variance + state.samples * seen) / (weight + state.samples)
        # the claimed mean weighs what it takes to tell it from the threshold
        trust = 4.0 * variance / gap**2
        centre = (trust * self.estimate + state.clipped_total) / (trust + state.samples)
        lead = self.mean - centre
        return min(lead / (variance + lead**2), self.limit) if lead > 0 else 0.0

    def accepts(self, state: State) -> bool:
        """Whether the wealth reached its target."""
        return state.log_wealth >= self.log_target + _CUSHION

    def beyond_doubt(self, state: State) -> bool:
        """Whether the mean is beyond doubt above the threshold, as it is where floats lose count of squares."""
        error = math.sqrt(state.clipped_variance / state.samples)
        return math.isinf(error) or state.clipped_mean - _HOPELESS * error > self.mean

    def ending(self, state: State) -> Ending | None:
        """Accepted, or why to give up now, if so. Rejecting is always safe."""
        if self.accepts(state):
            return Ending(True, "the wealth reached its target")
        if state.samples < LEAST:
            return None
        if self.beyond_doubt(state):
            return Ending(False, "the mean is beyond doubt above the threshold")
        if state.samples > self.most_samples(state) + 4 * self.block:
            return Ending(False, "a true claim would long have been accepted")
        return None

    def most_samples(self, state: State) -> float:
        """After how many samples a claim as good as ``hope`` would long have been accepted."""
        gap = self.mean - self.hope
        if gap <= 0:
            return math.inf
        z = -float(ndtri(TOLERATED_FALSE_NEGATIVES))
        variance = self._variance(state)
        spread = variance + gap**2
        free = (z + math.sqrt(z * z + 2 * self.log_target)) ** 2 * spread / gap**2
        # Where the limit holds stakes back, log wealth grows by so much a sample, and strays by stake times deviation.
        stake = min(gap / spread, self.limit)
        growth = growth_of(stake, gap, variance)
        held = z * stake * math.sqrt(variance)
        capped = ((held + math.sqrt(held**2 + 4 * growth * self.log_target)) / (2 * growth)) ** 2
        return _PATIENCE * max(free, capped)

    def samples_left(self, state: State) -> float:
        """About how many more samples it takes: at the growth that was seen, or at that of an exact estimate."""
        missing, variance = max(self.log_target - state.log_wealth, 0.0), self._variance(state)
        if state.samples:
            growth = growth_of(self.stake(state), self.mean - state.clipped_mean, variance)
            if growth > 0:
                return missing / growth
        gap = max(self.mean - self.estimate, 1e-12)
        stake = min(gap / (variance + gap**2), self.limit)
        return missing / growth_of(stake, gap, variance)

    def _variance(self, state: State) -> float:
        return state.clipped_variance if state.samples else self.variance


def growth_of(stake: float, lead: float, variance: float) -> float:
    """About how much log wealth grows by a sample whose mean is ``lead`` below the one refuted."""
    return stake * lead - stake**2 * (variance + lead**2) / 2


def sequential_test(drawing: Drawing, claim: Claim, log_budget: float, plan: DrawPlan) -> SequentialTest:
    """The test of one direction, in units of the threshold. The bound on what clipping takes off is proved here."""
    log_unit, estimate = math.log(claim.threshold), claim.estimate / claim.threshold
    clip, correction = math.exp(min(drawing.log_greatest - log_unit, 700.0)), 0.0
    if plan.clip is not None and plan.clip < clip:
        clip = plan.clip
        correction = drawing.excess(clip, log_unit)
    return SequentialTest(
        clip=clip,
        correction=correction,
        log_target=-log_budget,
        estimate=estimate,
        hope=2.0 * estimate / (1.0 + claim.tau),
        variance=plan.variance,
        rounding=drawing.rounding.weight,
        block=plan.block_size,
    )
