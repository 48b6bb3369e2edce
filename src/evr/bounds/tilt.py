"""The capped exponential tilt: how a proposal leans on the privacy loss.

Notation of docs/guarantees.md, Section 3: the tilted law of one step is ``P' = e^{h(y)} P / M`` with ``h`` of slope
``order`` in the loss ``y`` from ``floor`` to ``cap``, constant outside. With a far cap all steps share the excess over
epsilon; with a cap slightly above epsilon a single jump carries it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from evr.laws import Floats

LEAST_ORDER = 1e-100
"""The least order of a tilt, besides 0: far below any that serves, far above what overflows when it divides."""


@dataclass(frozen=True)
class Tilt:
    """``h``; order 0 leaves the law as it is."""

    order: float = 0.0
    cap: float = math.inf
    floor: float = -math.inf

    def __post_init__(self) -> None:
        if not (self.order == 0.0 or LEAST_ORDER <= self.order < math.inf):
            raise ValueError(f"{self!r}: the order is 0, or finite and at least {LEAST_ORDER}")
        if not self.floor <= self.cap:
            raise ValueError(f"{self!r}: the floor is above the cap")
        if self.order > 0 and not (math.isfinite(self.cap) and math.isfinite(self.floor)):
            raise ValueError(f"{self!r}: a tilt that is not of order 0 needs a finite cap and floor")

    def height(self, loss: Any) -> Floats:
        """``h`` at a loss."""
        loss = np.asarray(loss, float)
        if self.order == 0:
            return np.zeros_like(loss)
        return self.order * np.clip(loss, self.floor, self.cap)

    @property
    def height_beyond(self) -> float:
        """``h`` beyond the cap."""
        return self.order * self.cap if self.order else 0.0
