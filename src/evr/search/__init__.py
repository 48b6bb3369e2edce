"""Choosing what to draw from. A search may be wrong without harm: what a guarantee rests on is
computed from its result.
"""

from evr.search.merging import merged_steps
from evr.search.single import single_proposal
from evr.search.tuning import capped_proposal, simple_proposal

__all__ = ["capped_proposal", "merged_steps", "simple_proposal", "single_proposal"]
