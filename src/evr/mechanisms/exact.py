"""From mechanisms to exact laws with their counts: what a strict proof starts from."""

from __future__ import annotations

import math
from collections.abc import Iterable
from fractions import Fraction

from evr.errors import UnsupportedEventError
from evr.laws.exact import ExactGaussian, ExactLaw, ExactStep
from evr.laws.law import Direction, LossLaw, Pairs
from evr.laws.line.discrete import TRIVIAL_PAIR
from evr.laws.line.gaussian import GaussianPair


def exact_steps(parts: Iterable[tuple[Pairs, int]], direction: Direction) -> tuple[ExactStep, ...]:
    """The exact laws of one direction, equal ones merged and all Gaussians folded into one,
    exactly.

    Raises ``UnsupportedEventError`` naming the first law that offers no exact one.
    """
    square, rest = Fraction(0), dict[ExactLaw, tuple[int, LossLaw]]()
    for pairs, count in parts:
        pair = pairs.of(direction)
        if pair == TRIVIAL_PAIR:
            continue
        if pairs.exact is None:
            raise UnsupportedEventError(
                f"{type(pair).__name__} ({pair.describe()}) offers no exact law, which "
                "method='strict' needs: let its translator return Pairs(..., "
                "exact=ExactPairs(...)), or use another method"
            )
        law = pairs.exact.of(direction)
        if isinstance(law, ExactGaussian):
            square += count * law.square
        else:
            rest[law] = (rest.get(law, (0, pair))[0] + count, pair)
    folded = (
        (ExactStep(ExactGaussian(square), 1, GaussianPair(math.sqrt(square))),) if square else ()
    )
    return folded + tuple(ExactStep(law, count, pair) for law, (count, pair) in rest.items())
