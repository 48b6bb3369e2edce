"""What an accountant returns: numbers and curves. An estimate is never called a bound, and neither is a guarantee."""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from evr._basics import numbers, validate
from evr._kernel.pairs import Floats

if TYPE_CHECKING:
    from matplotlib.axes import Axes


class Figure(float):
    """What estimates and bounds have in common: they are a number, so that they compare and add like one. What is
    computed from them is a plain number: a sum of two estimates says nothing about its error.
    """

    value: float
    method: str
    direction: str

    def __new__(cls, value: float, *_: Any, **__: Any) -> Self:
        return super().__new__(cls, value)

    @property
    def doubt(self) -> float | None:
        """How far the truth may lie above the value; None if unknown or if the value is a bound."""
        return None

    def __format__(self, spec: str) -> str:
        return format(self.value, spec) if spec else str(self)

    def __str__(self) -> str:
        return f"{self.value:.6g}"

    def __repr__(self) -> str:
        held = [f"{name}={value!r}" for name, value in vars(self).items() if value is not None]
        return f"{type(self).__name__}({', '.join(one for one in held if one != 'samples=0')})"

    def _repr_html_(self) -> str:
        kind = "estimate" if isinstance(self, Estimate) else "upper bound"
        doubt = "" if self.doubt is None else f", error about {self.doubt:.1g}"
        return f"<b>{self}</b> <small>({kind} by {self.method}, {self.direction} direction{doubt})</small>"


@dataclass(frozen=True, repr=False, eq=False)
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
        Estimated absolute numerical error of ``value``; None where the method knows none. Of a search among several
        runs, ``value`` is about the bound that evr proves, which may be some percent of delta above the truth.
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


@dataclass(frozen=True, repr=False, eq=False)
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


@dataclass(frozen=True)
class Enclosure:
    """Two proved numbers: delta, or epsilon, is between them.

    Attributes
    ----------
    lower, upper
        The bounds, rounded outwards.
    attained
        Whether ``lower`` is about the mechanism: some training of the description has as much. If False, it is about
        the pair by which evr bounds the mechanism, which itself may have less (docs/guarantees_lower.md, Section L8).
    direction, seconds
        ``"remove"`` or ``"add"``, that of the lower bound; the time taken.
    """

    lower: float
    upper: float
    attained: bool
    direction: str
    seconds: float

    def __str__(self) -> str:
        return f"[{numbers.below(self.lower, 6)}, {numbers.above(self.upper, 6)}]"


Count = Callable[[int, int], None]  # called with the points that are done, and with how many there are


class Curve(ABC):
    """A table of numbers that can be drawn: its second column over the first."""

    @abstractmethod
    def columns(self) -> dict[str, Sequence[Any] | Floats]:
        """The columns by their names."""

    def __repr__(self) -> str:
        (x_name, x), (y_name, y) = list(self.columns().items())[:2]
        rest = [f"{name}={held!r}" for name, held in vars(self).items() if name in ("method", "delta")]
        if not len(x):
            return f"{type(self).__name__}({', '.join(['no points', *rest])})"
        low, high = int(np.argmin(x)), int(np.argmax(x))
        ends = f"{x_name} {x[low]:.9g} to {x[high]:.9g}, {y_name} {y[low]:.4g} to {y[high]:.4g}"
        return f"{type(self).__name__}({', '.join([f'{len(x)} points', ends, *rest])})"

    def _repr_html_(self) -> str:
        columns = self.columns()
        head = "".join(f"<th>{name}</th>" for name in columns)
        rows = (
            "".join(f"<td>{f'{cell:.6g}' if isinstance(cell, float) else cell}</td>" for cell in row)
            for row in zip(*columns.values(), strict=True)
        )
        return f"<table><tr>{head}</tr>{''.join(f'<tr>{row}</tr>' for row in rows)}</table>"

    def to_frame(self) -> Any:
        """A ``pandas.DataFrame`` with a row for each point; needs pandas (the extra ``notebook``)."""
        try:
            import pandas
        except ImportError:
            raise ImportError("to_frame needs pandas: pip install 'evr-dp[notebook]'") from None
        return pandas.DataFrame(self.columns())

    def plot(self, ax: Axes | None = None, **style: Any) -> Axes:
        """Draw the curve, delta on a logarithmic scale; ``style`` goes to matplotlib's ``plot``.

        Examples
        --------
        >>> import evr
        >>> event = evr.dpsgd(noise_multiplier=2, sampling_probability=0.1, steps=10)
        >>> ax = evr.privacy_curve(event, [0, 1, 2]).plot()
        >>> ax.get_xlabel(), ax.get_ylabel(), ax.get_yscale()
        ('epsilon', 'delta', 'log')
        >>> ax.figure.clear()
        """
        (x_name, x), (y_name, y) = list(self.columns().items())[:2]
        order = np.argsort(x)
        return drawn(ax, x_name, y_name, {"": (np.asarray(x)[order], np.asarray(y)[order])}, **style)


def drawn(ax: Axes | None, x_name: str, y_name: str, lines: dict[str, tuple[Any, Any]], **style: Any) -> Axes:
    """Lines by their names, on axes of their own where none are given. Deltas are on a logarithmic scale."""
    if ax is None:
        from matplotlib import pyplot

        ax = pyplot.figure(layout="constrained").add_subplot()
    logarithmic = y_name == "delta"
    for name, (x, y) in lines.items():
        shown = [(place, value) for place, value in zip(x, y, strict=True) if value > 0 or not logarithmic]
        marker = "." if len(shown) < 50 else ""
        ax.plot(*zip(*shown, strict=True), **{"marker": marker, "label": name or None, **style})
    ax.set(xlabel=x_name, ylabel=y_name, yscale="log" if logarithmic else "linear")
    if len(lines) > 1:
        ax.legend()
    ax.grid(alpha=0.3)
    return ax


@dataclass(frozen=True, repr=False, eq=False)
class PrivacyCurve(Curve):
    """Deltas at many epsilons.

    Attributes
    ----------
    epsilons, deltas
        Arrays of equal length.
    directions
        The direction that attains each delta.
    method, seconds
        As of ``Estimate``.
    """

    epsilons: Floats
    deltas: Floats
    directions: tuple[str, ...]
    method: str
    seconds: float

    def columns(self) -> dict[str, Sequence[Any] | Floats]:
        return {"epsilon": self.epsilons, "delta": self.deltas, "direction": self.directions}


@dataclass(frozen=True, repr=False, eq=False)
class OnlineEpsilon(Curve):
    """Epsilon after every step.

    Attributes
    ----------
    steps
        Numbers of steps: 1, 2, 3, ... (or every so many).
    epsilons, errors
        Epsilon after that many steps, the greater of both directions, and its estimated absolute numerical error.
    delta, seconds
        As given, and the time taken.
    """

    steps: np.ndarray[Any, np.dtype[np.int64]]
    epsilons: Floats
    errors: Floats
    delta: float
    seconds: float

    def columns(self) -> dict[str, Sequence[Any] | Floats]:
        return {"steps": self.steps.tolist(), "epsilon": self.epsilons, "error": self.errors}


def counter(progress: Count | bool | None) -> Count:
    """The caller's function; True stands for a line on standard error, and None and False for nothing."""

    def shown(done: int, total: int) -> None:
        if done == total or 100 * done // total > 100 * (done - 1) // total:
            end = "\n" if done == total else ""
            print(f"\revr: {done:,} of {total:,}", end=end, file=sys.stderr, flush=True)

    if progress is True:
        return shown
    return validate.function(progress=progress) if progress else lambda done, total: None
