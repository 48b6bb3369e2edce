"""What every privacy loss has in common, on a line or in many dimensions.

A composition holds laws. What works on a line only (Fourier transforms, cells, merging) asks a step for its
``pair``, which is refused by name for a law that is none.
"""

from __future__ import annotations

import abc
import enum
import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


class Direction(enum.StrEnum):
    """Who has the additional record. A guarantee under add/remove adjacency needs both."""

    REMOVE = "remove"
    """``P`` is the mechanism with the record, ``Q`` without: ``(M(D + x), M(D))``."""
    ADD = "add"
    """``P`` is the mechanism without the record, ``Q`` with: ``(M(D), M(D + x))``."""


class LossLaw(abc.ABC):
    """The law of one step's privacy loss ``log dP/dQ`` under ``P``. Immutable, hashable, comparable by value.

    ``(P, Q)`` dominates the step in one direction, for all ``gamma >= 0``. A law is a frozen dataclass of plain
    values, so that its fields are all that it takes to build it again.
    """

    @abc.abstractmethod
    def draw_losses(self, generator: np.random.Generator, size: int) -> Floats:
        """``size`` independent privacy losses under ``P``."""

    @abc.abstractmethod
    def describe(self) -> str:
        """The law in a line of notation, for tables."""

    def self_composed(self, count: int) -> LossLaw | None:
        """One law that equals ``count`` steps of this one, where the family is closed under composition, else None."""
        return self if count == 1 else None

    @property
    def infinite_loss_mass(self) -> float:
        """Probability under ``P`` of an infinite privacy loss."""
        return 0.0

    @property
    def loss_range(self) -> tuple[float, float]:
        """Least and greatest privacy loss, possibly infinite."""
        return -math.inf, math.inf


@dataclass(frozen=True)
class Pairs:
    """The laws of one mechanism in its two directions: of its dominating pairs, on a line mostly."""

    remove: LossLaw
    add: LossLaw

    def of(self, direction: Direction) -> LossLaw:
        """The law of one direction."""
        return self.remove if direction is Direction.REMOVE else self.add
