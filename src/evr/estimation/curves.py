"""Curves of delta over epsilon: arrays, a table, a picture."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from evr.laws import Floats

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@dataclass(frozen=True, repr=False)
class PrivacyCurve:
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

    def __repr__(self) -> str:
        if not self.epsilons.size:
            return f"PrivacyCurve(no points, method={self.method!r})"
        return (
            f"PrivacyCurve({self.epsilons.size} points, epsilon {self.epsilons.min():g} to "
            f"{self.epsilons.max():g}, delta {self.deltas.max():.4g} to {self.deltas.min():.4g}, "
            f"method={self.method!r})"
        )

    def _repr_html_(self) -> str:
        rows = zip(self.epsilons, self.deltas, self.directions, strict=True)
        cells = "".join(
            f"<tr><td>{e:g}</td><td>{d:.6g}</td><td>{way}</td></tr>" for e, d, way in rows
        )
        return f"<table><tr><th>epsilon</th><th>delta</th><th>direction</th></tr>{cells}</table>"

    def to_frame(self) -> Any:
        """A ``pandas.DataFrame`` with a row for each epsilon; needs pandas (the extra
        ``notebook``).
        """
        try:
            import pandas
        except ImportError:
            raise ImportError("to_frame needs pandas: pip install 'evr-dp[notebook]'") from None
        columns = {
            "epsilon": self.epsilons,
            "delta": self.deltas,
            "direction": list(self.directions),
        }
        return pandas.DataFrame(columns)

    def plot(self, ax: Axes | None = None, **style: Any) -> Axes:
        """Draw delta over epsilon, delta on a logarithmic scale; ``style`` goes to matplotlib's
        ``plot``.

        Examples
        --------
        >>> import evr
        >>> event = evr.dpsgd(noise_multiplier=2, sampling_probability=0.1, steps=10)
        >>> curve = evr.privacy_curve(event, [0, 1, 2])
        >>> ax = curve.plot()
        >>> ax.get_xlabel(), ax.get_yscale()
        ('epsilon', 'log')
        >>> ax.figure.clear()
        """
        if ax is None:
            from matplotlib import pyplot

            ax = pyplot.figure(layout="constrained").add_subplot()
        order = self.epsilons.argsort()
        epsilons, deltas = self.epsilons[order], self.deltas[order]
        shown = deltas > 0
        ax.plot(
            epsilons[shown], deltas[shown], **{"marker": "." if shown.sum() < 50 else "", **style}
        )
        ax.set(xlabel="epsilon", ylabel="delta", yscale="log")
        ax.grid(alpha=0.3)
        return ax
