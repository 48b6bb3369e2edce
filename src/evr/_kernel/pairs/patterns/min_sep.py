"""b-min-sep sampling: a record takes part at random, never twice within ``b`` steps (Dong and Ganesh 2026).
With up to ``b`` bands the columns of its participations are orthogonal: the ratio of a pattern is the product
over its steps of ``A_i = exp(v_i - g_i / 2)``, ``v_i = <C e_i, z> / s``, ``g_i = |C e_i|^2 / s^2``, and a
recursion sums over patterns.
"""

import math
from dataclasses import dataclass
from functools import cached_property, singledispatch

import numpy as np

from evr._kernel.pairs.law import UNIT, Floats, module_of
from evr._kernel.pairs.patterns.law import Mean, PatternLaw, in_blocks, magnitude
from evr._kernel.pairs.patterns.strategy import Strategy, largest_sum
from evr.types import Direction

_STEEP = 300.0  # a factor whose square would overflow
_LEAST = 1e-150  # of the values of a recursion: smaller ones might underflow
_AT_ONCE = 32  # steps whose factors are computed together


@dataclass(frozen=True)
class Chain:
    """An eligible record takes part with ``probability``, and then not for ``separation - 1`` steps."""

    steps: int
    separation: int
    probability: float
    warm: bool

    def log_sum_in_range(self, values: Floats, scale: float, halves: Floats) -> Floats | None:
        """None where a value of the recursion would be too small for floats."""
        p, b, size = self.probability, self.separation, values.shape[1]
        ring, scales = np.ones((b, size)), np.zeros(size)
        rows, after, staying = list(ring), ring[self.steps % b], np.empty(size)
        for i in range(self.steps - 1, -1, -1):
            if i == self.steps - 1 or (i + 1) % _AT_ONCE == 0:
                now = slice(i - i % _AT_ONCE, i + 1)
                factors = p * np.exp(scale * values[now] - halves[now, None])
            value = rows[i % b]  # L_{i+b}, which becomes L_i in place
            np.multiply(after, 1.0 - p, out=staying)
            value *= factors[i % _AT_ONCE]
            value += staying
            after = value
            if i % b == 0:
                if not ring.min(initial=1.0) >= _LEAST:
                    return None
                top = ring.max(axis=0)
                ring /= top
                scales += np.log(top)
        return scales + np.log(self._start(ring))

    def _start(self, ring: Floats) -> Floats:
        """The expectation over the first step at which the record is eligible, of values by that step."""
        if not self.warm:
            return ring[0]
        p, b = self.probability, self.separation
        return (ring[0] + p * ring[1:].sum(axis=0)) / (1.0 + (b - 1) * p)

    def log_sum_of_logs(self, log_factors: Floats) -> Floats:
        """The recursion in logarithms: slower, and never out of range."""
        p, b = self.probability, self.separation
        ring, log_p = np.zeros((b, log_factors.shape[1])), math.log(p)
        log_rest = math.log1p(-p) if p < 1 else -math.inf
        for i in range(self.steps - 1, -1, -1):
            ring[i % b] = np.logaddexp(log_rest + ring[(i + 1) % b], log_p + log_factors[i] + ring[i % b])
        if not self.warm:
            return ring[0]
        top = ring.max(axis=0)
        return top + np.log(self._start(np.exp(ring - top)))

    def is_in_range(self, steepest: float) -> bool:
        """Whether ``log_chain_sum`` never needs logarithms, where no exponent is above ``steepest``."""
        if self.probability == 1 or not steepest <= _STEEP:
            return False
        fall = -math.log1p(-self.probability)  # of a step
        return 2.0 * self.separation * fall <= -math.log(_LEAST)

    def draw(self, generator: np.random.Generator, size: int) -> Floats:
        """Which steps each of ``size`` records takes part in: rows of zeros and ones."""
        p, b, n = self.probability, self.separation, self.steps
        # gaps are cut off beyond all steps: those of a tiny p are the greatest integers, whose sums overflow
        gaps = np.minimum(generator.geometric(p, (size, math.ceil(n / b))), n + 1)
        gaps[:, 1:] += b - 1
        taken = np.cumsum(gaps, axis=1) - 1
        if self.warm:
            starts = generator.integers(1, max(b, 2), size)
            late = generator.random(size) < (b - 1) * p / (1.0 + (b - 1) * p)
            taken += np.where(late, starts, 0)[:, None]
        rows, columns = np.nonzero(taken < n)
        pulses = module_of(taken).zeros((size, n))
        pulses[rows, taken[rows, columns]] = 1.0
        return pulses

    @cached_property
    def participation(self) -> Floats:
        """The chance that a record takes part in each step."""
        p, b = self.probability, self.separation
        if self.warm:
            return np.full(self.steps, p / (1.0 + (b - 1) * p))
        rates = np.zeros(self.steps)
        for i in range(self.steps):
            rates[i] = p * (1.0 - rates[max(0, i - b + 1) : i].sum())
        return rates

    @cached_property
    def log_absent(self) -> float:
        """``log`` of the chance that a record never takes part."""
        if self.probability == 1:
            steps = self.separation - self.steps
            return math.log(steps / self.separation) if self.warm and steps > 0 else -math.inf
        eligible = self.steps - np.arange(self.separation if self.warm else 1)
        logs = math.log1p(-self.probability) * np.maximum(eligible, 0)[:, None]
        top = float(logs.max())  # tiny chances of taking part show in log1p, none underflows
        return top + math.log1p(float(self._start(np.expm1(logs - top))[0]))


@singledispatch
def log_chain_sum(values: Floats, chain: Chain, scale: float, halves: Floats | float) -> Floats:
    """``log`` of the mean over patterns of the product of ``A_i = exp(scale values - halves)`` at their
    steps, by ``L_i = (1 - p) L_{i+1} + p A_i L_{i+b}``: in floats where they hold all values of the
    recursion, else in logarithms. A row for each step, a column for each sample.
    """
    halves, found = np.broadcast_to(halves, chain.steps), None
    if not (values.size and (scale * values).max() > _STEEP):
        found = chain.log_sum_in_range(values, scale, halves)
    return chain.log_sum_of_logs(scale * values - halves[:, None]) if found is None else found


@dataclass(frozen=True)
class MinSep(PatternLaw):
    """b-min-sep sampling of a banded matrix mechanism; coordinates are ``v_i``, one for each step."""

    direction: Direction
    noise: float
    separation: int
    probability: float
    warm: bool
    strategy: Strategy

    @cached_property
    def chain(self) -> Chain:
        return Chain(self.strategy.size, self.separation, self.probability, self.warm)

    @cached_property
    def energies(self) -> Floats:
        """``g_i``."""
        return self.strategy.squares / self.noise**2

    @cached_property
    def overlaps(self) -> Floats:
        """``<C e_i, C e_{i-d}> / s^2`` at ``[d, i]``, 0 where ``i < d``."""
        found = np.zeros((self.strategy.bands, self.dimension))
        for lag in range(self.strategy.bands):
            found[lag, lag:] = self.strategy.overlaps(lag) / self.noise**2
        return found

    @property
    def dimension(self) -> int:
        return self.strategy.size

    def shifted(self, generator: np.random.Generator, pulses: Floats) -> Floats:
        """Coordinates of ``z ~ N(sum_i pulses_i m_i, I)``, a row for each row of pulses."""
        found = np.empty_like(pulses)
        for rows in in_blocks(pulses):
            shift = self.strategy.applied(pulses[rows])
            shift /= self.noise
            shift += generator.standard_normal(shift.shape)
            found[rows] = self.strategy.correlated(shift) / self.noise
        return found

    def draw_null(self, generator: np.random.Generator, size: int) -> Floats:
        noise = generator.standard_normal((size, self.dimension))
        for rows in in_blocks(noise):
            noise[rows] = self.strategy.correlated(noise[rows]) / self.noise
        return noise

    def log_ratio(self, coordinates: Floats) -> Floats:
        return log_chain_sum(coordinates.T, self.chain, 1.0, self.energies / 2)

    @cached_property
    def mean(self) -> Mean:
        weights = self.chain.participation
        applied = self.strategy.applied(weights[None, :])
        coordinates = self.strategy.correlated(applied)[0] / self.noise**2
        return Mean(weights, coordinates, float(weights @ coordinates), float(weights @ self.energies))

    @cached_property
    def greatest_energy(self) -> float:
        return float(largest_sum(self.energies[None, :], self.separation)[0])

    def _sum_error(self, scale: float) -> float:
        return 8.0 * UNIT * self.dimension + self.logs_error(self.chain, 1.0, scale)

    def logs_error(self, chain: Chain, factor: float, scale: float) -> float:
        """The error that ``chain`` adds where its recursion may be in logarithms: three roundings at each
        step. Coordinates are taken times ``factor``, means are up to ``scale`` times those of patterns.
        """
        of_step, of_pattern = math.sqrt(self.energies.max()), math.sqrt(self.greatest_energy)
        if chain.is_in_range(factor * of_step * (39.0 + scale * of_pattern)):
            return 0.0
        return 2.0 * UNIT * self.dimension * magnitude(self, scale)

    @property
    def _log_absent(self) -> float:
        return self.chain.log_absent

    def describe(self) -> str:
        sampling = f"{self.separation}-min-sep, p = {self.probability:.6g}"
        start = f"{'warm' if self.warm else 'cold'} start"
        steps = f"{self.strategy.describe()}, {self.dimension} steps, noise {self.noise:.6g}"
        return f"{sampling}, {start}, {steps}"
