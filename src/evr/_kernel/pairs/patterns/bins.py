"""Balls in bins: a record is in one of ``b`` bins, and takes part whenever its bin's turn comes. With the
Gram matrix ``G`` of the means ``m_j``, the coordinates ``v_j = <m_j, z>`` are ``N(0, G)`` under ``Q``, and
``L`` is the mean of ``A_j = exp(v_j - G_jj / 2)``.
"""

import math
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from evr._kernel.pairs.law import UNIT, Floats, module_of
from evr._kernel.pairs.patterns.law import Mean, PatternLaw, in_blocks, log_mean_exp
from evr._kernel.pairs.patterns.strategy import Strategy
from evr.types import Direction


@dataclass(frozen=True)
class IndependentBins(PatternLaw):
    """Bins of independent noise: ``G = energy I``, which is never stored."""

    direction: Direction
    bins: int
    energy: float

    @cached_property
    def energies(self) -> Floats:
        """``|m_j|^2``; one number where all are the same."""
        return np.array([self.energy])

    @property
    def greatest(self) -> Floats:
        """The greatest inner product at each ring distance, up to the last that is not 0."""
        return self.energies

    def means(self, chosen: NDArray[np.int64]) -> Floats:
        """The coordinates of the means of these bins, a row for each: ``G_j``."""
        xp = module_of(chosen)
        found = xp.zeros((chosen.size, self.bins))
        found[xp.arange(chosen.size), chosen] = self.energy
        return found

    def pulled(self, occupied: Floats) -> Floats:
        """``G`` times each row: the coordinates of a sum of means."""
        return self.energy * occupied

    @property
    def dimension(self) -> int:
        return self.bins

    def log_ratio(self, coordinates: Floats) -> Floats:
        return log_mean_exp(coordinates, self.energies / 2)

    @property
    def greatest_energy(self) -> float:
        return float(self.energies.max())

    @property
    def mean(self) -> Mean:
        return _mean(self)

    def draw_null(self, generator: np.random.Generator, size: int) -> Floats:
        coordinates = generator.standard_normal((size, self.bins))
        coordinates *= math.sqrt(self.energy)
        return coordinates

    def describe(self) -> str:
        return _text(self, f"G = {self.energy:.6g} I")


@dataclass(frozen=True)
class CorrelatedBins(PatternLaw):
    """Bins of a matrix mechanism: patterns ``{j, j + bins, ...}`` of its steps, noise correlated by ``C``."""

    direction: Direction
    noise: float
    bins: int
    strategy: Strategy

    @cached_property
    def gram(self) -> Floats:
        steps, pulses = np.arange(self.strategy.size), np.zeros((self.bins, self.strategy.size))
        pulses[steps % self.bins, steps] = 1.0
        means = self.strategy.applied(pulses)
        return means @ means.T / self.noise**2

    @cached_property
    def factor(self) -> Floats:
        """``F`` with ``F F' = G``, which may be singular."""
        values, vectors = np.linalg.eigh(self.gram)
        return vectors * np.sqrt(np.maximum(values, 0.0))

    @cached_property
    def energies(self) -> Floats:
        return np.diag(self.gram).copy()

    @cached_property
    def greatest(self) -> Floats:
        bins, lags = np.arange(self.bins), range(self.bins // 2 + 1)
        found = np.array([self.gram[bins, (bins + lag) % self.bins].max() for lag in lags])
        return found[: int(np.flatnonzero(found)[-1]) + 1]

    def means(self, chosen: NDArray[np.int64]) -> Floats:
        return self.gram[chosen]

    def pulled(self, occupied: Floats) -> Floats:
        return occupied @ self.gram

    @property
    def dimension(self) -> int:
        return self.bins

    def log_ratio(self, coordinates: Floats) -> Floats:
        return log_mean_exp(coordinates, self.energies / 2)

    @property
    def greatest_energy(self) -> float:
        return float(self.energies.max())

    @property
    def mean(self) -> Mean:
        return _mean(self)

    def draw_null(self, generator: np.random.Generator, size: int) -> Floats:
        noise = generator.standard_normal((size, self.bins))
        for rows in in_blocks(noise):
            noise[rows] = noise[rows] @ self.factor.T
        return noise

    def _sum_error(self, scale: float) -> float:
        return 8.0 * UNIT * self.bins

    def describe(self) -> str:
        return _text(self, f"{self.strategy.describe()}, noise {self.noise:.6g}")


Bins: TypeAlias = IndependentBins | CorrelatedBins
"""Both have ``energies``, ``greatest``, ``means`` and ``pulled``."""


def _mean(law: Bins) -> Mean:
    weights = np.full((1, law.bins), 1.0 / law.bins)
    coordinates = law.pulled(weights)[0]
    return Mean(weights[0], coordinates, float(coordinates.mean()), float(law.energies.mean()))


def _text(law: Bins, noise: str) -> str:
    laws = "mixture | N(0, I)" if law.direction is Direction.REMOVE else "N(0, I) | mixture"
    return f"{law.bins} bins, {laws}, {noise}"
