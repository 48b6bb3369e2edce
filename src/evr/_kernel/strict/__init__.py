"""Upper bounds on delta in exact arithmetic (docs/guarantees_strict.md): what a plan says (``plan``), a step
on its grid (``one_step``, S3), products and windows (``grid_law`` on ``masses``, S4), the last sum (S5), the
proof. There is no float in it: a test sees to that. Coq has checked Sections S1 to S5: a program that is
extracted from that proof computes the same integers (docs/trust.md).
"""

from evr._kernel.strict.last_sum import halves
from evr._kernel.strict.plan import (
    CurvePlan,
    Grid,
    NestedPlan,
    ProofPlan,
    SelectionPlan,
    StatedProof,
    Window,
    schedule,
)
from evr._kernel.strict.proof import Plans, Proof, prove, prove_curve, prove_within, rounded_up

__all__ = [
    "CurvePlan",
    "Grid",
    "NestedPlan",
    "Plans",
    "Proof",
    "ProofPlan",
    "SelectionPlan",
    "StatedProof",
    "Window",
    "halves",
    "prove",
    "prove_curve",
    "prove_within",
    "rounded_up",
    "schedule",
]
