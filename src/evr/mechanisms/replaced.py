"""Replace-one: Poisson sampling of additive noise (docs/guarantees_relations.md, Sections R5 and R6), and schemes in
many dimensions (Section R8).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
from dp_accounting import dp_event

from evr.laws import Pairs
from evr.laws.exact import (
    ExactDiscreteGaussian,
    ExactDiscreteLaplace,
    ExactGaussian,
    ExactLaplace,
    ExactLaw,
    ExactTwoSided,
    ExactTwoSidedLaplace,
    ExactTwoSidedOutcomes,
)
from evr.laws.line.discrete import DiscretePair
from evr.laws.line.gaussian import NORMAL_REACH
from evr.laws.line.two_sided import TwoSidedLaplacePair, TwoSidedPair, two_sided_outcomes
from evr.laws.patterns.law import PatternLaw
from evr.laws.patterns.replaced import ReplacedPatterns
from evr.mechanisms.schemes import DiscreteGaussianDpEvent

NOISES = (dp_event.GaussianDpEvent, dp_event.LaplaceDpEvent, dp_event.DiscreteLaplaceDpEvent, DiscreteGaussianDpEvent)
"""Events that say that they add noise to a sum. A pair does not say that."""


def sampled(base: ExactLaw | None, q: Fraction) -> Pairs | None:
    """The pairs of noise sampled with probability ``q``; ``base`` is its law under replace-one, which has twice the
    norm of a record. None where there is no theorem.
    """
    match base:
        case ExactGaussian(square):
            pair = TwoSidedPair((0.0, math.sqrt(square) / 2), (float(1 - q), float(q)))
            sizes = (Fraction(0), Fraction(1))
            return Pairs.both(pair, ExactTwoSided(square / 4, sizes, (1 - q, q)))
        case ExactLaplace(scale):
            return Pairs.both(TwoSidedLaplacePair(float(2 * scale), float(q)), ExactTwoSidedLaplace(2 * scale, q))
        case ExactDiscreteLaplace(parameter, shift):
            once = ExactDiscreteLaplace(parameter, shift // 2)
            return Pairs.both(_discrete_laplace(float(parameter), shift // 2, float(q)), ExactTwoSidedOutcomes(once, q))
        case ExactDiscreteGaussian(sigma, shift):
            single = ExactDiscreteGaussian(sigma, shift // 2)
            return Pairs.both(_discrete_gaussian(float(sigma), shift // 2, float(q)), ExactTwoSidedOutcomes(single, q))
    return None


def _discrete_laplace(a: float, shift: int, q: float) -> DiscretePair:
    """All integers from ``shift`` on are one outcome, and all down from ``-shift``."""
    x = np.arange(-shift, shift + 1.0)
    log_atom, log_tail = math.log(math.tanh(a / 2)), -math.log1p(math.exp(-a))
    absent, present = log_atom - a * np.abs(x), log_atom - a * np.abs(x - shift)
    for law in (absent, present):
        law[[0, -1]] += log_tail - log_atom
    return two_sided_outcomes(absent, present, a * (np.abs(x) - np.abs(x - shift)), q, is_cut=False)


def _discrete_gaussian(sigma: float, shift: int, q: float) -> DiscretePair:
    """Noise beyond 39 ``sigma`` is left out, as without sampling."""
    reach = math.ceil(NORMAL_REACH * sigma) + 2 + shift
    x, tail = np.arange(-reach, reach + 1.0), np.arange(1.0, reach)
    log_norm = math.log1p(2 * math.fsum(np.exp(-(tail**2) / (2 * sigma**2)).tolist()))
    absent, present = (-((x - by) ** 2) / (2 * sigma**2) - log_norm for by in (0, shift))
    return two_sided_outcomes(absent, present, shift * (2 * x - shift) / (2 * sigma**2), q, is_cut=True)


def scheme(laws: Callable[[Any], Pairs | dp_event.DpEvent]) -> Callable[[Any], Pairs | dp_event.DpEvent]:
    """The translator of a scheme in many dimensions under replace-one, from its own: by samples, for no exact law is
    known.
    """

    def translate(event: Any) -> Pairs | dp_event.DpEvent:
        found = laws(event)
        if isinstance(found, dp_event.DpEvent):
            return found
        assert isinstance(found.remove, PatternLaw)
        return Pairs.both(ReplacedPatterns(found.remove))

    return translate
