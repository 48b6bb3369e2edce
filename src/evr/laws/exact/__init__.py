"""Laws by their exact parameters: what a strict proof encloses in balls (docs/guarantees_strict.md, Section S6)."""

from evr.laws.exact.bins import ExactBins
from evr.laws.exact.bounded_range import ExactBoundedRange, ExactRun
from evr.laws.exact.labelled import ExactLabelled
from evr.laws.exact.law import Ball, ExactCurve, ExactLaw, ExactOutcomes, OutcomeSet
from evr.laws.exact.line import ExactGaussian, ExactLaplace
from evr.laws.exact.mixture import ExactMixture
from evr.laws.exact.outcomes import (
    NON_PRIVATE_LAW,
    ExactDiscreteGaussian,
    ExactDiscreteLaplace,
    ExactEpsilonDelta,
    RationalOutcomes,
)
from evr.laws.exact.points import ExactConcentrated, ExactPoints
from evr.laws.exact.sampled import SampledCurve, SampledOutcomes, exact_sampled
from evr.laws.exact.shifted import ExactShifted
from evr.laws.exact.truncated import ExactTruncated
from evr.laws.exact.two_sided import ExactTwoSided, ExactTwoSidedLaplace, ExactTwoSidedOutcomes
from evr.laws.exact.without_replacement import exact_without_replacement

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
    "ExactPoints",
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
    "exact_sampled",
    "exact_without_replacement",
]
