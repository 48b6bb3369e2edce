"""The paper's verifier, Algorithm 2 of Wang et al. (2023): the number of samples is fixed beforehand."""

import math
from dataclasses import dataclass
from typing import TypeAlias

from evr._kernel.sampled.deciding import Ending, SequentialTest, State
from evr._kernel.verdict.settings import Claim


@dataclass(frozen=True)
class FixedTest:
    """Algorithm 2 of the paper, all of it known before it starts: accept iff the mean of so many samples is
    below ``threshold - offset``. Nothing is bet.

    For non-negative samples with ``E[X^2] <= nu``, ``P(mean <= E[X] - Delta) <= exp(-m Delta^2 / (2 nu))``.
    So ``m = ceil(2 nu / Delta^2 log(1/beta))`` samples whose mean is below ``threshold - Delta`` refute
    ``delta >= threshold`` but with probability ``beta``.
    """

    samples: int  # ``m``
    second_moment: float  # ``nu``, proved
    offset: float  # ``Delta``
    threshold: float
    rounding: float = 0.0  # by how much the threshold is lowered for the rounding of weights, relatively
    clip = math.inf
    mean = log_target = 0.0

    def stake(self, state: State) -> float:
        return 0.0

    def ending(self, state: State) -> Ending | None:
        """The comparison, once all samples are there."""
        if state.samples < self.samples:
            return None
        accepted = state.total / state.samples < 1.0 - self.offset / self.threshold - self.rounding
        found = "below" if accepted else "not below"
        return Ending(accepted, f"the mean is {found} the threshold less the offset")


def default_offset(claim: Claim) -> float:
    """The paper's ``Delta = 0.4 (1/tau - 1/rho) delta_est``, ``rho = (1 + tau)/2``."""
    rho = (1.0 + claim.tau) / 2.0
    return 0.4 * (1.0 / claim.tau - 1.0 / rho) * claim.estimate


def plan_fixed(
    claim: Claim, log_second_moment: float, *, attempt: int | None, rounding: float = 0.0
) -> FixedTest:
    """The test with as many samples as the false-positive probability needs: the paper's for a single
    attempt, or the one that an attempt of this number may have.
    """
    offset = default_offset(claim)
    log_ratio = log_second_moment - 2 * math.log(offset)
    if not -math.inf < log_ratio <= 600:
        remedy = "use proposal='capped' or method='sequential'"
        raise ValueError(f"the fixed verifier has no useful bound on the second moment here: {remedy}")
    needed = 2.0 * math.exp(log_ratio) * max(-claim.log_budget(attempt), math.log(2.0))
    return FixedTest(
        samples=max(1, math.ceil(needed)),
        second_moment=math.exp(min(log_second_moment, 700.0)),
        offset=offset,
        threshold=claim.delta if attempt is None else claim.threshold,
        rounding=rounding,
    )


Test: TypeAlias = SequentialTest | FixedTest
"""Decides by the state alone: it places the ``stake`` of the next round that has none and says how the test
is ``ending``. Samples are bet on as ``mean - min(sample, clip)``, in units of the threshold.
"""
