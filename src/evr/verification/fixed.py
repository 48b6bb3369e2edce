"""Algorithm 2 of the paper: a number of samples fixed in advance from a proved bound on the second moment.

For non-negative samples with ``E[X^2] <= nu``, ``P(mean <= E[X] - Delta) <= exp(-m Delta^2 / (2 nu))``
(docs/guarantees.md, Section 4). So ``m = ceil(2 nu / Delta^2 log(1/beta))`` samples whose mean is below ``threshold -
Delta`` refute ``delta >= threshold`` but with probability ``beta``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from evr.sampling.drawing import Drawing
from evr.verification.claims import Claim
from evr.verification.state import Ending, State


@dataclass(frozen=True)
class SampleSize:
    """What Algorithm 2 will do, known before it starts: accept iff the mean is below ``threshold - offset``."""

    samples: int  # ``m``
    second_moment: float  # ``nu``, proved
    offset: float  # ``Delta``
    threshold: float
    log_budget: float  # ``log`` of the false-positive bound

    def __str__(self) -> str:
        return (
            f"m = {self.samples:,} samples, from nu = {self.second_moment:.4g} and Delta = {self.offset:.4g}; "
            f"accepted if their mean is below {self.threshold - self.offset:.6g}, wrongly with probability at most "
            f"{math.exp(self.log_budget):.3g}"
        )


def default_offset(claim: Claim) -> float:
    """The paper's ``Delta = 0.4 (1/tau - 1/rho) delta_est``, ``rho = (1 + tau)/2``: for few false negatives."""
    rho = (1.0 + claim.tau) / 2.0
    return 0.4 * (1.0 / claim.tau - 1.0 / rho) * claim.estimate


def plan_fixed(claim: Claim, log_second_moment: float, *, attempt: int | None) -> SampleSize:
    """The number of samples: by the paper's theorem for a single attempt, or by the budget of an attempt's number."""
    offset = default_offset(claim)
    threshold = claim.delta if attempt is None else claim.threshold
    log_budget = claim.log_budget(attempt)
    log_ratio = log_second_moment - 2 * math.log(offset)
    if log_ratio > 600:
        raise ValueError(
            "the fixed verifier has no useful bound on the second moment here: use "
            "proposal='capped' or method='sequential'"
        )
    samples = math.ceil(2.0 * math.exp(log_ratio) * max(-log_budget, math.log(2.0)))
    return SampleSize(max(1, samples), math.exp(min(log_second_moment, 700.0)), offset, threshold, log_budget)


@dataclass(frozen=True)
class FixedTest:
    """Compares the mean of ``plan.samples`` samples with the threshold less the offset. Nothing is bet."""

    plan: SampleSize
    rounding: float
    clip = math.inf
    mean = log_target = 0.0

    def stake(self, state: State) -> float:
        """Nothing."""
        return 0.0

    def ending(self, state: State) -> Ending | None:
        """The comparison, once all samples are there."""
        if state.samples < self.plan.samples:
            return None
        limit = 1.0 - self.plan.offset / self.plan.threshold - self.rounding
        accepted = state.total / state.samples < limit
        return Ending(accepted, f"the mean is {'below' if accepted else 'not below'} the threshold less the offset")

    def samples_left(self, state: State) -> float:
        """How many more."""
        return self.plan.samples - state.samples

    def most_samples(self, state: State) -> float:
        """How many in all."""
        return self.plan.samples


def fixed_test(drawing: Drawing, claim: Claim, *, attempt: int | None) -> FixedTest:
    """The test of one direction, from the proved second moment of what is drawn."""
    weight = drawing.rounding.weight
    log_moment = drawing.log_moment(2.0) + 2.0 * weight
    if not log_moment > -math.inf:
        raise ValueError("a second moment of 0 cannot be: the plan is out of floats' range")
    return FixedTest(plan_fixed(claim, log_moment, attempt=attempt), weight)
