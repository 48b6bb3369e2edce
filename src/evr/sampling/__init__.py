"""Drawing: plans as data, proposals with proved bounds, exact samplers, streams of blocks."""

from evr.sampling import cuda
from evr.sampling.line import SimpleProposal, TiltedProposal
from evr.sampling.plan import DrawPlan, Kind
from evr.sampling.proposals import Block, Proposal
from evr.sampling.registry import PROPOSALS, built
from evr.sampling.streams import DRAWING, blocks, worker_count

__all__ = [
    "DRAWING",
    "PROPOSALS",
    "Block",
    "DrawPlan",
    "Kind",
    "Proposal",
    "SimpleProposal",
    "TiltedProposal",
    "blocks",
    "built",
    "cuda",
    "worker_count",
]
