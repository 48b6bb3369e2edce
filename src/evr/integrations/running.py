"""Epsilon of a training that goes on: cheap enough to ask after every step.

After ``k`` steps of one phase (one noise multiplier, one sampling rate, on top of the phases before it) epsilon is a smooth
function of ``log(k + before)``, ``before`` being the steps of the earlier phases. So a block of many steps is computed at a few
Chebyshev points, and what lies between is interpolated: some 30 evaluations serve 15,000 steps. Each block is checked at a point
that its polynomial has not seen; where it misses by more than ``TOLERANCE``, the block gets more points, or becomes shorter.

What comes out is an estimate, as the values at the points are (``evr.estimate_epsilon``).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from evr.estimation import estimate_epsilon
from evr.mechanisms.events import opacus_history

TOLERANCE = 1e-7  # of epsilon, at the point that checks a block: a tenth of what is promised
DIRECT = (
    3  # the first questions of a phase are answered one by one: who asks once an epoch, or searches, needs no block
)
_RATIO = 16.0  # of ``k + before`` over one block
_SIZES = (5, 9, 17)  # numbers of points; each contains the one before

Phase = tuple[float, float, int]
"""``(noise_multiplier, sample_rate, steps)``, as Opacus keeps its history."""


class RunningEpsilon:
    """Epsilon at one delta after each step of a history that grows at its end.

    Parameters
    ----------
    delta
        In (0, 1).
    epsilon_of
        From a history to epsilon; evr's estimate by default.

    Examples
    --------
    >>> running = RunningEpsilon(1e-5)
    >>> [round(running([(1.0, 0.01, steps)]), 4) for steps in (1, 10, 100)]
    [0.1995, 0.3799, 0.718]
    """

    def __init__(self, delta: float, epsilon_of: Callable[[Sequence[Phase]], float] | None = None) -> None:
        self.delta = delta
        self.evaluations = 0
        self._epsilon_of = epsilon_of or self._estimated
        self._phase: _Phase | None = None

    def __call__(self, history: Sequence[Phase]) -> float:
        """Epsilon after everything in ``history``, an Opacus accountant's list of phases."""
        if not history:
            return 0.0
        before, (noise, rate, steps) = list(history[:-1]), history[-1]
        if self._phase is None or not self._phase.continues(before, noise, rate):
            self._phase = _Phase(before, noise, rate, self._evaluate)
        return self._phase.epsilon(int(steps))

    def _evaluate(self, history: Sequence[Phase]) -> float:
        self.evaluations += 1
        return self._epsilon_of(history)

    def _estimated(self, history: Sequence[Phase]) -> float:
        return estimate_epsilon(opacus_history(history), self.delta).value


class _Phase:
    """Steps of one kind on top of earlier phases, and what is known of their epsilon."""

    def __init__(
        self, before: list[Phase], noise: float, rate: float, evaluate: Callable[[Sequence[Phase]], float]
    ) -> None:
        self._before, self._noise, self._rate = before, noise, rate
        self._evaluate = evaluate
        self._earlier = sum(steps for *_, steps in before)
        self._known: dict[int, float] = {}
        self._block: _Block | None = None
        self._asked = 0

    def continues(self, before: list[Phase], noise: float, rate: float) -> bool:
        return (self._noise, self._rate) == (noise, rate) and self._before == before

    def epsilon(self, steps: int) -> float:
        if steps in self._known:
            return self._known[steps]
        if self._block is not None and self._block.first <= steps <= self._block.last:
            return self._block.epsilon(steps)
        self._asked += 1
        if self._asked <= DIRECT:
            return self._exact(steps)
        self._block = self._new_block(steps)
        return self._block.epsilon(steps)

    def _exact(self, steps: int) -> float:
        if steps not in self._known:
            self._known[steps] = self._evaluate([*self._before, (self._noise, self._rate, steps)])
        return self._known[steps]

    def _new_block(self, first: int) -> _Block:
        """As long a block from ``first`` on as interpolation serves."""
        length = math.ceil((_RATIO - 1) * (first + self._earlier))
        if self._before:  # phases of a schedule are alike; do not compute far beyond this one
            length = min(length, max(4 * first, self._before[-1][2]))
        while True:
            block = self._checked(first, first + length)
            if block is not None:
                return block
            length = max(1, length // 4)

    def _checked(self, first: int, last: int) -> _Block | None:
        """The block, once it is known to be as good as promised; None if no number of points here is enough."""
        for size in _SIZES:
            points = self._points(first, last, size)
            block = _Block(self._earlier, [(k, self._exact(k)) for k in points])
            unseen = sorted(set(self._points(first, last, 2 * size - 1)) - set(points))
            if not unseen:  # every step of a short block is a point
                return block
            check = unseen[len(unseen) // 2]
            if abs(block.epsilon(check) - self._exact(check)) <= TOLERANCE:
                return block
        return None

    def _points(self, first: int, last: int, size: int) -> list[int]:
        """Chebyshev's points in ``log(k + earlier)``, at whole numbers of steps, both ends among them."""
        low, high = math.log(first + self._earlier), math.log(last + self._earlier)
        angles = np.cos(np.pi * np.arange(size) / (size - 1))
        spread = np.exp((low + high) / 2 + (high - low) / 2 * angles) - self._earlier
        return sorted({min(max(round(k), first), last) for k in spread})


class _Block:
    """A polynomial in ``log(k + earlier)`` through some steps' epsilons (their logarithms), by the barycentric formula."""

    def __init__(self, earlier: int, points: list[tuple[int, float]]) -> None:
        self.first, self.last = points[0][0], points[-1][0]
        self._earlier, self._at = earlier, dict(points)
        epsilons = np.array([epsilon for _, epsilon in points])
        self._in_logs = bool(np.all((epsilons > 0) & (epsilons < math.inf)))
        self._values = np.log(epsilons) if self._in_logs else epsilons
        self._places = np.array([math.log(k + earlier) for k, _ in points])
        gaps = self._places[:, None] - self._places[None, :]
        np.fill_diagonal(gaps, 1.0)
        self._weights = 1.0 / np.prod(gaps, axis=1)

    def epsilon(self, steps: int) -> float:
        if steps in self._at:
            return self._at[steps]
        shares = self._weights / (math.log(steps + self._earlier) - self._places)
        value = float(np.dot(shares, self._values) / shares.sum())
        return math.exp(value) if self._in_logs else value
