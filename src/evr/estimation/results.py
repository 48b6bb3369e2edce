"""What an accountant returns. An estimate is never called a bound, and neither is a guarantee."""

from __future__ import annotations

from dataclasses import dataclass

from evr import numbers


class Figure:
    """What estimates and bounds have in common: they are a number, and look like one."""

    value: float
    method: str
    direction: str

    @property
    def doubt(self) -> float | None:
        """How far the truth may lie above the value; None if unknown or if the value is a bound."""
        return None

    def __float__(self) -> float:
        return self.value

    def __format__(self, spec: str) -> str:
        return format(self.value, spec) if spec else str(self)

    def __str__(self) -> str:
        return f"{self.value:.6g}"

    def __repr__(self) -> str:
        held = [f"{name}={value!r}" for name, value in vars(self).items() if value is not None]
        return f"{type(self).__name__}({', '.join(one for one in held if one != 'samples=0')})"

    def _repr_html_(self) -> str:
        return f"<b>{self}</b> <small>(upper bound by {self.method}, {self.direction} direction)</small>"


@dataclass(frozen=True, repr=False)
class Estimate(Figure):
    """A number believed to be close to the truth, from either side.

    Attributes
    ----------
    value
        The estimated delta, or the estimated epsilon.
    method
        Which accountant.
    direction
        ``"remove"`` or ``"add"``: the one that attains the maximum, or the one asked for.
    error
        Estimated absolute numerical error of ``value``; None where the method knows none.
    standard_error
        Standard error of ``value`` for Monte Carlo; None for deterministic methods.
    confidence_interval
        95% confidence interval for Monte Carlo; None for deterministic methods.
    samples
        Samples drawn in all; 0 for deterministic methods.
    seconds
        Time taken.
    """

    value: float
    method: str
    direction: str
    error: float | None = None
    standard_error: float | None = None
    confidence_interval: tuple[float, float] | None = None
    samples: int = 0
    seconds: float = 0.0

    @property
    def doubt(self) -> float | None:
        """By how much the truth may well be above: the numerical error, or two standard errors."""
        return self.error if self.standard_error is None else 2.0 * self.standard_error

    def _repr_html_(self) -> str:
        doubt = "" if self.error is None else f", numerical error about {self.error:.1g}"
        doubt = doubt if self.standard_error is None else f", standard error {self.standard_error:.2g}"
        return f"<b>{self}</b> <small>(estimate by {self.method}, {self.direction} direction{doubt})</small>"


@dataclass(frozen=True, repr=False)
class UpperBound(Figure):
    """A number that is proved to be at least the truth.

    By ``"strict"``, without exception and tight; by ``"rdp"``, up to the rounding of floats, and usually far from
    tight.

    Attributes
    ----------
    value, method, direction, seconds
        As of ``Estimate``; the direction is ``"both"`` where the bound is not of one.
    """

    value: float
    method: str
    direction: str
    seconds: float = 0.0

    def __str__(self) -> str:
        return numbers.above(self.value, 6)
