"""Epsilon of a training that goes on: cheap enough to ask after every step (``evr.estimation.online``)."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from evr.estimation.online import Interpolated, Point, epsilon_near
from evr.events import opacus_history
from evr.mechanisms import Composition

# who asks once an epoch, or searches for a noise multiplier, needs no block of steps
DIRECT = 2

Phase = tuple[float, float, int]
"""``(noise_multiplier, sample_rate, steps)``, as Opacus keeps its history."""

Evaluate = Callable[[Sequence[Phase], float | None, str | None], Point]
"""From a history, a guess and a direction (where they are known) to epsilon."""


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
        self._phase: tuple[list[Phase], float, float] | None = None
        self._curve: Interpolated | None = None

    def __call__(self, history: Sequence[Phase]) -> float:
        """Epsilon after everything in ``history``, an Opacus accountant's list of phases."""
        if not history:
            return 0.0
        before, (noise, rate, steps) = list(history[:-1]), history[-1]
        if self._curve is None or self._phase != (before, noise, rate):
            self._phase = (before, noise, rate)
            self._curve = self._new(before, noise, rate)
        return self._curve(int(steps)).epsilon

    def _new(self, before: list[Phase], noise: float, rate: float) -> Interpolated:
        """The curve of one more phase."""

        def evaluate(steps: int, guess: float | None, direction: str | None) -> Point:
            self.evaluations += 1
            return self._evaluate([*before, (noise, rate, steps)], guess, direction)

        def horizon(first: int) -> float:
            # phases of a schedule are alike: compute nothing far beyond the length of the last one
            return max(5 * first, first + before[-1][2]) if before else math.inf

        return Interpolated(evaluate, sum(steps for *_, steps in before), horizon, DIRECT)

    def _estimated(self, history: Sequence[Phase], guess: float | None, direction: str | None) -> Point:
        composition = Composition.of(opacus_history(history))
        return epsilon_near(composition, self.delta, guess, direction)
