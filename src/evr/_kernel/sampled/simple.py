"""The paper's simple Monte Carlo, SMC: plain samples (Wang et al. 2023; docs/guarantees.md, Section 2)."""

from collections.abc import Sequence
from functools import cached_property

import numpy as np

from evr._kernel.pairs import DiscretePair, DominatingPair, Measure, Step, outcomes
from evr._kernel.sampled.composing import even_edges, spread_to_edges
from evr._kernel.sampled.line import CACHE, MOST_STEPS, POWERS, Sums, least_bound
from evr._kernel.sampled.moments import Tilt, TiltedOutcomes, moment_bound
from evr._kernel.sampled.plan import SimplePlan
from evr._kernel.sampled.proposals import BUILDERS, Block, Proposal

_CELLS = 4096  # into which bounds cut the line


class SimpleProposal(Proposal):
    """Plain samples from the dominating pairs of one direction, infinite losses among them."""

    def __init__(self, steps: Sequence[Step]) -> None:
        self.steps = tuple(steps)
        self.pairs = tuple(outcomes(step.pair) for step in self.steps)
        self.samplers = tuple(map(PlainSampler, self.pairs))
        self.log_normalisers = (0.0,) * len(self.steps)

    def draw(self, generator: np.random.Generator, size: int) -> Block:
        losses = np.zeros(size)
        for step, sampler in zip(self.steps, self.samplers, strict=True):
            losses += sampler.draw(generator, size, step.count).losses
        return Block(losses, np.zeros(size))

    @cached_property
    def _spread(self) -> list[DiscretePair]:
        """Pairs on outcomes whose samples have greater moments (docs/guarantees.md, Section 2.2)."""
        return [
            pair if isinstance(pair, DiscretePair) else spread_to_edges(pair, even_edges(pair, _CELLS))
            for pair in self.pairs
        ]

    def log_moment(self, epsilon: float, p: float) -> float:
        """By docs/guarantees.md, Section 3.5 without a tilt, the best of some caps; at most 0."""
        counts, least = [step.count for step in self.steps], 0.0
        for cap in max(epsilon, 0.1) * np.geomspace(1.01, 60.0, 24):
            bounds = [TiltedOutcomes(pair, Tilt(0.0, float(cap))) for pair in self._spread]
            least = min(least, least_bound(moment_bound(counts, bounds, 0.0, epsilon, p), POWERS))
        return least

    def log_greatest(self, epsilon: float) -> float:
        return 0.0  # plain samples are at most 1


BUILDERS[SimplePlan] = lambda _, steps: SimpleProposal(steps)


class PlainSampler:
    """Steps of any pair from ``P`` itself."""

    def __init__(self, pair: DominatingPair) -> None:
        self._pair = pair

    def draw(self, generator: np.random.Generator, size: int, count: int) -> Sums:
        """Sums over ``count`` steps for ``size`` independent samples; all heights are 0."""
        losses = np.zeros(size)
        rows = max(1, CACHE // min(count, MOST_STEPS))
        for start in range(0, size, rows):
            stop = min(start + rows, size)
            for first in range(0, count, MOST_STEPS):
                steps = min(MOST_STEPS, count - first)
                t = self._pair.draw(Measure.P, generator, (stop - start) * steps)
                losses[start:stop] += self._pair.privacy_loss(t).reshape(stop - start, steps).sum(axis=1)
        return Sums(losses, np.zeros(size))
