"""Tests as pure functions: ``init`` makes a state, a block is added to it, ``ending`` says whether the test
is over. The one here bets (docs/guarantees.md, Section 4); the paper's is in ``fixed.py``.

Two rounds of blocks are under way at a time (``driver.py``): the stake of a round is a function of the rounds
that ended before the one ahead of it, so of samples that are all earlier than its own. Wealth is followed in
the order of the blocks, whoever is first, so Ville's inequality holds wherever the test stops.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

from scipy.special import ndtri

from evr._kernel.sampled.plan import DrawPlan
from evr._kernel.sampled.proposals import Drawing
from evr._kernel.sampled.summary import SUMS, Summary, variance_of
from evr._kernel.verdict.settings import Claim

MOST_BLOCKS = 256  # the most blocks of a round
LEAST = 4000  # samples before any rejection
TOLERATED_FALSE_NEGATIVES = 1e-6
_TRACE = 240  # rows
_PATIENCE = 2.0  # the bets have to be learnt
_CUSHION = 1e-3  # log wealth beyond the target, for rounding
_HOPELESS = 7.0  # standard errors


class Ending(NamedTuple):
    """How a test ended."""

    accepted: bool
    reason: str


TraceRow: TypeAlias = tuple[int, float, float, float]
"""Samples, mean, standard error and log wealth."""


class State(NamedTuple):
    """All that the next block and the report need: sums as in ``Summary``, in units of the threshold."""

    samples: int = 0
    blocks: int = 0
    total: float = 0.0
    squares: float = 0.0
    clipped_total: float = 0.0
    clipped_squares: float = 0.0
    log_wealth: float = 0.0
    trace: tuple[TraceRow, ...] = ()
    stride: int = 1  # the trace has a row after so many blocks
    stakes: tuple[float, float] = (0.0, 0.0)  # of the current round and of the next
    end: int = 1  # the first block after the current round

    def added(self, summary: Summary) -> State:
        sums: dict[str, Any] = {name: getattr(self, name) + getattr(summary, name) for name in SUMS}
        found = self._replace(blocks=self.blocks + 1, **sums)
        if found.blocks % found.stride:
            return found
        rows = (*found.trace, (found.samples, *found.mean_and_error(), found.log_wealth))
        if len(rows) <= _TRACE:
            return found._replace(trace=rows)
        return found._replace(trace=rows[1::2], stride=2 * found.stride)

    def mean_and_error(self) -> tuple[float, float]:
        """The mean of the samples and its standard error: the mean again where squares are no floats."""
        if not self.samples:
            return math.nan, math.nan
        mean = self.total / self.samples
        variance = variance_of(self.total, self.squares, self.samples)
        return mean, math.sqrt(variance / self.samples) if math.isfinite(variance) else mean

    @property
    def clipped_mean(self) -> float:
        return self.clipped_total / self.samples

    @property
    def clipped_variance(self) -> float:
        return variance_of(self.clipped_total, self.clipped_squares, self.samples)


@dataclass(frozen=True)
class SequentialTest:
    """Testing by betting (Waudby-Smith and Ramdas 2024): refutes ``delta >= mu0`` from samples in ``[0, b]``.
    Samples come divided by the threshold ``mu0``; so do all amounts here.

    The wealth ``K_n = prod (1 + eta_j (m - X_j))`` is a non-negative supermartingale while the mean is at
    least ``m``, whatever the bets, as long as ``0 <= eta_j < 1/(b - m)`` and ``eta_j`` depends on earlier
    samples only. By Ville's inequality it ever reaches ``1/beta`` with probability at most ``beta``. Stakes
    are placed for a round of blocks, from earlier ones.
    """

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
        return self.best_stake(self.mean - centre, variance)

    def best_stake(self, lead: float, variance: float) -> float:
        """The stake for the greatest growth where the mean is ``lead`` below the one refuted."""
        return min(lead / (variance + lead**2), self.limit) if lead > 0 else 0.0

    def accepts(self, state: State) -> bool:
        return state.log_wealth >= self.log_target + _CUSHION

    def beyond_doubt(self, state: State) -> bool:
        """Whether the mean is beyond doubt above the threshold, as it is where squares are no floats."""
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
        z, variance = -float(ndtri(TOLERATED_FALSE_NEGATIVES)), self.variance_seen(state)
        free = (z + math.sqrt(z * z + 2 * self.log_target)) ** 2 * (variance + gap**2) / gap**2
        # where the limit holds stakes back, log wealth strays by stake times deviation
        stake = self.best_stake(gap, variance)
        growth = growth_of(stake, gap, variance)
        held = z * stake * math.sqrt(variance)
        capped = ((held + math.sqrt(held**2 + 4 * growth * self.log_target)) / (2 * growth)) ** 2
        return _PATIENCE * max(free, capped)

    def variance_seen(self, state: State) -> float:
        """The variance of what is bet on, or the guess before the first sample."""
        return state.clipped_variance if state.samples else self.variance


def growth_of(stake: float, lead: float, variance: float) -> float:
    """By how much a sample raises log wealth, about, where the mean is ``lead`` below the one refuted."""
    return stake * lead - stake**2 * (variance + lead**2) / 2


def sequential_test(drawing: Drawing, claim: Claim, log_budget: float, plan: DrawPlan) -> SequentialTest:
    """The test of one direction, in units of the threshold; what clipping takes off is bounded here."""
    log_unit, estimate = math.log(claim.threshold), claim.estimate / claim.threshold
    greatest = math.exp(min(drawing.log_greatest - log_unit, 700.0))
    clip = greatest if plan.clip is None else min(plan.clip, greatest)
    return SequentialTest(
        clip=clip,
        correction=drawing.excess(clip, log_unit) if clip < greatest else 0.0,
        log_target=-log_budget,
        estimate=estimate,
        hope=2.0 * estimate / (1.0 + claim.tau),
        variance=plan.variance,
        rounding=drawing.rounding.weight,
        block=plan.block_size,
    )


Stake: TypeAlias = Callable[[State], float]
"""Places the stake of the next round that has none."""


def init(stake: Stake) -> State:
    """The state before the first block: the first two rounds have the same stake."""
    first = stake(State())
    return State(stakes=(first, first))


def next_round(stake: Stake, state: State) -> State:
    """The state, in its next round if one has just ended: the stake of the round after it is placed now."""
    if state.blocks < state.end:
        return state
    return state._replace(stakes=(state.stakes[1], stake(state)), end=round_end(state.end))


def round_end(first: int) -> int:
    """Where the round ends that begins with this block: it has a quarter of all blocks before it, or one."""
    return first + max(1, min(MOST_BLOCKS, first // 4))
