"""The one root search of estimates, against roots that are known."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evr._estimate.inversion import root
from helpers import near

CURVES: dict[str, Callable[[float, float], float]] = {
    "logarithm": lambda x, at: math.log(x / at),
    "steep": lambda x, at: (x / at) ** 9 - 1,
    "falling": lambda x, at: at / x - 1,
    "flat at its root": lambda x, at: (x / at - 1) ** 3,
    "jump": lambda x, at: 1.0 if x >= at else -1e-6,
    "floored": lambda x, at: max(math.log(at / x), -1e-9),
}


@pytest.mark.parametrize("name", CURVES)
@given(at=st.floats(1e-6, 1e6), below=st.floats(1.001, 1e4), above=st.floats(1.001, 1e4), swapped=st.booleans())
def test_a_root_is_found_from_both_sides_in_few_steps(
    name: str, at: float, below: float, above: float, swapped: bool
) -> None:
    asked = []

    def function(x: float) -> float:
        asked.append(x)
        return CURVES[name](x, at)

    ends = [(x, CURVES[name](x, at)) for x in (at / below, at * above)]
    first, last = (ends[1], ends[0]) if swapped else ends
    assert root(function, first, last, 1e-12) == near(at, rel=1e-4 if name == "flat at its root" else 1e-11)
    assert len(asked) < (200 if name == "flat at its root" else 100)
    assert all(ends[0][0] <= x <= ends[1][0] for x in asked)


@pytest.mark.parametrize("at", [1.0, 2.0])
def test_an_end_may_be_the_root(at: float) -> None:
    low, high = ((x, x - at) for x in (1.0, 2.0))
    assert root(lambda x: x - at, low, high, 1e-9) == root(lambda x: x - at, high, low, 1e-9) == at
