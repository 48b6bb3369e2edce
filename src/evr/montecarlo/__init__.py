"""Drawing: proposals with proved bounds, exact samplers, streams of blocks."""

from evr.montecarlo.merging import merged_steps
from evr.montecarlo.proposals import Block, Proposal, TiltedProposal
from evr.montecarlo.streams import DRAWING, blocks, worker_count
from evr.montecarlo.tilt import Tilt
from evr.montecarlo.tuning import capped_proposal, simple_proposal

__all__ = [
    "DRAWING",
    "Block",
    "Proposal",
    "Tilt",
    "TiltedProposal",
    "blocks",
    "capped_proposal",
    "merged_steps",
    "simple_proposal",
    "worker_count",
]
