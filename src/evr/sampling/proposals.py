"""What samples are drawn from, and what is proved of them.

A proposal draws blocks of ``(loss, log weight)`` of the whole composition in one direction. A sample at epsilon is ``X
= (1 - e^{epsilon - loss})_+ e^{log weight}``; its mean is ``delta(epsilon)`` of what is drawn, which dominates the
composition (docs/guarantees.md, Sections 2 and 3).
"""

from __future__ import annotations

import abc
import math
from typing import Any, NamedTuple

import numpy as np

from evr.bounds.moments import Rounding
from evr.laws import Floats, Step
from evr.sampling.plan import ProposalPlan


class Block(NamedTuple):
    """Samples: total privacy losses and logarithms of their weights; and what infinite losses add to each."""

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

    steps: tuple[Step, ...]
    """One direction of a composition, as drawn."""

    infinite: float = 0.0
    """The chance of an infinite loss, where it is kept apart: added to each sample instead of drawn."""

    composed: tuple[Step, ...] = ()
    """Single steps that some of the steps stand for."""

    _source: tuple[ProposalPlan, tuple[Step, ...]] | None = None  # what it was built of

    @abc.abstractmethod
    def draw(self, generator: np.random.Generator, size: int) -> Block:
        """``size`` independent samples."""

    @abc.abstractmethod
    def log_moment(self, epsilon: float, p: float) -> float:
        """``log`` of a rigorous upper bound on ``E[X^p]``, ``p > 1``; with ``p = 2``, on the ``nu`` of the paper."""

    @abc.abstractmethod
    def log_greatest(self, epsilon: float) -> float:
        """``log`` of a rigorous upper bound on ``X``, ``B``; ``inf`` where there is none."""

    def rounding(self, epsilon: float) -> Rounding:
        """How far samples and bounds at ``epsilon`` may be off."""
        return Rounding.of(self.steps, epsilon)

    @property
    def work(self) -> int:
        """About what a sample costs, in steps that are drawn one by one."""
        return sum(step.count for step in self.steps)

    def __reduce__(self) -> Any:
        """One that was built travels to other processes by its plan."""
        if self._source is None:
            return super().__reduce__()
        from evr.sampling.drawing import built

        return built, self._source


def log_with_infinite(log_value: float, infinite: float) -> float:
    """``log`` of a bound on samples to which the chance of an infinite loss is added."""
    return float(np.logaddexp(log_value, math.log(infinite))) if infinite else log_value
