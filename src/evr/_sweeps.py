"""``sweep``: one question, asked of many settings of a training."""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from evr._accounting import Estimate, UpperBound, estimate_delta, estimate_epsilon
from evr._basics import validate
from evr._dpsgd import dpsgd
from evr._estimate.results import Count, Curve, counter, drawn
from evr._kernel.events.relations import Relation
from evr._kernel.pairs import Floats

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MOST = 100_000  # settings of a sweep: more are taken for a slip


@dataclass(frozen=True, repr=False)
class Sweep(Curve):
    """What a sweep found, one row for each setting.

    Attributes
    ----------
    wanted
        ``"epsilon"`` or ``"delta"``: what was asked for.
    settings
        All keywords of each row, its epsilon or delta included.
    varied
        The names that have more than one value, in the order in which they were given.
    results
        An ``Estimate`` or an ``UpperBound`` for each row.
    seconds
        Time taken.
    """

    wanted: str
    settings: tuple[dict[str, Any], ...]
    varied: tuple[str, ...]
    results: tuple[Estimate | UpperBound, ...]
    seconds: float

    @property
    def values(self) -> Any:
        """The numbers that were asked for, as an array."""
        return np.array([found.value for found in self.results])

    @property
    def rows(self) -> list[dict[str, Any]]:
        """Each row's settings that vary, its answer, and the direction that attains it."""
        return [
            {name: one[name] for name in self.varied} | {self.wanted: found.value, "direction": found.direction}
            for one, found in zip(self.settings, self.results, strict=True)
        ]

    def __repr__(self) -> str:
        over = f"{len(self.results)} settings over {', '.join(self.varied) or 'nothing'}"
        low, high, method = self.values.min(), self.values.max(), self.results[0].method
        return f"Sweep({over}, {self.wanted} {low:.6g} to {high:.6g}, method={method!r})"

    def columns(self) -> dict[str, Sequence[Any] | Floats]:
        return {name: [row[name] for row in self.rows] for name in self.rows[0]}

    def plot(self, ax: Axes | None = None, **style: Any) -> Axes:
        """Draw the answers over the setting with most values, a line for each of the others; ``style`` is for lines."""
        if not self.varied:
            raise ValueError("a picture needs a setting that varies: give one several values")
        along = max(self.varied, key=lambda name: len({one[name] for one in self.settings}))
        lines: dict[str, tuple[list[Any], list[float]]] = {}
        for one, result in zip(self.settings, self.results, strict=True):
            others = ", ".join(f"{key.replace('_', ' ')} {one[key]}" for key in self.varied if key != along)
            places, values = lines.setdefault(others, ([], []))
            places.append(one[along])
            values.append(result.value)
        return drawn(ax, along.replace("_", " "), self.wanted, lines, **style)


def sweep(
    event: Callable[..., Any] = dpsgd,
    *,
    epsilon: Any = None,
    delta: Any = None,
    method: str = "fft",
    neighboring_relation: Relation | None = None,
    unit: str | None = None,
    progress: Count | bool | None = None,
    **settings: Any,
) -> Sweep:
    """Estimate epsilon (or delta) for every combination of settings.

    Parameters
    ----------
    event
        Makes the ``DpEvent`` of one setting from its keywords; ``evr.dpsgd`` by default.
    epsilon, delta
        One of the two: delta is found at each epsilon, or epsilon at each delta.
    method, neighboring_relation, unit
        As of ``evr.estimate_epsilon``.
    progress
        ``progress(done, total)`` is called as the work goes on; True shows a line.
    settings
        Keywords of ``event``. A list, tuple, range or array has a row for each of its values.

    Returns
    -------
    Sweep
        With ``.rows``, ``.values``, ``.to_frame()`` and ``.plot()``.

    Raises
    ------
    ValueError, TypeError, UnsupportedEventError, AccuracyError
        As of ``evr.estimate_epsilon``; a note names the setting.

    Examples
    --------
    >>> import evr
    >>> found = evr.sweep(noise_multiplier=[0.8, 1.0], sampling_probability=0.01, steps=100,
    ...                   delta=1e-5)
    >>> found.values.round(3).tolist()
    [1.511, 0.718]
    """
    start = time.perf_counter()
    if (epsilon is None) == (delta is None):
        raise ValueError(f"epsilon={epsilon!r} and delta={delta!r}: give one of them, and evr estimates the other")
    wanted, given, at = ("delta", "epsilon", epsilon) if delta is None else ("epsilon", "delta", delta)
    estimate: Callable[..., Estimate | UpperBound] = estimate_delta if delta is None else estimate_epsilon
    asked = {"method": method, "neighboring_relation": neighboring_relation, "unit": unit}
    validate.function(event=event)
    told = counter(progress)
    values = {name: _values(name, one) for name, one in {**settings, given: at}.items()}
    total = math.prod(len(some) for some in values.values())
    if total > MOST:
        raise ValueError(f"{total:,} settings are more than {MOST:,}: take fewer values")
    rows = [dict(zip(values, one, strict=True)) for one in itertools.product(*values.values())]
    results = []
    for row in rows:
        try:
            results.append(estimate(event(**{name: row[name] for name in settings}), row[given], **asked))
        except Exception as error:
            error.add_note(f"of the setting {', '.join(f'{name}={value!r}' for name, value in row.items())}")
            raise
        told(len(results), total)
    varied = tuple(name for name, some in values.items() if len(some) > 1)
    return Sweep(wanted, tuple(rows), varied, tuple(results), time.perf_counter() - start)


def _values(name: str, given: Any) -> tuple[Any, ...]:
    """The values of one keyword; words are one value."""
    if isinstance(given, str | bytes) or not hasattr(given, "__iter__"):
        return (given,)
    found = tuple(one.item() if isinstance(one, np.generic) else one for one in given)
    if not found:
        raise ValueError(f"{name}={given!r} has no values: give one or more")
    return found
