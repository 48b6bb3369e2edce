"""What the laws of all privacy losses have in common, on a line or in many dimensions."""

import abc
import inspect
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


def check_final(cls: type, family: type) -> None:
    """Refuse a class that is derived from one that is a law by itself. Sums of laws, their floats and how
    they are sampled are chosen by their classes: what is chosen so is not true of what is derived.
    """
    for base in cls.__bases__:
        if issubclass(base, family) and not inspect.isabstract(base):
            remedy = "derive it from ExactOutcomes, ExactCurve or DominatingPair"
            raise TypeError(f"{cls.__name__} is derived from {base.__name__}, a law by itself: {remedy}")


class LossLaw(abc.ABC):
    """The law of the loss ``log dP/dQ`` under ``P``, where ``(P, Q)`` dominates a step in one direction: its
    ``delta(epsilon)`` is at most ``sup_A P(A) - e^epsilon Q(A)``. A frozen dataclass of plain values;
    abstract or final, but for what no guarantee sees.
    """

    def __init_subclass__(cls, *, for_estimates: bool = False, **named: Any) -> None:
        super().__init_subclass__(**named)
        if not for_estimates:
            check_final(cls, LossLaw)

    @abc.abstractmethod
    def describe(self) -> str:
        """The law in a line of notation, for tables."""
