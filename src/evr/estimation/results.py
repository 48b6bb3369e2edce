"""What an accountant returns. An estimate is never called a bound, and neither is a guarantee."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Estimate:
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

    def __float__(self) -> float:
        return self.value


@dataclass(frozen=True)
class UpperBound:
    """A number that is proved to be at least the truth.

    By ``"strict"``, without exception and tight; by ``"rdp"``, up to the rounding of floats, and usually far from tight.

    Attributes as of ``Estimate``.
    """

    value: float
    method: str
    direction: str
    seconds: float = 0.0

    def __float__(self) -> float:
        return self.value
