"""What every privacy loss has in common, on a line or in many dimensions.

A composition holds laws. Methods for a line only (Fourier transforms, cells, merging) ask a step
for its ``pair``; a law in many dimensions has none, and is refused by name.
"""

from __future__ import annotations

import abc
import enum
import math

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

UNIT = 2.0**-52
"""Twice the greatest relative error of a float64 operation."""


class Direction(enum.StrEnum):
    """Who has the additional record. A guarantee under add/remove adjacency needs both."""

    REMOVE = "remove"
    """``P`` is the mechanism with the record, ``Q`` without: ``(M(D + x), M(D))``."""
    ADD = "add"
    """``P`` is the mechanism without the record, ``Q`` with: ``(M(D), M(D + x))``."""


class LossLaw(abc.ABC):
    """The law of one step's privacy loss ``log dP/dQ`` under ``P``. Immutable, hashable, comparable
    by value.

    ``(P, Q)`` dominates the step in one direction, for all ``gamma >= 0``. A law is a frozen
    dataclass of plain values, so that its fields are all that it takes to build it again.
    """

    @abc.abstractmethod
    def describe(self) -> str:
        """The law in a line of notation, for tables."""

    @property
    @abc.abstractmethod
    def loss_magnitude(self) -> float:
        """The greatest number that enters the computation of a loss: rounding is relative to it."""

    def sum_error(self, count: int) -> float:
        """A bound on the rounding error of a sum of ``count`` losses (docs/guarantees.md, Section
        6).
        """
        return 32.0 * UNIT * count * (1.0 + self.loss_magnitude)

    @property
    def is_cut(self) -> bool:
        """Whether greater losses were left out, less likely than 1e-320 together."""
        return False

    @property
    def infinite_loss_mass(self) -> float:
        """Probability under ``P`` of an infinite privacy loss."""
        return 0.0

    @property
    def loss_range(self) -> tuple[float, float]:
        """Least and greatest privacy loss, possibly infinite."""
        return -math.inf, math.inf
