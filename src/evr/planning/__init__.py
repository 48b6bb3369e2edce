"""Choosing what to draw from. A search may be wrong without harm: what a guarantee rests on is computed from its
result.
"""

from evr.planning.capped import capped_plan, capped_proposal
from evr.planning.single import single_proposal

__all__ = ["capped_plan", "capped_proposal", "single_proposal"]
