"""Epsilon of a training that goes on: cheap enough to ask after every step.

After ``k`` steps of one phase (one noise multiplier, one sampling rate, on top of the phases before
it) epsilon is a smooth function of ``log(k + earlier)``, ``earlier`` being the steps of the phases
before. So a block of many steps is computed at a few Chebyshev points, and what lies between is
interpolated: some 30 points serve 15,000 steps. Each block is checked at a point that its
polynomial has not seen; where it misses by more than ``TOLERANCE``, the block gets more points, or
becomes shorter. The points inside a block are looked for near what the points so far predict, and
in the direction that is the greater at both of its ends, which is a fifth of the work of an
estimate from nothing.

What comes out is an estimate, as the values at the points are (``evr.estimate_epsilon``).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from evr.estimation import estimate_epsilon
from evr.estimation.fft import FftCurve
from evr.events import opacus_history
from evr.mechanisms import Composition

TOLERANCE = 2e-7  # of epsilon, at the point that checks a block: a fifth of what is promised
# the first questions of a phase are answered one by one: who asks once an epoch, or searches, needs
# no block
DIRECT = 2
_RATIO = 20.0  # of ``k + earlier`` over one block
_SIZES = (5, 9, 17)  # numbers of points; each contains the one before

Phase = tuple[float, float, int]
"""``(noise_multiplier, sample_rate, steps)``, as Opacus keeps its history."""

Evaluate = Callable[[Sequence[Phase], float | None, str | None], tuple[float, str]]
"""From a history, a guess and a direction (where they are known) to epsilon and its direction."""


class RunningEpsilon:
    """Epsilon at one delta after each step of a history that grows at its end.

    Parameters
    ----------
    delta
        In (0, 1).
    evaluate
        From a history to epsilon; evr's estimate by default.

    Examples
    --------
    >>> running = RunningEpsilon(1e-5)
    >>> [round(running([(1.0, 0.01, steps)]), 4) for steps in (1, 10, 100)]
    [0.1995, 0.3799, 0.718]
    """

    def __init__(self, delta: float, evaluate: Evaluate | None = None) -> None:
        self.delta = delta
        self.evaluations = 0
        self._evaluate = evaluate or self._estimated
        self._phase: _Phase | None = None

    def __call__(self, history: Sequence[Phase]) -> float:
        """Epsilon after everything in ``history``, an Opacus accountant's list of phases."""
        if not history:
            return 0.0
        before, (noise, rate, steps) = list(history[:-1]), history[-1]
        if self._phase is None or not self._phase.continues(before, noise, rate):
            self._phase = _Phase(before, noise, rate, self._counted)
        return self._phase.epsilon(int(steps))

    def _counted(
        self, history: Sequence[Phase], guess: float | None, direction: str | None
    ) -> tuple[float, str]:
        self.evaluations += 1
        return self._evaluate(history, guess, direction)

    def _estimated(
        self, history: Sequence[Phase], guess: float | None, direction: str | None
    ) -> tuple[float, str]:
        event = opacus_history(history)
        near = _epsilon_near(event, self.delta, guess, direction) if guess and direction else None
        if near is not None and direction is not None:
            return near, direction
        found = estimate_epsilon(event, self.delta)
        return found.value, found.direction


def _epsilon_near(event: Any, delta: float, guess: float, direction: str) -> float | None:
    """Epsilon by the secant method on the logarithm of delta; None if it is not near the guess."""
    curve = FftCurve(Composition.of(event).simplified(direction))

    def gap(epsilon: float) -> float:
        value = curve.delta(epsilon).value
        return math.log(max(value, 1e-320)) - math.log(delta)

    # from above: transforms made for one epsilon serve smaller ones
    before, at = (1.002 * guess, 0.999 * guess)
    gap_before, gap_at = gap(before), gap(at)
    for _ in range(12):
        if gap_at == gap_before:
            return None
        step = gap_at * (at - before) / (gap_at - gap_before)
        before, gap_before, at = at, gap_at, at - step
        if abs(step) <= 1e-10 * guess:
            return at
        if not 0.8 * guess < at < 1.2 * guess:
            return None
        gap_at = gap(at)
    return None


class _Phase:
    """Steps of one kind on top of earlier phases, and what is known of their epsilon."""

    def __init__(self, before: list[Phase], noise: float, rate: float, evaluate: Evaluate) -> None:
        self._before, self._noise, self._rate = before, noise, rate
        self._evaluate = evaluate
        self._earlier = sum(steps for *_, steps in before)
        self._known: dict[int, tuple[float, str]] = {}
        self._block: _Block | None = None
        self._asked = 0

    def continues(self, before: list[Phase], noise: float, rate: float) -> bool:
        return (self._noise, self._rate) == (noise, rate) and self._before == before

    def epsilon(self, steps: int) -> float:
        if steps in self._known:
            return self._known[steps][0]
        if self._block is not None and self._block.first <= steps <= self._block.last:
            return self._block.epsilon(steps)
        self._asked += 1
        if self._asked <= DIRECT:
            return self._exact(steps)[0]
        self._block = self._new_block(steps)
        return self._block.epsilon(steps)

    def _exact(
        self, steps: int, guess: float | None = None, direction: str | None = None
    ) -> tuple[float, str]:
        if steps not in self._known:
            history = [*self._before, (self._noise, self._rate, steps)]
            self._known[steps] = self._evaluate(history, guess, direction)
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
        """The block, once it is known to be as good as promised; None if no number of points here
        is enough.
        """
        ends = [self._exact(first), self._exact(last)]
        direction = ends[0][1] if ends[0][1] == ends[1][1] else None
        block = _Block(self._earlier, [(first, ends[0][0]), (last, ends[1][0])])
        for size in _SIZES:
            for k in self._points(first, last, size):
                block = block.with_point(k, self._exact(k, block.epsilon(k), direction)[0])
            unseen = [k for k in self._points(first, last, 2 * size - 1) if k not in block]
            if not unseen:  # every step of a short block is a point
                return block
            check = unseen[len(unseen) // 2]
            predicted = block.epsilon(check)
            if abs(predicted - self._exact(check, predicted, direction)[0]) <= TOLERANCE:
                return block
        return None

    def _points(self, first: int, last: int, size: int) -> list[int]:
        """Chebyshev's points in ``log(k + earlier)``, at whole numbers of steps, both ends among
        them.
        """
        low, high = math.log(first + self._earlier), math.log(last + self._earlier)
        angles = np.cos(np.pi * np.arange(size) / (size - 1))
        spread = np.exp((low + high) / 2 + (high - low) / 2 * angles) - self._earlier
        return sorted({min(max(round(k), first), last) for k in spread})


class _Block:
    """A polynomial in ``log(k + earlier)`` through some steps' epsilons (their logarithms), by the
    barycentric formula.
    """

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

    def __contains__(self, steps: int) -> bool:
        return steps in self._at

    def with_point(self, steps: int, epsilon: float) -> _Block:
        return (
            self
            if steps in self
            else _Block(self._earlier, sorted({**self._at, steps: epsilon}.items()))
        )

    def epsilon(self, steps: int) -> float:
        if steps in self._at:
            return self._at[steps]
        shares = self._weights / (math.log(steps + self._earlier) - self._places)
        value = float(np.dot(shares, self._values) / shares.sum())
        return math.exp(value) if self._in_logs else value
