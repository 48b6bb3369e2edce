"""What the name of a plan's proposal stands for: one line for each."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import lru_cache

from evr.laws import Step
from evr.sampling.line import SimpleProposal, TiltedProposal
from evr.sampling.mixtures import MixtureProposal
from evr.sampling.plan import DrawPlan
from evr.sampling.proposals import Proposal
from evr.sampling.single import SingleProposal

Builder = Callable[[DrawPlan, Sequence[Step]], Proposal]

PROPOSALS: dict[str, Builder] = {
    "capped": TiltedProposal.from_plan,
    "simple": SimpleProposal.from_plan,
    "single": SingleProposal.from_plan,
    "mixture": MixtureProposal.from_plan,
}


def built(plan: DrawPlan, steps: tuple[Step, ...]) -> Proposal:
    """The proposal that a plan describes, for the steps of one direction. Bounds and normalisers
    are computed here.
    """
    if plan.proposal not in PROPOSALS:
        known = ", ".join(PROPOSALS)
        raise ValueError(f"proposal={plan.proposal!r} of a plan is not one of {known}")
    return _built(replace(plan, clip=None, variance=1.0, block_size=1, device="cpu"), steps)


@lru_cache(maxsize=8)
def _built(plan: DrawPlan, steps: tuple[Step, ...]) -> Proposal:
    """Once for all plans that draw the same, in this process."""
    proposal = PROPOSALS[plan.proposal](plan, steps)
    proposal.source = (plan, steps)
    return proposal
