"""Upper bounds on delta in exact arithmetic: balls, integers, products of polynomials (docs/guarantees_strict.md).

Coq has checked the mathematics of Sections S1 to S5 (proofs/): the same integers come out of a program that is
extracted from that proof (docs/trust.md).
"""

from evr.bounds.strict.bins import outcomes_of, places_for
from evr.bounds.strict.bound import halves, infinite_delta, one_step_delta, stays_within
from evr.bounds.strict.one_step import ratios_of
from evr.bounds.strict.plan import CurvePlan, Grid, ProofPlan, SelectionPlan, Window, schedule
from evr.bounds.strict.proof import (
    Plans,
    Proof,
    StatedProof,
    bounds_by,
    needs_no_plan,
    prove,
    prove_curve,
    prove_within,
    rounded_up,
)

__all__ = [
    "CurvePlan",
    "Grid",
    "Plans",
    "Proof",
    "ProofPlan",
    "SelectionPlan",
    "StatedProof",
    "Window",
    "bounds_by",
    "halves",
    "infinite_delta",
    "needs_no_plan",
    "one_step_delta",
    "outcomes_of",
    "places_for",
    "prove",
    "prove_curve",
    "prove_within",
    "ratios_of",
    "rounded_up",
    "schedule",
    "stays_within",
]
