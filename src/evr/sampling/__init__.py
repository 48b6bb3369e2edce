"""Drawing: plans as data, proposals with proved bounds, exact samplers, numbers by place."""

from evr.sampling import cuda
from evr.sampling.line import SimpleProposal, TiltedProposal
from evr.sampling.plan import DRAWING, DrawPlan, Kind
from evr.sampling.proposals import Block, Proposal, built

__all__ = ["DRAWING", "Block", "DrawPlan", "Kind", "Proposal", "SimpleProposal", "TiltedProposal", "built", "cuda"]
