"""Drawing: proposals with proved bounds, exact samplers, streams of blocks."""

from evr.sampling.proposals import Block, Proposal, TiltedProposal
from evr.sampling.streams import DRAWING, blocks, worker_count

__all__ = ["DRAWING", "Block", "Proposal", "TiltedProposal", "blocks", "worker_count"]
