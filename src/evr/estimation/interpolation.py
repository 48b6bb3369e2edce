"""Epsilon after ``k`` equal steps for every ``k``, from an estimate at a few.

After ``k`` steps of one kind, on top of what ran before, epsilon is a smooth function of
``log(k + earlier)``, ``earlier`` being how many steps ran before. So a block of many steps is computed at a few
Chebyshev points, and a polynomial gives the steps between: some 30 points serve 15,000 steps. Each block is checked at
a point that its polynomial has not seen; where that misses by more than ``TOLERANCE``, the block gets more points, or
becomes shorter.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

TOLERANCE = 2e-7  # of epsilon, or of 1 where it is greater: a fifth of what is promised

_RATIO = 20.0  # of ``k + earlier`` over one block
_SIZES = (5, 9, 17)  # numbers of points; each contains the one before
_UNSEEN = 4.0  # times the miss at the point that checks: what a block may miss elsewhere


class Point(NamedTuple):
    """An epsilon, an estimate of its absolute error, and the direction that attains it."""

    epsilon: float
    error: float
    direction: str


Evaluate = Callable[[int, float | None, str | None], Point]
"""From a number of steps, a guess of epsilon and a direction (None where they are not known)."""


class Interpolated:
    """Epsilon after any number of equal steps, by a function that computes one point.

    ``earlier`` says how many steps ran before, in units of these; ``horizon``, from the first step of a block, the last
    one worth computing; ``direct``, how many questions are answered one by one before there are blocks.
    """

    def __init__(
        self,
        evaluate: Evaluate,
        earlier: float = 0.0,
        horizon: Callable[[int], float] = lambda first: math.inf,
        direct: int = 0,
    ) -> None:
        self._evaluate, self._earlier, self._horizon, self._direct = evaluate, earlier, horizon, direct
        self._known: dict[int, Point] = {}
        self._block: _Block | None = None

    def __call__(self, steps: int) -> Point:
        """Epsilon after so many steps."""
        if steps in self._known:
            return self._known[steps]
        if self._block is None or not self._block.first <= steps <= self._block.last:
            self._direct -= 1
            if self._direct >= 0:
                return self._exact(steps)
            self._block = self._new_block(steps)
        return self._block(steps)

    def _exact(self, steps: int, guess: float | None = None, direction: str | None = None) -> Point:
        if steps not in self._known:
            self._known[steps] = self._evaluate(steps, guess, direction)
        return self._known[steps]

    def _new_block(self, first: int) -> _Block:
        """As long a block from ``first`` on as interpolation serves."""
        length = math.ceil((_RATIO - 1) * (first + self._earlier))
        length = int(min(length, max(1, self._horizon(first) - first)))
        while (block := self._checked(first, first + length)) is None:
            length = max(1, length // 4)
        return block

    def _checked(self, first: int, last: int) -> _Block | None:
        """The block, once it is known to be as good as promised; None if no number of points here is enough."""
        ends = [self._exact(first), self._exact(last)]
        if last - first > 1 and not all(math.isfinite(end.epsilon) for end in ends):
            return None
        same = ends[0].direction if ends[0].direction == ends[1].direction else None
        block = _Block(self._earlier, {first: ends[0], last: ends[1]})
        for size in _SIZES:
            for k in self._points(first, last, size):
                if k not in block.points:
                    point = self._exact(k, block(k).epsilon, same)
                    block = _Block(self._earlier, {**block.points, k: point})
            unseen = [k for k in self._points(first, last, 2 * size - 1) if k not in block.points]
            if not unseen:  # every step of a short block is a point
                return block
            check = unseen[len(unseen) // 2]
            predicted = block(check).epsilon
            block.missed = abs(predicted - self._exact(check, predicted, same).epsilon)
            if block.missed <= TOLERANCE * min(1.0, predicted):
                return block
        return None

    def _points(self, first: int, last: int, size: int) -> list[int]:
        """Chebyshev's points in ``log(k + earlier)``, at whole numbers of steps, both ends among them."""
        low, high = math.log(first + self._earlier), math.log(last + self._earlier)
        angles = np.cos(np.pi * np.arange(size) / (size - 1))
        spread = np.exp((low + high) / 2 + (high - low) / 2 * angles) - self._earlier
        return sorted({min(max(round(k), first), last) for k in spread})


class _Block:
    """A polynomial in ``log(k + earlier)`` through the logarithms of some epsilons, by the barycentric formula."""

    def __init__(self, earlier: float, points: dict[int, Point]) -> None:
        self.points, self.missed, self._earlier = points, 0.0, earlier
        self.first, self.last = min(points), max(points)
        self._error = max(point.error for point in points.values())
        self._direction = points[self.last].direction
        epsilons = np.array([point.epsilon for point in points.values()])
        self._in_logs = bool(np.all((epsilons > 0) & (epsilons < math.inf)))
        self._values = np.log(epsilons) if self._in_logs else epsilons
        self._places = np.array([math.log(k + earlier) for k in points])
        gaps = self._places[:, None] - self._places[None, :]
        np.fill_diagonal(gaps, 1.0)
        self._weights = 1.0 / np.prod(gaps, axis=1)

    def __call__(self, steps: int) -> Point:
        if steps in self.points:
            return self.points[steps]
        shares = self._weights / (math.log(steps + self._earlier) - self._places)
        value = float(np.sum(shares * self._values) / np.sum(shares))
        epsilon = math.exp(value) if self._in_logs else value
        return Point(epsilon, self._error + _UNSEEN * self.missed, self._direction)
