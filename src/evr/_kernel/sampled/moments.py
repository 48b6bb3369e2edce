"""What is proved of weighted samples: tilts of steps on outcomes, bounds as finite sums, and how far floats
may be off (docs/guarantees.md, Sections 3 and 6).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import singledispatch
from typing import Any

import numpy as np

from evr._kernel.pairs import DiscretePair, Floats, LossLaw, Measure, Step, line_pair, stated_error
from evr._kernel.pairs.law import UNIT
from evr._kernel.pairs.line.laplace import BoundedRangePair, LaplacePair, TwoSidedLaplacePair
from evr._kernel.pairs.line.pair import log_sum_exp, mix_error
from evr._kernel.pairs.line.poisson import SampledPair, WithoutReplacementPair
from evr._kernel.pairs.patterns.law import PatternLaw, density_error

Steps = Sequence[Step]
LEAST_ORDER = 1e-100
"""The least order of a tilt, besides 0: far below any that serves, far above what overflows as divisor."""
FIXED = 1e-7
"""The relative error of a weight or a bound by all else, such as that of the chances of draws."""
PER_STEP = 1e-12
"""The relative error of one step's normaliser: it sums probabilities of cells that are good to 1e-13 each."""


@dataclass(frozen=True)
class Tilt:
    """The capped exponential tilt: the tilted law of one step is ``P' = e^{h(y)} P / M`` with ``h`` of slope
    ``order`` in the loss ``y`` from ``floor`` to ``cap``, constant outside; order 0 leaves the law as it is.

    With a far cap all steps share the excess over epsilon; with a cap slightly above epsilon a single jump
    carries it.
    """

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
        loss = np.asarray(loss, float)
        if self.order == 0:
            return np.zeros_like(loss)
        return self.order * np.clip(loss, self.floor, self.cap)

    @property
    def height_beyond(self) -> float:
        return self.order * self.cap if self.order else 0.0


def log_peak(order: float, power: float = 1.0) -> float:
    """``log`` of ``p^p s^s / (p + s)^{p + s}``, the greatest ``(1 - e^{-x})^p e^{-s x}`` (Section 2.1)."""
    # logarithms of ratios, for s log s of a large order has no digits left behind the point
    p, s = power, order
    rest = math.log1p(p / s) if s >= p else math.log(p + s) - math.log(s)  # p / s may overflow
    return -p * math.log1p(s / p) - s * rest


def log_clipping(power: float) -> float:
    """``log`` of ``(p - 1)^{p - 1} / p^p``: ``(x - b)_+`` is at most that times ``x^p / b^{p - 1}`` (4.3)."""
    return (power - 1.0) * math.log(power - 1.0) - power * math.log(power)


class TiltedOutcomes:
    """One step on outcomes under a tilt: its normaliser and its partial moments, as logarithms of finite sums
    (docs/guarantees.md, Section 3.2).

    >>> pair = DiscretePair.from_probabilities([0.6, 0.4], [0.4, 0.6])
    >>> step = TiltedOutcomes(pair, Tilt(1.0, 1.0, -1.0))
    >>> round(math.exp(step.log_normaliser), 6)  # 0.6 * 0.6/0.4 + 0.4 * 0.4/0.6
    1.166667
    """

    def __init__(self, pair: DiscretePair, tilt: Tilt) -> None:
        log_p = pair.logs[Measure.P]
        held = log_p > -np.inf
        self.pair, self.tilt = pair, tilt
        self.log_p, self.losses = log_p[held], pair.losses[held]
        self.heights = tilt.height(self.losses)
        self._within = int(np.searchsorted(self.losses, tilt.cap, side="right"))
        self.log_normaliser = self.log_whole(0.0)
        self.least_height = float(self.heights.min())

    def log_partial(self, s: float, p: float) -> float:
        """``log E_P[e^{s loss - (p-1) h}; loss <= cap]``, ``s > 0``."""
        n = self._within
        if not n:
            return -math.inf
        return log_sum_exp(self.log_p[:n] + s * self.losses[:n] - (p - 1.0) * self.heights[:n])

    def log_whole(self, p: float) -> float:
        """``log E_P[e^{-(p-1) h}]``."""
        return log_sum_exp(self.log_p - (p - 1.0) * self.heights)

    def log_beyond(self, p: float) -> float:
        """``log E_P[e^{-(p-1) h}; loss > cap]``."""
        rest = self.log_p[self._within :]
        return log_sum_exp(rest) - (p - 1.0) * self.tilt.height_beyond if rest.size else -math.inf

    def greatest_gap(self, a: float) -> float:
        """``sup (a loss - h)`` over losses up to the cap."""
        n = self._within
        return float(np.max(a * self.losses[:n] - self.heights[:n])) if n else -math.inf


def moment_bound(
    counts: Sequence[int], bounds: Sequence[TiltedOutcomes], log_normaliser: float, epsilon: float, p: float
) -> Callable[[float], float]:
    """``log`` of the bound on ``E[X^p]`` of Section 3.5, by its free parameter ``s > 0``."""
    wholes = [b.log_whole(p) for b in bounds]
    whole = math.fsum(n * v for n, v in zip(counts, wholes, strict=True))
    beyond = [math.log(n) + b.log_beyond(p) - v for n, b, v in zip(counts, bounds, wholes, strict=True)]
    jump = whole + float(np.logaddexp.reduce(beyond))

    def log_bound(s: float) -> float:
        joint = sum(n * b.log_partial(s, p) for n, b in zip(counts, bounds, strict=True))
        return (p - 1) * log_normaliser + float(np.logaddexp(log_peak(s, p) - s * epsilon + joint, jump))

    return log_bound


def log_greatest(
    counts: Sequence[int], bounds: Sequence[TiltedOutcomes], log_normaliser: float, epsilon: float
) -> float:
    """``log`` of the bound on ``X`` of docs/guarantees.md, Section 3.4, at the best of the tilts' orders."""
    least = math.fsum(n * b.least_height for n, b in zip(counts, bounds, strict=True))
    top = math.fsum(n * float(b.losses[-1]) for n, b in zip(counts, bounds, strict=True))
    if not top > epsilon:
        return -math.inf
    by_greatest_loss = log_normaliser - least + math.log(-math.expm1(epsilon - top))  # whatever the weight
    within_caps = math.inf  # if no step is beyond its cap
    for order in {b.tilt.order for b in bounds} - {0.0}:
        value = log_normaliser - order * epsilon + log_peak(order)
        value += sum(n * b.greatest_gap(order) for n, b in zip(counts, bounds, strict=True))
        within_caps = min(within_caps, value)
    exceeding = (b for b in bounds if b.log_beyond(1.0) > -math.inf)
    # if one is
    beyond_cap = [log_normaliser - b.tilt.height_beyond - (least - b.least_height) for b in exceeding]
    return min(by_greatest_loss, max([within_caps, *beyond_cap]))


# --- rounding -------------------------------------------------------------------------------------


def sum_error(law: LossLaw, count: int) -> float:
    """Bounds the rounding error of a sum of ``count`` losses (Section 6; guarantees_highdim, 7)."""
    if isinstance(law, PatternLaw):
        return count * density_error(law, 1.0)
    magnitude, stated = line_pair(law).loss_magnitude, stated_error(law)
    if isinstance(law, DiscretePair):
        # losses are relatively accurate, but for what they say, and a sum has a term for each outcome or step
        return count * ((32.0 + min(len(law.log_p), count)) * UNIT * magnitude + stated)
    return 32.0 * UNIT * count * (1.0 + magnitude) + count * stated


@singledispatch
def greatest_error(law: LossLaw) -> float:
    """Bounds the rounding error of the greatest finite loss (docs/guarantees.md, Section 6.6), and of any
    other of a pair on outcomes. Register a class of yours whose losses are less accurate, or more.
    """
    if isinstance(law, PatternLaw):
        return density_error(law, 1.0)
    absolute = 0.0 if isinstance(law, LaplacePair | BoundedRangePair) else 1.0
    return 8.0 * UNIT * (absolute + line_pair(law).loss_magnitude)


@greatest_error.register
def _(law: TwoSidedLaplacePair) -> float:
    size = 2.0 / law.scale  # the loss is log(1 + e^x), and x a sum of these terms: relatively, their errors
    terms = 4.0 + abs(law.log_c) + size + abs(math.log(-math.expm1(-size)))
    return 8.0 * UNIT * terms * float(law.privacy_loss(1.0))


@greatest_error.register
def _(law: DiscretePair) -> float:
    return law.loss_error


@greatest_error.register
def _(law: SampledPair | WithoutReplacementPair) -> float:
    mixed = law if isinstance(law, SampledPair) else law.upper
    return float(mix_error(mixed.sign * mixed.base.privacy_loss(np.inf), greatest_error(mixed.base), mixed.q))


@dataclass(frozen=True)
class Rounding:
    """Bounds on errors. Samples are taken at an epsilon that is lower by ``loss``, so that no rounded sample
    is below the true one; thresholds are lowered by a share of ``weight``.
    """

    loss: float  # absolute, of a sum of losses
    weight: float  # relative, of a weight or a bound
    order: float = 0.0  # the steepest slope of a weight's logarithm over the loss of a step

    @classmethod
    def of(
        cls, steps: Steps, epsilon: float, *, order: float = 0.0, heights: float = 0.0, composed: Steps = ()
    ) -> Rounding:
        """The errors of sums over the steps, with weights of slopes up to ``order`` and logarithms up to
        ``heights``; ``composed`` are single steps that some of them stand for.
        """
        loss = math.fsum(sum_error(step.floats, step.count) for step in steps)
        loss += math.fsum(step.count * greatest_error(step.pair) for step in composed)
        loss += 4.0 * UNIT * abs(epsilon)
        count = sum(step.count for step in (*steps, *composed))
        weight = 2.0 * order * loss + 16.0 * UNIT * (order * abs(epsilon) + heights)
        return cls(loss, FIXED + PER_STEP * count + weight, order)

    def bounded(self, epsilon: float) -> float:
        """Where to take bounds, so that they hold for the samples as they are computed."""
        return epsilon - 2.0 * self.loss
