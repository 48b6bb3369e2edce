"""Balls in bins: a record is in one of ``b`` bins, and takes part whenever its bin's turn comes.

There are ``b`` patterns of weight ``1/b``, and all is in the Gram matrix ``G`` of their means:
``v_j = <m_j, z>`` are the coordinates, ``N(0, G)`` under ``Q``, and ``L`` is the mean of ``A_j =
exp(v_j - G_jj / 2)``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from evr.laws.law import Direction, Floats
from evr.laws.mixture.law import MixtureLaw, in_parts, log_mean_exp
from evr.laws.mixture.strategy import Strategy, product


@dataclass(frozen=True)
class IndependentBins(MixtureLaw):
    """Bins of independent noise: ``G = energy I``, so ``L`` is a mean of ``bins`` independent
    log-normal ratios.

    Examples
    --------
    >>> law = IndependentBins(Direction.REMOVE, bins=2, energy=2.0)
    >>> round(float(law.log_ratio(np.array([[2.0, 0.0]]))[0]), 12)
    0.433780830483
    """

    direction: Direction
    bins: int
    energy: float

    @property
    def dimension(self) -> int:
        return self.bins

    def draw_null(self, generator: np.random.Generator, size: int) -> Floats:
        coordinates = generator.standard_normal((size, self.bins))
        coordinates *= math.sqrt(self.energy)
        return coordinates

    def draw_mixture(self, generator: np.random.Generator, size: int) -> Floats:
        coordinates = self.draw_null(generator, size)
        # bins are alike: which one it is does not change the law of L
        coordinates[:, 0] += self.energy
        return coordinates

    def log_ratio(self, coordinates: Floats) -> Floats:
        return log_mean_exp(coordinates) - self.energy / 2

    @property
    def weights(self) -> Floats:
        return np.full(self.bins, 1.0 / self.bins)

    @property
    def mean_coordinates(self) -> Floats:
        return np.full(self.bins, self.energy / self.bins)

    @property
    def greatest_energy(self) -> float:
        return self.energy

    @property
    def mean_energy(self) -> float:
        return self.energy

    @property
    def mean_square(self) -> float:
        return self.energy / self.bins

    def describe(self) -> str:
        return f"{self.bins} bins, {_who(self.direction)}, G = {self.energy:.6g} I"


@dataclass(frozen=True)
class CorrelatedBins(MixtureLaw):
    """Bins of a matrix mechanism: patterns ``{j, j + bins, ...}`` of ``iterations`` steps, noise
    correlated by ``C``.
    """

    direction: Direction
    noise: float
    bins: int
    strategy: Strategy

    @cached_property
    def gram(self) -> Floats:
        """``G``."""
        return self.strategy.bin_gram(self.bins) / self.noise**2

    @cached_property
    def factor(self) -> Floats:
        """``F`` with ``F F' = G``, which may be singular."""
        values, vectors = np.linalg.eigh(self.gram)
        return vectors * np.sqrt(np.maximum(values, 0.0))

    @property
    def dimension(self) -> int:
        return self.bins

    def draw_null(self, generator: np.random.Generator, size: int) -> Floats:
        found = np.empty((size, self.bins))
        for rows in in_parts(size, self.bins):
            noise = generator.standard_normal(found[rows].shape)
            found[rows] = product(noise, self.factor.T)
        return found

    def draw_mixture(self, generator: np.random.Generator, size: int) -> Floats:
        coordinates = self.draw_null(generator, size)
        coordinates += self.gram[generator.integers(0, self.bins, size)]
        return coordinates

    @property
    def recursion(self) -> int:
        return self.bins

    @cached_property
    def energies(self) -> Floats:
        """``|m_j|^2``."""
        return np.diag(self.gram).copy()

    def log_ratio(self, coordinates: Floats) -> Floats:
        found = np.empty(size := len(coordinates))
        for rows in in_parts(size, self.bins):
            found[rows] = log_mean_exp(coordinates[rows] - self.energies / 2)
        return found

    @property
    def weights(self) -> Floats:
        return np.full(self.bins, 1.0 / self.bins)

    @property
    def mean_coordinates(self) -> Floats:
        return self.gram.mean(axis=0)

    @property
    def greatest_energy(self) -> float:
        return float(self.energies.max())

    @property
    def mean_energy(self) -> float:
        return float(self.energies.mean())

    @property
    def mean_square(self) -> float:
        return float(self.gram.mean())

    def describe(self) -> str:
        return (
            f"{self.bins} bins, {_who(self.direction)}, {self.strategy.describe()}, noise "
            f"{self.noise:.6g}"
        )


def _who(direction: Direction) -> str:
    return "mixture | N(0, I)" if direction is Direction.REMOVE else "N(0, I) | mixture"
