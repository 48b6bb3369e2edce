"""What a plan stands for, and what is proved about it at one epsilon: computed once and carried."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

from evr.bounds.moments import Rounding, log_clipping
from evr.laws import Step
from evr.sampling.line import SimpleProposal, TiltedProposal
from evr.sampling.mixtures import MixtureProposal
from evr.sampling.plan import CappedPlan, MixturePlan, ProposalPlan, SimplePlan
from evr.sampling.proposals import Proposal

BUILDERS: dict[type[ProposalPlan], Callable[[Any, tuple[Step, ...]], Proposal]] = {
    CappedPlan: TiltedProposal.from_plan,
    SimplePlan: lambda plan, steps: SimpleProposal(steps, plan.cells),
    MixturePlan: MixtureProposal,
}


@lru_cache(maxsize=8)
def built(plan: ProposalPlan, steps: tuple[Step, ...]) -> Proposal:
    """The proposal that a plan describes, with its bounds and normalisers: computed once in a process."""
    proposal = BUILDERS[type(plan)](plan, steps)
    proposal._source = (plan, steps)
    return proposal


@dataclass(frozen=True)
class Drawing:
    """A proposal, and how far floats may be off at the claim's epsilon (docs/guarantees.md, Section 6)."""

    proposal: Proposal
    rounding: Rounding
    sampled: float  # where samples are taken, so that none is below the true one
    epsilon: float  # where bounds are taken, so that they hold for the samples as they are computed

    @cached_property
    def log_greatest(self) -> float:
        """``log`` of the proved bound on a sample."""
        return self.proposal.log_greatest(self.epsilon)

    @cached_property
    def _log_moments(self) -> dict[float, float]:
        return {}

    def log_moment(self, p: float) -> float:
        """``log`` of the proved bound on ``E[X^p]``."""
        if p not in self._log_moments:
            self._log_moments[p] = self.proposal.log_moment(self.epsilon, p)
        return self._log_moments[p]

    def excess(self, clip: float, log_unit: float) -> float:
        """A rigorous upper bound on ``E[(X - clip)_+]``: ``(p-1)^{p-1}/p^p E[X^p]/clip^{p-1}``, the best of several
        ``p``; all in units of ``e^log_unit``.
        """
        if self.log_greatest - log_unit <= math.log(clip):
            return 0.0
        bound = min(
            log_clipping(p) + self.log_moment(p) - p * log_unit - (p - 1) * math.log(clip)
            for p in (1.5, 2.0, 2.5, 3.0, 4.0, 6.0, 8.0, 12.0)
        )
        if not bound > -math.inf:
            raise ValueError("a moment of samples that exceed a clip is 0, which cannot be")
        return math.exp(min(bound + 16.0 * self.rounding.weight, 700.0))

    @classmethod
    def of(cls, plan: ProposalPlan, steps: tuple[Step, ...], epsilon: float) -> Drawing:
        return drawing_of(built(plan, steps), epsilon)


@lru_cache(maxsize=8)
def drawing_of(proposal: Proposal, epsilon: float) -> Drawing:
    """Once for each proposal and epsilon, in this process."""
    rounding = proposal.rounding(epsilon)
    return Drawing(proposal, rounding, epsilon - rounding.loss, rounding.bounded(epsilon))
