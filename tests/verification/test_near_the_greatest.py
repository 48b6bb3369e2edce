"""Losses that exceed epsilon by less than floats know of their sum."""

from __future__ import annotations

import pytest
from dp_accounting import dp_event

import evr


def test_what_floats_cannot_settle_is_refused() -> None:
    """It was rejected every time: the greatest sum is 5e-12 above epsilon, and 395 losses are known
    to within 5e-11. By enumeration delta is 3.3321e-12.
    """
    event = dp_event.SelfComposedDpEvent(dp_event.RandomizedResponseDpEvent(2.451698127580218e-07, 2), 395)
    with pytest.raises(ValueError, match="floats know total losses of this composition to within"):
        evr.verify(event, epsilon=6286.212415412445, delta=3.3321010696738855e-12 / 0.6, tau=0.6, method="sequential")
