"""Whether any privacy loss exceeds epsilon: the bound on delta that needs no moment (docs/guarantees.md,
Section 4.4).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from evr.laws import Step, greatest_loss, infinite_mass, is_cut, loss_range

DOUBT = 1e-14
"""Relative, of a sum of greatest losses, which are rounded numbers."""

LEFT_OUT = 1e-300
"""What losses that no float reaches contribute to delta at the most, in all steps."""


class Reach(NamedTuple):
    """What the losses reach.

    Attributes
    ----------
    infinite
        The probability of an infinite loss; may be too small for a float, and then 0.
    endless
        Whether losses beyond all bounds are possible, however unlikely.
    finite
        The greatest sum of finite losses.
    excess
        By how much that may exceed epsilon, rounding included: a bound on what finite losses contribute to delta.
    """

    infinite: float
    endless: bool
    finite: float
    excess: float

    @property
    def is_pure(self) -> bool:
        """Whether no loss exceeds epsilon, rounding included: then delta is 0."""
        return not self.endless and self.excess == 0.0


def reach(steps: Sequence[Step], epsilon: float) -> Reach:
    """The reach of a composition at ``epsilon``."""
    greatest = greatest_loss(steps)
    endless = any(is_cut(step.law) or loss_range(step.law)[1] == math.inf for step in steps)
    excess = max(LEFT_OUT if endless else 0.0, greatest + DOUBT * abs(greatest) - epsilon)
    return Reach(infinite_mass(steps), endless, greatest, excess)
