"""The lemma that both roads rest on: a split keeps both laws, and delta is nowhere less; with less of it, it is."""

from __future__ import annotations

import math

import numpy as np
import pytest

from evr._kernel.order import ceil_div, power, share_up
from evr._kernel.pairs.exact import Ball
from helpers import near

CELLS = [(-1.0, 0.3, 2.0), (0.0, 1e-9, 1.0), (3.0, 3.0, 3.5), (3.0, 3.5, 3.5)]
EPSILONS = np.linspace(-5.0, 6.0, 111)


def fall(x: float) -> float:
    return -math.expm1(x)


def delta(losses: list[float], masses: list[float], epsilon: float) -> float:
    """``E_P[(1 - e^{epsilon - loss})_+]``."""
    return sum(p * max(0.0, -math.expm1(epsilon - loss)) for loss, p in zip(losses, masses, strict=True))


@pytest.mark.parametrize(("low", "loss", "high"), CELLS)
def test_both_laws_keep_their_mass(low: float, loss: float, high: float) -> None:
    share = share_up(low, loss, high, fall)
    assert 0.0 <= share <= 1.0
    q = (1.0 - share) * math.exp(-low) + share * math.exp(-high)
    assert q == near(math.exp(-loss), rel=1e-14)


@pytest.mark.parametrize(("low", "loss", "high"), CELLS)
@pytest.mark.parametrize("more", [0.0, 0.3, 1.0])
def test_delta_is_nowhere_less(low: float, loss: float, high: float, more: float) -> None:
    share = share_up(low, loss, high, fall)
    share += more * (1.0 - share)
    for epsilon in EPSILONS:
        assert delta([low, high], [1.0 - share, share], epsilon) >= delta([loss], [1.0], epsilon) - 1e-15


def test_with_less_going_up_delta_is_less_somewhere() -> None:
    share = 0.999 * share_up(-1.0, 0.3, 2.0, fall)
    pairs = [(delta([-1.0, 2.0], [1.0 - share, share], e), delta([0.3], [1.0], e)) for e in EPSILONS]
    assert any(split < whole for split, whole in pairs)


def test_balls_enclose_what_floats_say() -> None:
    low, loss, high = Ball(-1), Ball(3) / 10, Ball(2)
    assert share_up(low, loss, high, lambda x: 1 - x.exp()).overlaps(Ball(share_up(-1.0, 0.3, 2.0, fall), 1e-14))


@pytest.mark.parametrize("count", [1, 2, 3, 7, 8, 100])
def test_powers_are_products_of_as_many(count: int) -> None:
    assert power("x", count, lambda a, b: a + b) == "x" * count


def test_division_rounds_up() -> None:
    for number in range(-20, 21):
        for by in (1, 2, 7):
            assert ceil_div(number, by) == math.ceil(number / by)
