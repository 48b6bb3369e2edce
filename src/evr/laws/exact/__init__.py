"""Laws by their exact parameters: what a strict proof encloses in balls (docs/guarantees_strict.md, Section S6)."""

from evr.laws.exact.law import Ball, ExactCurve, ExactLaw, ExactOutcomes, OutcomeSet
from evr.laws.exact.line import (
    ExactBins,
    ExactGaussian,
    ExactLabelled,
    ExactLaplace,
    ExactMixture,
    ExactTwoSided,
    ExactTwoSidedLaplace,
)
from evr.laws.exact.outcomes import (
    NON_PRIVATE_LAW,
    ExactDiscreteGaussian,
    ExactDiscreteLaplace,
    ExactEpsilonDelta,
    ExactTwoSidedOutcomes,
    RationalOutcomes,
)
from evr.laws.exact.points import ExactBoundedRange, ExactConcentrated, ExactRun
from evr.laws.exact.sampled import (
    ExactTruncated,
    SampledCurve,
    SampledOutcomes,
    WithoutReplacementCurve,
    WithoutReplacementOutcomes,
    exact_sampled,
    exact_without_replacement,
)
from evr.laws.exact.shifted import ExactShifted

__all__ = [
    "NON_PRIVATE_LAW",
    "Ball",
    "ExactBins",
    "ExactBoundedRange",
    "ExactConcentrated",
    "ExactCurve",
    "ExactDiscreteGaussian",
    "ExactDiscreteLaplace",
    "ExactEpsilonDelta",
    "ExactGaussian",
    "ExactLabelled",
    "ExactLaplace",
    "ExactLaw",
    "ExactMixture",
    "ExactOutcomes",
    "ExactRun",
    "ExactShifted",
    "ExactTruncated",
    "ExactTwoSided",
    "ExactTwoSidedLaplace",
    "ExactTwoSidedOutcomes",
    "OutcomeSet",
    "RationalOutcomes",
    "SampledCurve",
    "SampledOutcomes",
    "WithoutReplacementCurve",
    "WithoutReplacementOutcomes",
    "exact_sampled",
    "exact_without_replacement",
]
