"""Privacy losses and their laws: what a guarantee is about, before any event or estimate."""

from evr.laws.line.discrete import TRIVIAL_PAIR, DiscretePair
from evr.laws.line.pair import Direction, DominatingPair, Floats, Measure, Pairs
from evr.laws.line.poisson import finite_part, outcomes
from evr.laws.steps import NON_PRIVATE_PAIR, Step, infinite_mass, simplify

__all__ = [
    "NON_PRIVATE_PAIR",
    "TRIVIAL_PAIR",
    "Direction",
    "DiscretePair",
    "DominatingPair",
    "Floats",
    "Measure",
    "Pairs",
    "Step",
    "finite_part",
    "infinite_mass",
    "outcomes",
    "simplify",
]
