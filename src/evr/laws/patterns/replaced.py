"""Patterns under replace-one: in one world the record takes part, in the other its replacement, with the opposite means
(docs/guarantees_relations.md, Section R8).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from evr.laws.law import Direction, Floats
from evr.laws.patterns.law import Mean, PatternLaw, density_error


@dataclass(frozen=True)
class ReplacedPatterns(PatternLaw):
    """``sum_x w_x N(m_x, I)`` against ``sum_x w_x N(-m_x, I)``, ``base`` being the first against ``N(0, I)``: the loss
    is ``log L(z) - log L(-z)``. One law serves both directions.
    """

    base: PatternLaw
    direction: Direction = field(default=Direction.REMOVE, init=False)
    """Weights are those of the direction remove."""

    @cached_property
    def log_kappa(self) -> float:
        """``log L(0)``: by Cauchy and Schwarz ``L(z) L(-z)`` is never below its square."""
        return float(self.log_ratio(np.zeros((1, self.dimension)))[0])

    @property
    def dimension(self) -> int:
        return self.base.dimension

    def draw_null(self, generator: np.random.Generator, size: int) -> Floats:
        return self.base.draw_null(generator, size)

    def log_ratio(self, coordinates: Floats) -> Floats:
        return self.base.log_ratio(coordinates)

    def loss(self, coordinates: Floats, log_ratio: Floats) -> Floats:
        return log_ratio - self.base.log_ratio(-coordinates)

    @property
    def mean(self) -> Mean:
        return self.base.mean

    @property
    def greatest_energy(self) -> float:
        return self.base.greatest_energy

    @property
    def _sums(self) -> int:
        return self.base._sums

    def _more_error(self, scale: float) -> float:
        return self.base._more_error(scale) + density_error(self.base, scale)  # a loss has two ratios

    def describe(self) -> str:
        return f"{self.base.describe().replace('N(0, I)', 'mirrored')}, replace-one"
