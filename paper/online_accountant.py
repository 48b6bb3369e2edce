"""The paper's online accountant (its Section 5): epsilon from weighted samples that grow with the run. What
``evr.FFTAccountant`` and ``evr.online_epsilon`` do without samples, and far more accurately.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from dp_accounting import dp_event

from evr._accounting.accountants import CompositionAccountant
from evr._basics import validate
from evr._basics.randomness import Stream, entropy_of
from evr._estimate.capped import capped_plan
from evr._estimate.monte_carlo import (
    DEFAULT_SAMPLES,
    WeightedSamples,
    monte_carlo_delta,
    monte_carlo_epsilon,
    pilot_epsilon,
)
from evr._kernel.events import Composition
from evr._kernel.events.relations import ADD_OR_REMOVE, Relation
from evr._kernel.pairs import Direction, DominatingPair, Floats, Step, greatest_loss, infinite_loss_mass, infinite_mass
from evr._kernel.sampled.line import TiltedProposal
from evr._kernel.sampled.plan import SimplePlan
from evr._kernel.sampled.proposals import built
from evr._kernel.sampled.simple import SimpleProposal


class MonteCarloAccountant(CompositionAccountant):
    """Epsilon and delta by weighted samples: estimates, not bounds.

    Offline, an answer draws its own samples; they depend on the seed only, so that a calibration converges. Online,
    ``step`` adds one step to samples that grow with the run, by streams that no verification uses.

    Parameters
    ----------
    neighboring_relation
        As of ``evr.estimate_delta``; adding or removing one record by default.
    samples
        Samples of each answer.
    seed
        Of all samples.
    delta, horizon
        For ``step``: the delta to track, and about how many steps the run will have, for which samples are tilted.

    Examples
    --------
    >>> import dp_accounting
    >>> step = dp_accounting.PoissonSampledDpEvent(0.01, dp_accounting.GaussianDpEvent(1.0))
    >>> accountant = MonteCarloAccountant(samples=20_000, delta=1e-5, horizon=3)
    >>> epsilons = [accountant.step(step) for _ in range(3)]
    >>> exact = evr.FFTAccountant().compose(step, 3).get_epsilon(1e-5)
    >>> abs(epsilons[-1] / exact - 1) < 0.05
    True
    """

    def __init__(
        self,
        neighboring_relation: Relation = ADD_OR_REMOVE,
        *,
        samples: int = DEFAULT_SAMPLES,
        seed: int = 0,
        delta: float | None = None,
        horizon: int = 1000,
    ) -> None:
        super().__init__(neighboring_relation)
        self.samples = validate.positive_integer(samples=samples)
        self.seed = entropy_of(seed)
        self.delta = None if delta is None else validate.open_probability(delta=delta)
        self.horizon = validate.positive_integer(horizon=horizon)
        self._runs: dict[Direction, RunningSamples] = {}

    def get_epsilon(self, target_delta: float) -> float:
        delta = validate.probability(target_delta=target_delta)
        if self.composition.is_non_private:
            return math.inf
        return monte_carlo_epsilon(self.composition, delta, None, samples=self.samples, seed=self.seed).value

    def get_delta(self, target_epsilon: float) -> float:
        epsilon = validate.non_negative_or_infinite(target_epsilon=target_epsilon)
        return monte_carlo_delta(self.composition, epsilon, None, samples=self.samples, seed=self.seed).value

    def step(self, event: dp_event.DpEvent) -> float:
        """Account for one more step and return epsilon at the accountant's ``delta``."""
        if self.delta is None:
            raise ValueError("step() needs the delta to track: MonteCarloAccountant(delta=..., horizon=...)")
        kinds = len(self._counts)
        self.compose(event)
        composition = self.composition
        if composition.is_non_private:
            return math.inf
        if len(self._counts) > kinds or not self._runs:
            self._plan(composition, self.delta)
        for direction, run in self._runs.items():
            run.advance(composition.steps(direction))
        return max(run.epsilon(self.delta)[0] for run in self._runs.values())

    def _plan(self, composition: Composition, delta: float) -> None:
        """Tilt for the kinds of steps seen so far, as if they went on to the horizon."""
        for direction in composition.directions():
            stream = Stream(self.seed, "online", 1, direction.value)
            run = self._runs.setdefault(direction, RunningSamples(stream, *np.zeros((2, self.samples))))
            steps = composition.steps(direction)
            scale = max(1, round(self.horizon / max(sum(step.count for step in steps), 1)))
            while scale > 1 and infinite_mass(_repeated(steps, scale)) >= 0.9 * delta:
                scale //= 2  # infinite losses alone would exceed delta
            if future := _repeated(steps, scale):
                is_finite = infinite_mass(future) < delta
                run.tilt(future, pilot_epsilon(future, delta, direction, self.seed, "capped") if is_finite else 1.0)


def _repeated(steps: tuple[Step, ...], times: int) -> tuple[Step, ...]:
    return tuple(Step(step.pair, step.count * times) for step in steps)


@dataclass
class RunningSamples:
    """Weighted samples that grow with a run. What is drawn after so many steps has a block to itself."""

    stream: Stream
    losses: Floats
    log_weights: Floats
    drawn: Counter[DominatingPair] = field(default_factory=Counter)  # how many steps of each kind
    infinite: float = 0.0  # the chance of an infinite loss so far
    log_apart: float = 0.0  # ``log`` of the chance of none in the steps whose infinite losses are not among the samples
    samplers: dict[DominatingPair, tuple[Any, float]] = field(default_factory=dict)
    is_tilted: bool = False
    guess: float | None = None

    def tilt(self, steps: tuple[Step, ...], epsilon: float) -> None:
        """Tilt the steps to come for an epsilon."""
        self.is_tilted = greatest_loss(steps) > epsilon
        source = built(capped_plan(steps, epsilon) if self.is_tilted else SimplePlan(), steps)
        assert isinstance(source, TiltedProposal | SimpleProposal)
        drawn = zip(steps, source.samplers, source.log_normalisers, strict=True)
        self.samplers = {step.pair: (sampler, log_m) for step, sampler, log_m in drawn}

    def advance(self, steps: tuple[Step, ...]) -> None:
        """Draw what these steps have more than those drawn so far."""
        for pair, total in ((step.pair, step.count) for step in steps):
            if count := total - self.drawn[pair]:
                sampler, log_m = self.samplers[pair]
                sums = sampler.draw(self.stream.block(self.drawn.total()), self.losses.size, count)
                self.losses += sums.losses
                self.log_weights += count * log_m - sums.heights
                self.log_apart += count * math.log1p(-infinite_loss_mass(pair)) if self.is_tilted else 0.0
                self.drawn[pair] = total
        self.infinite = infinite_mass(steps)

    def epsilon(self, delta: float) -> tuple[float, float]:
        """Epsilon and its standard error now."""
        if self.infinite >= delta:
            return math.inf, 0.0
        samples = WeightedSamples.of(self.losses, self.log_weights, -math.expm1(self.log_apart))
        found = samples.epsilon(delta, self.guess)
        self.guess = found[0] or None
        return found
