"""Privacy losses and their laws: what a guarantee is about, before any event or estimate."""

from evr.laws.law import Direction, Floats, LossLaw
from evr.laws.line.discrete import TRIVIAL_PAIR, DiscretePair
from evr.laws.line.pair import DominatingPair, Measure, line_pair
from evr.laws.line.poisson import finite_part, outcomes
from evr.laws.steps import (
    NON_PRIVATE_PAIR,
    Pairs,
    Step,
    greatest_loss,
    infinite_loss_mass,
    infinite_mass,
    is_cut,
    loss_range,
    merged,
    on_a_line,
    simplify,
)

__all__ = [
    "NON_PRIVATE_PAIR",
    "TRIVIAL_PAIR",
    "Direction",
    "DiscretePair",
    "DominatingPair",
    "Floats",
    "LossLaw",
    "Measure",
    "Pairs",
    "Step",
    "finite_part",
    "greatest_loss",
    "infinite_loss_mass",
    "infinite_mass",
    "is_cut",
    "line_pair",
    "loss_range",
    "merged",
    "on_a_line",
    "outcomes",
    "simplify",
]
