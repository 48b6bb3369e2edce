"""What samples are drawn from, and what is proved of them (docs/guarantees.md, Sections 2 and 3).

A proposal draws blocks of ``(loss, log weight)`` of the whole composition in one direction. A sample at
epsilon is ``X = (1 - e^{epsilon - loss})_+ e^{log weight}``; its mean is ``delta(epsilon)`` of what is drawn,
which dominates it.
"""

import abc
import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, cached_property, lru_cache
from typing import Any, NamedTuple

import numpy as np

from evr._kernel.pairs import Floats, Step
from evr._kernel.sampled.moments import Rounding, log_clipping
from evr._kernel.sampled.plan import ProposalPlan


class Block(NamedTuple):
    """Samples: total privacy losses and logarithms of their weights; and what infinite losses add to each."""

    losses: Floats
    log_weights: Floats
    infinite: float = 0.0

    def values(self, epsilon: float, log_unit: float = 0.0) -> Floats:
        """``X`` at an epsilon, in units of ``e^log_unit``."""
        values = np.zeros_like(self.losses)
        hit = np.flatnonzero(~(self.losses <= epsilon))  # a loss that is not a number must not pass for 0
        weights = np.exp(np.minimum(self.log_weights[hit] - log_unit, 700.0))
        values[hit] = -np.expm1(epsilon - self.losses[hit]) * weights
        return values + math.exp(math.log(self.infinite) - log_unit) if self.infinite else values


class Proposal(abc.ABC):
    """The protocol: draw, and state what is proved."""

    steps: tuple[Step, ...]  # one direction of a composition, as drawn
    # the chance of an infinite loss, where that is added to each sample instead of drawn
    infinite: float = 0.0
    composed: tuple[Step, ...] = ()  # single steps that some of the steps stand for
    _source: tuple[ProposalPlan, tuple[Step, ...]] | None = None  # what it was built of

    @abc.abstractmethod
    def draw(self, generator: np.random.Generator, size: int) -> Block:
        """``size`` independent samples."""

    @abc.abstractmethod
    def log_moment(self, epsilon: float, p: float) -> float:
        """``log`` of a rigorous upper bound on ``E[X^p]``, ``p > 1``; ``p = 2`` is the paper's ``nu``."""

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
        return super().__reduce__() if self._source is None else (built, self._source)


def log_with_infinite(log_value: float, infinite: float) -> float:
    """``log`` of a bound on samples to which the chance of an infinite loss is added."""
    return float(np.logaddexp(log_value, math.log(infinite))) if infinite else log_value


BUILDERS: dict[type, Callable[[Any, tuple[Step, ...]], Proposal]] = {}
"""How the proposal of each kind of plan is built: its module says so here."""


@lru_cache(maxsize=8)
def built(plan: ProposalPlan, steps: tuple[Step, ...]) -> Proposal:
    """The proposal that a plan describes, with its bounds and normalisers: computed once in a process."""
    proposal = BUILDERS[type(plan)](plan, steps)
    proposal._source = (plan, steps)
    return proposal


@dataclass(frozen=True)
class Drawing:
    """A proposal, and how far floats may be off at the claim's epsilon (docs/guarantees.md, Section 6)."""

    proposal: Proposal
    rounding: Rounding
    epsilon_for_samples: float  # so that none is below the true one
    epsilon_for_bounds: float  # so that they hold for the samples as they are computed

    @cached_property
    def log_greatest(self) -> float:
        """``log`` of the proved bound on a sample."""
        return self.proposal.log_greatest(self.epsilon_for_bounds)

    @cached_property
    def log_moment(self) -> Callable[[float], float]:
        """``log`` of the proved bound on ``E[X^p]``, computed once for each ``p``."""
        return cache(lambda p: self.proposal.log_moment(self.epsilon_for_bounds, p))

    def excess(self, clip: float, log_unit: float) -> float:
        """A rigorous upper bound on ``E[(X - clip)_+]``: ``(p-1)^{p-1}/p^p E[X^p]/clip^{p-1}``, the best of
        several ``p``; all in units of ``e^log_unit``.
        """
        if self.log_greatest - log_unit <= math.log(clip):
            return 0.0
        bound = min(
            log_clipping(p) + self.log_moment(p) - p * log_unit - (p - 1) * math.log(clip)
            for p in (1.5, 2.0, 2.5, 3.0, 4.0, 6.0, 8.0, 12.0)
        )
        if not bound > -math.inf:
            raise ValueError("a moment of samples that exceed a clip is 0, which cannot be")
        return math.exp(min(bound + 16.0 * self.rounding.weight, 700.0))


@lru_cache(maxsize=8)
def drawing_of(proposal: Proposal, epsilon: float) -> Drawing:
    """The proposal with its rounding at an epsilon: computed once in a process."""
    rounding = proposal.rounding(epsilon)
    return Drawing(proposal, rounding, epsilon - rounding.loss, rounding.bounded(epsilon))
