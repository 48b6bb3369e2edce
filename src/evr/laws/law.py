"""What every privacy loss has in common, on a line or in many dimensions.

A composition holds laws. Methods for a line only (Fourier transforms, cells, merging) ask a step for its ``pair``; a
law in many dimensions has none, and is refused by name.
"""

from __future__ import annotations

import abc
import enum

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
    """The law of one step's privacy loss ``log dP/dQ`` under ``P``. Immutable, hashable, comparable by value.

    ``(P, Q)`` dominates the step in one direction, for all ``gamma >= 0``. A law is a frozen dataclass of plain values,
    so that its fields are all that it takes to build it again.
    """

    @abc.abstractmethod
    def describe(self) -> str:
        """The law in a line of notation, for tables."""
