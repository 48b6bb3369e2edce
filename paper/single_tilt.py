"""The paper's importance sampling: tilt one step, chosen at random, of equal Poisson-sampled Gaussian steps.

Wang et al. (2023), Appendix D, with its slips corrected (``slips.py`` shows each by a number). It suits losses that one
large jump carries over epsilon: small sampling probability, little noise. Where many steps share the excess it fails
without a sign: most samples are non-zero, their standard error is small, and their mean is far below delta.
``single_proposal`` compares bounds before a sample is drawn, and warns. Proofs: ``single_tilt.md``.

Notation of Appendix D, in units of the noise: ``P = (1-q) N(0,1) + q N(mu,1)``, ``mu = 1/sigma``, so their ``t`` is
``sigma t`` here and ``e^{theta t}`` is ``e^{slope t}`` with ``slope = theta sigma``. A sample is

    X = S W,  S = (1 - e^{epsilon - Y})_+,  W = k M / Z,  Z = sum_i e^{slope t_i},  M = E_P[e^{slope t}]

The bound on ``E[X^2]`` is a decomposition by the greatest step, which needs no Hoelder inequality. The paper's three
theorems are in ``theorems.py``.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np
from scipy.optimize import minimize_scalar

from evr._basics import validate
from evr._basics.randomness import Stream
from evr._estimate.monte_carlo import WeightedSamples, drawn_until, pilot_epsilon
from evr._kernel.events import Composition
from evr._kernel.pairs import Direction, Floats, Step
from evr._kernel.pairs.line.gaussian import GaussianPair, log_normal_mass
from evr._kernel.pairs.line.pair import log_sum_exp
from evr._kernel.pairs.line.poisson import SampledPair
from evr._kernel.sampled.composing import Cells, even_edges
from evr._kernel.sampled.line import CACHE, MOST_STEPS
from evr._kernel.sampled.moments import Rounding, log_peak
from evr._kernel.sampled.proposals import Block, Proposal

_REAL_ORDERS = np.geomspace(0.02, 250.0, 64)
_MOST_EXPONENT = 600.0  # of a product of likelihood ratios, with room below the greatest float
_FARTHEST = 1e3  # second-moment bound over the square of delta's bound beyond which a proposal is out of reach


@dataclass(frozen=True)
class SingleBounds:
    """Bounds for ``count`` equal steps of one pair; ``cells`` is how finely the line is cut."""

    mu: float
    q: float
    count: int
    cells: int = 4096

    @cached_property
    def pair(self) -> SampledPair:
        """The pair of one step."""
        return SampledPair(GaussianPair(self.mu), self.q, Direction.REMOVE)

    def log_normaliser(self, slope: float) -> float:
        """``log M``, exact; at a negative slope too."""
        return slope**2 / 2 + float(np.logaddexp(math.log1p(-self.q), math.log(self.q) + slope * self.mu))

    def least_mean_point(self, total: float) -> float:
        """The point at which every step has an equal share of a total loss."""
        return float(self.pair.point(total / self.count))

    @cached_property
    def _table(self) -> Cells:
        cells = Cells.of(self.pair, even_edges(self.pair, self.cells))
        held = cells.log_p > -np.inf
        return Cells(*(column[held] for column in cells))

    @cached_property
    def _log_rests(self) -> Floats:
        """``log E_P[e^{s loss}; t <= upper end]`` from above: by order, order 0 first, and by cell."""
        table = self._table
        rows = [np.minimum(np.logaddexp.accumulate(table.log_p), 0.0)]
        lower, upper = table.spread()  # a chord is above what is convex in e^{-loss}
        for s in _REAL_ORDERS:
            ends = np.logaddexp(lower + s * table.least, upper + s * table.greatest)
            rows.append(np.logaddexp.accumulate(ends))
        return np.stack(rows)

    def _log_given_greatest(self, epsilon: float, p: float) -> Floats:
        """For each cell, ``log`` of a bound on ``E[S^p; the others are not greater]`` given one step in the cell."""
        table, k = self._table, self.count
        constants = np.array([log_peak(float(s), p) for s in _REAL_ORDERS])
        with np.errstate(invalid="ignore"):
            chernoff = constants[:, None] + _REAL_ORDERS[:, None] * (table.greatest - epsilon)
        log_rests = (k - 1) * self._log_rests if k > 1 else np.zeros_like(self._log_rests)
        log_rest = np.minimum(log_rests[0], (chernoff + log_rests[1:]).min(axis=0))
        with np.errstate(divide="ignore"):
            log_most = p * np.log(-np.expm1(np.minimum(epsilon - k * table.greatest, 0.0)))
        return np.minimum(log_rest, log_most)

    def log_moment(self, epsilon: float, p: float, slope: float) -> float:
        """``log`` of a bound on ``E[X^p]``, ``p >= 1``; with ``p = 1`` on delta, whatever the slope."""
        table, tilt = self._table, (p - 1) * slope
        weights = (math.log1p(-self.q), math.log(self.q) - tilt * self.mu)
        first, second = (
            w + log_normal_mass(table.low + tilt - m, table.high + tilt - m)
            for w, m in zip(weights, (0.0, self.mu), strict=True)
        )
        mass = tilt**2 / 2 + np.logaddexp(first, second)  # E_P[e^{-(p-1) slope t}; cell]
        if slope >= self.mu:
            log_least = math.log(self.count) + slope * self.least_mean_point(epsilon)
            mass = np.minimum(mass, table.log_p - (p - 1) * log_least)
        log_sum = log_sum_exp(mass + self._log_given_greatest(epsilon, p))
        return (p - 1) * (math.log(self.count) + self.log_normaliser(slope)) + math.log(self.count) + log_sum

    def log_delta(self, epsilon: float) -> float:
        """``log`` of an upper bound on delta."""
        return self.log_moment(epsilon, 1.0, self.mu)

    def log_greatest(self, epsilon: float, slope: float) -> float:
        """``log`` of a bound on ``X``: of ``(1 - e^{epsilon - v}) k M / min{Z : Y = v}`` for all ``v``, from above."""
        v = epsilon + np.concatenate(([0.0], np.geomspace(1e-6, 60.0, 4000)))
        log_z = slope * self.pair.point(v / self.count) + (math.log(self.count) if slope >= self.mu else 0.0)
        with np.errstate(divide="ignore"):
            log_s = np.log(-np.expm1(epsilon - np.append(v[1:], np.inf)))
        return math.log(self.count) + self.log_normaliser(slope) + float(np.max(log_s - log_z))


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
        """By the greatest step (single_tilt.md, Theorem 5), or by ``B`` and the bound on delta."""
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
    if len(steps) != 1:
        raise ValueError(f"the paper's tilt needs equal steps, not {len(steps)} different ones")
    pair = steps[0].pair
    if not (
        isinstance(pair, SampledPair) and isinstance(pair.base, GaussianPair) and pair.direction is Direction.REMOVE
    ):
        raise ValueError(
            f"the paper's tilt needs the Poisson-sampled Gaussian in the remove direction, not {pair.describe()}"
        )
    return pair.base.mu, pair.q, steps[0].count


class OutOfReachWarning(UserWarning):
    """Many steps share the loss, and tilting one of them does not reach it: samples would mislead without a sign."""


def best_slope(bounds: SingleBounds, epsilon: float) -> float:
    """The slope of the least bound on the second moment."""
    return slope_of_least(bounds, lambda slope: bounds.log_moment(epsilon, 2.0, slope), epsilon)


def slope_of_least(bounds: SingleBounds, bound: Callable[[float], float], epsilon: float) -> float:
    """The slope at which a bound is least."""
    centre = float(bounds.pair.point(epsilon))
    grid = centre * np.geomspace(0.1, 1.5, 12)
    best = int(np.argmin([bound(float(slope)) for slope in grid]))
    span = (grid[max(best - 1, 0)], grid[min(best + 1, grid.size - 1)])
    return float(minimize_scalar(bound, bounds=span, method="bounded", options={"xatol": 1e-3 * centre}).x)


def log_spread(proposal: SingleProposal, epsilon: float) -> float:
    """``log`` of the second-moment bound over the square of an upper bound on delta: what a relative error costs."""
    return proposal.log_moment(epsilon, 2.0) - 2.0 * proposal.bounds.log_delta(epsilon)


def reaches(proposal: SingleProposal, epsilon: float) -> bool:
    """Whether a second moment is proved that makes samples trustworthy. Where ``log_spread`` is large nothing is known
    of their spread, and weights of ``e^{-theta^2 sigma^2 / 2}`` hide it.
    """
    return log_spread(proposal, epsilon) <= math.log(_FARTHEST)


def single_proposal(
    steps: Sequence[Step], epsilon: float, *, theta: float | Literal["heuristic", "bound"] = "heuristic"
) -> SingleProposal:
    """The paper's proposal at ``epsilon``; warns where it does not reach.

    ``theta`` is a number; ``"heuristic"``, the paper's ``1/(2 sigma^2) + log((e^epsilon - (1-q))/q)``; or ``"bound"``,
    where the bound on the second moment is least, which is better for verifying.

    >>> from evr.events import dpsgd
    >>> event = dpsgd(noise_multiplier=1.0, sampling_probability=1e-3, steps=1000)
    >>> found = single_proposal(Composition.of(event).simplified("remove"), 0.5, theta="bound")
    >>> found.log_moment(0.5, 2.0) < math.log(30 * 2.0582e-10**2)
    True
    """
    epsilon = validate.non_negative(epsilon=epsilon)
    mu, q, count = equal_steps(tuple(steps))
    bounds = SingleBounds(mu, q, count, 1024)
    if theta == "heuristic":
        theta = mu * float(bounds.pair.point(epsilon))  # t*/sigma^2, and the point is t*/sigma
    elif theta == "bound":
        theta = mu * best_slope(bounds, epsilon)
    elif isinstance(theta, str):
        raise ValueError(f'theta={theta!r} is neither "heuristic" nor "bound" nor a positive number')
    proposal = SingleProposal(steps, theta)
    if not reaches(proposal, epsilon):
        spread = log_spread(proposal, epsilon) / math.log(10.0)
        warnings.warn(
            f"tilting one of {proposal.count} steps does not reach epsilon={epsilon:g}: many steps share the loss "
            f"(proved relative second moment 1e{spread:.0f}), and the samples' mean and standard error may both be far "
            "too small. Use evr's own proposal.",
            OutOfReachWarning,
            stacklevel=2,
        )
    return proposal


def tilted_delta(event: Any, epsilon: float, *, samples: int, seed: int) -> float:
    """Delta of the remove direction, estimated by the paper's tilt."""
    steps = Composition.of(event).simplified("remove")
    return _drawn(single_proposal(steps, epsilon), samples, seed).delta(epsilon)[0]


def tilted_epsilon(event: Any, delta: float, *, samples: int, seed: int) -> float:
    """Epsilon of the remove direction, estimated by the paper's tilt. Far off, the tilt misleads without a sign, so
    evr's own proposal finds about the epsilon that it is centred at.
    """
    steps = Composition.of(event).simplified("remove")
    centre = pilot_epsilon(steps, delta, Direction.REMOVE, seed, "capped")
    return _drawn(single_proposal(steps, centre), samples, seed).epsilon(delta)[0]


def _drawn(proposal: SingleProposal, samples: int, seed: int) -> WeightedSamples:
    return drawn_until(proposal, Stream(seed, "estimate", 1, "remove"), None, samples)
