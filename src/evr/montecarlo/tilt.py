"""The capped exponential tilt: how a proposal leans on the privacy loss.

Notation of docs/guarantees.md, Section 3: ``h(y) = order * clip(y, floor, cap)``, and the tilted law of one step is
``P' = e^{h(y)} P / M``. With a far cap all steps share the excess over epsilon; with a cap slightly above epsilon a single
jump carries it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from evr.mechanisms import Floats


@dataclass(frozen=True)
class Tilt:
    """``h(loss) = order * clip(loss, floor, cap)``. Order 0 is plain sampling."""

    order: float = 0.0
    cap: float = math.inf
    floor: float = -math.inf

    def __post_init__(self) -> None:
        if self.order > 0 and not (math.isfinite(self.cap) and math.isfinite(self.floor)):
            raise ValueError(
                f"a tilt of order {self.order!r} needs a finite cap and floor, not {self.cap!r}, {self.floor!r}"
            )

    def height(self, loss: Any) -> Floats:
        """``h`` at a loss."""
        loss = np.asarray(loss, float)
        return self.order * np.clip(loss, self.floor, self.cap) if self.order else np.zeros_like(loss)
