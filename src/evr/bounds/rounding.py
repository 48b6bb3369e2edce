"""How far floats may be off: what is assumed, and what follows (docs/guarantees.md, Section 6).

A total privacy loss is known to within ``loss``, absolutely: samples are taken at an epsilon lower by that much, so
that no rounded sample is below the true one. A weight, or a bound, is known to within ``weight``, relatively:
thresholds are lowered by that much.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from evr.laws import DiscretePair, LossLaw, Step, line_pair
from evr.laws.law import UNIT
from evr.laws.patterns.law import PatternLaw, density_error

FIXED = 1e-7
"""Relative, of a weight or a bound: what no term below accounts for, chances of draws among it."""

PER_STEP = 1e-12
"""Relative, of the normaliser of one step: sums over cells of probabilities that are good to 1e-13 each."""


def sum_error(law: LossLaw, count: int) -> float:
    """Bounds the rounding error of a sum of ``count`` losses (docs/guarantees.md, 6; docs/guarantees_highdim.md, 7)."""
    if isinstance(law, PatternLaw):
        return count * density_error(law, 1.0)
    magnitude = line_pair(law).loss_magnitude
    if isinstance(law, DiscretePair):
        # Losses are relatively accurate, and a sum has a term for each outcome, or for each step.
        return (32.0 + min(len(law.log_p), count)) * UNIT * count * magnitude
    return 32.0 * UNIT * count * (1.0 + magnitude)


@dataclass(frozen=True)
class Rounding:
    """Bounds on errors: ``loss`` absolutely on a sum of losses, ``weight`` relatively on a weight or a bound. ``order``
    is the steepest slope of a weight's logarithm over the loss of a step.
    """

    loss: float
    weight: float
    order: float = 0.0

    @classmethod
    def of(
        cls,
        steps: Iterable[Step],
        epsilon: float,
        *,
        order: float = 0.0,
        heights: float = 0.0,
        composed: Iterable[Step] = (),
    ) -> Rounding:
        """Of sums over the steps, with weights of slopes up to ``order`` and logarithms up to ``heights``; ``composed``
        are single steps that some of them stand for.
        """
        steps, composed = tuple(steps), tuple(composed)
        loss = math.fsum(sum_error(step.law, step.count) for step in steps)
        loss += 8.0 * UNIT * math.fsum(s.count * s.pair.loss_magnitude for s in composed)
        loss += 4.0 * UNIT * abs(epsilon)
        count = sum(step.count for step in (*steps, *composed))
        weight = 2.0 * order * loss + 16.0 * UNIT * (order * abs(epsilon) + heights)
        return cls(loss, FIXED + PER_STEP * count + weight, order)

    def bounded(self, epsilon: float) -> float:
        """Where to take bounds, so that they hold for the samples as they are computed."""
        return epsilon - 2.0 * self.loss
