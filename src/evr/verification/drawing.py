"""What a plan draws and what is proved about it at one epsilon: computed once and carried."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache

from evr.bounds.rounding import Rounding
from evr.laws import Step
from evr.sampling import Proposal, built
from evr.sampling.plan import ProposalPlan


@dataclass(frozen=True)
class Drawing:
    """A proposal, and how far floats may be off at the claim's epsilon.

    Attributes
    ----------
    proposal, rounding
        What is drawn, and the bounds on errors (docs/guarantees.md, Section 6).
    sampled
        Where samples are taken, so that none is below the true one.
    epsilon
        Where bounds are taken, so that they hold for the samples as they are computed.
    """

    proposal: Proposal
    rounding: Rounding
    sampled: float
    epsilon: float

    @cached_property
    def log_greatest(self) -> float:
        """``log`` of the proved bound on a sample."""
        return self.proposal.log_greatest(self.epsilon)

    @classmethod
    def of(cls, plan: ProposalPlan, steps: tuple[Step, ...], epsilon: float) -> Drawing:
        """What the plan says, for the steps of one direction."""
        return drawing_of(built(plan, steps), epsilon)


@lru_cache(maxsize=8)
def drawing_of(proposal: Proposal, epsilon: float) -> Drawing:
    """Once for each proposal and epsilon, in this process."""
    rounding = proposal.rounding(epsilon)
    return Drawing(proposal, rounding, rounding.sampled(epsilon), rounding.bounded(epsilon))
