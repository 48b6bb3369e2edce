"""What an observer sees: sums of contributions, through noise, as the probabilities of cells.

Everything random apart from the noise is a law of the sums, and finitely many sums are possible. The noise is cut into
cells. A cell tells less than the number in it, so the hockey-stick divergence of two laws on cells is a lower bound of
that of the numbers, and close to it where cells are narrow.
"""

from __future__ import annotations

import itertools
import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np
from scipy.special import ndtr

Cells = np.ndarray
Sums = tuple[tuple[float, float], ...]
"""One pair for each number that is released: the sum if the number before it was negative, and if it was not. So what
records contribute may depend on what was released before.
"""
Noise = Callable[[np.ndarray], np.ndarray]
"""The distribution function of symmetric noise, accurate below 0."""

CELLS = {1: 1000, 2: 120, 3: 40, 4: 18}  # of each number, by how many numbers are released
FARTHEST = 6.0  # beyond the greatest sum, in deviations of the noise, where the last cell begins


def adds(record: Any) -> tuple[float, float]:
    """What a record adds to a sum: a number adds itself, a pair its first number if the number that was released before
    was negative, and its second otherwise. The empty record adds nothing.
    """
    if record is None:
        return 0.0, 0.0
    return record if isinstance(record, tuple) else (record, record)


def total(records: Iterable[Any]) -> tuple[float, float]:
    pairs = [adds(record) for record in records]
    return math.fsum(low for low, _ in pairs), math.fsum(high for _, high in pairs)


def gaussian(scale: float) -> Noise:
    return lambda x: ndtr(x / scale)


def laplace(scale: float) -> Noise:
    return lambda x: np.where(x < 0, np.exp(np.minimum(x, 0) / scale) / 2, 1 - np.exp(-np.abs(x) / scale) / 2)


def release(
    sums: Mapping[Sums, float], noise: Noise, scale: float, *, matrix: Any = None, greatest: float = 3.0
) -> Cells:
    """The law of all numbers that are released: each is a sum with noise of its own. With a ``matrix``, number ``i`` is
    row ``i`` of the matrix times the sums, with noise. No sum exceeds ``greatest``.
    """
    steps = len(next(iter(sums)))
    if steps == 0:
        return np.ones(1)
    strategy = np.eye(steps) if matrix is None else np.asarray(matrix, float)
    end = greatest * np.abs(strategy).sum(axis=1).max() + FARTHEST * scale
    edges = np.linspace(-end, end, CELLS[steps] - 1)  # an odd number of edges: 0 is one of them
    negative = CELLS[steps] // 2

    def cells(path: Sums, so_far: tuple[float, ...]) -> Cells:
        """The law of the numbers from the last of ``so_far`` on; these are the sums up to it."""
        step = len(so_far)
        chances = cells_of(noise, edges - strategy[step - 1, :step] @ so_far)
        if step == steps:
            return chances
        low, high = (cells(path, (*so_far, after)) for after in path[step])
        parts = (chances[:negative], low), (chances[negative:], high)
        return np.concatenate([np.multiply.outer(first, later) for first, later in parts])

    return np.sum([chance * cells(path, (path[0][0],)) for path, chance in sums.items()], axis=0)


def cells_of(noise: Noise, edges: np.ndarray) -> np.ndarray:
    """The probabilities of cells, accurate in both tails."""
    below, above = np.diff(noise(edges), prepend=0.0, append=1.0), -np.diff(noise(-edges), prepend=1.0, append=0.0)
    return np.where(np.append(edges, np.inf) < 0, below, above)


def release_integers(sums: Mapping[tuple[int, ...], float], chances: np.ndarray, greatest: int) -> Cells:
    """The law of integers with independent noise on each, whose ``chances`` are those of ``-n, ..., n``."""
    half = len(chances) // 2
    law: Any = 0.0
    for values, chance in sums.items():
        rows = [np.convolve(chances, np.eye(2 * greatest + 1)[value + greatest]) for value in values]
        law = law + chance * np.asarray(_product(rows))
    assert len(chances) == 2 * half + 1
    return law


def _product(rows: list[np.ndarray]) -> np.ndarray:
    law = rows[0]
    for row in rows[1:]:
        law = np.multiply.outer(law, row)
    return law


def discrete_laplace(parameter: float) -> np.ndarray:
    """Chances proportional to ``e^{-parameter |x|}``; what is beyond the last integer, below 1e-16, goes to it."""
    x = np.arange(-math.ceil(37 / parameter), math.ceil(37 / parameter) + 1)
    chances = np.exp(-parameter * np.abs(x))
    return chances / chances.sum()


def discrete_gaussian(sigma: float, clients: int = 1) -> np.ndarray:
    """Chances proportional to ``e^{-x^2 / (2 sigma^2)}``, or those of a sum of such numbers."""
    x = np.arange(-math.ceil(9 * sigma), math.ceil(9 * sigma) + 1)
    chances = np.exp(-(x**2) / (2 * sigma**2))
    chances /= chances.sum()
    law = chances
    for _ in range(clients - 1):
        law = np.convolve(law, chances)
    return law


def mixed(laws: Iterable[tuple[Any, float]]) -> dict[Any, float]:
    """A law from outcomes with their chances, equal outcomes put together."""
    law: dict[Any, float] = defaultdict(float)
    for outcome, chance in laws:
        law[outcome] += chance
    return dict(law)


def joined(*laws: Mapping[Any, float]) -> dict[Any, float]:
    """Independent outcomes, one of each law."""
    return mixed(
        (tuple(outcome for outcome, _ in draws), math.prod(chance for _, chance in draws))
        for draws in itertools.product(*(law.items() for law in laws))
    )
