"""What laws in many dimensions have in common (notation of docs/guarantees_highdim.md).

Without the record the outputs are ``Q = N(0, I)``, with it the mixture ``sum_x w_x N(m_x, I)`` over the sets
``x`` of steps that it may take part in. The likelihood ratio ``L = sum_x w_x exp(<m_x, z> - |m_x|^2 / 2)``
depends on ``z`` by inner products with a few means or columns, the *coordinates*: a row for each sample.
"""

import abc
import math
from dataclasses import dataclass, field
from functools import cached_property, singledispatch

import numpy as np

from evr._kernel.pairs.law import UNIT, Floats, LossLaw
from evr.types import Direction

_CACHED = 1 << 17  # numbers that stay in the cache, with one or two others for each


@dataclass(frozen=True, eq=False)
class Mean:
    """The mean ``mbar = sum_x w_x m_x`` of the mixture, which shifts of the add direction follow."""

    weights: Floats  # the share of each coordinate's mean in it: ``mbar = sum_i weights_i m_i``
    coordinates: Floats  # what a shift of ``z`` by it adds to each coordinate
    square: float  # ``|mbar|^2``
    energy: float  # ``gbar = sum_x w_x |m_x|^2``


class PatternLaw(LossLaw):
    """The loss is ``log L`` under the mixture (remove), or ``-log L`` under ``Q`` (add)."""

    direction: Direction

    @property
    @abc.abstractmethod
    def dimension(self) -> int:
        """The number of coordinates."""

    @abc.abstractmethod
    def draw_null(self, generator: np.random.Generator, size: int) -> Floats:
        """Coordinates under ``Q``, without the record."""

    @abc.abstractmethod
    def log_ratio(self, coordinates: Floats) -> Floats:
        """``log L`` of each row."""

    def loss(self, coordinates: Floats, log_ratio: Floats) -> Floats:
        """The privacy loss of each row, ``log_ratio`` being its ``log L``."""
        return log_ratio if self.direction is Direction.REMOVE else -log_ratio

    @property
    @abc.abstractmethod
    def mean(self) -> Mean:
        """The mean of the mixture."""

    @property
    @abc.abstractmethod
    def greatest_energy(self) -> float:
        """``max_x |m_x|^2``, or more."""

    @property
    def _log_absent(self) -> float:
        """``log`` of the chance that the record never takes part: ``L`` is never less."""
        return -math.inf

    def _sum_error(self, scale: float) -> float:
        """The part of ``density_error`` that comes from long sums in ``L``."""
        return 0.0


def magnitude(law: PatternLaw, scale: float) -> float:
    """The greatest exponent of a ratio where means are up to ``scale`` times those of patterns."""
    energy, factor = law.greatest_energy, 1.0 + scale  # no inner product of two means is above the energy
    of_noise = 39.0 * math.sqrt(energy) * factor  # no draw is 39 deviations out
    return of_noise + factor**2 * energy + math.log(law.dimension + 1.0)


def density_error(law: PatternLaw, scale: float) -> float:
    """A bound on the rounding error of the logarithm of a ratio or density (guarantees_highdim, 7)."""
    return 32.0 * UNIT * (1.0 + magnitude(law, scale)) + law._sum_error(scale)


def in_blocks(x: Floats) -> list[slice]:
    """All rows, cut into blocks whose numbers stay in the cache of a processor."""
    rows, columns = x.shape
    at_once = max(64, _CACHED // columns) if isinstance(x, np.ndarray) else max(1, rows)
    return [slice(start, start + at_once) for start in range(0, rows, at_once)]


@singledispatch
def log_mean_exp(x: Floats, halves: Floats, scale: float = 1.0) -> Floats:
    """``log`` of the mean of ``e^{scale x - halves}`` over each row."""
    found = np.empty(len(x))
    for rows in in_blocks(x):
        below = scale * x[rows] - halves
        top = below.max(axis=1)
        below -= top[:, None]
        found[rows] = top + np.log(np.exp(below, out=below).mean(axis=1))
    return found


@dataclass(frozen=True)
class ReplacedPatterns(PatternLaw):
    """The mixture of ``base`` against its mirror image, ``sum_x w_x N(-m_x, I)``: one law serves both
    directions. The loss is ``log L(z) - log L(-z)``.
    """

    base: PatternLaw
    direction: Direction = field(default=Direction.REMOVE, init=False)  # whose weights are meant

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

    def _sum_error(self, scale: float) -> float:
        return self.base._sum_error(scale) + density_error(self.base, scale)  # a loss has two ratios

    def describe(self) -> str:
        return f"{self.base.describe().replace('N(0, I)', 'mirrored')}, replace-one"
