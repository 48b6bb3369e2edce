"""What each kind of plan stands for: one line for each."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

from evr.laws import Step
from evr.sampling.line import SimpleProposal, TiltedProposal
from evr.sampling.mixtures import MixtureProposal
from evr.sampling.plan import CappedPlan, MixturePlan, ProposalPlan, SimplePlan, SinglePlan
from evr.sampling.proposals import SOURCES, Proposal
from evr.sampling.single import SingleProposal

BUILDERS: dict[type[ProposalPlan], Callable[[Any, tuple[Step, ...]], Proposal]] = {
    CappedPlan: TiltedProposal.from_plan,
    SimplePlan: SimpleProposal.from_plan,
    SinglePlan: SingleProposal.from_plan,
    MixturePlan: MixtureProposal,
}


@lru_cache(maxsize=8)
def built(plan: ProposalPlan, steps: tuple[Step, ...]) -> Proposal:
    """The proposal that a plan describes, for the steps of one direction: once in a process. Bounds and normalisers are
    computed here.
    """
    proposal = BUILDERS[type(plan)](plan, steps)
    SOURCES[proposal] = (plan, steps)
    return proposal
