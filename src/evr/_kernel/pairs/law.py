"""What the laws of all privacy losses have in common, on a line or in many dimensions."""

import abc
from functools import singledispatch
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

UNIT = 2.0**-52
"""Twice the greatest relative error of a float64 operation."""


@singledispatch
def module_of(x: Any) -> Any:
    """The module whose array it is: NumPy, unless a device has registered its arrays."""
    return np


class LossLaw(abc.ABC):
    """The law of the loss ``log dP/dQ`` under ``P``, where ``(P, Q)`` dominates a step in one direction: its
    ``delta(epsilon)`` is at most ``sup_A P(A) - e^epsilon Q(A)``. A frozen dataclass of plain values.
    """

    @abc.abstractmethod
    def describe(self) -> str:
        """The law in a line of notation, for tables."""
