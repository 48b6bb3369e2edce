"""What ran: short ways to build the usual events, the events that dp_accounting does not have, and what it takes to
teach evr a mechanism of yours.
"""

from evr._described import register
from evr._dpsgd import dpsgd, from_jax_privacy, opacus_history, square_root_strategy
from evr._kernel.events import Composition, Mechanism
from evr._kernel.events.schemes import (
    AboveThresholdDpEvent,
    AdaptiveClippingDpEvent,
    AllocatedDpEvent,
    BallsInBinsDpEvent,
    BinomialSelectDpEvent,
    BMinSepDpEvent,
    CyclicPoissonDpEvent,
    DiscreteGaussianDpEvent,
    EpsilonDeltaDpEvent,
    ExponentialMechanismDpEvent,
    FixedBatchUsersDpEvent,
    MatrixMechanismDpEvent,
    OneOfDpEvent,
    ParallelDpEvent,
    PermuteAndFlipDpEvent,
    PoissonSampledUsersDpEvent,
    RandomAllocationDpEvent,
    RedrawnBinsDpEvent,
    ShuffledBatchesDpEvent,
    SummedDiscreteGaussiansDpEvent,
    ThresholdSelectDpEvent,
    UsersDpEvent,
    ZeroOutDpEvent,
)
from evr._kernel.pairs import DiscretePair, DominatingPair, Measure, Pairs, as_floats
from evr._kernel.pairs.exact import ExactCurve, ExactOutcomes, RationalOutcomes
from evr._tuning import Tuning, tuning

__all__ = [
    "AboveThresholdDpEvent",
    "AdaptiveClippingDpEvent",
    "AllocatedDpEvent",
    "BMinSepDpEvent",
    "BallsInBinsDpEvent",
    "BinomialSelectDpEvent",
    "Composition",
    "CyclicPoissonDpEvent",
    "DiscreteGaussianDpEvent",
    "DiscretePair",
    "DominatingPair",
    "EpsilonDeltaDpEvent",
    "ExactCurve",
    "ExactOutcomes",
    "ExponentialMechanismDpEvent",
    "FixedBatchUsersDpEvent",
    "MatrixMechanismDpEvent",
    "Measure",
    "Mechanism",
    "OneOfDpEvent",
    "Pairs",
    "ParallelDpEvent",
    "PermuteAndFlipDpEvent",
    "PoissonSampledUsersDpEvent",
    "RandomAllocationDpEvent",
    "RationalOutcomes",
    "RedrawnBinsDpEvent",
    "ShuffledBatchesDpEvent",
    "SummedDiscreteGaussiansDpEvent",
    "ThresholdSelectDpEvent",
    "Tuning",
    "UsersDpEvent",
    "ZeroOutDpEvent",
    "as_floats",
    "dpsgd",
    "from_jax_privacy",
    "opacus_history",
    "register",
    "square_root_strategy",
    "tuning",
]
