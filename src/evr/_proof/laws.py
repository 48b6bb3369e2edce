"""The text of each law in proof files (docs/proof_format.md, "Laws")."""

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

from evr._kernel.events import Composition
from evr._kernel.events.relations import name_of
from evr._kernel.pairs import Direction, Law, exact
from evr._kernel.pairs.grouping import grouped
from evr._kernel.pairs.nested import NestedLaw
from evr._kernel.pairs.selection import Selection
from evr._proof import check_proof
from evr.errors import UnsupportedEventError

INSTEAD = "leave the proof file out, and check the certificate by `evr replay`"
_PARTS: dict[type, Callable[[Any], tuple[Any, ...]]] = {
    exact.ExactGaussian: lambda law: _gaussian(law.square),
    exact.ExactLaplace: lambda law: ("laplace", law.scale),
    exact.ExactMixture: lambda law: (*_centres(law), ("weights", *law.weights)),
    exact.ExactTwoSidedLaplace: lambda law: ("replaced", law.q, ("laplace", law.scale)),
    exact.ExactTwoSidedOutcomes: lambda law: ("replaced", law.q, law.base),
    exact.ExactLabelled: lambda law: ("labelled", ("squares", *law.squares), ("weights", *law.weights)),
    exact.RationalOutcomes: lambda law: ("outcomes", ("p", *law.p), ("q", *law.q)),
    exact.ExactEpsilonDelta: lambda law: ("epsilon_delta", law.epsilon, law.delta),
    exact.ExactDiscreteLaplace: lambda law: ("discrete_laplace", law.parameter, law.sensitivity),
    exact.ExactDiscreteGaussian: lambda law: ("discrete_gaussian", law.sigma, law.sensitivity),
    exact.ExactShifted: lambda law: ("shifted", law.square, law.shift),
    exact.ExactConcentrated: lambda law: ("zcdp", law.rho, law.xi),
    exact.ExactBoundedRange: lambda law: ("bounded_range", law.epsilon),
    exact.ExactRun: lambda law: ("bounded_range", law.epsilon, law.steps),
    exact.ExactTruncated: lambda law: ("truncated", law.size, law.q, law.most, law.noise),
    exact.SampledCurve: lambda law: ("poisson", law.q, law.base),
    exact.SampledOutcomes: lambda law: ("poisson", law.q, law.base),
    exact.WithoutReplacementCurve: lambda law: ("without_replacement", law.g, law.base),
    exact.WithoutReplacementOutcomes: lambda law: ("without_replacement", law.g, law.base),
}
"""The text of each law (docs/proof_format.md, "Laws"): its name, and numbers, named lists of numbers, and laws."""
_WITHOUT_TEXT: dict[type, str] = {
    exact.ExactEither: "a group of nearly equal steps",
    exact.ExactBins: "balls in bins (or random allocation)",
    NestedLaw: "several mechanisms on one sample, or one of several groups,",
    Selection: "a selection of the best of several runs",
}


def check_texts(composition: Composition) -> list[tuple[str, str]]:
    """The laws of each step in both directions as text; a composition that no proof file can state is refused."""
    remove, add = (grouped(composition.simplified(one)) for one in Direction)
    if [step.count for step in remove] != [step.count for step in add]:
        raise UnsupportedEventError("the two directions are not made of the same steps, and a proof file is about both")
    found = [(law_text(one.law), law_text(other.law)) for one, other in zip(remove, add, strict=True)]
    try:
        for law in (text for pair in found for text in pair):
            check_proof.check_law(name_of(composition.relation), law)
    except check_proof.RefusedError as why:
        raise UnsupportedEventError(f"{why} in proof files: {INSTEAD}") from None
    return found


def law_text(law: Law) -> str:
    """The law as a word; one without a text is refused.

    >>> law_text(exact.ExactGaussian(Fraction(4, 9)))
    'gaussian(3/2)'
    """
    if type(law) not in _PARTS:
        what = next((text for kind, text in _WITHOUT_TEXT.items() if isinstance(law, kind)), "a law of your own")
        raise UnsupportedEventError(f"{what} cannot be stated in a proof file: {INSTEAD}")
    return _text(_PARTS[type(law)](law))


def _text(part: Any) -> str:
    """A law, a named list, or a number: an integer, or a ratio of integers in lowest terms."""
    if isinstance(part, tuple):
        return f"{part[0]}({','.join(map(_text, part[1:]))})"
    return law_text(part) if isinstance(part, exact.ExactLaw) else str(Fraction(part))


def _gaussian(square: Fraction) -> tuple[Any, ...]:
    """By the noise multiplier if that is rational, or else by one over its square."""
    mean = _root(square)
    return ("gaussians", square) if mean is None else ("gaussian", 1 / mean)


def _centres(law: exact.ExactMixture) -> tuple[Any, ...]:
    """The name of a mixture, and where its Gaussians are; refused if these are no rational numbers and must be."""
    if law.direction is None:
        return "two_sided", law.square, ("sizes", *law.sizes)
    if (unit := _root(law.square)) is None:
        raise UnsupportedEventError(f"a mixture with irrational means cannot be stated in a proof file: {INSTEAD}")
    return "mixture", ("means", *(size * unit for size in law.sizes))


def _root(square: Fraction) -> Fraction | None:
    """The square root of a positive number, if it is rational."""
    root = Fraction(math.isqrt(square.numerator), math.isqrt(square.denominator))
    return root if root**2 == square else None
