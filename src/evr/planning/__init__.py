"""Choosing what to draw from. A choice may be bad without harm: guarantees are computed from its result."""

from evr.planning.capped import capped_plan, capped_proposal

__all__ = ["capped_plan", "capped_proposal"]
