"""The paper's importance sampling: tilt one step, chosen at random, of equal Poisson-sampled Gaussian steps.

Wang et al. (2023), Appendix D, with its slips corrected (paper/slips.py shows each by a number). It suits losses that
one large jump carries over epsilon: small sampling probability, little noise. Where many steps share the excess it
fails without a sign: most samples are non-zero, their standard error is small, and their mean is far below delta.
``evr.planning.single_proposal`` compares bounds before a sample is drawn, and warns. Proofs: docs/guarantees_single.md.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from evr import validate
from evr.bounds.rounding import Rounding
from evr.bounds.single import SingleBounds
from evr.laws import Direction, Floats, Step
from evr.laws.line.gaussian import GaussianPair
from evr.laws.line.poisson import SampledPair
from evr.sampling.outcomes import CACHE, MOST_STEPS
from evr.sampling.proposals import Block, Proposal

_MOST_EXPONENT = 600.0  # of a product of likelihood ratios, with room below the greatest float


class SingleProposal(Proposal):
    """One step of ``k``, chosen at random, from ``P_theta = e^{theta t} P / M``; the others from ``P``.

    ``steps`` is a single ``Step``: the remove direction of equal Poisson-sampled Gaussian steps. The tilt ``theta`` is
    in the paper's units: ``t`` has the noise multiplier for its deviation and the jump is 1. ``cells`` says how finely
    the line is cut for the bounds.
    """

    def __init__(self, steps: Sequence[Step], theta: float, *, cells: int = 4096) -> None:
        self.steps = tuple(steps)
        mu, q, self.count = equal_steps(self.steps)
        self.mu, self.q, self.cells = mu, q, cells
        self.theta = validate.positive(theta=theta)
        self.slope = self.theta / mu  # of t in units of the noise
        self.bounds = SingleBounds(mu, q, self.count, cells)
        self.log_normaliser = self.bounds.log_normaliser(self.slope)
        self.tilted_q = 1.0 / (1.0 + (1.0 - q) / q * math.exp(-min(self.slope * mu, 700.0)))
        # No draw is 14 deviations above its place (1e-44), so products of ratios up to this logarithm do not overflow.
        self._greatest_ratio = max(mu * (self.slope + mu + 14.0), -math.log1p(-q))

    def rounding(self, epsilon: float) -> Rounding:
        heights = abs(self.log_normaliser) + self.slope * (self.slope + self.mu + 39.0)
        return Rounding.of(self.steps, epsilon, order=self.slope / self.mu, heights=heights)

    def draw(self, generator: np.random.Generator, size: int) -> Block:
        losses, log_sums = np.empty(size), np.empty(size)
        width = min(self.count, MOST_STEPS)
        rows = max(1, min(size, CACHE // width))
        buffers = np.empty((2, rows * width))
        for start in range(0, size, rows):
            stop = min(start + rows, size)
            loss, log_sum = np.zeros(stop - start), np.full(stop - start, -np.inf)
            for first in range(0, self.count, MOST_STEPS):
                shape = (stop - start, min(MOST_STEPS, self.count - first))
                t, spare = (b[: math.prod(shape)].reshape(shape) for b in buffers)
                self._fill(generator, t, tilted=first == 0)
                log_sum = np.logaddexp(log_sum, self._log_sums(t, spare))
                loss += self._losses(t)
            losses[start:stop], log_sums[start:stop] = loss, log_sum
        return Block(losses, math.log(self.count) + self.log_normaliser - log_sums)

    def _fill(self, generator: np.random.Generator, t: Floats, *, tilted: bool) -> None:
        """Steps of ``P``, a row for each sample. Equal steps are exchangeable: the tilted one is first."""
        rows, steps = t.shape
        plain = steps - 1 if tilted else steps
        jumps = generator.binomial(plain, self.q, size=rows)
        generator.standard_normal(out=t)
        start = np.arange(rows) * steps + (steps - plain) - (np.cumsum(jumps) - jumps)
        t.reshape(-1)[np.repeat(start, jumps) + np.arange(jumps.sum())] += self.mu
        if tilted:
            t[:, 0] += self.slope + self.mu * (generator.random(rows) < self.tilted_q)

    def _log_sums(self, t: Floats, spare: Floats) -> Floats:
        """``log sum_i e^{slope t_i}`` of each row."""
        top = t.max(axis=1)
        np.subtract(t, top[:, None], out=spare)
        np.multiply(spare, self.slope, out=spare)
        np.exp(spare, out=spare)
        return self.slope * top + np.log(spare.sum(axis=1))

    def _losses(self, t: Floats) -> Floats:
        """Row sums of the losses, in place: one logarithm for the product of many likelihood ratios."""
        np.multiply(t, self.mu, out=t)
        np.subtract(t, self.mu**2 / 2 - math.log(self.q), out=t)
        np.exp(t, out=t)
        np.add(t, 1.0 - self.q, out=t)
        return log_of_products(t, self._greatest_ratio)

    def log_moment(self, epsilon: float, p: float) -> float:
        """By the greatest step (docs/guarantees_single.md, Theorem 5), or by ``B`` and the bound on delta."""
        through_greatest = (p - 1) * self.log_greatest(epsilon) + self.bounds.log_delta(epsilon)
        return min(self.bounds.log_moment(epsilon, p, self.slope), through_greatest)

    def log_greatest(self, epsilon: float) -> float:
        return self.bounds.log_greatest(epsilon, self.slope)


def log_of_products(ratios: Floats, greatest: float) -> Floats:
    """Row sums of ``log`` of a matrix, by products of as many entries as cannot overflow."""
    columns = ratios.shape[1]
    together = max(1, min(columns, int(_MOST_EXPONENT / max(abs(greatest), 1e-9))))
    starts = np.arange(0, columns, together)
    return np.log(np.multiply.reduceat(ratios, starts, axis=1)).sum(axis=1)


def equal_steps(steps: tuple[Step, ...]) -> tuple[float, float, int]:
    """``mu``, ``q`` and the number of steps; refuses what the paper's estimator is not made for."""
    remedy = 'Use proposal="capped", which takes any composition and both directions.'
    if len(steps) != 1:
        raise ValueError(f'proposal="single" needs equal steps, not {len(steps)} different ones. {remedy}')
    pair = steps[0].pair
    if not (
        isinstance(pair, SampledPair) and isinstance(pair.base, GaussianPair) and pair.direction is Direction.REMOVE
    ):
        raise ValueError(
            'proposal="single" needs the Poisson-sampled Gaussian in the remove direction, not '
            f"{pair.describe()}. {remedy}"
        )
    return pair.base.mu, pair.q, steps[0].count
