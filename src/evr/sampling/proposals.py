"""What samples are drawn from, and what is proved of them.

A proposal draws blocks of ``(loss, log weight)`` of the whole composition in one direction. A
sample at epsilon is ``X = (1 - e^{epsilon - loss})_+ e^{log weight}``; its mean is
``delta(epsilon)`` of what is drawn, which dominates the composition (docs/guarantees.md, Sections
2 and 3).
"""

from __future__ import annotations

import abc
import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from evr.bounds.moments import log_clipping
from evr.bounds.rounding import Rounding
from evr.laws import Floats, Step
from evr.sampling.plan import ProposalPlan


class Block(NamedTuple):
    """Samples: total privacy losses and logarithms of their weights; and what infinite losses add
    to each.
    """

    losses: Floats
    log_weights: Floats
    infinite: float = 0.0

    def values(self, epsilon: float, log_unit: float = 0.0) -> Floats:
        """``X`` at an epsilon, in units of ``e^log_unit``."""
        values = np.zeros_like(self.losses)
        # a loss that is not a number must not pass for 0
        hit = np.flatnonzero(~(self.losses <= epsilon))
        values[hit] = -np.expm1(epsilon - self.losses[hit]) * np.exp(
            np.minimum(self.log_weights[hit] - log_unit, 700.0)
        )
        return values + math.exp(math.log(self.infinite) - log_unit) if self.infinite else values


class Proposal(abc.ABC):
    """The protocol: draw, and state what is proved."""

    name: str
    steps: tuple[Step, ...]
    infinite: float = 0.0
    """The chance of an infinite loss, where it is kept apart: added to each sample instead of
    drawn.
    """

    composed: tuple[Step, ...] = ()
    """Single steps that some of the steps stand for."""

    source: tuple[ProposalPlan, tuple[Step, ...]] | None = None
    """What it was built of, where it was: so it travels to other processes."""

    def __reduce__(self) -> Any:
        if self.source is None:
            return super().__reduce__()
        from evr.sampling.registry import built

        return built, self.source

    @abc.abstractmethod
    def draw(self, generator: np.random.Generator, size: int) -> Block:
        """``size`` independent samples."""

    @abc.abstractmethod
    def log_moment(self, epsilon: float, p: float) -> float:
        """``log`` of a rigorous upper bound on ``E[X^p]``, ``p > 1``."""

    @abc.abstractmethod
    def log_greatest(self, epsilon: float) -> float:
        """``log`` of a rigorous upper bound on ``X``; ``inf`` where there is none."""

    def second_moment(self, epsilon: float) -> float:
        """A rigorous upper bound on ``E[X^2]``: the ``nu`` of the paper."""
        return math.exp(min(self.log_moment(epsilon, 2.0), 700.0))

    def greatest(self, epsilon: float) -> float:
        """A rigorous upper bound on ``X``: ``B``."""
        return math.exp(min(self.log_greatest(epsilon), 700.0))

    def excess(self, epsilon: float, clip: float, log_unit: float = 0.0) -> float:
        """A rigorous upper bound on ``E[(X - clip)_+]``: ``(p-1)^{p-1}/p^p E[X^p]/clip^{p-1}``, the
        best of several ``p``; all in units of ``e^log_unit``.
        """
        if self.log_greatest(epsilon) - log_unit <= math.log(clip):
            return 0.0
        bounds = []
        for p in (1.5, 2.0, 2.5, 3.0, 4.0, 6.0, 8.0, 12.0):
            bounds.append(
                log_clipping(p)
                + self._cached_moment(epsilon, p)
                - p * log_unit
                - (p - 1) * math.log(clip)
            )
        if not min(bounds) > -math.inf:
            raise ValueError("a moment of samples that exceed a clip is 0, which cannot be")
        room = 16.0 * self.rounding(epsilon).weight
        return math.exp(min(min(bounds) + room, 700.0))

    def _cached_moment(self, epsilon: float, p: float) -> float:
        cache: dict[tuple[float, float], float] = self.__dict__.setdefault("_moments", {})
        if (epsilon, p) not in cache:
            cache[epsilon, p] = self.log_moment(epsilon, p)
        return cache[epsilon, p]

    def _log_with_infinite(self, log_value: float) -> float:
        return (
            float(np.logaddexp(log_value, math.log(self.infinite))) if self.infinite else log_value
        )

    @property
    def total_steps(self) -> int:
        """Steps that a sample sums over, as drawn."""
        return sum(step.count for step in self.steps)

    @property
    def order(self) -> float:
        """The steepest slope of a weight's logarithm over the loss of each step."""
        return 0.0

    def rounding(self, epsilon: float) -> Rounding:
        """How far samples and bounds at ``epsilon`` may be off."""
        return Rounding.of(
            self._summed,
            epsilon,
            order=self.order,
            heights=self._heights,
            composed=self.composed,
        )

    @property
    def _summed(self) -> Sequence[Step]:
        """The steps whose losses a sample adds up: without infinite ones, where these are apart."""
        return self.steps

    @property
    def _heights(self) -> float:
        """The greatest numbers that a weight's logarithm is a sum of."""
        return 0.0

    @property
    def work(self) -> int:
        """About what a sample costs, in steps that are drawn one by one."""
        return self.total_steps

    def block_size(self) -> int:
        """Samples in a block, fixed by the proposal alone: about a million steps' worth, 64 at
        least.
        """
        return int(min(65_536, max(64, 2 ** round(math.log2(2**20 / max(self.work, 1))))))
