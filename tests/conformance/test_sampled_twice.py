"""What is sampled twice is sampled with the product of both probabilities, never with less."""

from __future__ import annotations

from fractions import Fraction

from hypothesis import given
from hypothesis import strategies as st

from evr._kernel.pairs import Direction
from evr._kernel.pairs.line.gaussian import GaussianPair
from evr._kernel.pairs.line.poisson import SampledPair, poisson_sampled

probabilities = st.floats(1e-9, 1.0, exclude_max=True)


@given(probabilities, probabilities)
def test_the_product_is_rounded_up(one: float, other: float) -> None:
    """Once it was rounded to nearest: of 1 - q = 1e-6 that took off 1e-10."""
    pair = GaussianPair(1.0)
    exact = Fraction(one) * Fraction(other)
    for direction in Direction:
        found = poisson_sampled(poisson_sampled(pair, one, direction), other, direction)
        assert isinstance(found, SampledPair)
        assert exact <= Fraction(found.q) <= exact * (1 + Fraction(1, 2**52))
        assert found.q < 1.0
