"""The capped exponential tilt: how a proposal leans on the privacy loss.

Notation of docs/guarantees.md, Section 3: the tilted law of one step is ``P' = e^{h(y)} P / M``
with ``h`` a non-decreasing, piecewise linear function of the loss ``y``: of slope ``order`` from
``floor`` to ``knee``, of slope ``jump_order`` from there to ``cap``, constant outside. With a far
cap all steps share the excess over epsilon; with a cap slightly above epsilon a single jump carries
it, and a second, steeper slope keeps the many small losses out of it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from evr.laws import Floats

LEAST_ORDER = 1e-100
"""Of a tilt that is one: far below what any composition needs, and far above what overflows when it
divides.
"""


@dataclass(frozen=True)
class Tilt:
    """``h``; order 0 is plain sampling. Without a knee there is one slope."""

    order: float = 0.0
    cap: float = math.inf
    floor: float = -math.inf
    knee: float | None = None
    jump_order: float | None = None

    def __post_init__(self) -> None:
        orders = (self.order, self.order if self.jump_order is None else self.jump_order)
        if not all(order == 0.0 or LEAST_ORDER <= order < math.inf for order in orders):
            raise ValueError(f"{self!r}: orders are 0, or finite and at least {LEAST_ORDER}")
        if not self.floor <= self.cap:
            raise ValueError(f"{self!r}: the floor is above the cap")
        if self.order > 0 and not (math.isfinite(self.cap) and math.isfinite(self.floor)):
            raise ValueError(
                f"a tilt of order {self.order!r} needs a finite cap and floor, not {self.cap!r}, "
                f"{self.floor!r}"
            )
        if (self.knee is None) != (self.jump_order is None):
            raise ValueError(
                f"knee={self.knee!r} and jump_order={self.jump_order!r} come together or not at all"
            )
        if self.knee is not None and not (
            self.floor <= self.knee <= self.cap and self.order <= (self.jump_order or 0.0)
        ):
            raise ValueError(f"{self!r}: floor <= knee <= cap and order <= jump_order do not hold")

    @property
    def pieces(self) -> tuple[tuple[float, float, float], ...]:
        """``(upper end, slope, offset)`` of each linear piece of ``h``, in order; the last is that
        beyond the cap.
        """
        if self.order == 0:
            return ((self.cap, 0.0, 0.0), (math.inf, 0.0, 0.0))
        pieces = [(self.floor, 0.0, self.order * self.floor)]
        top = self.order * self.cap
        if self.knee is None or self.jump_order is None:
            pieces.append((self.cap, self.order, 0.0))
        else:
            lost = (self.jump_order - self.order) * self.knee
            pieces += [(self.knee, self.order, 0.0), (self.cap, self.jump_order, -lost)]
            top = self.jump_order * self.cap - lost
        return (*pieces, (math.inf, 0.0, top))

    def height(self, loss: Any) -> Floats:
        """``h`` at a loss."""
        loss = np.asarray(loss, float)
        if self.order == 0:
            return np.zeros_like(loss)
        if self.knee is None or self.jump_order is None:
            return self.order * np.clip(loss, self.floor, self.cap)
        beyond = np.clip(loss, self.knee, self.cap) - self.knee
        return self.order * np.clip(loss, self.floor, self.knee) + self.jump_order * beyond

    @property
    def is_whole(self) -> bool:
        """Whether all slopes are whole numbers."""
        return float(self.order).is_integer() and (
            self.jump_order is None or float(self.jump_order).is_integer()
        )

    @property
    def height_beyond(self) -> float:
        """``h`` beyond the cap."""
        return self.pieces[-1][2]

    @property
    def magnitude(self) -> float:
        """The greatest number that a height of two slopes is a sum or difference of: near a far
        knee such numbers cancel. 0 where there is one slope, and nothing to cancel.
        """
        if self.order == 0 or self.knee is None or self.jump_order is None:
            return 0.0
        return self.jump_order * max(abs(mark) for mark in (self.floor, self.knee, self.cap))
