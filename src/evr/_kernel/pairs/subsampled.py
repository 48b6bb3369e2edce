"""Sampled laws on a line: exact ones exactly, laws that are known in floats only in floats."""

from fractions import Fraction

from evr._kernel.pairs.exact.law import ExactLaw
from evr._kernel.pairs.exact.sampled import exact_sampled, exact_without_replacement
from evr._kernel.pairs.line import poisson
from evr._kernel.pairs.line.pair import line_pair
from evr._kernel.pairs.steps import Law
from evr.types import Direction


def poisson_sampled(law: Law, q: Fraction, direction: Direction) -> Law:
    """The law seen through Poisson sampling, ``0 < q <= 1``."""
    if isinstance(law, ExactLaw):
        return exact_sampled(law, q, direction)
    return poisson.poisson_sampled(line_pair(law), q, direction)


def without_replacement(law: Law, share: Fraction) -> Law:
    """The law seen through sampling of a share of the records, for both directions; ``0 < share < 1``."""
    if isinstance(law, ExactLaw):
        return exact_without_replacement(law, share)
    return poisson.sampled_without_replacement(line_pair(law), share)
