"""Losses that exceed epsilon by less than floats know of their sum."""

from __future__ import annotations

import pytest

import evr
from evr._kernel.pairs import DiscretePair, Step, greatest_loss
from evr._kernel.verdict.attempts import shortcut
from evr._kernel.verdict.settings import Claim
from helpers import answers, together


def test_what_floats_cannot_settle_is_refused() -> None:
    """It was rejected every time: the greatest sum is 5e-12 above epsilon, and 395 losses are known
    to within 5e-11. By enumeration delta is 3.3321e-12.
    """
    event = together((answers(2.451698127580218e-07, 2), 395))
    with pytest.raises(ValueError, match="floats know total losses of this composition to within"):
        evr.verify(event, epsilon=6286.212415412445, delta=3.3321010696738855e-12 / 0.6, tau=0.6, method="sequential")


def test_the_greatest_loss_itself_is_not_settled_by_floats() -> None:
    steps = (Step(DiscretePair.from_probabilities([0.3, 0.7], [0.7, 0.3]), 7),)
    greatest = greatest_loss(steps)
    for delta in (0.0, 1e-30):
        with pytest.raises(ValueError, match="to within rounding, the greatest loss is epsilon"):
            shortcut(steps, Claim(greatest, delta))
    found = shortcut(steps, Claim(greatest * (1 + 1e-13), 0.0))
    assert found is not None
    assert found.accepted
