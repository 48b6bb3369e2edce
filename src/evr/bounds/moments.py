"""Moments and greatest values of samples, proved without a sample
(docs/guarantees.md, Section 3).
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from evr.bounds.cells import TiltedBounds


def log_peak(order: float, power: float = 1.0) -> float:
    """``log`` of the greatest value of ``(1 - e^{-x})^power e^{-order x}``, which is ``p^p s^s / (p
    + s)^{p + s}``; as logarithms of ``p / (p + s)`` and ``s / (p + s)``, for ``s log s`` of a large
    order has no digits left behind the point.
    """
    p, s = power, order
    rest = math.log1p(p / s) if s >= p else math.log(p + s) - math.log(s)  # p / s may overflow
    return -p * math.log1p(s / p) - s * rest


def log_clipping(power: float) -> float:
    """``log`` of ``(p - 1)^{p - 1} / p^p``: ``(x - b)_+`` is at most that times ``x^p / b^{p -
    1}``.
    """
    return (power - 1.0) * math.log(power - 1.0) - power * math.log(power)


class MomentBound:
    """The bound on ``E[X^p]`` of docs/guarantees.md, Section 3, as a function of its free parameter
    ``s > 0``.
    """

    def __init__(
        self,
        counts: Sequence[int],
        bounds: Sequence[TiltedBounds],
        log_normaliser: float,
        epsilon: float,
        p: float,
    ) -> None:
        self.counts, self.bounds, self.epsilon, self.p = counts, bounds, epsilon, p
        self._factor = (p - 1) * log_normaliser
        wholes = [b.log_whole(p) for b in bounds]
        whole = math.fsum(n * v for n, v in zip(counts, wholes, strict=True))
        beyond = [
            math.log(n) + b.log_beyond(p) - v
            for n, b, v in zip(counts, bounds, wholes, strict=True)
        ]
        self._jump = whole + float(np.logaddexp.reduce(beyond))

    def __call__(self, s: float) -> float:
        """``log`` of the bound."""
        p = self.p
        joint = math.fsum(
            n * b.log_partial(s, p) for n, b in zip(self.counts, self.bounds, strict=True)
        )
        return self._factor + float(
            np.logaddexp(log_peak(s, p) - s * self.epsilon + joint, self._jump)
        )


def log_greatest(
    counts: Sequence[int], bounds: Sequence[TiltedBounds], log_normaliser: float, epsilon: float
) -> float:
    """``log`` of the bound on ``X`` of docs/guarantees.md, Section 3, with the best of the tilts'
    orders as its free parameter.
    """
    together = math.inf
    for order in {b.tilt.order for b in bounds} - {0.0}:
        value = log_normaliser - order * epsilon + log_peak(order)
        value += math.fsum(n * b.greatest_gap(order) for n, b in zip(counts, bounds, strict=True))
        together = min(together, value)
    least = math.fsum(n * b.least_height for n, b in zip(counts, bounds, strict=True))
    jumps = [
        log_normaliser - b.tilt.height_beyond - (least - b.least_height)
        for b in bounds
        if b.log_beyond(1.0) > -math.inf
    ]
    return max([together, *jumps])
