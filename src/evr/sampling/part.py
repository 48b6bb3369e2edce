"""How one law in many dimensions is drawn in one component of a mixture: the protocol.

A part is named by numbers, so that a plan holds it as data: ``{"order": 8.0}``, ``{"scale": 5.1}``.
Its law has a density with respect to ``Q`` that can be computed. If that is at least ``e^{order
loss} dP/dQ / M``, the part is as good as a tilt of that order: weights are at most ``M e^{-order
loss}``. docs/guarantees_highdim.md, Sections 4 to 6.
"""

from __future__ import annotations

import abc
import math

import numpy as np

from evr.laws import Direction
from evr.laws.law import UNIT, Floats
from evr.laws.mixture.law import MixtureLaw


class Part(abc.ABC):
    """Draws coordinates of one law; knows their density with respect to ``Q``."""

    order: float | None = None
    """The tilt that it is as good as, in the direction of its law, 0 for plain sampling; None if
    there is no such bound.
    """
    log_normaliser: float = 0.0
    """``log M`` of that tilt."""
    is_exact: bool = True
    """Whether the density is that of the draws, and not from below."""
    refuses: bool = False
    """Whether it may draw nothing (4.2)."""
    rounding: float = 0.0
    """The error of sums of its own that does not depend on exponents."""
    products: int = 0
    """Of how many products each of its exponents is a sum, where they are more than a few."""
    magnitude: float = 1.0
    """How many times the means of the law it draws from are, at the most: rounding is relative to
    that.
    """

    def sum_error(self, law: MixtureLaw, scale: float) -> float:
        """What sums of its own add to the error of the logarithm of its density, where means are up
        to ``scale`` times those of patterns of its law.
        """
        return self.rounding + 2.0 * UNIT * self.products * law.magnitude(scale)

    @abc.abstractmethod
    def draw(self, generator: np.random.Generator, size: int) -> Floats:
        """Coordinates, a row for each sample; a row of NaN where a part that ``refuses`` draws
        nothing.
        """

    @abc.abstractmethod
    def log_density(self, coordinates: Floats, log_ratio: Floats) -> Floats:
        """``log`` of the density with respect to ``Q``, or less; ``log_ratio`` is ``log L``."""


def remove_only(law: MixtureLaw, name: str) -> None:
    if law.direction is not Direction.REMOVE:
        raise ValueError(
            f"{name} is for the remove direction, and {law.describe()} is of the other"
        )


def add_only(law: MixtureLaw, name: str) -> None:
    if law.direction is not Direction.ADD:
        raise ValueError(f"{name} is for the add direction, and {law.describe()} is of the other")


def whole(value: float) -> int:
    if not (math.isfinite(value) and value == int(value)):
        raise ValueError(f"order={value!r} is not a whole number")
    return int(value)


def positive(value: float) -> float:
    if not 0 < value < math.inf:
        raise ValueError(f"{value!r} is not positive and finite")
    return value
