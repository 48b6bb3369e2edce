"""Testing by betting (Waudby-Smith and Ramdas 2024): refute ``delta >= mu0`` from samples in ``[0,
b]``.

The wealth ``K_n = prod (1 + eta_j (m - X_j))`` is a non-negative supermartingale while the mean is
at least ``m``, whatever the bets, as long as ``0 <= eta_j < 1/(b - m)`` and ``eta_j`` depends on
earlier samples only. By Ville's inequality it ever reaches ``1/beta`` with probability at most
``beta``. Stakes are placed for a round of blocks, from earlier ones. docs/guarantees.md, Section 4.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from itertools import islice
from typing import Any

from scipy.special import ndtri

from evr.sampling import Proposal
from evr.verification.claims import Claim
from evr.verification.driver import Ending, rounds
from evr.verification.summary import Summary, variance_of

TOLERATED_FALSE_NEGATIVES = 1e-6
_PATIENCE = 2.0  # the bets have to be learnt
_CUSHION = 1e-3  # of log wealth, for rounding
_HOPELESS = 7.0  # standard errors
_UNLIKELY = 3.0  # standard errors
LEAST = 4000  # samples before any rejection
_ROUNDS = 1000  # that are foretold one by one


@dataclass
class SequentialState:
    """Everything that the next block needs; plain numbers, so that a run can be interrupted and
    continued.
    """

    samples: int = 0
    total: float = 0.0
    squares: float = 0.0
    log_wealth: float = 0.0

    def add(self, summary: Summary) -> None:
        """One more block."""
        self.samples += summary.samples
        self.total += summary.clipped_total
        self.squares += summary.clipped_squares
        self.log_wealth += summary.log_wealth

    def variance(self) -> float:
        """Of a clipped sample, as seen."""
        return variance_of(self.total, self.squares, self.samples)

    def contradicts(self, mean: float) -> bool:
        """Whether samples hardly have this mean."""
        error = math.sqrt(self.variance() / self.samples)
        return abs(self.total / self.samples - mean) > _UNLIKELY * error

    def beyond_doubt(self, mean: float) -> bool:
        """Whether samples leave no doubt that their mean is above the one given; where floats lose
        count of their squares, they are far above.
        """
        error = math.sqrt(self.variance() / self.samples)
        return math.isinf(error) or self.total / self.samples - _HOPELESS * error > mean


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

    def stake(self) -> float:
        """For the next round, from all blocks absorbed so far."""
        s = self.state
        gap = max(self.mean - self.estimate, 1e-12)
        weight = 100.0  # samples' worth of trust in the guess of the variance
        seen = s.variance() if s.samples else 0.0
        if math.isinf(seen):
            return 0.0
        variance = (weight * self.guess + s.samples * seen) / (weight + s.samples)
        # the claimed mean weighs what it takes to tell it from the threshold
        trust = 4.0 * variance / gap**2
        centre = (trust * self.estimate + s.total) / (trust + s.samples)
        lead = self.mean - centre
        return min(lead / (variance + lead**2), self.limit) if lead > 0 else 0.0

    def absorb(self, summary: Summary) -> None:
        """Play one block."""
        self.state.add(summary)

    @property
    def log_wealth(self) -> float:
        """``log K``."""
        return self.state.log_wealth

    @property
    def accepted(self) -> bool:
        return self.state.log_wealth >= self.log_target + _CUSHION

    def variance(self) -> float:
        """Of a clipped sample, as seen."""
        return self.state.variance() if self.state.samples else self.guess

    def most_samples(self) -> float:
        """After how many samples a claim as good as ``hope`` would long have been accepted."""
        gap = self.mean - self.hope
        if gap <= 0:
            return math.inf
        z = -float(ndtri(TOLERATED_FALSE_NEGATIVES))
        spread = self.variance() + gap**2
        free = (z + math.sqrt(z * z + 2 * self.log_target)) ** 2 * spread / gap**2
        # Where the limit holds stakes back, log wealth grows by so much a sample, and strays by
        # stake times deviation.
        stake = min(gap / spread, self.limit)
        growth = stake * gap - stake**2 * spread / 2
        held = z * stake * math.sqrt(self.variance())
        capped = ((held + math.sqrt(held**2 + 4 * growth * self.log_target)) / (2 * growth)) ** 2
        return _PATIENCE * max(free, capped)

    def samples_left(self) -> float:
        """About how many more samples it takes: at the growth that was seen, or before any was at
        that of an exact estimate.
        """
        missing, seen = max(self.log_target - self.state.log_wealth, 0.0), self.state
        if seen.samples:
            growth = self._growth(self.stake(), self.mean - seen.total / seen.samples)
            if growth > 0:
                return missing / growth
        gap = max(self.mean - self.estimate, 1e-12)
        stake = min(gap / (self.variance() + gap**2), self.limit)
        return missing / self._growth(stake, gap)

    def _growth(self, stake: float, lead: float) -> float:
        """Of log wealth, about, by a sample."""
        return stake * lead - stake**2 * (self.variance() + lead**2) / 2

    def samples_expected(self, mean: float, variance: float) -> float:
        """About how many in all, if that is what samples have: this test, a new one, is played
        round by round as the driver would, each with the growth that is to be expected of it.
        """
        lead, state = self.mean - mean, self.state
        spread = variance + lead**2
        stakes = [self.stake()] * 2
        for first, end in islice(rounds(), _ROUNDS):
            stake, n = stakes.pop(0), (end - first) * self.block
            growth = stake * lead - stake**2 * spread / 2
            if growth > 0 and state.log_wealth + n * growth >= self.log_target:
                return state.samples + (self.log_target - state.log_wealth) / growth
            self.state = state = SequentialState(
                state.samples + n,
                state.total + n * mean,
                state.squares + n * (variance + mean**2),
                state.log_wealth + n * growth,
            )
            if self.ending() is not None:
                return state.samples
            stakes.append(self.stake())
        left = (self.log_target - state.log_wealth) / growth if growth > 0 else math.inf
        return state.samples + min(left, self.most_samples())

    def ending(self) -> Ending | None:
        """Accepted, or why to give up now, if so. Rejecting is always safe."""
        if self.accepted:
            return Ending(True, "the wealth reached its target")
        s = self.state
        if s.samples < LEAST:
            return None
        if s.beyond_doubt(self.mean):
            return Ending(False, "the mean is beyond doubt above the threshold")
        if s.samples > self.most_samples() + 4 * self.block:
            return Ending(False, "a true claim would long have been accepted")
        return None

    def snapshot(self) -> dict[str, Any]:
        """The state in exact hexadecimal, to be continued from."""
        return {k: v.hex() if isinstance(v, float) else v for k, v in asdict(self.state).items()}

    def restore(self, snapshot: dict[str, Any]) -> None:
        """Continue from a snapshot."""
        total, squares, log_wealth = (
            float.fromhex(snapshot[k]) for k in ("total", "squares", "log_wealth")
        )
        self.state = SequentialState(int(snapshot["samples"]), total, squares, log_wealth)


def sequential_test(
    proposal: Proposal,
    claim: Claim,
    log_budget: float,
    *,
    clip: float | None,
    variance: float,
    block: int,
) -> SequentialTest:
    """The test of one direction, in units of the threshold; what clipping
    takes off is proved here.
    """
    log_unit, rounding = math.log(claim.threshold), proposal.rounding(claim.epsilon)
    epsilon, estimate = rounding.bounded(claim.epsilon), claim.delta / claim.threshold
    bound = math.exp(min(proposal.log_greatest(epsilon) - log_unit, 700.0))
    clipped = clip is not None and clip < bound
    test = SequentialTest(
        clip=clip if clip is not None and clipped else bound,
        correction=proposal.excess(epsilon, clip, log_unit)
        if clip is not None and clipped
        else 0.0,
        log_target=-log_budget,
        estimate=estimate,
        hope=2.0 * estimate / (1.0 + claim.tau),
        variance=variance,
        rounding=rounding.weight,
    )
    test.block = block
    return test
