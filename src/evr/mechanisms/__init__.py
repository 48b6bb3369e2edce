"""What is accounted: ``DpEvent`` trees as dominating pairs in both directions, and their composition."""

from evr.mechanisms.composition import NON_PRIVATE_PAIR, Composition, Step, infinite_mass, timeline
from evr.mechanisms.discrete import DiscretePair
from evr.mechanisms.pair import Direction, DominatingPair, Floats, Measure, Pairs
from evr.mechanisms.poisson import finite_part, outcomes
from evr.mechanisms.registry import MECHANISMS, register

__all__ = [
    "MECHANISMS",
    "NON_PRIVATE_PAIR",
    "Composition",
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
    "register",
    "timeline",
]
