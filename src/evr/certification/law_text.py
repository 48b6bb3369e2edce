"""Exact laws as text, for proof files: one word without spaces, from which anybody can compute the curve again
(docs/proof_format.md, "Laws").
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from fractions import Fraction
from typing import Any

from evr.errors import UnsupportedEventError
from evr.laws.exact import (
    ExactBoundedRange,
    ExactConcentrated,
    ExactDiscreteGaussian,
    ExactDiscreteLaplace,
    ExactEpsilonDelta,
    ExactGaussian,
    ExactLabelled,
    ExactLaplace,
    ExactLaw,
    ExactMixture,
    ExactRun,
    ExactShifted,
    ExactTruncated,
    ExactTwoSided,
    ExactTwoSidedLaplace,
    ExactTwoSidedOutcomes,
    RationalOutcomes,
    SampledCurve,
    SampledOutcomes,
    WithoutReplacementCurve,
    WithoutReplacementOutcomes,
)


def law_text(law: ExactLaw) -> str:
    """The law as a word; one without a text is refused by name.

    Examples
    --------
    >>> law_text(ExactGaussian(1 / Fraction(1.1) ** 2))
    'gaussian(1.1)'
    """
    if type(law) not in _TEXTS:
        raise UnsupportedEventError(
            f"{type(law).__name__} has no text, so no proof file can be written of it: the "
            "certificate's own replay checks it"
        )
    return _TEXTS[type(law)](law)


def _number(number: Fraction | int) -> str:
    """An integer, a float as it is shown, or a ratio of integers."""
    number = Fraction(number)
    if number.denominator == 1:
        return str(number)
    near = float(number)
    return repr(near) if math.isfinite(near) and Fraction(near) == number else str(number)


def _row(name: str, numbers: Iterable[Fraction | int]) -> str:
    return f"{name}({','.join(map(_number, numbers))})"


def _gaussian(law: ExactGaussian) -> str:
    noise = Fraction(1 / math.sqrt(law.square))
    single = noise and 1 / noise**2 == law.square
    return _row("gaussian", [noise]) if single else _row("gaussians", [law.square])


def _mixture(law: ExactMixture) -> str:
    return f"mixture({_row('means', law.means)},{_row('weights', law.weights)})"


def _two_sided(law: ExactTwoSided) -> str:
    rows = f"{_row('sizes', law.sizes)},{_row('weights', law.weights)}"
    return f"two_sided({_number(law.square)},{rows})"


def _outcomes(law: RationalOutcomes) -> str:
    return f"outcomes({_row('p', law.p)},{_row('q', law.q)})"


def _poisson(law: SampledCurve | SampledOutcomes) -> str:
    return f"poisson({_number(law.q)},{law_text(law.base)})"


def _share(law: WithoutReplacementCurve | WithoutReplacementOutcomes) -> str:
    return f"without_replacement({_number(law.g)},{law_text(law.base)})"


_TEXTS: dict[type[ExactLaw], Callable[[Any], str]] = {
    ExactGaussian: _gaussian,
    ExactLaplace: lambda law: _row("laplace", [law.scale]),
    ExactMixture: _mixture,
    ExactTwoSided: _two_sided,
    ExactTwoSidedLaplace: lambda law: f"replaced({_number(law.q)},{_row('laplace', [law.scale])})",
    ExactTwoSidedOutcomes: lambda law: f"replaced({_number(law.q)},{law_text(law.base)})",
    ExactLabelled: lambda law: f"labelled({_row('squares', law.squares)},{_row('weights', law.weights)})",
    RationalOutcomes: _outcomes,
    ExactEpsilonDelta: lambda law: _row("epsilon_delta", [law.epsilon, law.delta]),
    ExactDiscreteLaplace: lambda law: _row("discrete_laplace", [law.parameter, law.sensitivity]),
    ExactDiscreteGaussian: lambda law: _row("discrete_gaussian", [law.sigma, law.sensitivity]),
    ExactShifted: lambda law: _row("shifted", [law.square, law.shift]),
    ExactConcentrated: lambda law: _row("zcdp", [law.rho, law.xi]),
    ExactBoundedRange: lambda law: _row("bounded_range", [law.epsilon]),
    ExactRun: lambda law: _row("bounded_range", [law.epsilon, law.steps]),
    ExactTruncated: lambda law: _row("truncated", [law.size, law.q, law.most, law.noise]),
    SampledCurve: _poisson,
    SampledOutcomes: _poisson,
    WithoutReplacementCurve: _share,
    WithoutReplacementOutcomes: _share,
}
